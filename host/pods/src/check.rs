//! What of a template the API server would refuse, or the operator could not work with, said by field. The types have
//! been checked by the schema; here it is about keys of lists, names and fields that are not the user's.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::Container;
use windlass_api::PodSpec;
use windlass_api::workspace::EmbeddedPodTemplate;

use crate::environment::variable_name;
use crate::error::TemplateError;
use crate::layout::{LOGIN_VOLUME, TLS_VOLUME};

/// Longest DNS label, and longest value of a label.
pub(crate) const LABEL_MAX: usize = 63;
const SUBDOMAIN_MAX: usize = 253;

/// A DNS label: lower case letters, digits and inner dashes, at most 63 of them.
pub(crate) fn label(field: &str, text: &str) -> Result<(), TemplateError> {
    if text.len() <= LABEL_MAX && is_label(text) {
        return Ok(());
    }
    Err(TemplateError::invalid(
        field,
        format!(
            "{text:?} is no valid name; use lower case letters, digits and dashes, at most {LABEL_MAX}, \
             with a letter or digit at both ends"
        ),
    ))
}

/// The name of a Secret, ConfigMap or another object: DNS labels between dots, at most 253 characters.
pub(crate) fn object_name(field: &str, text: &str) -> Result<(), TemplateError> {
    if text.len() <= SUBDOMAIN_MAX && text.split('.').all(is_label) {
        return Ok(());
    }
    Err(TemplateError::invalid(
        field,
        format!(
            "{text:?} is no valid name of an object; use lower case letters, digits, dashes and dots, at most \
             {SUBDOMAIN_MAX}, with a letter or digit at both ends"
        ),
    ))
}

fn is_label(text: &str) -> bool {
    let inner = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    !text.is_empty()
        && text.bytes().all(|b| inner(b) || b == b'-')
        && !text.starts_with('-')
        && !text.ends_with('-')
}

/// Checks a pod template; `field` is where it stands, as `spec.podTemplate`.
pub(crate) fn pod_template(
    field: &str,
    template: &EmbeddedPodTemplate,
) -> Result<(), TemplateError> {
    let Some(spec) = &template.spec else {
        return Ok(());
    };
    let field = format!("{field}.spec");
    if spec
        .restart_policy
        .as_deref()
        .is_some_and(|p| p != "Always")
    {
        return Err(TemplateError::reserved(
            format!("{field}.restartPolicy"),
            "an agent that ended is always started again, to settle its run",
        ));
    }
    if spec.active_deadline_seconds.is_some() {
        return Err(TemplateError::reserved(
            format!("{field}.activeDeadlineSeconds"),
            "it would end the pod in the middle of a run; spec.timeoutSeconds of the Stack interrupts a run",
        ));
    }
    if spec
        .ephemeral_containers
        .as_ref()
        .is_some_and(|c| !c.is_empty())
    {
        return Err(TemplateError::reserved(
            format!("{field}.ephemeralContainers"),
            "Kubernetes adds such containers to a running pod only (kubectl debug)",
        ));
    }
    let mut names = BTreeSet::new();
    let init = spec.init_containers.as_deref().unwrap_or_default();
    for (list, containers) in [("initContainers", init), ("containers", &spec.containers)] {
        for (index, container) in containers.iter().enumerate() {
            let field = format!("{field}.{list}[{index}]");
            label(&format!("{field}.name"), &container.name)?;
            if !names.insert(container.name.as_str()) {
                return Err(twice(
                    &format!("{field}.name"),
                    "container",
                    &container.name,
                ));
            }
            check_container(&field, container)?;
        }
    }
    let mut names = BTreeSet::new();
    for (index, volume) in spec.volumes.iter().flatten().enumerate() {
        let field = format!("{field}.volumes[{index}].name");
        label(&field, &volume.name)?;
        operators_volume(&field, &volume.name)?;
        if !names.insert(volume.name.as_str()) {
            return Err(twice(&field, "volume", &volume.name));
        }
    }
    Ok(())
}

fn check_container(field: &str, container: &Container) -> Result<(), TemplateError> {
    for (index, variable) in container.env.iter().flatten().enumerate() {
        variable_name(&format!("{field}.env[{index}].name"), &variable.name)?;
    }
    let mut paths = BTreeSet::new();
    for (index, mount) in container.volume_mounts.iter().flatten().enumerate() {
        let field = format!("{field}.volumeMounts[{index}]");
        operators_volume(&format!("{field}.name"), &mount.name)?;
        let field = format!("{field}.mountPath");
        if mount.mount_path.is_empty() {
            return Err(TemplateError::invalid(field, "the path is missing"));
        }
        if !paths.insert(mount.mount_path.as_str()) {
            return Err(twice(&field, "mount", &mount.mount_path));
        }
    }
    for (index, port) in container.ports.iter().flatten().enumerate() {
        if !(1..=65535).contains(&port.container_port) {
            return Err(TemplateError::invalid(
                format!("{field}.ports[{index}].containerPort"),
                format!("{} is no port; use 1 to 65535", port.container_port),
            ));
        }
    }
    Ok(())
}

/// Checks what only the merged pod can show: every container has an image, every mount a volume.
pub(crate) fn merged(field: &str, spec: &PodSpec) -> Result<(), TemplateError> {
    let volumes: BTreeSet<&str> = spec
        .volumes
        .iter()
        .flatten()
        .map(|volume| volume.name.as_str())
        .collect();
    let init = spec.init_containers.as_deref().unwrap_or_default();
    for (list, containers) in [("initContainers", init), ("containers", &spec.containers)] {
        for container in containers {
            let field = format!("{field}.spec.{list}[name={}]", container.name);
            if container.image.as_deref().is_none_or(str::is_empty) {
                return Err(TemplateError::invalid(
                    format!("{field}.image"),
                    "the container has no image",
                ));
            }
            for mount in container.volume_mounts.iter().flatten() {
                if !volumes.contains(mount.name.as_str()) {
                    return Err(TemplateError::invalid(
                        format!("{field}.volumeMounts[mountPath={}].name", mount.mount_path),
                        format!("there is no volume {:?}; add it to volumes", mount.name),
                    ));
                }
            }
        }
    }
    Ok(())
}

/// The agent's own credentials are for no other container, and in no other place.
fn operators_volume(field: &str, name: &str) -> Result<(), TemplateError> {
    if [TLS_VOLUME, LOGIN_VOLUME].contains(&name) {
        return Err(TemplateError::invalid(
            field,
            format!("the volume {name:?} is the operator's own; choose another name"),
        ));
    }
    Ok(())
}

fn twice(field: &str, what: &str, name: &str) -> TemplateError {
    TemplateError::invalid(
        field,
        format!("there are two of the {what} {name:?}; keep one"),
    )
}
