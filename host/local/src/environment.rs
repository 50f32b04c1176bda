//! The environment of a workspace, and the files that stand in for mounted ConfigMaps and Secrets: what the kubelet
//! does on a cluster.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write as _;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;

use serde_json::Value;
use windlass_agent::SECRET_VARIABLES;
use windlass_api::reference::Selector;
use windlass_api::secret::Secret;
use windlass_api::{ConfigMap, EnvVar, Stack};
use windlass_core::snapshot::{Reference, ReferenceKind};
use windlass_core::spec;

use crate::db::{Db, DbError, kind};
use crate::objects::outputs_secret;

/// Variables of this process that a workspace gets: those that the CLI and its plugins need to run at all. Everything
/// else is named in the Stack, as on a cluster.
const INHERITED: [&str; 8] = [
    "PATH",
    "HOME",
    "TMPDIR",
    "LANG",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "TZ",
    "USER",
];

/// Builds the environment of a Stack's workspace. What does not exist is left out: the core waits for it before a run.
pub fn environment(db: &Db, stack: &Stack) -> Result<BTreeMap<String, String>, DbError> {
    let namespace = stack.metadata.namespace.as_deref().unwrap_or("default");
    let spec = &stack.spec;
    let mut env: BTreeMap<String, String> = INHERITED
        .iter()
        .filter_map(|name| Some(((*name).to_owned(), std::env::var(name).ok()?)))
        .collect();
    env.insert("POD_NAMESPACE".into(), namespace.to_owned());
    env.insert("PULUMI_SKIP_UPDATE_CHECK".into(), "true".into());
    if let Some(backend) = &spec.backend {
        env.insert("PULUMI_BACKEND_URL".into(), backend.clone());
    }
    // The agent takes the values of these out of every text.
    let mut secret = BTreeSet::new();
    if let Some(name) = &spec.access_token_secret
        && let Some(value) = secret_key(db, namespace, name, "accessToken")?
    {
        secret.insert("PULUMI_ACCESS_TOKEN".to_owned());
        env.insert("PULUMI_ACCESS_TOKEN".into(), value);
    }
    for (variable, reference) in &spec.env_refs {
        let value = match reference.selector(namespace) {
            Ok(Selector::Literal(text)) => Some(text.expose().to_owned()),
            Ok(Selector::Secret(named)) => {
                secret.insert(variable.clone());
                secret_key(db, namespace, &named.name, &named.key)?
            }
            Ok(Selector::ConfigMap(map)) => config_key(db, namespace, &map.name, &map.key)?,
            Ok(Selector::StackOutput { stack, output }) => {
                let (value, is_secret) = stack_output(db, namespace, stack, output)?.unzip();
                if is_secret == Some(true) {
                    secret.insert(variable.clone());
                }
                value
            }
            Err(_) => None,
        };
        env.extend(value.map(|value| (variable.clone(), value)));
    }
    if let Some(template) = stack
        .spec
        .workspace_template
        .as_ref()
        .and_then(|template| template.spec.as_ref())
    {
        for variable in &template.env {
            if let Some(value) = variable_value(db, namespace, variable)? {
                let from = variable.value_from.as_ref();
                if from.is_some_and(|from| from.secret_key_ref.is_some()) {
                    secret.insert(variable.name.clone());
                }
                env.insert(variable.name.clone(), value);
            }
        }
    }
    for name in &spec.envs {
        if let Some(map) = db.get::<ConfigMap>(kind::CONFIG_MAP, namespace, name)? {
            env.extend(map.object.data.unwrap_or_default());
        }
    }
    for name in &spec.env_secrets {
        if let Some(named) = db.get::<Secret>(kind::SECRET, namespace, name)? {
            for (key, value) in &named.object.data {
                if let Some(value) = text(value.expose()) {
                    secret.insert(key.clone());
                    env.insert(key.clone(), value);
                }
            }
        }
    }
    let names: Vec<String> = secret.into_iter().collect();
    env.insert(SECRET_VARIABLES.to_owned(), names.join(","));
    Ok(env)
}

fn variable_value(db: &Db, namespace: &str, variable: &EnvVar) -> Result<Option<String>, DbError> {
    if let Some(value) = &variable.value {
        return Ok(Some(value.clone()));
    }
    let Some(from) = &variable.value_from else {
        return Ok(Some(String::new()));
    };
    if let Some(secret) = &from.secret_key_ref {
        return secret_key(db, namespace, &secret.name, &secret.key);
    }
    if let Some(map) = &from.config_map_key_ref {
        return config_key(db, namespace, &map.name, &map.key);
    }
    Ok(None)
}

