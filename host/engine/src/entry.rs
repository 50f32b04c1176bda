//! What the loop keeps of one key, and what comes back from the steps and tasks that it has out.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::task::AbortHandle;
use tokio::time::Instant;
use windlass_core::decision::{Activity, Slot, Task, TaskKind};
use windlass_core::failure::{Failure, FailureClass};
use windlass_core::time::Timestamp;

use crate::capacity::{Place, Places};
use crate::key::Key;
use crate::keyed::Keyed;
use crate::ports::{Found, StoreError, TaskInput, Tasks};
use crate::step::Step;

/// One key.
pub struct Entry {
    /// None while it is lent to a step.
    pub memory: Option<(Keyed, Place)>,
    pub tasks: BTreeMap<Slot, AbortHandle>,
    pub timer: Option<Instant>,
    pub activity: Option<Activity>,
    /// How often in a row the store has failed.
    pub store_failures: u32,
    /// What came in while the memory was lent.
    pub later: Vec<Later>,
}

impl Entry {
    pub fn new(places: &Arc<Places>) -> Entry {
        Entry {
            memory: Some((Keyed::default(), Place::new(places))),
            tasks: BTreeMap::new(),
            timer: None,
            activity: None,
            store_failures: 0,
            later: Vec::new(),
        }
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        for task in self.tasks.values() {
            task.abort();
        }
    }
}

pub enum Later {
    Source,
    Task(TaskDone),
}

pub struct TaskDone {
    pub slot: Slot,
    pub cause: String,
    pub result: Result<Found, Failure>,
}

pub struct StepDone {
    pub memory: Keyed,
    pub place: Place,
    pub now: Timestamp,
    /// None: it panicked.
    pub result: Option<Result<Step, StoreError>>,
}

pub enum Report {
    Task(TaskDone),
    Step(Box<StepDone>),
}

pub struct Done {
    pub key: Key,
    pub report: Report,
}

/// Starts a task; its end is reported.
pub fn spawn<T: Tasks>(
    tasks: Arc<T>,
    input: TaskInput,
    task: Task,
    report: mpsc::UnboundedSender<Done>,
) -> AbortHandle {
    let key = input.key.clone();
    let slot = task.kind.slot();
    let deadline = deadline(&task.kind);
    tokio::spawn(async move {
        let work = tasks.run(input);
        let result = match deadline {
            None => work.await,
            Some(limit) => match tokio::time::timeout(limit, work).await {
                Ok(result) => result,
                Err(_) => Err(Failure::new(
                    FailureClass::Unavailable,
                    "Timeout",
                    format!("no answer within {} s", limit.as_secs()),
                )),
            },
        };
        let done = TaskDone {
            slot,
            cause: task.cause,
            result,
        };
        let _ = report.send(Done {
            key,
            report: Report::Task(done),
        });
    })
    .abort_handle()
}

/// The longest that a task may take. A run has its own deadline, with its agent.
fn deadline(kind: &TaskKind) -> Option<Duration> {
    match kind {
        TaskKind::Resolve { .. } => Some(Duration::from_secs(60)),
        TaskKind::Fetch { .. } => Some(Duration::from_secs(120)),
        TaskKind::OpenBackend { .. } => Some(Duration::from_secs(30)),
        TaskKind::Deliver { .. } => Some(Duration::from_secs(300)),
        TaskKind::Cancel { .. } => Some(Duration::from_secs(30)),
        TaskKind::Run { .. } => None,
    }
}
