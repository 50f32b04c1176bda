//! The built-in containers of a workspace's pod.

use k8s_openapi::api::core::v1::{
    Capabilities, Container, ContainerPort, EnvVarSource, ExecAction, ObjectFieldSelector,
    PodSecurityContext, Probe, ResourceFieldSelector, SeccompProfile, SecurityContext, VolumeMount,
};
use windlass_api::EnvVar;
use windlass_api::names::PULUMI_CONTAINER;
use windlass_api::workspace::WorkspaceSpec;

use crate::environment::value;
use crate::layout::{
    BOOTSTRAP, FETCH, INSTALL, LOG_LEVEL_VARIABLE, LOGIN_DIR, LOGIN_TOKEN, LOGIN_VOLUME, PORT,
    PORT_NAME, PROBE, RECEIVE, SERVE, SHARE, SHARE_VOLUME, STATE_DIR, TLS_DIR, TLS_VOLUME,
    WORKSPACE_DIR,
};
use crate::merge;
use crate::options::{Images, PodOptions, SecurityProfile};

/// User and group under the restricted profile; the CLI's nonroot image has a home for it.
const NON_ROOT: i64 = 1000;

/// Installs the agent into the shared volume.
pub(crate) fn bootstrap(images: &Images, profile: SecurityProfile) -> Container {
    Container {
        name: BOOTSTRAP.to_owned(),
        image: Some(images.agent.clone()),
        image_pull_policy: images.agent_pull_policy.clone(),
        command: Some(words(INSTALL)),
        volume_mounts: Some(vec![mount(SHARE_VOLUME, SHARE)]),
        security_context: container_security(profile),
        ..Container::default()
    }
}

/// Waits until the program is in place, for init containers of the user's that need it.
pub(crate) fn fetch(images: &Images, profile: SecurityProfile) -> Container {
    Container {
        name: FETCH.to_owned(),
        image: Some(images.agent.clone()),
        image_pull_policy: images.agent_pull_policy.clone(),
        command: Some(words(RECEIVE)),
        env: Some(vec![field("POD_IP", "status.podIP")]),
        volume_mounts: Some(vec![mount(SHARE_VOLUME, SHARE), tls_mount()]),
        security_context: container_security(profile),
        ..Container::default()
    }
}

/// The user's image with the agent and the CLI in it, before the pod template.
pub(crate) fn pulumi(spec: &WorkspaceSpec, images: &Images, profile: SecurityProfile) -> Container {
    let image = match spec.image.as_deref() {
        Some(image) if !image.is_empty() => image.to_owned(),
        _ => match profile {
            SecurityProfile::Restricted => images.pulumi_nonroot.clone(),
            SecurityProfile::Baseline => images.pulumi.clone(),
        },
    };
    Container {
        name: PULUMI_CONTAINER.to_owned(),
        image: Some(image),
        image_pull_policy: spec.image_pull_policy.clone().filter(|p| !p.is_empty()),
        command: Some(words(SERVE)),
        working_dir: Some(WORKSPACE_DIR.to_owned()),
        ports: Some(vec![ContainerPort {
            name: Some(PORT_NAME.to_owned()),
            container_port: PORT,
            protocol: Some("TCP".to_owned()),
            ..ContainerPort::default()
        }]),
        env: Some(pulumi_env(&spec.env)),
        env_from: (!spec.env_from.is_empty()).then(|| spec.env_from.clone()),
        resources: spec.resources.clone(),
        readiness_probe: Some(Probe {
            exec: Some(ExecAction {
                command: Some(words(PROBE)),
            }),
            period_seconds: Some(2),
            timeout_seconds: Some(5),
            failure_threshold: Some(3),
            ..Probe::default()
        }),
        volume_mounts: Some(vec![mount(SHARE_VOLUME, SHARE)]),
        security_context: container_security(profile),
        ..Container::default()
    }
}

/// The Workspace's variables, one entry a name (the last one counts, as for the kubelet), and behind them those that
/// the users of the Pulumi Kubernetes Operator know, unless the Workspace sets them itself.
fn pulumi_env(own: &[EnvVar]) -> Vec<EnvVar> {
    let mut env = merge::env(Vec::new(), own.to_vec());
    for known in [
        field("POD_NAMESPACE", "metadata.namespace"),
        field("POD_SA_NAME", "spec.serviceAccountName"),
        EnvVar {
            name: "AGENT_MEMLIMIT".to_owned(),
            value_from: Some(EnvVarSource {
                resource_field_ref: Some(ResourceFieldSelector {
                    container_name: Some(PULUMI_CONTAINER.to_owned()),
                    resource: "requests.memory".to_owned(),
                    divisor: None,
                }),
                ..EnvVarSource::default()
            }),
            ..EnvVar::default()
        },
    ] {
        if env.iter().all(|entry| entry.name != known.name) {
            env.push(known);
        }
    }
    env
}

