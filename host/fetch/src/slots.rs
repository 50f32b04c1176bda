//! How many child processes run at once: in all, and for one host, so that a host
//! that hangs does not hold up the others.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::error::FetchError;

pub(crate) struct Slots {
    all: Arc<Semaphore>,
    per_host: usize,
    hosts: Mutex<HashMap<String, Weak<Semaphore>>>,
}

/// The right to run one child process.
pub(crate) struct Slot {
    _all: OwnedSemaphorePermit,
    _host: OwnedSemaphorePermit,
}

impl Slots {
    pub fn new(all: usize, per_host: usize) -> Self {
        Slots {
            all: Arc::new(Semaphore::new(all.max(1))),
            per_host: per_host.max(1),
            hosts: Mutex::default(),
        }
    }

    /// Waits for a slot; first for one of the host, without taking from the others.
    pub async fn take(&self, host: &str) -> Result<Slot, FetchError> {
        let closed = |_| FetchError::WorkerFailed {
            detail: "no more are started".to_owned(),
        };
        let host = self.host(host).acquire_owned().await.map_err(closed)?;
        let all = Arc::clone(&self.all)
            .acquire_owned()
            .await
            .map_err(closed)?;
        Ok(Slot {
            _all: all,
            _host: host,
        })
    }

    fn host(&self, host: &str) -> Arc<Semaphore> {
        let mut hosts = self.hosts.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = hosts.get(host).and_then(Weak::upgrade) {
            return known;
        }
        hosts.retain(|_, one| one.strong_count() > 0);
        let new = Arc::new(Semaphore::new(self.per_host));
        hosts.insert(host.to_owned(), Arc::downgrade(&new));
        new
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use futures::FutureExt as _;

    #[tokio::test]
    async fn a_host_that_hangs_leaves_slots_to_others() {
        let slots = Slots::new(3, 2);
        let one = slots.take("slow").await.unwrap();
        let _two = slots.take("slow").await.unwrap();
        assert!(slots.take("slow").now_or_never().is_none());
        let other = slots.take("good").await.unwrap();
        assert!(slots.take("third").now_or_never().is_none(), "three in all");
        drop(other);
        slots.take("third").await.unwrap();
        drop(one);
        slots.take("slow").await.unwrap();
    }
}
