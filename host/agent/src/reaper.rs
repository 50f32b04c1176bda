//! What falls to the first process of a container: to reap the orphans of others.

use std::collections::BTreeSet;
use std::time::Duration;

use rustix::process::{Pid, WaitOptions, getpid, waitpid};
use tokio::signal::unix::{SignalKind, signal};

use crate::procs::zombies_of;

/// Time in which whoever started a process looks how it ended.
const PATIENCE: Duration = Duration::from_secs(1);

/// Reaps for ever, if this is process 1. Its own children are reaped by whoever waits for them, at once: what is still
/// there a moment later was an orphan.
pub async fn reap_orphans() {
    if !getpid().is_init() {
        return;
    }
    let Ok(mut child_ended) = signal(SignalKind::child()) else {
        tracing::warn!("orphans of other processes will not be reaped: no signal of their end");
        return;
    };
    loop {
        let mut before = BTreeSet::new();
        loop {
            let now: BTreeSet<i32> = zombies_of(1).into_iter().collect();
            for pid in now.intersection(&before).filter_map(|p| Pid::from_raw(*p)) {
                let _ = waitpid(Some(pid), WaitOptions::NOHANG);
            }
            if now.is_empty() {
                break;
            }
            before = now;
            tokio::time::sleep(PATIENCE).await;
        }
        if child_ended.recv().await.is_none() {
            return;
        }
    }
}
