//! What was done so far, counted where it is done.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::error::{ErrorClass, FetchError};
use crate::request::FetchStats;

/// Counts of a [`crate::Fetcher`]; they only grow.
#[derive(Default)]
pub struct Counters {
    refs_requests: AtomicU64,
    refs_failures: ByClass,
    fetches: AtomicU64,
    fetch_failures: ByClass,
    fetched_bytes: AtomicU64,
    hits: AtomicU64,
    polls: AtomicU64,
    poll_failures: AtomicU64,
    peak_child_rss: AtomicU64,
    /// What the kernel does not enforce of the sandbox.
    pub sandbox_gap: OnceLock<String>,
}

/// One count per class of failure.
#[derive(Default)]
struct ByClass([AtomicU64; ErrorClass::ALL.len()]);

impl ByClass {
    fn count(&self, error: &FetchError) {
        let class = error.class();
        for (count, each) in self.0.iter().zip(ErrorClass::ALL) {
            if each == class {
                count.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    fn read(&self) -> [u64; ErrorClass::ALL.len()] {
        std::array::from_fn(|at| self.0[at].load(Ordering::Relaxed))
    }
}

impl Counters {
    /// A server was asked for its refs.
    pub fn listed<T>(&self, result: &Result<T, FetchError>) {
        self.refs_requests.fetch_add(1, Ordering::Relaxed);
        if let Err(error) = result {
            self.refs_failures.count(error);
        }
    }

    /// A tree was fetched from a server, or was not; `bytes` of its files.
    pub fn fetched(&self, result: Result<u64, &FetchError>) {
        self.fetches.fetch_add(1, Ordering::Relaxed);
        match result {
            Ok(bytes) => {
                self.fetched_bytes.fetch_add(bytes, Ordering::Relaxed);
            }
            Err(error) => self.fetch_failures.count(error),
        }
    }

    /// A tree was at hand.
    pub fn hit(&self) {
        self.hits.fetch_add(1, Ordering::Relaxed);
    }

    /// A watched repository was looked at.
    pub fn polled(&self, succeeded: bool) {
        self.polls.fetch_add(1, Ordering::Relaxed);
        if !succeeded {
            self.poll_failures.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// A child process has had this much memory at most.
    pub fn child(&self, peak_rss: u64) {
        self.peak_child_rss.fetch_max(peak_rss, Ordering::Relaxed);
    }

    pub fn read(&self) -> FetchStats {
        let Counters {
            refs_requests,
            refs_failures,
            fetches,
            fetch_failures,
            fetched_bytes,
            hits,
            polls,
            poll_failures,
            peak_child_rss,
            sandbox_gap: _,
        } = self;
        FetchStats {
            refs_requests: refs_requests.load(Ordering::Relaxed),
            refs_failures: refs_failures.read(),
            fetches: fetches.load(Ordering::Relaxed),
            fetch_failures: fetch_failures.read(),
            fetched_bytes: fetched_bytes.load(Ordering::Relaxed),
            hits: hits.load(Ordering::Relaxed),
            polls: polls.load(Ordering::Relaxed),
            poll_failures: poll_failures.load(Ordering::Relaxed),
            peak_child_rss: peak_child_rss.load(Ordering::Relaxed),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_are_told_apart_by_class() {
        let counters = Counters::default();
        let denied = FetchError::UrlInvalid {
            detail: String::new(),
        };
        counters.fetched(Ok(40));
        counters.fetched(Err(&denied));
        counters.listed(&Ok(()));
        let stats = counters.read();
        assert_eq!((stats.fetches, stats.fetched_bytes), (2, 40));
        let failed: Vec<_> = ErrorClass::ALL
            .into_iter()
            .zip(stats.fetch_failures)
            .filter(|(_, count)| *count > 0)
            .collect();
        assert_eq!(failed, [(denied.class(), 1)]);
        assert_eq!(stats.refs_requests, 1);
        assert_eq!(stats.refs_failures.iter().sum::<u64>(), 0);
    }
}
