//! Condition types and reasons, and setting them as Kubernetes expects: the time of transition moves only with the
//! status.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};

pub const TRUE: &str = "True";
pub const FALSE: &str = "False";
pub const UNKNOWN: &str = "Unknown";

/// Condition types of a Stack. Reconciling and Stalled exclude each other and are removed, never set to False.
pub const READY: &str = "Ready";
pub const RECONCILING: &str = "Reconciling";
pub const STALLED: &str = "Stalled";

/// Condition types of an Update.
pub const PROGRESSING: &str = "Progressing";
pub const FAILED: &str = "Failed";
pub const COMPLETE: &str = "Complete";

/// Reasons of a Stack's conditions.
pub mod stack_reason {
    // Ready=False
    pub const NOT_READY_IN_PROGRESS: &str = "NotReadyInProgress";
    pub const NOT_READY_STALLED: &str = "NotReadyStalled";
    // Ready=True
    pub const PROCESSING_COMPLETED: &str = "ProcessingCompleted";
    // Reconciling=True
    pub const STACK_PROCESSING: &str = "StackProcessing";
    pub const RETRYING_AFTER_FAILURE: &str = "RetryingAfterFailure";
    pub const PREVIEW_FAILED: &str = "PreviewFailed";
    pub const PREREQUISITE_NOT_SATISFIED: &str = "PrerequisiteNotSatisfied";
    /// An addition: `spec.healthChecks`.
    pub const UNHEALTHY: &str = "Unhealthy";
    // Stalled=True
    pub const SPEC_INVALID: &str = "SpecInvalid";
    pub const SOURCE_UNAVAILABLE: &str = "SourceUnavailable";
    pub const PULUMI_VERSION_TOO_LOW: &str = "PulumiVersionTooLow";
    pub const WORKSPACE_FAILED: &str = "WorkspaceFailed";
    pub const UPDATE_FAILED: &str = "UpdateFailed";
    pub const UPDATE_CONFLICT: &str = "UpdateConflict";
    pub const NAMESPACE_TERMINATING: &str = "NamespaceTerminating";
}

/// Reasons of a Workspace's conditions.
pub mod workspace_reason {
    pub const SUCCEEDED: &str = "Succeeded";
    pub const INSTALLING: &str = "Installing";
    pub const INITIALIZING: &str = "Initializing";
    pub const ROLLING_UPDATE: &str = "RollingUpdate";
    pub const WAITING_FOR_REPLICAS: &str = "WaitingForReplicas";
    pub const CONNECTION_FAILED: &str = "ConnectionFailed";
    pub const INSTALLATION_FAILED: &str = "InstallationFailed";
    pub const INITIALIZATION_FAILED: &str = "InitializationFailed";
    pub const INCOMPATIBLE_CONFIGURATION: &str = "IncompatibleConfiguration";
    pub const DELETING: &str = "Deleting";
}

/// Reasons of an Update's conditions.
pub mod update_reason {
    pub const PROGRESSING: &str = "Progressing";
    pub const COMPLETE: &str = "Complete";
    pub const UPDATED: &str = "Updated";
    pub const FAILED: &str = "Failed";
    pub const UPDATE_SUCCEEDED: &str = "UpdateSucceeded";
    pub const UPDATE_FAILED: &str = "UpdateFailed";
    pub const UPDATE_CONFLICT: &str = "UpdateConflict";
    pub const INVALID_ACCESS_TOKEN: &str = "InvalidAccessToken";
    pub const UNKNOWN: &str = "Unknown";
    pub const ABORTED: &str = "Aborted";
    pub const CANCELED: &str = "Canceled";
    pub const WORKSPACE_NOT_FOUND: &str = "WorkspaceNotFound";
    pub const WORKSPACE_NOT_READY: &str = "WorkspaceNotReady";
    pub const TRANSIENT_FAILURE: &str = "TransientFailure";
    /// Inputs changed before the run started; it never will.
    pub const SUPERSEDED: &str = "Superseded";
    /// The pod that ran it is gone for good.
    pub const WORKSPACE_LOST: &str = "WorkspaceLost";
}

/// The condition of this type.
pub fn get<'a>(conditions: &'a [Condition], type_: &str) -> Option<&'a Condition> {
    conditions.iter().find(|c| c.type_ == type_)
}

/// Whether the condition of this type is there and True.
pub fn is_true(conditions: &[Condition], type_: &str) -> bool {
    get(conditions, type_).is_some_and(|c| c.status == TRUE)
}

/// What a condition is to say. `observed_generation` stays away from Stack conditions, as in PKO.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewCondition<'a> {
    pub type_: &'a str,
    pub status: &'a str,
    pub reason: &'a str,
    pub message: &'a str,
    pub observed_generation: Option<i64>,
}

/// Sets a condition. Its transition time becomes `now` only if its status changes or it is new. Answers whether
/// anything changed.
pub fn set(conditions: &mut Vec<Condition>, new: &NewCondition<'_>, now: &Time) -> bool {
    let NewCondition {
        type_,
        status,
        reason,
        message,
        observed_generation,
    } = *new;
    let mut wanted = Condition {
        type_: type_.to_owned(),
        status: status.to_owned(),
        reason: reason.to_owned(),
        message: message.to_owned(),
        observed_generation,
        last_transition_time: now.clone(),
    };
    match conditions.iter_mut().find(|c| c.type_ == type_) {
        Some(old) => {
            if old.status == wanted.status {
                wanted.last_transition_time = old.last_transition_time.clone();
            }
            let changed = *old != wanted;
            *old = wanted;
            changed
        }
        None => {
            conditions.push(wanted);
            true
        }
    }
}

/// Removes the condition of this type. Answers whether it was there.
pub fn remove(conditions: &mut Vec<Condition>, type_: &str) -> bool {
    let before = conditions.len();
    conditions.retain(|c| c.type_ != type_);
    before != conditions.len()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn at(text: &str) -> Time {
        Time(text.parse().unwrap())
    }

    fn ready<'a>(status: &'a str, message: &'a str) -> NewCondition<'a> {
        NewCondition {
            type_: READY,
            status,
            reason: "R",
            message,
            observed_generation: None,
        }
    }

    #[test]
    fn the_transition_time_moves_with_the_status_only() {
        let mut conditions = Vec::new();
        let (t0, t1, t2) = (
            at("2026-01-01T00:00:00Z"),
            at("2026-01-01T00:01:00Z"),
            at("2026-01-01T00:02:00Z"),
        );
        assert!(set(&mut conditions, &ready(FALSE, "a"), &t0));
        assert!(
            !set(&mut conditions, &ready(FALSE, "a"), &t1),
            "nothing changed"
        );
        assert!(
            set(&mut conditions, &ready(FALSE, "b"), &t1),
            "the message did"
        );
        assert_eq!(get(&conditions, READY).unwrap().last_transition_time, t0);
        assert!(set(&mut conditions, &ready(TRUE, "b"), &t2));
        assert_eq!(get(&conditions, READY).unwrap().last_transition_time, t2);
        assert!(is_true(&conditions, READY));
        assert!(remove(&mut conditions, READY));
        assert!(!remove(&mut conditions, READY));
    }
}
