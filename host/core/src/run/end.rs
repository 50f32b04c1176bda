//! Ends of runs.

use windlass_api::conditions::update_reason;
use windlass_api::intent::{RunRecord, RunSummary};
use windlass_api::run::RunState;

use super::Ours;
use crate::decide::Live;
use crate::decision::{UpdateOutcome, Write};
use crate::failure::{Failure, FailureClass};
use crate::time::Timestamp;

/// Ends an Update that never started.
pub(crate) fn finish_unrun(live: &mut Live<'_>, update: String, failure: Failure) {
    let summary = never_ran(live.s.now, failure);
    ended(live, update, summary);
}

pub(super) fn finish(live: &mut Live<'_>, update: Ours<'_>, summary: RunSummary) {
    ended(live, update.name.to_owned(), summary);
}

fn ended(live: &mut Live<'_>, update: String, summary: RunSummary) {
    let outcome = UpdateOutcome::Ended { summary };
    live.draft
        .finish_update
        .push(Write::FinishUpdate { update, outcome });
}

/// The end of a run that no agent has begun.
pub(super) fn never_ran(now: Timestamp, failure: Failure) -> RunSummary {
    let Failure {
        class,
        reason,
        message,
    } = failure;
    RunSummary {
        state: match class {
            FailureClass::Cancelled => RunState::Cancelled,
            _ => RunState::Failed,
        },
        class: Some(class.as_str().to_owned()),
        reason: Some(reason),
        message,
        changes: Default::default(),
        resources: None,
        outputs: None,
        permalink: None,
        project: None,
        reached_engine: false,
        stale_locks: Vec::new(),
        started_at_ms: now.0,
        ended_at_ms: now.0,
    }
}

pub(super) fn lost_summary(now: Timestamp, started: &RunRecord, message: &str) -> RunSummary {
    RunSummary {
        state: RunState::Lost,
        class: Some(FailureClass::Lost.as_str().to_owned()),
        reason: Some(update_reason::WORKSPACE_LOST.to_owned()),
        message: message.to_owned(),
        changes: Default::default(),
        resources: None,
        outputs: None,
        permalink: None,
        project: None,
        // It may have been.
        reached_engine: true,
        stale_locks: Vec::new(),
        started_at_ms: started.at_ms,
        ended_at_ms: now.0,
    }
}
