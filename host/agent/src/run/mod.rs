//! One operation from its request to its result.
//!
//! `prepare` gets everything ready, `command` words the CLI's arguments, `follow` starts the CLI and listens to it,
//! `judge` says how it ended, `outputs` reads secret outputs. `execute` is the way through them.

mod command;
mod context;
mod execute;
mod follow;
mod holders;
mod judge;
mod outputs;
mod prepare;
mod sealed;
mod tail;

pub use context::{Context, Workspace, below};
pub use execute::{adopt, barred, execute};
pub use follow::{Listener, drop_raw};
pub use outputs::reread;
