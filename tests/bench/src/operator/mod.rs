//! The operator on a cluster: a real control plane, pods as processes, the real CLI.
//!
//! Each of the four benchmarks has a cluster of its own. Times are from the moment before a request is sent to the
//! moment at which a watch has seen the object as it should be. Requests are counted in the API server's audit log by
//! user, without watches, leases and nodes.

mod blocked;
mod bystander;
mod fleet;
mod floor;
mod life;
mod recovery;
mod seen;
mod site;

use crate::setup::{Setup, Trouble};
use crate::table::Row;

/// One Stack at a time, from its creation to a resync.
///
/// # Errors
/// `Skipped` where something it needs is missing; a Stack that does not get where it should.
pub fn life(setup: &Setup) -> Result<Vec<Row>, Trouble> {
    setup.runtime.block_on(life::measure(setup))
}

/// Stacks that cannot go on.
///
/// # Errors
/// As `life`.
pub fn blocked(setup: &Setup) -> Result<Vec<Row>, Trouble> {
    setup.runtime.block_on(blocked::measure(setup))
}

/// Fifty Stacks at once.
///
/// # Errors
/// As `life`.
pub fn fleet(setup: &Setup) -> Result<Vec<Row>, Trouble> {
    setup.runtime.block_on(fleet::measure(setup))
}

/// Whatever is killed.
///
/// # Errors
/// As `life`.
pub fn recovery(setup: &Setup) -> Result<Vec<Row>, Trouble> {
    setup.runtime.block_on(recovery::measure(setup))
}
