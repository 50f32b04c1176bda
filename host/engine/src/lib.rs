//! Snapshot, decide, perform: the loop around the pure core, over ports.
//!
//! [`step`](mod@step) looks at one key, decides and writes. [`runner`] does that for all keys, with a queue, timers and tasks.
//! [`ports`] is what it needs of the outside; a cluster, one machine and the simulator each bring their own.

pub mod capacity;
mod entry;
mod handle;
pub mod key;
pub mod keyed;
pub mod ports;
pub mod runner;
pub mod stats;
pub mod step;
mod waiting;

pub use handle::Handle;
pub use key::Key;
pub use keyed::Keyed;
pub use ports::{Fence, Found, Store, StoreError, TaskInput, Tasks};
pub use runner::{Observer, Runner};
pub use stats::{Reading, Stats};
pub use step::{Settings, Step};
