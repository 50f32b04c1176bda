//! Tasks that answer after a while, fail, or never end; and what was going on at a time.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::Value;
use windlass_api::intent::RunSummary;
use windlass_api::run::{ProgramSource, RunState};
use windlass_core::decision::{Slot, TaskKind};
use windlass_core::failure::Failure;
use windlass_core::snapshot::{Resolution, RunEnd, Session, Tree};
use windlass_engine::{Found, TaskInput, Tasks};

use super::clock;

#[derive(Default)]
pub struct FakeTasks {
    /// Every task that was started.
    pub started: Mutex<Vec<(String, Slot)>>,
    /// Tasks of this Stack and slot fail so.
    pub trouble: Mutex<BTreeMap<(String, Slot), Failure>>,
    /// Tasks of this Stack and slot never end by themselves.
    pub hang: Mutex<Vec<(String, Slot)>>,
    pub dropped: AtomicUsize,
    pub epochs: Mutex<Vec<u64>>,
    running: AtomicUsize,
    pub most_running: AtomicUsize,
}

pub const RUN: Duration = Duration::from_secs(20);

impl FakeTasks {
    pub fn started(&self, name: &str, slot: Slot) -> usize {
        let all = self.started.lock().unwrap();
        all.iter().filter(|(n, s)| n == name && *s == slot).count()
    }
}

/// Counts a task that was dropped before its end.
struct Guard<'a>(&'a AtomicUsize, bool);

impl Drop for Guard<'_> {
    fn drop(&mut self) {
        if !self.1 {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }
}

impl Tasks for FakeTasks {
    async fn run(&self, input: TaskInput) -> Result<Found, Failure> {
        let slot = input.kind.slot();
        let of = (input.key.name.clone(), slot);
        self.started.lock().unwrap().push(of.clone());
        self.epochs.lock().unwrap().push(input.epoch);
        let mut guard = Guard(&self.dropped, false);
        if self.hang.lock().unwrap().contains(&of) {
            std::future::pending::<()>().await;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
        let trouble = self.trouble.lock().unwrap().get(&of).cloned();
        if let Some(failure) = trouble {
            guard.1 = true;
            return Err(failure);
        }
        let found = match input.kind {
            TaskKind::Resolve { .. } => Found::Source(Resolution {
                revision: "r1".into(),
                dir: String::new(),
                poll_after_ms: None,
                workspace_path: false,
                artifact: Value::Null,
            }),
            TaskKind::Fetch { .. } => Found::Tree(Tree {
                program: ProgramSource::Tree {
                    digest: "d".into(),
                    dir: String::new(),
                },
                subtree: "t1".into(),
                project: None,
            }),
            TaskKind::OpenBackend { .. } => Found::Backend(Session {
                stack: "o/app/dev".into(),
                env: BTreeMap::new(),
                login: None,
            }),
            TaskKind::Run { update, .. } => {
                let now = self.running.fetch_add(1, Ordering::SeqCst) + 1;
                self.most_running.fetch_max(now, Ordering::SeqCst);
                let started_at_ms = clock().0;
                tokio::time::sleep(RUN).await;
                self.running.fetch_sub(1, Ordering::SeqCst);
                Found::Run(Box::new(RunEnd {
                    update,
                    has_outputs: false,
                    summary: RunSummary {
                        state: RunState::Succeeded,
                        class: None,
                        reason: None,
                        message: String::new(),
                        changes: BTreeMap::new(),
                        resources: None,
                        outputs: None,
                        permalink: None,
                        project: None,
                        reached_engine: true,
                        stale_locks: Vec::new(),
                        started_at_ms,
                        ended_at_ms: clock().0,
                    },
                }))
            }
            TaskKind::Deliver { .. } => Found::Delivered,
            TaskKind::Cancel { .. } => Found::Cancelling,
        };
        guard.1 = true;
        Ok(found)
    }
}
