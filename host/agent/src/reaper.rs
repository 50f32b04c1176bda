//! What falls to the first process of a container: to reap the orphans of others.

use std::collections::BTreeSet;
use std::time::Duration;

use rustix::process::{Pid, WaitOptions, getpid, waitpid};

use crate::procs::zombies_of;

/// Reaps for ever, if this is process 1. Its own children are reaped by whoever waits for them, at once: what is still
/// there at the next look was an orphan.
pub async fn reap_orphans() {
    if !getpid().is_init() {
        return;
    }
    let mut before = BTreeSet::new();
    loop {
        tokio::time::sleep(Duration::from_secs(15)).await;
        let now: BTreeSet<i32> = zombies_of(1).into_iter().collect();
        for pid in now.intersection(&before).filter_map(|p| Pid::from_raw(*p)) {
            let _ = waitpid(Some(pid), WaitOptions::NOHANG);
        }
        before = now;
    }
}