/// What the agent relies on; set after the template, whatever it says.
pub(crate) fn agent_env(spec: &WorkspaceSpec, options: &PodOptions) -> Vec<EnvVar> {
    let mut env = vec![
        field("POD_IP", "status.podIP"),
        value("WINDLASS_STATE_DIR", STATE_DIR),
    ];
    if options.login.is_some() {
        env.push(value(
            "WINDLASS_LOGIN_TOKEN_FILE",
            &format!("{LOGIN_DIR}/{LOGIN_TOKEN}"),
        ));
    }
    if let Some(level) = spec.pulumi_log_level.filter(|level| *level > 0) {
        env.push(value(LOG_LEVEL_VARIABLE, &level.to_string()));
    }
    env
}

/// Tells the agent which variables have their values from Secrets: what the CLI says of those is masked wherever it goes.
/// `others` are those that whole Secrets bring (`envFrom`).
pub(crate) fn name_secret_variables(pulumi: &mut Container, others: &[String]) {
    let of_a_secret = |entry: &&EnvVar| {
        let source = entry.value_from.as_ref();
        source.is_some_and(|source| source.secret_key_ref.is_some())
    };
    let env = pulumi.env.iter().flatten();
    let mut names: Vec<&str> = env.filter(of_a_secret).map(|e| e.name.as_str()).collect();
    names.extend(others.iter().map(String::as_str));
    if !names.is_empty() {
        let named = value("WINDLASS_SECRET_VARIABLES", &names.join(","));
        set_env(pulumi, vec![named]);
    }
}

/// How the agent is told how long an interrupted operation may take, so that all is over before the kubelet kills:
/// after the interrupt it takes the agent up to a minute to end a CLI that does not listen.
pub(crate) fn set_interrupt_grace(pulumi: &mut Container, termination_grace: i64) {
    let command = pulumi.command.get_or_insert_default();
    // A template that starts something else knows what it does.
    if command.iter().eq(SERVE) {
        let seconds = (termination_grace - 70).max(termination_grace / 2).max(1);
        command.extend(["--interrupt-grace-seconds".to_owned(), seconds.to_string()]);
    }
}

/// What the `pulumi` container alone mounts; set after the template.
pub(crate) fn agent_mounts(options: &PodOptions) -> Vec<VolumeMount> {
    let mut mounts = vec![tls_mount()];
    if options.login.is_some() {
        mounts.push(VolumeMount {
            read_only: Some(true),
            ..mount(LOGIN_VOLUME, LOGIN_DIR)
        });
    }
    mounts
}

/// Sets variables, in place of those of the same names.
pub(crate) fn set_env(container: &mut Container, wanted: Vec<EnvVar>) {
    let env = container.env.get_or_insert_default();
    env.retain(|entry| wanted.iter().all(|w| w.name != entry.name));
    env.extend(wanted);
}

/// What a container may do that says nothing about it itself.
pub(crate) fn container_security(profile: SecurityProfile) -> Option<SecurityContext> {
    match profile {
        SecurityProfile::Restricted => Some(SecurityContext {
            allow_privilege_escalation: Some(false),
            capabilities: Some(Capabilities {
                add: Some(vec!["NET_BIND_SERVICE".to_owned()]),
                drop: Some(vec!["ALL".to_owned()]),
            }),
            ..SecurityContext::default()
        }),
        SecurityProfile::Baseline => None,
    }
}

/// What the pod as a whole may do, before the template.
pub(crate) fn pod_security(profile: SecurityProfile) -> PodSecurityContext {
    let seccomp = PodSecurityContext {
        seccomp_profile: Some(SeccompProfile {
            type_: "RuntimeDefault".to_owned(),
            localhost_profile: None,
        }),
        ..PodSecurityContext::default()
    };
    match profile {
        SecurityProfile::Restricted => PodSecurityContext {
            run_as_non_root: Some(true),
            run_as_user: Some(NON_ROOT),
            run_as_group: Some(NON_ROOT),
            ..seccomp
        },
        SecurityProfile::Baseline => seccomp,
    }
}

fn tls_mount() -> VolumeMount {
    VolumeMount {
        read_only: Some(true),
        ..mount(TLS_VOLUME, TLS_DIR)
    }
}

fn mount(volume: &str, path: &str) -> VolumeMount {
    VolumeMount {
        name: volume.to_owned(),
        mount_path: path.to_owned(),
        ..VolumeMount::default()
    }
}

fn field(name: &str, path: &str) -> EnvVar {
    EnvVar {
        name: name.to_owned(),
        value: None,
        value_from: Some(EnvVarSource {
            field_ref: Some(ObjectFieldSelector {
                field_path: path.to_owned(),
                api_version: None,
            }),
            ..EnvVarSource::default()
        }),
    }
}

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}
