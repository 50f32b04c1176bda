//! How many runs may go on at a time, counted without a lock: steps of many keys take and give places side by side.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The places of the fleet.
#[derive(Debug)]
pub struct Places {
    max: usize,
    taken: AtomicUsize,
}

impl Places {
    /// At least one.
    pub fn new(max: usize) -> Arc<Places> {
        Arc::new(Places {
            max: max.max(1),
            taken: AtomicUsize::new(0),
        })
    }

    /// Whether one is free now. By the time that somebody takes it, it may not be.
    pub fn free(&self) -> bool {
        self.taken.load(Ordering::SeqCst) < self.max
    }

    /// How many are taken now. Runs that were found going on are counted beyond the limit.
    pub fn taken(&self) -> usize {
        self.taken.load(Ordering::SeqCst)
    }

    /// How many there are.
    pub fn max(&self) -> usize {
        self.max
    }

    fn take(&self, beyond: bool) -> bool {
        self.taken
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, |taken| {
                (beyond || taken < self.max).then_some(taken + 1)
            })
            .is_ok()
    }

    fn give(&self) {
        self.taken.fetch_sub(1, Ordering::SeqCst);
    }
}

/// What a step knows of places.
pub trait Capacity: Send {
    /// Whether another run may begin.
    fn free(&self) -> bool;

    /// Says whether a run is held after this decision, and whether it went on before. False: there is no place for one
    /// that begins now.
    fn settle(&mut self, holds: bool, goes_on: bool) -> bool;
}

/// An answer that is given beforehand.
impl Capacity for bool {
    fn free(&self) -> bool {
        *self
    }

    fn settle(&mut self, _holds: bool, _goes_on: bool) -> bool {
        true
    }
}

/// The place of one key. Given back when it is dropped.
#[derive(Debug)]
pub struct Place {
    places: Arc<Places>,
    held: bool,
}

impl Place {
    pub fn new(places: &Arc<Places>) -> Place {
        Place {
            places: Arc::clone(places),
            held: false,
        }
    }
}

impl Capacity for Place {
    fn free(&self) -> bool {
        self.held || self.places.free()
    }

    fn settle(&mut self, holds: bool, goes_on: bool) -> bool {
        if holds && !self.held {
            // A run that goes on already has its place, even where there is none: it was found after a restart, say.
            self.held = self.places.take(goes_on);
            return self.held;
        }
        if !holds && self.held {
            self.held = false;
            self.places.give();
        }
        true
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if self.held {
            self.places.give();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_place_goes_to_one() {
        let places = Places::new(1);
        let (mut first, mut second) = (Place::new(&places), Place::new(&places));
        assert!(first.free() && second.free());
        assert!(first.settle(true, false));
        assert!(!second.free());
        assert!(!second.settle(true, false));
        assert!(first.settle(false, false));
        assert!(second.settle(true, false));
    }

    #[test]
    fn a_run_that_goes_on_is_counted_beyond_the_limit_and_a_dropped_place_is_free() {
        let places = Places::new(1);
        let (mut first, mut second) = (Place::new(&places), Place::new(&places));
        assert!(first.settle(true, true));
        assert!(second.settle(true, true));
        drop(first);
        assert!(!places.free());
        drop(second);
        assert!(places.free());
    }
}
