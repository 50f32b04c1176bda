//! Why a run failed, and which locks it may leave to the next one: the backend adapter's judgement.

use windlass_api::Stack;
use windlass_api::run::{FailureEvidence, InterruptCause, RunState};
use windlass_core::failure::{Failure, FailureClass};
use windlass_engine::TaskInput;
use windlass_sdk::{LockVerdict, Outcome, ReportedLock};

use crate::failures::failure_class;
use crate::place::Place;
use crate::tasks::{PlaceTasks, work};

impl<P: Place> PlaceTasks<P> {
    pub(crate) async fn judge(
        &self,
        input: &TaskInput,
        stack: &Stack,
        state: RunState,
        evidence: &FailureEvidence,
        message: &str,
    ) -> Failure {
        match (state, evidence.interrupted) {
            (_, Some(InterruptCause::Cancelled)) => {
                return Failure::new(FailureClass::Cancelled, "Cancelled", "cancelled on request");
            }
            (_, Some(InterruptCause::AgentStopping)) | (RunState::Lost, _) => {
                let text = if message.is_empty() {
                    "the run was cut off"
                } else {
                    message
                };
                return Failure::new(FailureClass::Lost, "RunLost", text);
            }
            (_, Some(InterruptCause::DeadlineExceeded)) => {
                let text = "interrupted at the deadline (spec.timeoutSeconds)";
                return Failure::new(FailureClass::Program, "DeadlineExceeded", text);
            }
            _ => {}
        }
        if let Some(reason) = &evidence.reason
            && let Some(class) = before_the_cli(reason)
        {
            return Failure::new(class, reason.clone(), message);
        }
        let outcome = outcome(evidence);
        let url = match self.place.backend_url(stack).await {
            Ok(url) => url,
            Err(failure) => return failure,
        };
        match self
            .plugins
            .classify(&url, &outcome, &work(input, stack))
            .await
            .result
        {
            Ok(failure) => Failure::new(
                failure_class(&failure.class),
                failure.reason,
                failure.message,
            ),
            Err(error) => {
                tracing::warn!(key = %input.key, %error, "the backend adapter could not judge a failure");
                Failure::new(FailureClass::Program, "UpdateFailed", message)
            }
        }
    }

    /// Locks that nobody alive holds, in the backend adapter's judgement.
    pub(crate) async fn stale_locks(
        &self,
        input: &TaskInput,
        stack: &Stack,
        evidence: &FailureEvidence,
    ) -> Vec<String> {
        if evidence.locks.is_empty() {
            return Vec::new();
        }
        let locks: Vec<ReportedLock> = reported(evidence);
        let holders = self.place.holders(input, &evidence.locks).await;
        let Ok(url) = self.place.backend_url(stack).await else {
            return Vec::new();
        };
        match self
            .plugins
            .stale_lock(&url, &locks, &holders, &work(input, stack))
            .await
            .result
        {
            Ok(LockVerdict::Release) => locks.into_iter().map(|lock| lock.id).collect(),
            Ok(LockVerdict::Keep) | Err(_) => Vec::new(),
        }
    }
}

/// What the agent alone can see, because it happened before the CLI ran. None: the CLI has more to say.
fn before_the_cli(reason: &str) -> Option<FailureClass> {
    Some(match reason {
        // Cut off before it began: another run does it.
        "AgentRestarted" | "TreeMissing" => FailureClass::Lost,
        "CancelledBefore" => FailureClass::Cancelled,
        // A tool or a file of the workspace, which may be put in place without an edit of the Stack.
        "PulumiMissing"
        | "PulumiVersionTooLow"
        | "PulumiUnusable"
        | "ConfigFileMissing"
        | "ConfigFileUnreadable"
        | "ConfigEnvMissing"
        | "LoginTokenMissing"
        | "LoginRefused"
        | "LoginUnavailable"
        | "StateDirUnusable"
        | "SecretsUnreadable" => FailureClass::Unavailable,
        "ConfigFileTooLarge" | "ConfigFileOutside" | "ConfigNotText" | "ConfigNotJson"
        | "ConfigPathInvalid" | "LoginInvalid" | "DirOutside" | "ProjectMissing"
        | "ProjectInvalid" | "SettingsInvalid" => FailureClass::Invalid,
        _ => return None,
    })
}

fn outcome(evidence: &FailureEvidence) -> Outcome {
    // The same fields under the same names; what the contract does not know is left out.
    serde_json::to_value(evidence)
        .and_then(serde_json::from_value)
        .unwrap_or_default()
}

fn reported(evidence: &FailureEvidence) -> Vec<ReportedLock> {
    outcome(evidence).locks
}
