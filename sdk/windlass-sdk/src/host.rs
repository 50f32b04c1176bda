//! What a plugin implements, and what it may ask.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::error::PluginError;
use crate::question::{GitRef, HttpRequest, HttpResponse};
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

    /// Wraps what the plugin knows anyway.
    fn seal(&self, value: &[u8]) -> Secret;

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
#[serde(rename_all = "camelCase", tag = "type")]
pub enum Credential {
    Basic { username: Secret, password: Secret },
    Bearer { token: Secret },
    Header { name: String, value: Secret },
}
