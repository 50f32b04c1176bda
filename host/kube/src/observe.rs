//! What the engine's steps show: logs for people and programs, with the Stack, the Update and the revision on each line,
//! and counts.

use windlass_api::conditions::{READY, RECONCILING, STALLED, TRUE, get};
use windlass_api::run::RunState;
use windlass_api::stack::StackStatus;
use windlass_core::Decision;
use windlass_core::decision::{UpdateOutcome, Write};
use windlass_core::snapshot::Snapshot;
use windlass_engine::{Key, Observer, StoreError};

use crate::clock;
use crate::metrics::Counters;

/// Logs and counts steps.
pub struct Steps {
    pub counters: Counters,
}

/// The revision that an Update of this step runs.
fn revision<'a>(snapshot: &'a Snapshot, name: &str) -> Option<&'a str> {
    let updates = &snapshot.objects.updates;
    let update = updates
        .iter()
        .find(|update| update.metadata.name.as_deref() == Some(name))?;
    let run = || update.status.as_ref()?.run.as_ref()?.intent.as_deref();
    let intent = update.spec.intent.as_ref().or_else(run)?;
    Some(&intent.revision)
}

fn ended(key: &Key, update: &str, revision: Option<&str>, outcome: &UpdateOutcome) {
    let UpdateOutcome::Ended { summary } = outcome else {
        tracing::info!(stack = %key, update, revision, "the run is superseded before it began");
        return;
    };
    let milliseconds = summary.ended_at_ms - summary.started_at_ms;
    if summary.state == RunState::Succeeded {
        tracing::info!(stack = %key, update, revision, outcome = "succeeded", milliseconds, "the run has ended");
    } else {
        tracing::warn!(
            stack = %key, update, revision, outcome = ?summary.state, reason = summary.reason,
            said = summary.message, milliseconds, "the run has ended"
        );
    }
}

/// What a Stack says of itself, where that is another thing than before.
fn said(key: &Key, snapshot: &Snapshot, now: &StackStatus) {
    let before = snapshot.objects.stack.as_ref();
    let before = before.and_then(|stack| stack.status.as_ref());
    for type_ in [STALLED, RECONCILING, READY] {
        let Some(new) = get(&now.conditions, type_).filter(|it| it.status == TRUE) else {
            continue;
        };
        let old = before.and_then(|status| get(&status.conditions, type_));
        if old.is_some_and(|old| old.status == TRUE && old.reason == new.reason) {
            return;
        }
        let revision = now
            .last_update
            .as_ref()
            .and_then(|last| last.last_attempted_commit.as_deref());
        let update = now
            .current_update
            .as_ref()
            .and_then(|it| it.name.as_deref());
        let reason = new.reason.as_str();
        if type_ == STALLED {
            tracing::warn!(stack = %key, update, revision, reason, said = new.message, "stalled");
        } else {
            tracing::info!(stack = %key, update, revision, reason, said = new.message, "status");
        }
        return;
    }
}

impl Observer for Steps {
    fn stepped(&self, key: &Key, snapshot: &Snapshot, decision: &Decision) {
        let result = match decision.wake_at {
            Some(_) => "requeue_after",
            None => "success",
        };
        self.counters.stepped(result, clock().since(snapshot.now));
        for write in &decision.writes {
            match write {
                Write::CreateUpdate {
                    name,
                    operation,
                    intent,
                } => tracing::info!(
                    stack = %key,
                    update = name,
                    revision = intent.revision,
                    %operation,
                    cause = intent.cause.message(),
                    "asking for a run"
                ),
                Write::RecordStart { update, record } => {
                    let by_hand = record
                        .intent
                        .as_ref()
                        .map(|intent| intent.revision.as_str());
                    let revision = by_hand.or(revision(snapshot, update));
                    tracing::info!(
                        stack = %key, update, revision, pod = record.instance, node = record.node,
                        "starting the run"
                    );
                }
                Write::FinishUpdate { update, outcome } => {
                    ended(key, update, revision(snapshot, update), outcome);
                }
                Write::PutStatus { status } => said(key, snapshot, status),
                Write::RemoveFinalizer => tracing::info!(stack = %key, "letting the Stack go"),
                Write::EnsureWorkspace { .. } => {
                    tracing::info!(stack = %key, "making the workspace");
                }
                Write::StopWorkspace { uid } => {
                    tracing::info!(stack = %key, pod = uid, "ending the workspace's pod");
                }
                _ => {}
            }
        }
        tracing::debug!(
            stack = %key,
            writes = decision.writes.len(),
            tasks = decision.tasks.len(),
            activity = ?decision.activity,
            deleting = snapshot
                .objects
                .stack
                .as_ref()
                .is_some_and(|stack| stack.metadata.deletion_timestamp.is_some()),
            "looked"
        );
    }

    fn store_failed(&self, key: &Key, error: &StoreError) {
        self.counters.step_failed();
        tracing::warn!(stack = %key, %error, "the store");
    }
}
