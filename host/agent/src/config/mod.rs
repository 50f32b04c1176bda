//! The stack's configuration: from what the run asks for to the settings file that the CLI reads.
//!
//! Start in `settings`, which builds the file; `value` reads each value from where it stands; `path` puts one below a
//! property path.

mod path;
mod settings;
mod value;

pub use path::PathError;
pub use settings::{ApplyError, Plan, SealedBy, Settings};
pub use value::{ValueError, resolve};
