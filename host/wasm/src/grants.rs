//! What a plugin has: what it wants and what is allowed.

use std::collections::BTreeMap;

use windlass_sdk::{ObjectRef, Wants};

use crate::policy::PluginPolicy;

/// In a descriptor's kinds: whichever the administrator lists for the plugin.
const ANY_ALLOWED: &str = "*";

/// Effective grants of one plugin.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Grants {
    pub interfaces: Vec<String>,
    pub kinds: Vec<String>,
    pub hosts: Vec<String>,
    pub any_host: bool,
    pub file_urls: bool,
    /// Audiences of tokens that sessions may have workspaces exchange.
    pub audiences: Vec<String>,
}

/// The plugins that this build came with: name -> `sha256:<hex>`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Builtins(pub BTreeMap<String, String>);

/// Built-ins whose every decision is in their configuration. Lua's interpreter takes three quarters of the time in which all
/// built-ins are compiled.
const IDLE_WITHOUT_CONFIG: [&str; 1] = ["health-lua"];

impl Builtins {
    /// The digest of a built-in that decides nothing unless it is configured; none for other names.
    pub fn idle_without_config(&self, name: &str) -> Option<&str> {
        let idles = IDLE_WITHOUT_CONFIG.contains(&name);
        self.0.get(name).map(String::as_str).filter(|_| idles)
    }

    /// What a built-in of this name and digest needs; none for anything else.
    pub fn grants(&self, name: &str, digest: &str) -> Option<Grants> {
        if self.0.get(name).map(String::as_str) != Some(digest) {
            return None;
        }
        let interfaces = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        Some(match name {
            "source-git" => Grants {
                // `http` and `cache` for the installation tokens of GitHub Apps.
                interfaces: interfaces(&["git", "secrets", "http", "cache"]),
                any_host: true,
                file_urls: true,
                ..Grants::default()
            },
            "source-flux" => Grants {
                interfaces: interfaces(&["kube"]),
                kinds: [
                    "GitRepository",
                    "OCIRepository",
                    "Bucket",
                    "ExternalArtifact",
                ]
                .map(|kind| format!("source.toolkit.fluxcd.io/{kind}"))
                .into(),
                any_host: true,
                ..Grants::default()
            },
            "backend-cloud" => Grants {
                audiences: vec!["urn:pulumi:org:*".into()],
                ..Grants::default()
            },
            "source-program" => Grants {
                interfaces: interfaces(&["kube"]),
                kinds: vec!["pulumi.com/Program".into()],
                ..Grants::default()
            },
            _ => Grants::default(),
        })
    }
}

impl Grants {
    /// What a policy allows.
    pub fn allowed(policy: &PluginPolicy) -> Self {
        let PluginPolicy {
            interfaces,
            kinds,
            hosts,
            any_host,
            file_urls,
            audiences,
            digest: _,
            public_key: _,
            limits: _,
            config: _,
        } = policy;
        Grants {
            interfaces: interfaces.clone(),
            kinds: kinds.clone(),
            hosts: hosts.clone(),
            any_host: *any_host,
            file_urls: *file_urls,
            audiences: audiences.clone(),
        }
    }

    /// The part that reaches the network or secrets, if there is one.
    pub fn dangerous(&self) -> Option<String> {
        let reach = ["http", "git", "secrets"];
        self.interfaces
            .iter()
            .find(|interface| reach.contains(&interface.as_str()))
            .cloned()
            .or_else(|| self.hosts.first().map(|host| format!("host {host}")))
            .or_else(|| self.any_host.then(|| "anyHost".to_owned()))
            .or_else(|| self.file_urls.then(|| "fileUrls".to_owned()))
            .or_else(|| {
                self.audiences
                    .first()
                    .map(|audience| format!("audience {audience}"))
            })
    }

    /// What is wanted, if all of it is allowed.
    ///
    /// # Errors
    /// What is missing.
    pub fn effective(&self, wants: &Wants, imports: &[String]) -> Result<Grants, Vec<String>> {
        let Wants {
            interfaces,
            kinds,
            hosts,
            any_host,
            file_urls,
            audiences,
        } = wants;
        let mut missing = Vec::new();
        for interface in interfaces.iter().chain(imports) {
            if !self.interfaces.contains(interface) {
                missing.push(format!("interface {interface}"));
            }
        }
        for kind in kinds.iter().filter(|kind| *kind != ANY_ALLOWED) {
            if !self.kinds.contains(kind) || is_secret(kind) {
                missing.push(format!("kind {kind}"));
            }
        }
        for host in hosts {
            if !self.any_host && !self.hosts.contains(host) {
                missing.push(format!("host {host}"));
            }
        }
        for audience in audiences {
            if !self.audiences.contains(audience) {
                missing.push(format!("audience {audience}"));
            }
        }
        if *any_host && !self.any_host {
            missing.push("anyHost".into());
        }
        missing.sort();
        missing.dedup();
        if !missing.is_empty() {
            return Err(missing);
        }
        // Users name the kinds, the administrator says which of them: none is no shortfall.
        let kinds = if kinds.iter().any(|kind| kind == ANY_ALLOWED) {
            &self.kinds
        } else {
            kinds
        };
        Ok(Grants {
            interfaces: interfaces.clone(),
            kinds: kinds.clone(),
            hosts: hosts.clone(),
            any_host: *any_host,
            // Not a shortfall: the same plugin serves a cluster without them and one machine with them.
            file_urls: *file_urls && self.file_urls,
            audiences: audiences.clone(),
        })
    }

