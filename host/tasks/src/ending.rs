//! The end of a run: judged, its outputs held until they are kept, the rest told in few words.

use std::sync::atomic::Ordering;

use serde_json::Value;
use windlass_api::Stack;
use windlass_api::intent::RunSummary;
use windlass_api::run::{RunResult, RunState};
use windlass_core::snapshot::RunEnd;
use windlass_engine::TaskInput;

use crate::fitting;
use crate::place::Place;
use crate::tasks::PlaceTasks;

impl<P: Place> PlaceTasks<P> {
    /// What a run's end means: the backend adapter judges failures.
    pub(crate) async fn ended(
        &self,
        input: &TaskInput,
        stack: &Stack,
        update: &str,
        result: RunResult,
    ) -> RunEnd {
        self.ended_runs.fetch_add(1, Ordering::Relaxed);
        let RunResult {
            id: _,
            operation: _,
            state,
            started_at_ms,
            ended_at_ms,
            message,
            failure,
            mut outputs,
            changes,
            resources,
            permalink,
            project,
            reached_engine,
        } = result;
        let evidence = failure.unwrap_or_default();
        let (mut class, mut reason, mut text) = (None, None, message);
        let mut stale_locks = Vec::new();
        if state != RunState::Succeeded {
            let judged = self.judge(input, stack, state, &evidence, &text).await;
            class = Some(judged.class.as_str().to_owned());
            reason = Some(judged.reason);
            text = judged.message;
            stale_locks = self.stale_locks(input, stack, &evidence).await;
        }
        if let Some(left_out) = outputs.as_mut().and_then(fitting::fit) {
            text = if text.is_empty() {
                left_out
            } else {
                format!("{text}; {left_out}")
            };
        }
        let masked = outputs.as_ref().map(|outputs| {
            outputs
                .iter()
                .map(|(name, output)| {
                    let shown = if output.secret {
                        Value::String(windlass_api::names::MASKED_OUTPUT.to_owned())
                    } else {
                        output.value.clone()
                    };
                    (name.clone(), shown)
                })
                .collect()
        });
        let has_outputs = outputs.is_some();
        if let Some(outputs) = outputs {
            self.outputs.hold(update, outputs);
        }
        let summary = RunSummary {
            state,
            class,
            reason,
            message: text,
            changes,
            resources,
            outputs: masked,
            permalink,
            project,
            reached_engine,
            stale_locks,
            started_at_ms,
            ended_at_ms,
        };
        RunEnd {
            update: update.to_owned(),
            summary,
            has_outputs,
        }
    }
}
