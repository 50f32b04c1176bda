//! What a plugin implements, and what it may ask.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::error::PluginError;
use crate::question::{GitRef, HttpRequest, HttpResponse};
use crate::recipe::{Derivation, Part, Signature};
use crate::types::{
    BackendRequest, Descriptor, Failure, FieldError, Health, LockHolder, LockVerdict, ObjectRef,
    Outcome, ReportedLock, Resolution, Session, SourceRequest,
};

/// Every plugin says who it is and what it wants.
///
/// Functions below take their host as a generic parameter and not as a trait object: a table of all its functions would
/// make a component import all of them, and an import is a permission asked for.
pub trait Plugin {
    fn describe() -> Descriptor;
}

/// Says where a program comes from.
pub trait SourceProvider: Plugin {
    /// Checks a spec without asking anything.
    fn validate(host: &(impl Host + ?Sized), spec: &Value) -> Vec<FieldError>;

    /// Objects whose change resolves again.
    fn watches(_host: &(impl Host + ?Sized), _spec: &Value) -> Vec<ObjectRef> {
        Vec::new()
    }

    /// # Errors
    /// Whatever keeps the source from being named now, by class.
    fn resolve(
        host: &(impl Host + ?Sized),
        request: &SourceRequest,
    ) -> Result<Resolution, PluginError>;
}

/// Knows one kind of state backend.
pub trait Backend: Plugin {
    /// # Errors
    /// `invalid` for a URL or stack name that this backend cannot have.
    fn open(host: &(impl Host + ?Sized), request: &BackendRequest) -> Result<Session, PluginError>;

    fn classify(host: &(impl Host + ?Sized), outcome: &Outcome) -> Failure;

    fn stale_lock(
        host: &(impl Host + ?Sized),
        locks: &[ReportedLock],
        holders: &[LockHolder],
    ) -> LockVerdict;
}

/// Says whether an object is healthy. The texts are JSON, so that a rule can borrow the few fields it looks at.
pub trait HealthCheck: Plugin {
    fn assess(host: &(impl Host + ?Sized), object: &str, context: &str) -> Health;
}

/// How important a log line is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    Debug,
    Info,
    Warn,
    Error,
}

/// The questions that the host answers. Each but `config` and `log` needs a grant.
pub trait Host {
    /// What the administrator configured for this plugin; `{}` if nothing.
    fn config(&self) -> Value;

    fn log(&self, level: Level, message: &str);

    /// The value behind the Secret reference that stands at `pointer` in the object under work.
    ///
    /// # Errors
    /// `not-found` if the Secret or its key is missing, `denied` if nothing like a reference stands there.
    fn secret_at(&self, pointer: &str) -> Result<Secret, PluginError>;

    /// The value under `key` of the Secret whose name stands at `pointer`.
    ///
    /// # Errors
    /// As [`Host::secret_at`].
    fn secret_key_at(&self, pointer: &str, key: &str) -> Result<Secret, PluginError>;

    /// The identifier behind the Secret reference at `pointer`, whose field's name ends in `ID` or `Id`.
    ///
    /// # Errors
    /// As [`Host::secret_at`]; `denied` for another field's name, and for anything else than up to 15 decimal digits.
    fn id_at(&self, pointer: &str) -> Result<u64, PluginError>;

    /// Wraps what the plugin knows anyway.
    fn seal(&self, value: &[u8]) -> Secret;

    /// A key from a key. Computed when it is spent: what is wrong with `key` is said there. An evaluation makes at most
    /// 256 values with `derive`, `sign` and `join`.
    fn derive(&self, how: Derivation, key: &Secret, prefix: &[u8], payload: &[u8]) -> Secret;

    /// A signature of the payload, as bytes that the plugin does not see; `join` gives them a form. At most 16 in an
    /// evaluation.
    fn sign(&self, how: Signature, key: &Secret, payload: &[u8]) -> Secret;