fn secret_key(db: &Db, namespace: &str, name: &str, key: &str) -> Result<Option<String>, DbError> {
    let secret = db.get::<Secret>(kind::SECRET, namespace, name)?;
    Ok(secret.and_then(|secret| text(secret.object.get(key)?)))
}

fn config_key(db: &Db, namespace: &str, name: &str, key: &str) -> Result<Option<String>, DbError> {
    let map = db.get::<ConfigMap>(kind::CONFIG_MAP, namespace, name)?;
    Ok(map.and_then(|map| map.object.data?.remove(key)))
}

/// A string as it is, anything else as JSON; and whether it is secret.
fn stack_output(
    db: &Db,
    namespace: &str,
    stack: &str,
    output: &str,
) -> Result<Option<(String, bool)>, DbError> {
    let Some(stack) = db.get::<Stack>(kind::STACK, namespace, stack)? else {
        return Ok(None);
    };
    let Some(secret) = outputs_secret(db, namespace, &stack.object)? else {
        return Ok(None);
    };
    let Some(bytes) = secret.get(&windlass_api::names::output_key(output)) else {
        return Ok(None);
    };
    let value = match serde_json::from_slice::<Value>(bytes) {
        Ok(Value::String(text)) => Some(text),
        _ => text(bytes),
    };
    let listed = secret
        .metadata
        .annotations
        .as_ref()
        .and_then(|all| all.get(windlass_api::names::SECRETS_ANNOTATION))
        .and_then(|list| serde_json::from_str::<Vec<String>>(list).ok())
        // Of an output of which nothing is said nothing is told.
        .is_none_or(|list| list.iter().any(|name| name == output));
    Ok(value.map(|value| (value, listed)))
}

fn text(bytes: &[u8]) -> Option<String> {
    // A variable cannot hold a NUL byte.
    std::str::from_utf8(bytes)
        .ok()
        .filter(|text| !text.contains('\0'))
        .map(str::to_owned)
}

/// Where mounted values lie in a workspace.
pub const CONFIG_MAPS: &str = "mounts/configmaps";
pub const SECRETS: &str = "mounts/secrets";

/// Writes the values that the configuration of a Stack refers to, afresh for every run, as a kubelet keeps mounts.
pub fn write_mounts(db: &Db, stack: &Stack, workspace: &Path) -> Result<(), MountError> {
    let namespace = stack.metadata.namespace.as_deref().unwrap_or("default");
    let Ok(checked) = spec::check(stack, false) else {
        return Ok(());
    };
    let root = workspace.join("mounts");
    match std::fs::remove_dir_all(&root) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error.into()),
        _ => {}
    }
    for Reference {
        kind: reference,
        name,
        key,
    } in &checked.references
    {
        // Names of objects are checked when they are stored; keys become file names here.
        let Some(key) = key.as_ref().filter(|key| is_key(key)) else {
            continue;
        };
        let (dir, bytes) = match reference {
            ReferenceKind::Secret => {
                let secret = db.get::<Secret>(kind::SECRET, namespace, name)?;
                (
                    SECRETS,
                    secret.and_then(|secret| secret.object.get(key).map(<[u8]>::to_vec)),
                )
            }
            ReferenceKind::ConfigMap => {
                let map = db.get::<ConfigMap>(kind::CONFIG_MAP, namespace, name)?;
                (
                    CONFIG_MAPS,
                    map.and_then(|map| Some(map.object.data?.remove(key)?.into_bytes())),
                )
            }
        };
        let Some(bytes) = bytes else { continue };
        let dir = workspace.join(dir).join(name);
        std::fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&dir)?;
        let mut file = std::fs::OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o600)
            .open(dir.join(key))?;
        file.write_all(&bytes)?;
    }
    Ok(())
}

/// Kubernetes' rule for keys of ConfigMaps and Secrets.
fn is_key(key: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    !key.is_empty() && key.len() <= 253 && key != "." && key != ".." && key.bytes().all(plain)
}

#[derive(Debug, thiserror::Error)]
pub enum MountError {
    #[error(transparent)]
    Io(#[from] std::io::Error),
    #[error(transparent)]
    Store(#[from] DbError),
}
