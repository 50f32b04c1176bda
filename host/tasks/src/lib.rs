//! The engine's tasks: ask plugins, fetch trees, drive runs. The same on one machine and on a cluster; what differs is
//! behind [`Place`].

mod ending;
mod failures;
mod fitting;
mod held;
mod judge;
mod login;
mod place;
mod progress;
mod project;
mod stream;
mod subscriptions;
mod tasks;

pub use failures::{agent_failure, fetch_failure, invalid, plugin_failure, unavailable};
pub use held::HeldOutputs;
pub use place::{PULUMI_CLOUD, Place};
pub use progress::{ProgressNotes, ProgressPace};
pub use subscriptions::{Subscriptions, fetch_credential, fetch_fault};
pub use tasks::{PlaceTasks, work};
