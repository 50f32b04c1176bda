//! The engine's ports on a cluster.
//!
//! [`Operator`] wires them and runs. From there: `watch` fills `cache`; `store` is what the engine reads and writes, with
//! one file per kind of object under `write`; `agents` keeps one connection per workspace; `place` is what the tasks of
//! `windlass-tasks` need of a cluster; `lease` says who leads.

mod agents;
mod api;
mod api_server;
mod cache;
mod certificates;
mod config;
mod define;
mod definitions;
mod digests;
mod events;
mod follow;
mod healths;
mod instances;
mod keeper;
mod lease;
mod links;
mod metrics;
mod observe;
mod operator;
mod outside;
mod place;
mod programs;
mod references;
mod secrets;
pub mod serve;
mod store;
mod warnings;
mod watch;
mod workspace_status;
mod world;
mod write;

pub use config::OperatorConfig;
pub use define::{DefineError, define};
pub use lease::LeaseSettings;
pub use operator::{Operator, OperatorError};
pub use serve::ServeConfig;
pub use watch::Readiness;

/// The wall clock.
pub(crate) fn clock() -> windlass_core::time::Timestamp {
    windlass_core::time::Timestamp(jiff::Timestamp::now().as_millisecond())
}
