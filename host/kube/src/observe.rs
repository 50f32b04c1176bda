//! What the engine's steps show: logs for people and programs, with the Stack, the Update and the revision on each line,
//! and counts.

use windlass_core::Decision;
use windlass_core::decision::Write;
use windlass_core::snapshot::Snapshot;
use windlass_engine::{Key, Observer, StoreError};

use crate::clock;
use crate::metrics::Counters;

/// Logs and counts steps.
pub struct Steps {
    pub counters: Counters,
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
                Write::RecordStart { update, record } => tracing::info!(
                    stack = %key, update, pod = record.instance, "starting the run"
                ),
                Write::FinishUpdate { update, .. } => {
                    tracing::info!(stack = %key, update, "the run has ended");
                }
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
