//! Write Windlass plugins in Rust.
//!
//! Everything a plugin wants to know beyond its request it asks through [`Host`]. A question without an answer at hand
//! ends the call ([`PluginError::Ask`] natively, unseen in a component) and the call is made again later with the
//! answer. So: pass errors on with `?`, ask the same things in the same order, and keep no state.
#![doc = include_str!("../README.md")]

pub mod cli;
mod error;
mod export;
pub mod glob;
mod host;
#[cfg(not(target_arch = "wasm32"))]
pub mod native;
mod question;
mod recipe;
mod transcript;
mod types;

#[cfg(target_arch = "wasm32")]
#[doc(hidden)]
pub mod guest;

pub use error::{ErrorClass, Fault, PluginError};
pub use host::{
    Backend, Credential, HealthCheck, Host, Level, Plugin, Secret, SecretName, SourceProvider,
};
pub use question::{Answer, GitRef, HttpRequest, HttpResponse, Question};
pub use recipe::{Derivation, Form, NamedPart, Part, Recipe, Signature};
pub use transcript::{Asked, LogLine};
pub use types::*;
