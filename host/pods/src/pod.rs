//! From a Workspace to its pod.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{
    EmptyDirVolumeSource, Pod, ProjectedVolumeSource, SecretVolumeSource,
    ServiceAccountTokenProjection, Volume, VolumeProjection,
};
use windlass_api::names::{
    ARGOCD_IGNORE_UPDATES_ANNOTATION, AUTO_COMPONENT_LABEL, COMPONENT_WORKSPACE,
    POD_REVISION_HASH_ANNOTATION, PULUMI_CONTAINER, WORKSPACE_NAME_LABEL, workspace_pod_name,
};
use windlass_api::workspace::{EmbeddedMetadata, WorkspaceSpec};
use windlass_api::{ObjectMeta, PodSpec, Workspace};

use crate::check;
use crate::containers;
use crate::environment::value;
use crate::error::TemplateError;
use crate::layout::{ENV_FILE, FETCH, LOGIN_TOKEN, LOGIN_VOLUME, SHARE_VOLUME, TLS_VOLUME};
use crate::merge::{self, InitOrder};
use crate::options::{LoginToken, PodOptions, SecurityProfile};
use crate::resources;

/// Seconds from the pod's deletion to its containers' death, unless the template says otherwise: what runs is
/// interrupted and may finish.
const GRACE_SECONDS: i64 = 600;
/// Read-only for everyone: the kubelet gives the files to root, and the agent is not root.
const READABLE: i32 = 0o444;
/// `kubectl logs` and `kubectl exec` then need no `-c pulumi`, sidecars or not.
const DEFAULT_CONTAINER_ANNOTATION: &str = "kubectl.kubernetes.io/default-container";

/// The pod of a Workspace. It depends on nothing but the arguments, and of the Workspace on neither source nor
/// configuration.
///
/// # Errors
/// The field that cannot be used, and why.
pub fn pod(workspace: &Workspace, options: &PodOptions) -> Result<Pod, TemplateError> {
    let name = workspace.metadata.name.as_deref().unwrap_or_default();
    check::object_name("metadata.name", name)?;
    if name.len() > check::LABEL_MAX {
        return Err(TemplateError::invalid(
            "metadata.name",
            format!(
                "the name has {} characters; the pod is labelled with it, which allows {}",
                name.len(),
                check::LABEL_MAX
            ),
        ));
    }
    check::label("hostname", &options.hostname)?;
    let spec = &workspace.spec;
    let profile = SecurityProfile::parse("spec.securityProfile", spec.security_profile.as_deref())?;
    let template = spec.pod_template.clone().unwrap_or_default();
    check::pod_template("spec.podTemplate", &template)?;

    let mut template_spec = template.spec.unwrap_or_default();
    let source_first = options.source_first && spec.has_init_containers();
    if !source_first {
        drop_patch_of_fetch(&mut template_spec);
    }
    let base = base(spec, options, profile, source_first);
    let mut merged = merge::pod_spec(base, template_spec, InitOrder::BaseFirst);
    check::merged("spec.podTemplate", &merged)?;
    settle(&mut merged, spec, options, profile);

    Ok(Pod {
        metadata: metadata(
            workspace,
            name,
            options,
            template.metadata.unwrap_or_default(),
        ),
        spec: Some(merged),
        status: None,
    })
}

/// Secrets that are whole in the environment of the `pulumi` container, each with the prefix of its variables.
pub fn secrets_of_environment(pod: &Pod) -> Vec<(String, String)> {
    let containers = pod.spec.iter().flat_map(|spec| &spec.containers);
    let sources = containers
        .filter(|container| container.name == PULUMI_CONTAINER)
        .flat_map(|container| container.env_from.iter().flatten());
    sources
        .filter_map(|source| {
            let secret = source.secret_ref.as_ref()?;
            let prefix = source.prefix.clone().unwrap_or_default();
            Some((secret.name.clone(), prefix))
        })
        .collect()
}

/// Tells the agent of further variables whose values are secret: those of [`secrets_of_environment`].
pub fn name_secret_variables(pod: &mut Pod, names: &[String]) {
    let containers = pod.spec.iter_mut().flat_map(|spec| &mut spec.containers);
    for container in containers.filter(|container| container.name == PULUMI_CONTAINER) {
        containers::name_secret_variables(container, names);
    }
}

fn drop_patch_of_fetch(template: &mut PodSpec) {
    if let Some(init) = &mut template.init_containers {
        init.retain(|c| c.name != FETCH || c.image.is_some());
    }
}

