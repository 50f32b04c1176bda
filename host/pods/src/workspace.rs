//! From a Stack to its Workspace.

use std::collections::BTreeMap;

use k8s_openapi::DeepMerge;
use k8s_openapi::api::core::v1::Container;
use windlass_api::names::{
    ARGOCD_IGNORE_UPDATES_ANNOTATION, COMPONENT_LABEL, COMPONENT_STACK, PULUMI_CONTAINER,
    STACK_NAME_LABEL, workspace_name,
};
use windlass_api::workspace::{
    EmbeddedMetadata, EmbeddedPodTemplate, EmbeddedServiceTemplate, WorkspaceConfigItem,
    WorkspaceSpec, WorkspaceStack,
};
use windlass_api::{ObjectMeta, OwnerReference, PodSpec, Resource, Stack, Workspace};

use crate::check;
use crate::configuration;
use crate::environment;
use crate::error::TemplateError;
use crate::merge::{self, InitOrder};
use crate::options::{SecurityProfile, WorkspaceOptions};

/// The Workspace that a Stack makes: what its fields imply, `workspaceTemplate` merged over that, then `envs` and
/// `envSecrets`, and the Stack's own entry among the workspace's stacks.
///
/// It names no source: a new revision reaches the workspace with the request of a run. Neither does it hold a value
/// that the Stack marks secret.
///
/// # Errors
/// The field that cannot be used, and why.
pub fn workspace_spec(
    stack: &Stack,
    options: &WorkspaceOptions,
) -> Result<Workspace, TemplateError> {
    let name = match stack.metadata.name.as_deref() {
        Some(name) => name,
        None => {
            return Err(TemplateError::invalid(
                "metadata.name",
                "the Stack has no name",
            ));
        }
    };
    let namespace = stack.metadata.namespace.as_deref().unwrap_or("default");
    let template = stack.spec.workspace_template.clone().unwrap_or_default();
    let metadata = metadata(
        stack,
        name,
        namespace,
        template.metadata.unwrap_or_default(),
    )?;

    let mut spec = implied(stack, namespace, options)?;
    if let Some(template) = template.spec {
        if let Some(pod) = &template.pod_template {
            check::pod_template("spec.workspaceTemplate.spec.podTemplate", pod)?;
        }
        SecurityProfile::parse(
            "spec.workspaceTemplate.spec.securityProfile",
            template.security_profile.as_deref(),
        )?;
        stack_names(&template.stacks)?;
        spec = merged(spec, template);
    }
    spec.env_from.extend(environment::env_from(&stack.spec));
    own_entry(&mut spec.stacks, own_stack(stack, namespace)?);

    let mut workspace = Workspace::new(&workspace_name(name), spec);
    workspace.metadata = metadata;
    Ok(workspace)
}

fn metadata(
    stack: &Stack,
    name: &str,
    namespace: &str,
    template: ObjectMeta,
) -> Result<ObjectMeta, TemplateError> {
    let field = |name: &str| format!("spec.workspaceTemplate.metadata.{name}");
    // One that says what is so anyway does no harm.
    if template.name.is_some_and(|n| n != workspace_name(name)) {
        return Err(TemplateError::reserved(
            field("name"),
            "the Workspace has the name of its Stack",
        ));
    }
    if template.namespace.is_some_and(|n| n != namespace) {
        return Err(TemplateError::reserved(
            field("namespace"),
            "the Workspace is in the namespace of its Stack",
        ));
    }
    if template.owner_references.is_some_and(|o| !o.is_empty()) {
        return Err(TemplateError::reserved(
            field("ownerReferences"),
            "the Workspace belongs to its Stack",
        ));
    }
    let mut labels = template.labels.unwrap_or_default();
    labels.insert(COMPONENT_LABEL.to_owned(), COMPONENT_STACK.to_owned());
    labels.insert(STACK_NAME_LABEL.to_owned(), name.to_owned());
    let mut annotations = template.annotations.unwrap_or_default();
    annotations.insert(
        ARGOCD_IGNORE_UPDATES_ANNOTATION.to_owned(),
        "true".to_owned(),
    );
    Ok(ObjectMeta {
        name: Some(workspace_name(name)),
        namespace: Some(namespace.to_owned()),
        labels: Some(labels),
        annotations: Some(annotations),
        owner_references: owner(stack, name).map(|owner| vec![owner]),
        ..ObjectMeta::default()
    })
}

/// None once deletion has begun: the garbage collector of a foreground deletion would take the child away.
fn owner(stack: &Stack, name: &str) -> Option<OwnerReference> {
    if stack.metadata.deletion_timestamp.is_some() {
        return None;
    }
    Some(OwnerReference {
        api_version: Stack::api_version(&()).into_owned(),
        kind: Stack::kind(&()).into_owned(),
        name: name.to_owned(),
        uid: stack.metadata.uid.clone()?,
        controller: Some(true),
        block_owner_deletion: Some(true),
    })
}

