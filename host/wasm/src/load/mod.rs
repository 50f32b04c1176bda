//! From a file to a plugin that is served. Each step can refuse, with an error of its own.

mod cache;
mod inspect;
mod pipeline;

pub use cache::CodeCache;
pub use inspect::{Exports, inspect};
pub use pipeline::{Examined, Loader, Plugin, digest};
