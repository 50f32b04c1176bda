//! What the administrator allows, plugin by plugin. Nothing that is not allowed here is granted.

use std::collections::BTreeMap;
use std::path::Path;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use windlass_sdk::Wants;

use crate::limits::Limits;
use crate::load::Examined;
use crate::signature;

/// The policy file, YAML or JSON.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct Policy {
    /// By the plugin's name, which is its file's name without `.wasm`.
    pub plugins: BTreeMap<String, PluginPolicy>,
}

/// What one plugin may do.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct PluginPolicy {
    /// `sha256:<hex>` of the file. This or `publicKey` is required for `http`, `git` and `secrets`.
    pub digest: Option<String>,
    /// `ed25519:<base64>`: the file must be signed with this key (`NAME.wasm.sig` beside it). Any file of this name that
    /// the key signed is served, newer or older.
    pub public_key: Option<String>,
    /// Host interfaces beyond `log` and `config`.
    pub interfaces: Vec<String>,
    /// `group/Kind` that it may read. Secrets are never among them. For a built-in that reads what users name: kinds
    /// beyond those that it has anyway.
    pub kinds: Vec<String>,
    /// Host patterns: `api.example.org`, `*.example.org`, each with an optional `:port`.
    pub hosts: Vec<String>,
    /// Hosts that users name in their specs.
    pub any_host: bool,
    /// `file:` URLs; only where the host runs on one machine.
    pub file_urls: bool,
    /// Audiences of service account tokens that its sessions may have workspaces exchange, each with an optional `*` at
    /// its end. The API server's are never among them.
    pub audiences: Vec<String>,
    pub limits: Option<Limits>,
    /// Handed to the plugin as it is.
    pub config: Option<Value>,
}

/// Why a policy file is not in force.
#[derive(Debug, thiserror::Error)]
pub enum PolicyError {
    #[error("cannot read {path}: {source}")]
    Unreadable {
        path: String,
        source: std::io::Error,
    },
    #[error("{path}: {message}")]
    Invalid { path: String, message: String },
}

impl PluginPolicy {
    /// What an administrator would have to allow for this file to be served: all that it asks for, and its digest.
    pub fn wanted(examined: &Examined) -> Self {
        let Wants {
            interfaces,
            kinds,
            hosts,
            any_host,
            file_urls,
            audiences,
        } = examined.descriptor.wants.clone();
        let mut interfaces = interfaces;
        interfaces.extend(examined.interfaces.iter().cloned());
        interfaces.sort();
        interfaces.dedup();
        PluginPolicy {
            digest: Some(examined.digest.clone()),
            interfaces,
            // `*` stands for whatever the administrator lists; nobody can list it for him.
            kinds: kinds.into_iter().filter(|kind| kind != "*").collect(),
            hosts,
            any_host,
            file_urls,
            audiences,
            limits: (examined.bytes > Limits::default().file_bytes).then(|| Limits {
                file_bytes: Limits::CEILING.file_bytes,
                ..Limits::default()
            }),
            ..PluginPolicy::default()
        }
    }
}

impl Policy {
    /// Reads the file.
    ///
    /// # Errors
    /// A file that cannot be read, or holds something else than a policy.
    pub fn read(path: &Path) -> Result<Self, PolicyError> {
        let shown = path.display().to_string();
        let text = std::fs::read_to_string(path).map_err(|source| PolicyError::Unreadable {
            path: shown.clone(),
            source,
        })?;
        Self::parse(&text).map_err(|message| PolicyError::Invalid {
            path: shown,
            message,
        })
    }

    /// # Errors
    /// Words of the parser, or a rule that can never apply.
    pub fn parse(text: &str) -> Result<Self, String> {
        // JSON is YAML.
        let policy: Policy = serde_saphyr::from_str(text).map_err(|error| error.to_string())?;
        for (name, plugin) in &policy.plugins {
            if let Some(host) = plugin.hosts.iter().find(|host| !is_pattern(host)) {
                return Err(format!("plugins.{name}.hosts: {host:?} is no host pattern"));
            }
            if let Some(Err(error)) = plugin.public_key.as_deref().map(signature::check_key) {
                return Err(format!("plugins.{name}.publicKey: {error}"));
            }
            if let Some(kind) = plugin.kinds.iter().find(|kind| !is_kind(kind)) {
                return Err(format!(
                    "plugins.{name}.kinds: {kind:?} is not of the form GROUP/KIND (/KIND for core kinds)"
                ));
            }
        }
        Ok(policy)
    }
}

/// `*` stands only for leading labels, and never alone.
fn is_pattern(pattern: &str) -> bool {
    let host = pattern.strip_prefix("*.").unwrap_or(pattern);
    !host.is_empty() && !host.contains(['*', '/', ' ', '@'])
}

/// One slash with a kind after it; kinds are listed one by one.
fn is_kind(text: &str) -> bool {
    text.split_once('/')
        .is_some_and(|(_, kind)| !kind.is_empty() && !text.contains('*') && !kind.contains('/'))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn yaml_with_every_field() {
        let text = "plugins:
  gitea:
    digest: sha256:00
    interfaces: [http, secrets]
    hosts: [gitea.example.org, '*.example.org:8443']
    limits: {cpuMs: 50}
    config: {organisation: acme}
";
        let policy = Policy::parse(text).unwrap();
        let gitea = &policy.plugins["gitea"];
        assert_eq!(gitea.limits.as_ref().unwrap().cpu_ms, 50);
        assert_eq!(
            gitea.limits.as_ref().unwrap().rounds,
            Limits::default().rounds
        );
        assert_eq!(gitea.config.as_ref().unwrap()["organisation"], "acme");
        assert!(Policy::parse("plugins: {}").unwrap().plugins.is_empty());
    }

    #[test]
    fn what_cannot_be_meant_is_refused() {
        for text in [
            "plugins: {a: {host: [x]}}",
            "plugins: {a: {hosts: ['*']}}",
            "plugins: {a: {hosts: ['a.*.test']}}",
            "plugins: {a: {kinds: ['*']}}",
            "plugins: {a: {kinds: ['a.test/*']}}",
            "plugins: {a: {kinds: [ConfigMap]}}",
            "plugins: {a: {kinds: ['a.test/v1/Thing']}}",
            "plugins: {a: {hosts: ['https://a.test']}}",
            "plugins: {a: {limits: {cpu: 1}}}",
            "plugins: {a: {publicKey: 'ed25519:AA=='}}",
            "plugins: {a: {publicKey: secret}}",
        ] {
            assert!(Policy::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn limits_have_a_ceiling() {
        let limits = Limits {
            memory_bytes: usize::MAX,
            cpu_ms: 1,
            ..Limits::default()
        }
        .capped();
        assert_eq!(
            (limits.memory_bytes, limits.cpu_ms),
            (Limits::CEILING.memory_bytes, 1)
        );
    }
}
