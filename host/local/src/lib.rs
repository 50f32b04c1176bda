//! The engine's ports on one machine: a directory of manifests, an embedded store, agent processes.
//!
//! [`Local`] wires them and runs. From there: `sync` brings manifests into `db`; `store` and `objects` are what the engine
//! reads and writes; `tasks` asks plugins, fetches and drives runs; `workspaces` keeps one agent process per Stack.

mod agent_process;
mod backend;
mod config;
mod db;
mod environment;
mod error;
mod failures;
mod held;
mod judge;
mod local;
mod objects;
mod outside;
mod process;
mod project;
mod reader;
mod report;
mod rows;
mod store;
mod stream;
mod sync;
mod tasks;
mod update_object;
mod watch;
mod workspaces;

pub use config::{LocalConfig, LocalObserver};
pub use error::LocalError;
pub use local::{Local, LocalHandle, Report};
pub use reader::StateReader;
pub use rows::StackRow;

/// The wall clock.
pub(crate) fn clock() -> windlass_core::time::Timestamp {
    let since = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .unwrap_or_default();
    windlass_core::time::Timestamp(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}
