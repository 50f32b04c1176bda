//! Git repositories and archives as content-addressed trees.
//!
//! [`Fetcher`] is the way in. Each request to a foreign server runs in a child
//! process ([`worker`]) under a sandbox; what it brings is checked again and put
//! into a store that many may share. [`Poller`] watches refs once for everybody.

mod access;
mod address;
mod admit;
mod child;
mod config;
mod counters;
mod credential;
mod error;
mod fetcher;
mod join;
mod poller;
mod reach;
mod request;
mod slots;
mod ssh;
mod store;
mod tree;
mod wire;
pub mod worker;

pub use config::{FetchConfig, Limits, Proxy, Unsupported, WorkerCommand};
pub use credential::Credential;
pub use error::{ErrorClass, FetchError};
pub use fetcher::Fetcher;
pub use poller::{Pace, PollRequest, PollState, Poller, Subscription};
pub use request::{Artifact, FetchStats, RefsRequest, TreeRequest};
pub use ssh::SshConfig;
pub use store::{GcReport, Lease, TreeInfo, TreeReader};
pub use tree::{Entry, Kind};
pub use wire::RemoteRef;
#[cfg(feature = "test-probe")]
pub use worker::probe::Probe;