fn metadata(
    workspace: &Workspace,
    name: &str,
    options: &PodOptions,
    template: EmbeddedMetadata,
) -> ObjectMeta {
    let EmbeddedMetadata {
        mut labels,
        mut annotations,
    } = template;
    let own = |map: &mut BTreeMap<String, String>, key: &str, value: &str| {
        map.insert(key.to_owned(), value.to_owned());
    };
    own(&mut labels, AUTO_COMPONENT_LABEL, COMPONENT_WORKSPACE);
    own(&mut labels, WORKSPACE_NAME_LABEL, name);
    own(
        &mut annotations,
        POD_REVISION_HASH_ANNOTATION,
        &options.spec_digest,
    );
    own(&mut annotations, ARGOCD_IGNORE_UPDATES_ANNOTATION, "true");
    annotations
        .entry(DEFAULT_CONTAINER_ANNOTATION.to_owned())
        .or_insert_with(|| PULUMI_CONTAINER.to_owned());
    ObjectMeta {
        name: Some(workspace_pod_name(name)),
        namespace: workspace.metadata.namespace.clone(),
        labels: Some(labels),
        annotations: Some(annotations),
        owner_references: options.owner.clone().map(|owner| vec![owner]),
        ..ObjectMeta::default()
    }
}

/// The pod before the template.
fn base(
    spec: &WorkspaceSpec,
    options: &PodOptions,
    profile: SecurityProfile,
    source_first: bool,
) -> PodSpec {
    let mut init = vec![containers::bootstrap(&options.images, profile)];
    if source_first {
        init.push(containers::fetch(&options.images, profile));
    }
    let mut volumes = vec![
        Volume {
            name: SHARE_VOLUME.to_owned(),
            empty_dir: Some(EmptyDirVolumeSource::default()),
            ..Volume::default()
        },
        Volume {
            name: TLS_VOLUME.to_owned(),
            secret: Some(SecretVolumeSource {
                secret_name: Some(options.tls_secret.clone()),
                default_mode: Some(READABLE),
                ..SecretVolumeSource::default()
            }),
            ..Volume::default()
        },
    ];
    volumes.extend(options.login.as_ref().map(login_volume));
    let account = spec.service_account_name.as_deref();
    PodSpec {
        service_account_name: Some(
            account
                .filter(|name| !name.is_empty())
                .unwrap_or("default")
                .to_owned(),
        ),
        security_context: Some(containers::pod_security(profile)),
        termination_grace_period_seconds: Some(GRACE_SECONDS),
        init_containers: Some(init),
        containers: vec![containers::pulumi(spec, &options.images, profile)],
        volumes: Some(volumes),
        ..PodSpec::default()
    }
}

fn login_volume(login: &LoginToken) -> Volume {
    Volume {
        name: LOGIN_VOLUME.to_owned(),
        projected: Some(ProjectedVolumeSource {
            default_mode: Some(READABLE),
            sources: Some(vec![VolumeProjection {
                service_account_token: Some(ServiceAccountTokenProjection {
                    audience: Some(login.audience.clone()),
                    expiration_seconds: Some(login.expiration_seconds),
                    path: LOGIN_TOKEN.to_owned(),
                    ..ServiceAccountTokenProjection::default()
                }),
                ..VolumeProjection::default()
            }]),
            ..ProjectedVolumeSource::default()
        }),
        ..Volume::default()
    }
}

/// What holds whatever the template says.
fn settle(pod: &mut PodSpec, spec: &WorkspaceSpec, options: &PodOptions, profile: SecurityProfile) {
    let grace = pod
        .termination_grace_period_seconds
        .unwrap_or(GRACE_SECONDS);
    pod.restart_policy = Some("Always".to_owned());
    // The name that a lock in a backend records must be the one that is known here.
    pod.hostname = Some(options.hostname.clone());
    pod.hostname_override = None;
    pod.subdomain = None;
    if let Some(pulumi) = pod
        .containers
        .iter_mut()
        .find(|c| c.name == PULUMI_CONTAINER)
    {
        containers::set_env(pulumi, containers::agent_env(spec, options));
        containers::name_secret_variables(pulumi, &[]);
        containers::set_interrupt_grace(pulumi, grace);
        resources::set_requests(pulumi.resources.get_or_insert_default());
        let wanted = containers::agent_mounts(options);
        let mounts = pulumi.volume_mounts.get_or_insert_default();
        mounts.retain(|mount| wanted.iter().all(|w| w.mount_path != mount.mount_path));
        mounts.extend(wanted);
    }
    let init = pod.init_containers.iter_mut().flatten();
    for container in init.chain(&mut pod.containers) {
        if container.security_context.is_none() {
            container.security_context = containers::container_security(profile);
        }
        containers::set_env(container, vec![value("PULUMI_ENV", ENV_FILE)]);
    }
}
