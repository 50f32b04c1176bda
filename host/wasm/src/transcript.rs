//! The record of one evaluation: enough to run it again anywhere, and no secret in it.

use serde::ser::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use windlass_sdk::{Asked, ErrorClass, LogLine};

use crate::call::{Call, Output};
use crate::error::PluginError;
use crate::redact;

/// One evaluation. What is written down of it has no passwords either, where URLs hold some.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", remote = "Self")]
pub struct Transcript {
    pub plugin: String,
    /// `sha256:<hex>` of the component that ran.
    pub digest: String,
    pub namespace: String,
    pub call: Call,
    /// Milliseconds since the epoch; the guest's clock stood here.
    pub now_ms: u64,
    /// Questions and answers, in order.
    pub asked: Vec<Asked>,
    /// From the last round.
    #[serde(default)]
    pub logs: Vec<LogLine>,
    /// Standard output and error of a round that failed.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub output: String,
    pub result: Result<Output, Failed>,
}

impl Serialize for Transcript {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut value =
            Transcript::serialize(self, serde_json::value::Serializer).map_err(S::Error::custom)?;
        redact::passwords(&mut value);
        value.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Transcript {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Transcript::deserialize(deserializer)
    }
}

/// How an evaluation failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Failed {
    pub class: ErrorClass,
    pub reason: String,
    pub message: String,
}

impl From<&PluginError> for Failed {
    fn from(error: &PluginError) -> Self {
        Failed {
            class: error.class(),
            reason: error.reason().to_owned(),
            message: error.to_string(),
        }
    }
}
