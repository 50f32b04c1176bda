//! What is kept of an evaluation.

use serde::{Deserialize, Serialize};

use crate::error::Fault;
use crate::host::Level;
use crate::question::{Answer, Question};

/// One question with its answer. Secrets stand in it by name only.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Asked {
    pub question: Question,
    pub answer: Result<Answer, Fault>,
}

/// One line that a plugin logged.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LogLine {
    pub level: Level,
    pub message: String,
}
