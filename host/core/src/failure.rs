//! Kinds of failure. The class alone decides about retries and about Stalled.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// What a failure is caused by, and so who can end it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FailureClass {
    /// The user's program or its resources.
    Program,
    /// The user's rules (a policy pack, a plan, a guard).
    Policy,
    /// Something outside that does not answer, refuses or lacks what is asked for; it may come back.
    Unavailable,
    /// Someone else works on the stack.
    Conflict,
    /// The run or its workspace was lost; what it did is unknown.
    Lost,
    /// The request itself is wrong: only an edit helps.
    Invalid,
    /// Ended on a person's request.
    Cancelled,
}

impl FailureClass {
    /// The word used in status fields and metric labels.
    pub fn as_str(self) -> &'static str {
        match self {
            FailureClass::Program => "program",
            FailureClass::Policy => "policy",
            FailureClass::Unavailable => "unavailable",
            FailureClass::Conflict => "conflict",
            FailureClass::Lost => "lost",
            FailureClass::Invalid => "invalid",
            FailureClass::Cancelled => "cancelled",
        }
    }

    /// Reads the word back. Unknown words (and objects of the Pulumi Kubernetes Operator, which have none) are
    /// failures of the program.
    pub fn parse(word: Option<&str>) -> FailureClass {
        match word {
            Some("policy") => FailureClass::Policy,
            Some("unavailable") => FailureClass::Unavailable,
            Some("conflict") => FailureClass::Conflict,
            Some("lost") => FailureClass::Lost,
            Some("invalid") => FailureClass::Invalid,
            Some("cancelled") => FailureClass::Cancelled,
            _ => FailureClass::Program,
        }
    }

    /// Whether time alone can help.
    pub fn retries(self) -> bool {
        !matches!(self, FailureClass::Invalid | FailureClass::Cancelled)
    }

    /// Whether repeated failures become Stalled: only what the user's own code or rules cause.
    pub fn stalls(self) -> bool {
        matches!(self, FailureClass::Program | FailureClass::Policy)
    }

    /// Delay before the second attempt.
    pub fn first_delay(self) -> Duration {
        match self {
            // The workspace is gone or the lock is known to be stale: nothing to wait for.
            FailureClass::Lost | FailureClass::Conflict => Duration::from_secs(1),
            _ => Duration::from_secs(10),
        }
    }

    /// The longest delay between two attempts, unless the Stack says otherwise.
    pub fn cap(self) -> Duration {
        match self {
            FailureClass::Program | FailureClass::Policy => Duration::from_secs(3600),
            _ => Duration::from_secs(600),
        }
    }
}

/// How something failed: the class for decisions, the rest for people.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    pub class: FailureClass,
    /// CamelCase, stable.
    pub reason: String,
    /// What is wrong, where, and what to do. Never a secret, never a clock time.
    pub message: String,
}

impl Failure {
    pub fn new(
        class: FailureClass,
        reason: impl Into<String>,
        message: impl Into<String>,
    ) -> Failure {
        Failure {
            class,
            reason: reason.into(),
            message: message.into(),
        }
    }
}
