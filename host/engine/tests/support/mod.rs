//! A store in memory, tasks that answer in virtual time, and a loop over both.

mod store;
mod tasks;

use std::cell::Cell;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::Instant;
use windlass_api::Stack;
use windlass_core::decision::Decision;
use windlass_core::snapshot::{Config, Snapshot};
use windlass_core::time::Timestamp;
use windlass_engine::{Handle, Key, Observer, Runner, Settings, StoreError};

pub use store::FakeStore;
pub use tasks::FakeTasks;

pub fn key(name: &str) -> Key {
    Key::new("apps", name)
}

pub fn settings() -> Settings {
    Settings {
        epoch: 3,
        config: Config {
            keep_updates: 10,
            ..Config::default()
        },
    }
}

pub fn stack(name: &str, fields: Value) -> Stack {
    let mut spec =
        json!({"stack": "dev", "projectRepo": "https://git.example/app", "branch": "main"});
    for (key, value) in fields.as_object().unwrap() {
        spec[key] = value.clone();
    }
    serde_json::from_value(json!({
        "apiVersion": "pulumi.com/v1",
        "kind": "Stack",
        "metadata": {
            "name": name, "namespace": "apps", "uid": format!("uid-{name}"), "generation": 1, "resourceVersion": "1",
        },
        "spec": spec,
    }))
    .unwrap()
}

thread_local! {
    static BEGIN: Cell<Option<Instant>> = const { Cell::new(None) };
}

/// Virtual time: each test has a thread and a runtime of its own.
pub fn clock() -> Timestamp {
    let begin = BEGIN.get().unwrap_or_else(|| {
        let now = Instant::now();
        BEGIN.set(Some(now));
        now
    });
    Timestamp(1_767_225_600_000).after(Instant::now() - begin)
}

/// Counts steps, keeps errors.
#[derive(Default)]
pub struct Seen {
    pub steps: Mutex<Vec<Key>>,
    pub errors: Mutex<Vec<StoreError>>,
}

impl Observer for Seen {
    fn stepped(&self, key: &Key, snapshot: &Snapshot, decision: &Decision) {
        assert!(decision.wake_at.is_none_or(|at| at > snapshot.now));
        self.steps.lock().unwrap().push(key.clone());
    }

    fn store_failed(&self, _key: &Key, error: &StoreError) {
        self.errors.lock().unwrap().push(error.clone());
    }
}

/// A loop with its ports.
pub struct Bench {
    pub store: Arc<FakeStore>,
    pub tasks: Arc<FakeTasks>,
    pub seen: Arc<Seen>,
}

impl Bench {
    pub fn new(stacks: &[(&str, Value)]) -> Bench {
        let store = Arc::new(FakeStore::default());
        for (name, fields) in stacks {
            store.put(stack(name, fields.clone()));
        }
        Bench {
            tasks: Arc::new(FakeTasks::default()),
            seen: Arc::default(),
            store,
        }
    }

    /// The loop, with every Stack of the store in its queue.
    pub fn runner(&self, max_runs: usize) -> (Runner<FakeStore, FakeTasks, Seen>, Handle) {
        let (store, tasks) = (Arc::clone(&self.store), Arc::clone(&self.tasks));
        let (runner, handle) = Runner::new(
            settings(),
            store,
            tasks,
            Arc::clone(&self.seen),
            max_runs,
            clock,
        );
        for key in self.store.keys() {
            handle.wake(key);
        }
        (runner, handle)
    }

    /// Runs until nothing goes on by itself; how long that took in virtual time.
    pub async fn settle(&self, max_runs: usize) -> Duration {
        let begin = Instant::now();
        let (runner, _handle) = self.runner(max_runs);
        tokio::time::timeout(Duration::from_secs(100_000), runner.run(true))
            .await
            .expect("it settles");
        begin.elapsed()
    }

    /// The reason that the conditions of a Stack give.
    pub fn reason(&self, name: &str) -> String {
        let objects = self.store.objects(&key(name));
        let conditions = objects.stack.unwrap().status.unwrap_or_default().conditions;
        let of = |type_: &str| conditions.iter().find(|c| c.type_ == type_);
        let found = of("Stalled")
            .or_else(|| of("Reconciling"))
            .or_else(|| of("Ready"));
        found.map(|c| c.reason.clone()).unwrap_or_default()
    }

    /// Waits, in virtual time, until this holds.
    pub async fn until(&self, what: &str, holds: impl Fn(&Bench) -> bool) {
        for _ in 0..100_000 {
            if holds(self) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        panic!("never: {what}");
    }
}
