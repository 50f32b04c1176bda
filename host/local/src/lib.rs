//! The engine's ports on one machine: a directory of manifests, an embedded store, agent processes.
//!
//! [`Local`] wires them and runs. From there: `sync` brings manifests into `db`; `store` and `objects` are what the engine
//! reads and writes; `place` is what the tasks of `windlass-tasks` need of a machine; `workspaces` keeps one agent process per Stack.

mod agent_process;
mod config;
mod db;
mod environment;
mod error;
mod local;
mod objects;
mod once;
mod outside;
mod place;
mod process;
mod progress;
mod reader;
mod report;
mod rows;
mod store;
mod sync;
mod watch;
mod workspaces;

pub use config::{LocalConfig, LocalObserver};
pub use error::LocalError;
pub use local::{Local, LocalHandle, Report};
pub use reader::StateReader;
pub use rows::StackRow;
pub use windlass_tasks::ProgressPace;

/// The wall clock.
pub(crate) fn clock() -> windlass_core::time::Timestamp {
    let since = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .unwrap_or_default();
    windlass_core::time::Timestamp(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}
