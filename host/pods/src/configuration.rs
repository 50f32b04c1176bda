//! Configuration of a Stack: what its Workspace shows, and what has to be mounted for it.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::{ConfigMapVolumeSource, SecretVolumeSource, Volume, VolumeMount};
use windlass_api::reference::Selector;
use windlass_api::stack::StackSpec;
use windlass_api::workspace::{ConfigValueFrom, WorkspaceConfigItem};
use windlass_core::digest::digest;

use crate::check::{LABEL_MAX, object_name};
use crate::error::TemplateError;
use crate::layout::{CONFIG_MAPS, SECRETS};

/// What the Workspace shows of the configuration, one entry a key; where several fields name a key, the last of
/// `config`, `configRef`, `secrets`, `secretsRef` counts, as in the request of a run.
///
/// A secret that is written into the Stack itself is listed without its value: whoever may read Workspaces need not be
/// one who may read Stacks, and the value reaches the agent with the request of a run.
pub(crate) fn items(
    spec: &StackSpec,
    namespace: &str,
) -> Result<Vec<WorkspaceConfigItem>, TemplateError> {
    let mut items: BTreeMap<&str, WorkspaceConfigItem> = BTreeMap::new();
    let item = |key: &str, secret| WorkspaceConfigItem {
        key: key.to_owned(),
        secret: Some(secret),
        ..WorkspaceConfigItem::default()
    };
    let file = |path: String, json| ConfigValueFrom {
        env: None,
        path: Some(path),
        json,
    };
    for (key, value) in &spec.config {
        let mut entry = item(key, false);
        entry.value = Some(value.clone());
        items.insert(key, entry);
    }
    for (key, reference) in &spec.config_ref {
        let mut entry = item(key, false);
        let path = format!("{CONFIG_MAPS}/{}/{}", reference.name, reference.key);
        entry.value_from = Some(file(path, reference.json));
        items.insert(key, entry);
    }
    for key in spec.secrets.keys() {
        items.insert(key, item(key, true));
    }
    for (key, reference) in &spec.secrets_ref {
        let field = format!("spec.secretsRef.{key}");
        let mut entry = item(key, true);
        match reference.selector(namespace) {
            Ok(Selector::Secret(secret)) => {
                let path = format!("{SECRETS}/{}/{}", secret.name, secret.key);
                entry.value_from = Some(file(path, None));
            }
            Ok(Selector::Literal(_)) => {}
            Ok(Selector::ConfigMap(_) | Selector::StackOutput { .. }) => {
                return Err(TemplateError::invalid(
                    field,
                    format!("type must be Secret or Literal, found {}", reference.type_),
                ));
            }
            Err(source) => return Err(TemplateError::Reference { field, source }),
        }
        items.insert(key, entry);
    }
    Ok(items.into_values().collect())
}

/// The volumes that `configRef` and `secretsRef` need, and where they are mounted: one per object, by name.
pub(crate) fn mounts(
    spec: &StackSpec,
    namespace: &str,
) -> Result<(Vec<Volume>, Vec<VolumeMount>), TemplateError> {
    let mut config_maps = BTreeSet::new();
    for (key, reference) in &spec.config_ref {
        object_name(&format!("spec.configRef.{key}.name"), &reference.name)?;
        config_maps.insert(reference.name.as_str());
    }
    let mut secrets = BTreeSet::new();
    for (key, reference) in &spec.secrets_ref {
        if let Ok(Selector::Secret(secret)) = reference.selector(namespace) {
            object_name(&format!("spec.secretsRef.{key}.secret.name"), &secret.name)?;
            secrets.insert(secret.name.as_str());
        }
    }
    let mut volumes = Vec::new();
    let mut mounts = Vec::new();
    let mut mount = |volume: Volume, path: String| {
        mounts.push(VolumeMount {
            name: volume.name.clone(),
            mount_path: path,
            ..VolumeMount::default()
        });
        volumes.push(volume);
    };
    for name in config_maps {
        let volume = Volume {
            name: volume_name("configmap", name),
            config_map: Some(ConfigMapVolumeSource {
                name: name.to_owned(),
                ..ConfigMapVolumeSource::default()
            }),
            ..Volume::default()
        };
        mount(volume, format!("{CONFIG_MAPS}/{name}"));
    }
    for name in secrets {
        let volume = Volume {
            name: volume_name("secret", name),
            secret: Some(SecretVolumeSource {
                secret_name: Some(name.to_owned()),
                ..SecretVolumeSource::default()
            }),
            ..Volume::default()
        };
        mount(volume, format!("{SECRETS}/{name}"));
    }
    Ok((volumes, mounts))
}

/// Digits of the digest that stands for what a shortened name has lost.
const DIGITS: usize = 10;

/// `<prefix>-<name>` where that is a valid volume name (no dots, at most 63 characters), else a shortened form with a
/// digest of the name.
fn volume_name(prefix: &str, name: &str) -> String {
    let plain = format!("{prefix}-{name}");
    if plain.len() <= LABEL_MAX && !name.contains('.') {
        return plain;
    }
    // The name is ASCII: it has been checked to be a DNS name.
    let mut short = plain.replace('.', "-");
    short.truncate(LABEL_MAX - DIGITS - 1);
    let digest = digest(&name);
    format!("{}-{}", short.trim_end_matches('-'), &digest[..DIGITS])
}

#[cfg(test)]
mod tests {
    use super::*;
    use pretty_assertions::assert_eq;

    #[test]
    fn volume_names_are_valid_and_differ_where_the_names_do() {
        assert_eq!(volume_name("secret", "api"), "secret-api");
        let long = "a".repeat(253);
        let dots = ["a.b", "a-b", "a.b.c", &long, &long[..252]];
        let names: BTreeSet<String> = dots.iter().map(|n| volume_name("configmap", n)).collect();
        assert_eq!(names.len(), dots.len());
        for name in &names {
            assert!(crate::check::label("x", name).is_ok(), "{name}");
        }
        // Cut right behind a dot.
        let cut = volume_name("secret", &format!("{}.b{}", "a".repeat(44), "c".repeat(60)));
        assert!(crate::check::label("x", &cut).is_ok(), "{cut}");
    }
}
