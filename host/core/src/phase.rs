//! What a Stack is doing, and the one place where that becomes conditions.
//!
//! The catalogue of reasons is the Pulumi Kubernetes Operator's. `Reconciling` and `Stalled` exclude each other and are
//! absent instead of False; a failure that may pass by itself is never Stalled.

use serde::{Deserialize, Serialize};
use windlass_api::Condition;
use windlass_api::conditions::{self, READY, RECONCILING, STALLED, stack_reason as reasons};

use crate::failure::FailureClass;
use windlass_api::run::Operation;

/// Reason of Ready=False while `spec.suspend` is set. Not in the catalogue of the Pulumi Kubernetes Operator, which
/// cannot suspend.
pub const SUSPENDED: &str = "Suspended";

/// The state of a Stack that people and Argo CD see.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "phase", rename_all = "camelCase")]
pub enum Phase {
    /// The last run is what is asked for.
    Ready,
    /// On its way.
    Processing { message: String },
    /// Waits for other Stacks.
    PrerequisiteNotSatisfied { message: String },
    /// All is deployed; objects of `spec.healthChecks` are not healthy.
    Unhealthy { message: String },
    /// The last run failed and is tried again.
    Retrying {
        operation: Operation,
        failures: i64,
        class: FailureClass,
        message: String,
    },
    /// The source does not answer; asked again.
    SourceUnavailable { message: String },
    /// `spec.suspend` is set.
    Suspended,
    /// Will not go on without somebody's help.
    Stalled {
        reason: StallReason,
        message: String,
    },
}

/// Reasons of the condition Stalled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum StallReason {
    SpecInvalid,
    PulumiVersionTooLow,
    WorkspaceFailed,
    UpdateFailed,
    NamespaceTerminating,
}

impl StallReason {
    const ALL: [StallReason; 5] = [
        StallReason::SpecInvalid,
        StallReason::PulumiVersionTooLow,
        StallReason::WorkspaceFailed,
        StallReason::UpdateFailed,
        StallReason::NamespaceTerminating,
    ];

    pub fn as_str(self) -> &'static str {
        match self {
            StallReason::SpecInvalid => reasons::SPEC_INVALID,
            StallReason::PulumiVersionTooLow => reasons::PULUMI_VERSION_TOO_LOW,
            StallReason::WorkspaceFailed => reasons::WORKSPACE_FAILED,
            StallReason::UpdateFailed => reasons::UPDATE_FAILED,
            StallReason::NamespaceTerminating => reasons::NAMESPACE_TERMINATING,
        }
    }
}

impl Phase {
    pub fn processing(message: impl Into<String>) -> Phase {
        Phase::Processing {
            message: message.into(),
        }
    }

    pub fn stalled(reason: StallReason, message: impl Into<String>) -> Phase {
        Phase::Stalled {
            reason,
            message: message.into(),
        }
    }

    /// Reads a phase back from the conditions that it once became. None where they do not tell all of it.
    pub fn read(stored: &[Condition]) -> Option<Phase> {
        let of = |type_| conditions::get(stored, type_).filter(|c| c.status == conditions::TRUE);
        if let Some(stalled) = of(STALLED) {
            let reason = StallReason::ALL
                .into_iter()
                .find(|reason| reason.as_str() == stalled.reason)?;
            return Some(Phase::stalled(reason, stalled.message.clone()));
        }
        let Some(reconciling) = of(RECONCILING) else {
            let ready = conditions::get(stored, READY)?;
            return match ready.reason.as_str() {
                SUSPENDED => Some(Phase::Suspended),
                reasons::PROCESSING_COMPLETED => Some(Phase::Ready),
                _ => None,
            };
        };
        let message = reconciling.message.clone();
        match reconciling.reason.as_str() {
            reasons::STACK_PROCESSING => Some(Phase::Processing { message }),
            reasons::PREREQUISITE_NOT_SATISFIED => {
                Some(Phase::PrerequisiteNotSatisfied { message })
            }
            reasons::SOURCE_UNAVAILABLE => Some(Phase::SourceUnavailable { message }),
            reasons::UNHEALTHY => Some(Phase::Unhealthy { message }),
            // The counts and the class of a failure are in lastUpdate.
            _ => None,
        }
    }

    /// The conditions of this phase; those that it does not name are absent. Transition times are the caller's.
    pub fn conditions(&self) -> Vec<Wanted> {
        let reconciling = |reason, message: &str| {
            vec![
                Wanted::new(
                    READY,
                    false,
                    reasons::NOT_READY_IN_PROGRESS,
                    "reconciliation is in progress",
                ),
                Wanted::new(RECONCILING, true, reason, message),
            ]
        };
        match self {
            Phase::Ready => vec![Wanted::new(
                READY,
                true,
                reasons::PROCESSING_COMPLETED,
                "the stack has been processed and is up to date",
            )],
            Phase::Processing { message } => reconciling(reasons::STACK_PROCESSING, message),
            Phase::PrerequisiteNotSatisfied { message } => {
                reconciling(reasons::PREREQUISITE_NOT_SATISFIED, message)
            }
            Phase::Unhealthy { message } => reconciling(reasons::UNHEALTHY, message),
            Phase::Retrying {
                operation: Operation::Preview,
                failures,
                message,
                ..
            } => reconciling(
                reasons::PREVIEW_FAILED,
                &with_cause(format!("preview failed ({failures} attempt(s))"), message),
            ),
            Phase::Retrying {
                failures, message, ..
            } => reconciling(
                reasons::RETRYING_AFTER_FAILURE,
                &with_cause(format!("{failures} update failure(s)"), message),
            ),
            Phase::SourceUnavailable { message } => {
                reconciling(reasons::SOURCE_UNAVAILABLE, message)
            }
            Phase::Suspended => {
                vec![Wanted::new(
                    READY,
                    false,
                    SUSPENDED,
                    "reconciliation is suspended (spec.suspend)",
                )]
            }
            Phase::Stalled { reason, message } => vec![
                Wanted::new(
                    READY,
                    false,
                    reasons::NOT_READY_STALLED,
                    "reconciliation is stalled",
                ),
                Wanted::new(STALLED, true, reason.as_str(), message),
            ],
        }
    }
}

/// A condition as a phase wants it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wanted {
    pub type_: &'static str,
    pub status: bool,
    pub reason: &'static str,
    pub message: String,
}

impl Wanted {
    fn new(
        type_: &'static str,
        status: bool,
        reason: &'static str,
        message: impl Into<String>,
    ) -> Wanted {
        Wanted {
            type_,
            status,
            reason,
            message: message.into(),
        }
    }
}

fn with_cause(text: String, cause: &str) -> String {
    if cause.is_empty() {
        text
    } else {
        format!("{text}: {cause}")
    }
}
