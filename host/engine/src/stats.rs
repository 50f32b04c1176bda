//! How the loop is doing, for whoever watches over it: read from outside at any moment, without asking the loop.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use crate::capacity::Places;

/// Written by the loop, read by anybody.
#[derive(Debug)]
pub struct Stats {
    places: Arc<Places>,
    last: Mutex<Last>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Last {
    queued: usize,
    /// Since when the first in the queue waits.
    oldest: Option<Instant>,
    stepping: usize,
    keys: usize,
    waiting: usize,
}

/// What the loop has to do and is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reading {
    /// Keys that wait to be looked at.
    pub queued: usize,
    /// How long the first of them has been waiting; none if none waits.
    pub oldest: Option<Duration>,
    /// Keys that are being looked at.
    pub stepping: usize,
    /// Keys that are known.
    pub keys: usize,
    /// Keys that want to run and find every place taken.
    pub waiting_for_capacity: usize,
    /// Runs that go on.
    pub runs: usize,
    /// Runs that may go on at a time.
    pub max_runs: usize,
}

impl Stats {
    pub(crate) fn new(places: Arc<Places>) -> Stats {
        Stats {
            places,
            last: Mutex::default(),
        }
    }

    pub(crate) fn publish(
        &self,
        queued: usize,
        oldest: Option<Instant>,
        stepping: usize,
        keys: usize,
        waiting: usize,
    ) {
        *self.last.lock().unwrap_or_else(PoisonError::into_inner) = Last {
            queued,
            oldest,
            stepping,
            keys,
            waiting,
        };
    }

    /// As it is now. A loop that hangs does not hide it: the oldest key goes on growing older.
    pub fn read(&self) -> Reading {
        let last = *self.last.lock().unwrap_or_else(PoisonError::into_inner);
        Reading {
            queued: last.queued,
            oldest: last.oldest.map(|since| since.elapsed()),
            stepping: last.stepping,
            keys: last.keys,
            waiting_for_capacity: last.waiting,
            runs: self.places.taken(),
            max_runs: self.places.max(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn the_oldest_key_grows_older_though_nobody_publishes() {
        let stats = Stats::new(Places::new(3));
        assert_eq!(stats.read().oldest, None);
        stats.publish(2, Some(Instant::now()), 1, 5, 0);
        tokio::time::advance(Duration::from_secs(7)).await;
        let reading = stats.read();
        assert_eq!(reading.oldest, Some(Duration::from_secs(7)));
        assert_eq!((reading.queued, reading.stepping, reading.keys), (2, 1, 5));
        assert_eq!((reading.runs, reading.max_runs), (0, 3));
    }
}
