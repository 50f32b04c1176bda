//! How a plugin says no.

use serde::{Deserialize, Serialize};

use crate::question::Question;

/// What kind of trouble it is; decides alone whether and when the host tries again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ErrorClass {
    /// The spec is wrong; waits for an edit.
    Invalid,
    /// Something that is named does not exist (yet).
    NotFound,
    /// Refused by a policy or by the other side.
    Denied,
    /// Somebody else holds it.
    Conflict,
    /// May work later without an edit.
    Unavailable,
    /// The plugin's or the host's own fault.
    Internal,
}

/// A refusal with its class, a public reason (CamelCase) and a message for a person.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
#[error("{reason}: {message}")]
#[serde(rename_all = "camelCase")]
pub struct Fault {
    pub class: ErrorClass,
    /// Becomes the reason of a condition.
    pub reason: String,
    /// Must not hold secrets.
    pub message: String,
    /// Hint for `unavailable`: milliseconds until another try makes sense.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after_ms: Option<u64>,
}

/// Why a call ended without a result.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum PluginError {
    /// A question has no answer yet. Only seen natively: in a component the host ends the call itself.
    #[error("waits for an answer")]
    Ask(Box<Question>),
    #[error(transparent)]
    Fault(#[from] Fault),
}

impl PluginError {
    pub fn new(class: ErrorClass, reason: &str, message: impl Into<String>) -> Self {
        PluginError::Fault(Fault {
            class,
            reason: reason.into(),
            message: message.into(),
            retry_after_ms: None,
        })
    }

    /// The spec is wrong; waits for an edit.
    pub fn invalid(reason: &str, message: impl Into<String>) -> Self {
        Self::new(ErrorClass::Invalid, reason, message)
    }

    /// May work later without an edit.
    pub fn unavailable(reason: &str, message: impl Into<String>) -> Self {
        Self::new(ErrorClass::Unavailable, reason, message)
    }
}

impl From<serde_json::Error> for PluginError {
    fn from(error: serde_json::Error) -> Self {
        PluginError::invalid("SpecInvalid", error.to_string())
    }
}
