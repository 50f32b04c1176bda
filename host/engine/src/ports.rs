//! What the engine needs of the outside. A cluster, one machine and the simulator each bring their own.

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::Arc;

use windlass_core::decision::{TaskKind, Write};
use windlass_core::failure::Failure;
use windlass_core::snapshot::{Objects, Resolution, RunEnd, Session, Tree};
use windlass_core::time::Timestamp;

use crate::key::Key;

/// Stored objects: reading what one step looks at, and changing it.
pub trait Store: Send + Sync + 'static {
    /// Everything stored that concerns this key. May be a moment behind: writes are fenced.
    fn load(&self, key: &Key) -> impl Future<Output = Result<Objects, StoreError>> + Send;

    /// Performs one write. Writes that are fenced compare with the versions in `fence`, and every write that moves a
    /// version stores the new one there, so that the next write of the same step finds it.
    fn write(
        &self,
        key: &Key,
        write: &Write,
        objects: &Objects,
        fence: &mut Fence,
    ) -> impl Future<Output = Result<(), StoreError>> + Send;
}

/// Resource versions that a step has seen.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fence {
    pub stack: Option<String>,
    pub updates: BTreeMap<String, String>,
}

impl Fence {
    /// The versions of the objects that a step begins with.
    pub fn of(objects: &Objects) -> Fence {
        let stack = objects
            .stack
            .as_ref()
            .and_then(|stack| stack.metadata.resource_version.clone());
        let updates = objects
            .updates
            .iter()
            .filter_map(|update| {
                Some((
                    update.metadata.name.clone()?,
                    update.metadata.resource_version.clone()?,
                ))
            })
            .collect();
        Fence { stack, updates }
    }
}

/// Why a read or a write did not happen.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// The object has changed since the step looked: look again.
    #[error("the object has changed in the meantime")]
    Conflict,
    /// The object to be changed is gone: look again.
    #[error("the object is gone")]
    NotFound,
    /// What is to be written is no longer at hand: it is found out again.
    #[error("the result of the run is no longer at hand")]
    NotAtHand,
    #[error("the store does not answer: {0}")]
    Unavailable(String),
    #[error("the store refuses it: {0}")]
    Rejected(String),
}

/// What goes on outside and takes its time.
pub trait Tasks: Send + Sync + 'static {
    /// Carries a task out. Dropping the future abandons it; nothing that it has begun outside may be lost by that.
    fn run(&self, input: TaskInput) -> impl Future<Output = Result<Found, Failure>> + Send;
}

/// A task and what it was decided from.
#[derive(Clone, Debug)]
pub struct TaskInput {
    pub key: Key,
    pub kind: TaskKind,
    pub cause: String,
    pub objects: Arc<Objects>,
    pub epoch: u64,
    pub now: Timestamp,
}

/// What a task has found out.
#[derive(Clone, Debug, PartialEq)]
pub enum Found {
    Source(Resolution),
    Tree(Tree),
    Backend(Session),
    /// The program lies where init containers wait for it.
    Delivered,
    Run(Box<RunEnd>),
    /// The agent has been asked to interrupt the run; the run's own task sees its end.
    Cancelling,
}
