//! What a Stack shows while it is busy, after a failure, and when it is given up.

use windlass_api::intent::Cause;
use windlass_api::run::Operation;

use crate::decide::Live;
use crate::failure::FailureClass;
use crate::names::{generation, reconcile_request};
use crate::phase::{Phase, StallReason};

/// From this many failures on a program's failure is Stalled.
const STALLED_FROM: i64 = 3;

impl Live<'_> {
    pub(crate) fn failures(&self) -> i64 {
        self.status
            .last_update
            .as_ref()
            .map_or(0, |last| last.failures.max(1))
    }

    /// The last run was for this very generation.
    pub(crate) fn observed(&self) -> bool {
        self.status.last_update.as_ref().is_some_and(|last| {
            last.generation == generation(self.stack)
                && last.reconcile_request.as_deref().unwrap_or_default()
                    == reconcile_request(self.stack).unwrap_or_default()
        })
    }

    /// The last run succeeded and was for this very generation: only its source can say otherwise.
    pub(crate) fn in_step(&self) -> bool {
        self.observed()
            && !self.deleting
            && self
                .status
                .last_update
                .as_ref()
                .is_some_and(|last| last.succeeded())
    }

    /// What a Stack shows while a run for this cause is under way. A resync leaves it Ready and a retry leaves the
    /// failure in sight: conditions do not flap.
    pub(crate) fn busy_phase(&self, cause: &Cause, message: &str) -> Phase {
        match cause {
            Cause::Resync if self.in_step() => Phase::Ready,
            Cause::Retry { .. } if self.status.last_update.is_some() => self.failed_phase(),
            _ => Phase::processing(message),
        }
    }

    pub(crate) fn failed_phase(&self) -> Phase {
        let Some(last) = &self.status.last_update else {
            return Phase::processing("stack is being processed");
        };
        let class = FailureClass::parse(last.failure_class.as_deref());
        let operation = last.operation().unwrap_or(Operation::Up);
        let message = last.message.clone().unwrap_or_default();
        let failures = last.failures.max(1);
        // Another CLI may be put in place without an edit, so it is tried again; until then it is what it is.
        match last.failure_reason.as_deref() {
            Some("PulumiVersionTooLow") => {
                return Phase::stalled(StallReason::PulumiVersionTooLow, message);
            }
            Some("PulumiMissing" | "PulumiUnusable") => {
                return Phase::stalled(StallReason::WorkspaceFailed, message);
            }
            _ => {}
        }
        if !class.retries() {
            return self.given_up_phase();
        }
        if class.stalls() && failures >= STALLED_FROM {
            // The number of failures is in lastUpdate; here it would change the condition at every attempt.
            let text = format!(
                "{operation} failed {STALLED_FROM} times or more; trying again ever more rarely"
            );
            return Phase::stalled(StallReason::UpdateFailed, join(text, &message));
        }
        Phase::Retrying {
            operation,
            failures,
            class,
            message,
        }
    }

    pub(crate) fn given_up_phase(&self) -> Phase {
        let Some(last) = &self.status.last_update else {
            return Phase::processing("stack is being processed");
        };
        let message = last.message.clone().unwrap_or_default();
        if last.failure_reason.as_deref() == Some(StallReason::PulumiVersionTooLow.as_str()) {
            return Phase::stalled(StallReason::PulumiVersionTooLow, message);
        }
        let operation = last.operation().unwrap_or(Operation::Up);
        let text = match FailureClass::parse(last.failure_class.as_deref()) {
            FailureClass::Invalid => {
                format!("{operation} was refused; not retrying until the spec or source changes")
            }
            FailureClass::Cancelled => {
                format!("{operation} was cancelled; not retrying until the spec or source changes")
            }
            _ => format!(
                "{operation} failed {} times; not retrying until the spec or source changes",
                last.failures.max(1)
            ),
        };
        Phase::stalled(StallReason::UpdateFailed, join(text, &message))
    }
}

fn join(text: String, detail: &str) -> String {
    if detail.is_empty() {
        text
    } else {
        format!("{text}: {detail}")
    }
}