    /// Whether an object of this kind may be read.
    pub fn may_read(&self, object: &ObjectRef) -> bool {
        let kind = object.group_kind();
        !is_secret(&kind) && self.kinds.contains(&kind)
    }

    /// Whether a token for this audience may be exchanged. `*` at the end of a granted one stands for any ending.
    pub fn may_speak_to(&self, audience: &str) -> bool {
        self.audiences.iter().any(|granted| {
            granted
                .strip_suffix('*')
                .map_or(granted == audience, |start| {
                    audience.len() > start.len() && audience.starts_with(start)
                })
        })
    }

    /// Whether a host and port may be named.
    pub fn may_reach(&self, host: &str, port: u16) -> bool {
        self.any_host
            || self
                .hosts
                .iter()
                .any(|pattern| matches(pattern, host, port))
    }
}

fn is_secret(kind: &str) -> bool {
    kind == "/Secret"
}

fn matches(pattern: &str, host: &str, port: u16) -> bool {
    let (name, wanted) = match pattern.rsplit_once(':') {
        Some((name, digits)) if digits.parse::<u16>().is_ok() => (name, digits.parse::<u16>().ok()),
        _ => (pattern, None),
    };
    let named = match name.strip_prefix("*.") {
        Some(parent) => host
            .strip_suffix(parent)
            .is_some_and(|rest| rest.len() > 1 && rest.ends_with('.')),
        None => host == name,
    };
    // Without a port a pattern means https's.
    named && wanted.map_or(port == 443, |wanted| wanted == port)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn host_patterns() {
        let cases = [
            ("a.test", "a.test", 443, true),
            ("a.test", "a.test", 80, false),
            ("a.test:80", "a.test", 80, true),
            ("*.a.test", "b.a.test", 443, true),
            ("*.a.test", "c.b.a.test", 443, true),
            ("*.a.test", "a.test", 443, false),
            ("*.a.test", "ba.test", 443, false),
            ("*.a.test", "evila.test", 443, false),
            ("a.test", "a.test.evil", 443, false),
            ("*.a.test:8443", "b.a.test", 8443, true),
        ];
        for (pattern, host, port, expected) in cases {
            let grants = Grants {
                hosts: vec![pattern.into()],
                ..Grants::default()
            };
            assert_eq!(
                grants.may_reach(host, port),
                expected,
                "{pattern} {host}:{port}"
            );
        }
    }

    #[test]
    fn kinds_that_users_name_are_those_that_the_administrator_lists() {
        let allowed = Grants {
            kinds: vec![
                "a.test/Known".into(),
                "b.test/Other".into(),
                "/Secret".into(),
            ],
            ..Grants::default()
        };
        let object = |api_version: &str, kind: &str| ObjectRef {
            api_version: api_version.into(),
            kind: kind.into(),
            name: "x".into(),
        };
        let wants = |kinds: &[&str]| Wants {
            kinds: kinds.iter().map(|kind| (*kind).to_owned()).collect(),
            ..Wants::default()
        };
        let open = allowed.effective(&wants(&["a.test/Known", "*"]), &[]);
        assert!(open.as_ref().is_ok_and(|open| {
            open.may_read(&object("a.test/v1", "Known"))
                && open.may_read(&object("b.test/v1", "Other"))
                && !open.may_read(&object("c.test/v1", "Third"))
                && !open.may_read(&object("v1", "Secret"))
        }));
        let closed = allowed.effective(&wants(&["a.test/Known"]), &[]);
        assert!(closed.is_ok_and(|closed| !closed.may_read(&object("b.test/v1", "Other"))));
        assert_eq!(
            allowed.effective(&wants(&["c.test/Third", "*"]), &[]),
            Err(vec!["kind c.test/Third".to_owned()])
        );
    }

    #[test]
    fn nothing_is_granted_that_was_not_wanted() {
        let allowed = Grants {
            interfaces: vec!["http".into(), "kube".into()],
            hosts: vec!["a.test".into(), "b.test".into()],
            any_host: true,
            ..Grants::default()
        };
        let wants = Wants {
            interfaces: vec!["http".into()],
            hosts: vec!["a.test".into()],
            ..Wants::default()
        };
        let grants = allowed.effective(&wants, &[]);
        let expected = Grants {
            interfaces: vec!["http".into()],
            hosts: vec!["a.test".into()],
            ..Grants::default()
        };
        assert_eq!(grants, Ok(expected));
    }
}