    /// A text with secrets in it, such as the value of a header, or a JWT. At most 64 KiB.
    fn join(&self, parts: &[Part<'_>]) -> Secret;

    /// An object of the namespace under work, none if it does not exist.
    ///
    /// # Errors
    /// `denied` for a kind without a grant, `unavailable` if it cannot be read now.
    fn kube_get(&self, object: &ObjectRef) -> Result<Option<Value>, PluginError>;

    /// # Errors
    /// `denied` outside the grants, `unavailable` if the server cannot be reached. A status is no error.
    fn http_send(
        &self,
        request: &HttpRequest,
        auth: Option<&Credential>,
    ) -> Result<HttpResponse, PluginError>;

    /// As [`Host::http_send`], for an answer that holds secrets: what stands at the JSON pointers of `capture` is taken out
    /// of the body wherever it occurs, and returned as secrets, none where nothing stood. A body that is no JSON is left
    /// out altogether.
    ///
    /// # Errors
    /// As [`Host::http_send`].
    fn http_capture(
        &self,
        request: &HttpRequest,
        auth: Option<&Credential>,
        capture: &[&str],
    ) -> Result<(HttpResponse, Vec<Option<Secret>>), PluginError>;

    /// References of a repository whose full names start with one of `prefixes`.
    ///
    /// # Errors
    /// `denied` outside the grants or by the server, `unavailable` if it cannot be reached.
    fn git_refs(
        &self,
        url: &str,
        prefixes: &[&str],
        auth: Option<&Credential>,
    ) -> Result<Vec<GitRef>, PluginError>;

    /// # Errors
    /// Only [`PluginError::Ask`].
    fn cache_get(&self, key: &str) -> Result<Option<Value>, PluginError>;

    fn cache_put(&self, key: &str, value: &Value, ttl_ms: u64);

    /// A secret that was put under `key` by whoever held the same `origin`.
    ///
    /// # Errors
    /// Only [`PluginError::Ask`].
    fn cache_get_secret(&self, key: &str, origin: &Secret) -> Result<Option<Secret>, PluginError>;

    /// Keeps a secret for those who hold `origin`, the secret that it was obtained with. 0 forgets it.
    fn cache_put_secret(&self, key: &str, origin: &Secret, value: &Secret, ttl_ms: u64);
}

/// Which secret it is. Names travel in questions and transcripts; values never do.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", tag = "secret")]
pub enum SecretName {
    /// The reference at a JSON pointer of the object under work.
    At { pointer: String },
    /// A key of the Secret whose name stands at a JSON pointer.
    KeyAt { pointer: String, key: String },
    /// The n-th value that the plugin sealed in this call.
    Sealed { index: u32 },
    /// The n-th value that the plugin derived, signed or joined in this call.
    Made { index: u32 },
    /// What stood at a JSON pointer of the answer to the n-th capturing request of this call.
    Captured { exchange: u32, pointer: String },
    /// A secret of the cache, by its key and what it was obtained with.
    Cached {
        key: String,
        origin: Box<SecretName>,
    },
}

/// A secret that can be spent in a [`Credential`] and not read.
#[derive(Clone, Debug)]
pub struct Secret {
    pub(crate) name: SecretName,
    #[cfg(target_arch = "wasm32")]
    pub(crate) handle: std::rc::Rc<crate::guest::imports::windlass::plugin::credentials::Secret>,
}

impl Secret {
    /// A secret by name, for hosts that run plugins natively.
    #[cfg(not(target_arch = "wasm32"))]
    pub fn named(name: SecretName) -> Self {
        Secret { name }
    }

    pub fn name(&self) -> &SecretName {
        &self.name
    }
}

// Serialised by name alone.
impl Serialize for Secret {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.name.serialize(serializer)
    }
}

#[cfg(not(target_arch = "wasm32"))]
impl<'de> Deserialize<'de> for Secret {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Secret {
            name: SecretName::deserialize(deserializer)?,
        })
    }
}

// A handle is made by the host alone; data that claims to be one is refused.
#[cfg(target_arch = "wasm32")]
impl<'de> Deserialize<'de> for Secret {
    fn deserialize<D: serde::Deserializer<'de>>(_: D) -> Result<Self, D::Error> {
        Err(serde::de::Error::custom(
            "a secret cannot be made from data",
        ))
    }
}

impl PartialEq for Secret {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

/// What a request is authenticated with.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(
    rename_all = "camelCase",
    rename_all_fields = "camelCase",
    tag = "type"
)]
pub enum Credential {
    Basic {
        username: Secret,
        password: Secret,
    },
    Bearer {
        token: Secret,
    },
    Header {
        name: String,
        value: Secret,
    },
    /// For `ssh:` URLs of repositories.
    SshKey {
        private_key: Secret,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        passphrase: Option<Secret>,
        /// Lines of a known_hosts file that hold beside the administrator's.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        known_hosts: Option<Secret>,
    },
}
