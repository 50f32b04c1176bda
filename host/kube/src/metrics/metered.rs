//! Ports of the engine with their numbers counted: nothing else changes.

use std::sync::Arc;
use std::time::{Duration, Instant};

use windlass_api::Update;
use windlass_api::intent::RunSummary;
use windlass_api::run::RunState;
use windlass_core::decision::{TaskKind, UpdateOutcome, Write};
use windlass_core::failure::Failure;
use windlass_core::snapshot::Objects;
use windlass_engine::{Fence, Found, Key, Store, StoreError, TaskInput, Tasks};

use crate::metrics::counters::{
    ClassLabels, Counters, InFlightLabels, OperationLabels, RunLabels, TaskLabels,
};

/// A port, and where it is counted.
pub struct Metered<T> {
    pub inner: Arc<T>,
    pub counters: Counters,
}

impl<S: Store> Store for Metered<S> {
    async fn load(&self, key: &Key) -> Result<Objects, StoreError> {
        self.inner.load(key).await
    }

    async fn write(
        &self,
        key: &Key,
        write: &Write,
        objects: &Objects,
        fence: &mut Fence,
    ) -> Result<(), StoreError> {
        self.inner.write(key, write, objects, fence).await?;
        self.counters.wrote(write, objects);
        Ok(())
    }
}

impl<T: Tasks> Tasks for Metered<T> {
    async fn run(&self, input: TaskInput) -> Result<Found, Failure> {
        let task = match &input.kind {
            TaskKind::Resolve { .. } => "resolve",
            TaskKind::Fetch { .. } => "fetch",
            TaskKind::OpenBackend { .. } => "open",
            TaskKind::Deliver { .. } => "deliver",
            TaskKind::Run { .. } => "run",
            TaskKind::Cancel { .. } => "cancel",
        };
        let going = Going::new(&self.counters, task);
        let result = self.inner.run(input).await;
        going.ended(match &result {
            Ok(_) => "ok",
            Err(failure) => failure.class.as_str(),
        });
        result
    }
}

/// A task under way. One that is dropped was abandoned, by its deadline or because nobody wants its answer any more.
struct Going<'a> {
    counters: &'a Counters,
    task: &'static str,
    begun: Instant,
    result: &'static str,
}

impl<'a> Going<'a> {
    fn new(counters: &'a Counters, task: &'static str) -> Going<'a> {
        counters
            .tasks_in_flight
            .get_or_create(&InFlightLabels { task })
            .inc();
        Going {
            counters,
            task,
            begun: Instant::now(),
            result: "abandoned",
        }
    }

    fn ended(mut self, result: &'static str) {
        self.result = result;
    }
}

impl Drop for Going<'_> {
    fn drop(&mut self) {
        let Going {
            counters,
            task,
            begun,
            result,
        } = self;
        counters
            .tasks_in_flight
            .get_or_create(&InFlightLabels { task })
            .dec();
        counters
            .task_seconds
            .get_or_create(&TaskLabels { task, result })
            .observe(begun.elapsed().as_secs_f64());
    }
}

impl Counters {
    /// A write of the engine was done.
    fn wrote(&self, write: &Write, objects: &Objects) {
        let update = |name: &str| {
            let named = |update: &&Update| update.metadata.name.as_deref() == Some(name);
            objects.updates.iter().find(named)
        };
        match write {
            Write::RecordStart { update: name, .. } => {
                let operation = operation(update(name));
                self.runs_started
                    .get_or_create(&OperationLabels { operation })
                    .inc();
            }
            Write::FinishUpdate {
                update: name,
                outcome,
            } => match outcome {
                UpdateOutcome::Ended { summary } => self.ended(update(name), summary),
                UpdateOutcome::Superseded => {
                    let operation = operation(update(name));
                    self.runs_superseded
                        .get_or_create(&OperationLabels { operation })
                        .inc();
                }
            },
            _ => {}
        }
    }

    fn ended(&self, update: Option<&Update>, summary: &RunSummary) {
        let operation = operation(update);
        let outcome = match summary.state {
            RunState::Succeeded => "succeeded",
            RunState::Failed => "failed",
            RunState::Cancelled => "cancelled",
            // A run that goes on has no end to be recorded.
            RunState::Lost | RunState::Running => "lost",
        };
        if summary.state != RunState::Succeeded {
            let class = summary.class.clone().unwrap_or_else(|| outcome.to_owned());
            self.run_failures
                .get_or_create(&ClassLabels { class })
                .inc();
        }
        let lasted = summary.ended_at_ms.saturating_sub(summary.started_at_ms);
        self.run_seconds
            .get_or_create(&RunLabels {
                operation: operation.clone(),
                outcome,
            })
            .observe(seconds(lasted));
        let asked = update
            .and_then(|update| update.metadata.creation_timestamp.as_ref())
            .map(|time| time.0.as_millisecond());
        if let Some(asked) = asked {
            self.run_wait_seconds
                .get_or_create(&OperationLabels { operation })
                .observe(seconds(summary.started_at_ms.saturating_sub(asked)));
        }
    }
}

/// Clocks of two machines may disagree.
fn seconds(milliseconds: i64) -> f64 {
    Duration::from_millis(u64::try_from(milliseconds).unwrap_or_default()).as_secs_f64()
}

/// One of the operations that there are, whatever somebody wrote into an Update.
fn operation(update: Option<&Update>) -> String {
    update
        .and_then(|update| update.spec.operation().ok())
        .map_or_else(|| "unknown".to_owned(), |operation| operation.to_string())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use prometheus_client::encoding::text::encode;
    use prometheus_client::registry::Registry;
    use serde_json::json;

    fn text(counters: &Counters) -> String {
        let mut registry = Registry::default();
        counters.register(&mut registry);
        let mut text = String::new();
        encode(&mut text, &registry).unwrap();
        text
    }

    #[test]
    fn a_run_is_counted_when_its_end_is_recorded() {
        let update: Update = serde_json::from_value(json!({
            "apiVersion": "auto.pulumi.com/v1alpha1", "kind": "Update",
            "metadata": {"name": "u", "creationTimestamp": "1970-01-01T00:01:00Z"},
            "spec": {"type": "up"},
        }))
        .unwrap();
        let objects = Objects {
            updates: vec![update],
            ..Objects::default()
        };
        let summary: RunSummary = serde_json::from_value(json!({
            "state": "failed", "class": "program", "startedAtMs": 62_000, "endedAtMs": 65_000,
        }))
        .unwrap();
        let counters = Counters::default();
        counters.wrote(
            &Write::FinishUpdate {
                update: "u".into(),
                outcome: UpdateOutcome::Ended { summary },
            },
            &objects,
        );
        let text = text(&counters);
        let run = r#"windlass_run_duration_seconds_sum{operation="up",outcome="failed"} 3.0"#;
        assert!(text.contains(run), "{text}");
        let wait = r#"windlass_run_wait_seconds_sum{operation="up"} 2.0"#;
        assert!(text.contains(wait), "{text}");
        assert!(text.contains(r#"windlass_run_failures_total{class="program"} 1"#));
    }

    #[test]
    fn an_abandoned_task_is_no_longer_in_flight() {
        let counters = Counters::default();
        drop(Going::new(&counters, "fetch"));
        Going::new(&counters, "fetch").ended("ok");
        let text = text(&counters);
        assert!(text.contains(r#"windlass_tasks_in_flight{task="fetch"} 0"#));
        for result in ["abandoned", "ok"] {
            let line = format!(
                r#"windlass_task_duration_seconds_count{{task="fetch",result="{result}"}} 1"#
            );
            assert!(text.contains(&line), "{text}");
        }
    }
}
