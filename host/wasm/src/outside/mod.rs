//! Who answers the questions. The host of the host: a cluster, one machine, a test.

pub mod http;

use futures::future::BoxFuture;
use serde_json::Value;
use windlass_sdk::{Fault, GitRef, HttpRequest, HttpResponse, ObjectRef};
use zeroize::Zeroizing;

use crate::egress::Checked;
use crate::grants::Grants;

/// On whose behalf a question is asked.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Scope {
    pub plugin: String,
    /// The namespace of the object under work; there is no other.
    pub namespace: String,
    /// The object under work.
    pub object: String,
}

/// A credential with its values. Prints nothing of them.
#[derive(Clone)]
pub enum Credential {
    Basic {
        username: Zeroizing<String>,
        password: Zeroizing<String>,
    },
    Bearer {
        token: Zeroizing<String>,
    },
    Header {
        name: String,
        value: Zeroizing<String>,
    },
    /// For `ssh:` URLs of repositories only.
    SshKey {
        private_key: Zeroizing<String>,
        passphrase: Option<Zeroizing<String>>,
        /// Lines of a known_hosts file that hold beside the administrator's.
        known_hosts: Option<Zeroizing<String>>,
    },
}

impl std::fmt::Debug for Credential {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Credential::Basic { .. } => "Credential::Basic",
            Credential::Bearer { .. } => "Credential::Bearer",
            Credential::Header { .. } => "Credential::Header",
            Credential::SshKey { .. } => "Credential::SshKey",
        })
    }
}

/// What a Secret has to say.
#[derive(Clone, Debug)]
pub enum SecretValue {
    Value(Zeroizing<Vec<u8>>),
    NoSecret,
    NoKey,
}

/// Answers of the outside. Everything that arrives here has passed the plugin's grants.
pub trait Outside: Send + Sync + 'static {
    /// An object of the scope's namespace, none if it does not exist.
    fn kube_get<'a>(
        &'a self,
        scope: &'a Scope,
        object: &'a ObjectRef,
    ) -> BoxFuture<'a, Result<Option<Value>, Fault>>;

    /// A key of a Secret of the scope's namespace.
    fn secret<'a>(
        &'a self,
        scope: &'a Scope,
        name: &'a str,
        key: &'a str,
    ) -> BoxFuture<'a, Result<SecretValue, Fault>>;

    /// References whose names start with one of the prefixes.
    fn git_refs<'a>(
        &'a self,
        scope: &'a Scope,
        url: &'a Checked,
        prefixes: &'a [String],
        credential: Option<&'a Credential>,
    ) -> BoxFuture<'a, Result<Vec<GitRef>, Fault>>;

    /// Sends a request. [`http::HttpClient`] does it for real; whoever follows redirects checks each against `grants`.
    fn http_send<'a>(
        &'a self,
        scope: &'a Scope,
        request: &'a HttpRequest,
        url: &'a Checked,
        credential: Option<&'a Credential>,
        grants: &'a Grants,
        longest: usize,
    ) -> BoxFuture<'a, Result<HttpResponse, Fault>>;
}