/// What the Stack's own fields say, before its template.
fn implied(
    stack: &Stack,
    namespace: &str,
    options: &WorkspaceOptions,
) -> Result<WorkspaceSpec, TemplateError> {
    let (volumes, mounts) = configuration::mounts(&stack.spec, namespace)?;
    let given = |list: usize| list > 0;
    Ok(WorkspaceSpec {
        service_account_name: Some(
            stack
                .spec
                .service_account_name
                .clone()
                .filter(|name| !name.is_empty())
                .unwrap_or_else(|| options.service_account.clone()),
        ),
        security_profile: Some(options.security_profile.as_str().to_owned()),
        env: environment::env(&stack.spec, namespace)?,
        pod_template: Some(EmbeddedPodTemplate {
            metadata: None,
            spec: Some(PodSpec {
                containers: vec![Container {
                    name: PULUMI_CONTAINER.to_owned(),
                    volume_mounts: given(mounts.len()).then_some(mounts),
                    ..Container::default()
                }],
                volumes: given(volumes.len()).then_some(volumes),
                ..PodSpec::default()
            }),
        }),
        ..WorkspaceSpec::default()
    })
}

/// The keys of lists that a Workspace requires and the schema of a template does not.
fn stack_names(stacks: &[WorkspaceStack]) -> Result<(), TemplateError> {
    for (index, stack) in stacks.iter().enumerate() {
        let field = format!("spec.workspaceTemplate.spec.stacks[{index}]");
        if stack.name.is_empty() {
            let problem = "the stack has no name; name the Pulumi stack";
            return Err(TemplateError::invalid(format!("{field}.name"), problem));
        }
        if let Some(at) = stack.config.iter().position(|item| item.key.is_empty()) {
            return Err(TemplateError::invalid(
                format!("{field}.config[{at}].key"),
                "the configuration has no key",
            ));
        }
    }
    Ok(())
}

/// The template over the rest, field by field.
fn merged(base: WorkspaceSpec, template: WorkspaceSpec) -> WorkspaceSpec {
    let WorkspaceSpec {
        service_account_name,
        security_profile,
        image,
        image_pull_policy,
        git,
        flux,
        local,
        project_info,
        env,
        env_from,
        resources,
        pod_template,
        service_template,
        pulumi_log_level,
        stacks,
    } = template;
    let text = |new: Option<String>, old| new.filter(|text| !text.is_empty()).or(old);
    WorkspaceSpec {
        service_account_name: text(service_account_name, base.service_account_name),
        security_profile: text(security_profile, base.security_profile),
        image: text(image, base.image),
        image_pull_policy: text(image_pull_policy, base.image_pull_policy),
        git: git.or(base.git),
        flux: flux.or(base.flux),
        local: local.or(base.local),
        project_info: project_info.or(base.project_info),
        env: merge::env(base.env, env),
        env_from: if env_from.is_empty() {
            base.env_from
        } else {
            env_from
        },
        resources: {
            let mut merged = base.resources;
            merged.merge_from(resources);
            merged
        },
        pod_template: both(base.pod_template, pod_template, pod),
        service_template: both(base.service_template, service_template, service),
        pulumi_log_level: pulumi_log_level.or(base.pulumi_log_level),
        stacks: merge::list(base.stacks, stacks, |a, b| a.name == b.name, over_stack),
    }
}

fn both<T>(base: Option<T>, template: Option<T>, merge: impl FnOnce(T, T) -> T) -> Option<T> {
    match (base, template) {
        (Some(base), Some(template)) => Some(merge(base, template)),
        (base, template) => template.or(base),
    }
}

fn pod(base: EmbeddedPodTemplate, template: EmbeddedPodTemplate) -> EmbeddedPodTemplate {
    EmbeddedPodTemplate {
        metadata: both(base.metadata, template.metadata, over_metadata),
        spec: both(base.spec, template.spec, |base, template| {
            merge::pod_spec(base, template, InitOrder::TemplateFirst)
        }),
    }
}

fn service(
    base: EmbeddedServiceTemplate,
    template: EmbeddedServiceTemplate,
) -> EmbeddedServiceTemplate {
    EmbeddedServiceTemplate {
        metadata: both(base.metadata, template.metadata, over_metadata),
    }
}

fn over_metadata(base: EmbeddedMetadata, template: EmbeddedMetadata) -> EmbeddedMetadata {
    let over = |mut base: BTreeMap<_, _>, template| {
        base.extend(template);
        base
    };
    EmbeddedMetadata {
        labels: over(base.labels, template.labels),
        annotations: over(base.annotations, template.annotations),
    }
}

/// What the Stack says about its own Pulumi stack.
fn own_stack(stack: &Stack, namespace: &str) -> Result<WorkspaceStack, TemplateError> {
    let spec = &stack.spec;
    Ok(WorkspaceStack {
        name: spec.stack.clone(),
        create: Some(!spec.use_local_stack_only),
        secrets_provider: spec.secrets_provider.clone().filter(|p| !p.is_empty()),
        config: configuration::items(spec, namespace)?,
        environment: spec.environment.clone(),
    })
}

/// Adds the Stack's entry behind those of the template; one of the same name in the template is laid over it.
fn own_entry(stacks: &mut Vec<WorkspaceStack>, own: WorkspaceStack) {
    match stacks.iter_mut().find(|entry| entry.name == own.name) {
        Some(entry) => {
            let template = std::mem::replace(entry, own);
            over_stack(entry, template);
        }
        None => stacks.push(own),
    }
}

fn over_stack(base: &mut WorkspaceStack, template: WorkspaceStack) {
    let WorkspaceStack {
        name: _,
        create,
        secrets_provider,
        config,
        environment,
    } = template;
    base.create = create.or(base.create);
    base.secrets_provider = secrets_provider.or(base.secrets_provider.take());
    base.config = merge::list(
        std::mem::take(&mut base.config),
        config,
        |a: &WorkspaceConfigItem, b| a.key == b.key,
        |current, new| *current = new,
    );
    if !environment.is_empty() {
        base.environment = environment;
    }
}
