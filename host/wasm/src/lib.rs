//! Loads WebAssembly components, checks them against policy, evaluates them.
//!
//! Start with [`PluginHost`]. A call goes through `decisions` (what is asked of which plugin), `evaluate` (rounds), `guest` (one round in an
//! instance), `answer` (a question within the grants) and [`Outside`] (the world). A file goes through `registry` and
//! `load`.

mod answer;
mod bench;
mod breaker;
mod cache;
mod call;
mod capture;
mod decisions;
mod egress;
mod engine;
mod error;
mod evaluate;
mod grants;
mod guest;
mod host;
mod limits;
mod load;
mod login;
mod make;
pub mod outside;
mod policy;
mod redact;
mod registry;
mod signature;
pub mod tally;
mod threads;
mod transcript;
mod vault;

pub use bench::Measured;
pub use call::{Call, Output};
pub use egress::{Checked, EgressError, Network};
pub use error::{LoadError, PluginError};
pub use grants::{Builtins, Grants};
pub use host::{Evaluated, HostError, HostOptions, PluginHost, Resolved, Work};
pub use limits::Limits;
pub use load::{Examined, digest};
pub use outside::{Credential, Outside, Scope, SecretValue};
pub use policy::{PluginPolicy, Policy, PolicyError};
pub use registry::PluginStatus;
pub use signature::{SignatureError, SigningKey, signature_of, verify};
pub use transcript::{Failed, Transcript};
