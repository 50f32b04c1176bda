//! What can be asked of a plugin, and what it answers.

use serde::{Deserialize, Serialize};
use windlass_sdk::{
    Descriptor, Failure, FieldError, Health, LockVerdict, ObjectRef, Resolution, Session,
};

/// One call of an exported function, its arguments as JSON text.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", tag = "function")]
pub enum Call {
    Describe,
    Validate {
        #[serde(with = "embedded")]
        spec: String,
    },
    Watches {
        #[serde(with = "embedded")]
        spec: String,
    },
    Resolve {
        #[serde(with = "embedded")]
        request: String,
    },
    Open {
        #[serde(with = "embedded")]
        request: String,
    },
    Classify {
        #[serde(with = "embedded")]
        outcome: String,
    },
    StaleLock {
        #[serde(with = "embedded")]
        locks: String,
        #[serde(with = "embedded")]
        holders: String,
    },
    Assess {
        #[serde(with = "embedded")]
        object: String,
        #[serde(with = "embedded")]
        context: String,
    },
}

impl Call {
    /// The exported function's name, as the contract has it.
    pub fn function(&self) -> &'static str {
        match self {
            Call::Describe => "describe",
            Call::Validate { .. } => "validate",
            Call::Watches { .. } => "watches",
            Call::Resolve { .. } => "resolve",
            Call::Open { .. } => "open",
            Call::Classify { .. } => "classify",
            Call::StaleLock { .. } => "stale-lock",
            Call::Assess { .. } => "assess",
        }
    }
}

/// What the function returned. Secrets in it are names.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Output {
    Descriptor(Box<Descriptor>),
    FieldErrors(Vec<FieldError>),
    Objects(Vec<ObjectRef>),
    Resolution(Resolution),
    Session(Session),
    Failure(Failure),
    LockVerdict(LockVerdict),
    Health(Health),
}

/// JSON text that reads as JSON where it is written down.
mod embedded {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};
    use serde_json::Value;

    pub fn serialize<S: Serializer>(text: &str, serializer: S) -> Result<S::Ok, S::Error> {
        let value: Value = serde_json::from_str(text).map_err(serde::ser::Error::custom)?;
        value.serialize(serializer)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
        Ok(Value::deserialize(deserializer)?.to_string())
    }
}
