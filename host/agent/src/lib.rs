//! Runs Pulumi operations beside the CLI, with a journal, and serves them.
//!
//! Whoever wants runs uses [`AgentClient`] and the binary `windlass-agent`, or [`socket::serve`] and [`listen`]; the words are those of
//! `windlass_api::run`. Inside, start in `agent` (which runs there are), then `run` (one run, step by step).

mod agent;
mod cli;
mod client;
mod config;
mod crypter;
mod environment;
mod events;
mod exec;
mod file_backend;
mod install;
mod journal;
pub mod listen;
mod login;
mod mounts;
mod probe;
mod procs;
mod project;
mod reaper;
mod redact;
mod run;
mod server;
mod serving;
mod slot;
pub mod socket;
mod supervise;
mod tls;
mod tree;
mod visit;

pub use agent::{Agent, AgentError, Options};
pub use cli::OLDEST as OLDEST_PULUMI;
pub use client::{
    AgentClient, AgentInfo, ClientError, LogLine, RunEvent, RunEvents, RunSummary, Started, TreePut,
};
pub use environment::{Env, SECRET_VARIABLES, read_env_file};
pub use exec::{ExecError, exec};
pub use install::{InstallError, install};
pub use probe::{ProbeError, probe};
pub use reaper::reap_orphans;
pub use supervise::supervise;
pub use tls::{ClientTls, TlsError};

/// Generated messages; only `client` and `server` look at them.
mod proto {
    #![allow(clippy::all)]
    tonic::include_proto!("windlass.agent.v1");
}
