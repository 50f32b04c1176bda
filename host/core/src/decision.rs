//! What [`crate::decide`] answers: writes to do now, tasks that should be running, and when to look again.

use serde::{Deserialize, Serialize};
use windlass_api::intent::{RunIntent, RunRecord, RunSummary};
use windlass_api::run::{Operation, ProgramSource};
use windlass_api::stack::StackStatus;

use crate::phase::Phase;
use crate::snapshot::Resolution;
use crate::time::Timestamp;

/// The output of [`crate::decide`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Decision {
    /// Done now, in this order; the first that fails ends the step. Each may be repeated.
    pub writes: Vec<Write>,
    /// What should be under way. The engine starts those that are not and drops those that are not listed.
    pub tasks: Vec<Task>,
    /// When to look again though nothing has happened. Always later than the snapshot.
    pub wake_at: Option<Timestamp>,
    /// What the Stack is doing; its conditions say the same.
    pub phase: Option<Phase>,
    pub activity: Activity,
}

/// Whether anything goes on by itself. `windlass local --once` ends when nothing does.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "activity", rename_all = "camelCase")]
pub enum Activity {
    /// Writes, tasks or a run are under way.
    Busy,
    /// Wants to run; the fleet's limit is reached.
    Queued,
    /// Something failed that time alone may mend; tried again at `wake_at`. `patient`: another attempt may well
    /// succeed (a lost workspace, an outage), unlike that of a program that failed.
    Retrying { attempts: i64, patient: bool },
    /// Only somebody else's action helps: another Stack, a missing Secret, an edit.
    Blocked { on: Vec<String> },
    /// Nothing to do.
    Settled,
}

/// A change of stored objects. Idempotent: the same write twice is one write.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "write", rename_all = "camelCase")]
pub enum Write {
    AddFinalizer,
    /// Only if the Stack has not changed since the snapshot.
    PutStatus {
        status: Box<StackStatus>,
    },
    /// Asks a prerequisite to run again, by annotation.
    RequestReconcile {
        stack: String,
        value: String,
    },
    /// Says of an Update that was made by hand what it waits for.
    UpdateWaits {
        update: String,
        reason: String,
        message: String,
    },
    /// Makes or mends the workspace instance.
    EnsureWorkspace {
        spec_digest: String,
        /// Of the token of its own that is mounted, where the backend's login needs one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        audience: Option<String>,
        /// Its own init containers wait until the program is in place ([`TaskKind::Deliver`]).
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        source_first: bool,
    },
    /// Only this instance, and never while a run that was started there is open: the port looks at the Updates as they
    /// are now, for a snapshot may be behind.
    StopWorkspace {
        uid: String,
    },
    CreateUpdate {
        name: String,
        operation: Operation,
        intent: Box<RunIntent>,
    },
    /// Only if the Update has not changed since the snapshot.
    RecordStart {
        update: String,
        record: RunRecord,
    },
    /// Keeps the outputs of a finished run in a Secret owned by the Update.
    SaveOutputs {
        update: String,
    },
    /// Only if the Update has not changed since the snapshot.
    FinishUpdate {
        update: String,
        outcome: UpdateOutcome,
    },
    /// The Update's end is recorded in the Stack: its finalizer goes.
    ReleaseUpdate {
        update: String,
    },
    /// An old finished Update goes.
    DeleteUpdate {
        update: String,
    },
    RemoveFinalizer,
    Event {
        event: Event,
    },
}

/// How an Update ends.
// One at a time, on its way to the store: not worth an indirection that every port would have to undo.
#[allow(clippy::large_enum_variant)]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "outcome", rename_all = "camelCase")]
pub enum UpdateOutcome {
    /// It ran, or could not be started.
    Ended { summary: RunSummary },
    /// What it pinned changed before it started.
    Superseded,
}

/// Something to be found out or carried out outside, with a deadline of its own.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Task {
    /// The question: an observation with this cause answers it.
    pub cause: String,
    pub kind: TaskKind,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "task", rename_all = "camelCase")]
pub enum TaskKind {
    /// Ask the source provider for the revision.
    Resolve {
        /// What was known before does not do: somebody asks for the source as it is now.
        fresh: bool,
    },
    /// Fetch the tree of a resolution.
    Fetch { resolution: Resolution },
    /// Ask the backend adapter for the session.
    OpenBackend { project: Option<String> },
    /// Put the program in place, for the instance's own init containers that wait for it.
    Deliver {
        program: ProgramSource,
        instance: String,
    },
    /// Put the tree in place, start the run if it was not, and follow it to its end.
    Run { update: String, instance: String },
    /// Interrupt the run, then go on following it.
    Cancel { update: String, instance: String },
}

impl TaskKind {
    /// The slot of the observation it fills: one task per slot at a time.
    pub fn slot(&self) -> Slot {
        match self {
            TaskKind::Resolve { .. } => Slot::Source,
            TaskKind::Fetch { .. } => Slot::Tree,
            TaskKind::OpenBackend { .. } => Slot::Backend,
            TaskKind::Deliver { .. } => Slot::Program,
            TaskKind::Run { .. } => Slot::Run,
            TaskKind::Cancel { .. } => Slot::Cancel,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Slot {
    Source,
    Tree,
    Backend,
    Program,
    Run,
    Cancel,
}

/// A Kubernetes event about the Stack.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Event {
    pub warning: bool,
    pub reason: String,
    pub message: String,
}
