//! Keeps a plugin that fails again and again from costing more.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Failures in a row that open the breaker.
const FAILURES: u32 = 5;
const FIRST_PAUSE: Duration = Duration::from_secs(30);
const LONGEST_PAUSE: Duration = Duration::from_secs(600);

/// One plugin's breaker.
#[derive(Debug, Default)]
pub struct Breaker(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    failures: u32,
    openings: u32,
    until: Option<Instant>,
}

impl Breaker {
    /// Whether a call may be made; else for how much longer not. After a pause one failure is enough for the next.
    pub fn check(&self, now: Instant) -> Result<(), Duration> {
        let state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match state.until {
            Some(until) if until > now => Err(until - now),
            _ => Ok(()),
        }
    }

    /// The plugin did what it should.
    pub fn success(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = State::default();
    }

    /// The plugin trapped or went over a limit of computing.
    pub fn failure(&self, now: Instant) {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        state.failures += 1;
        if state.failures >= FAILURES {
            let pause = FIRST_PAUSE
                .saturating_mul(1 << state.openings.min(6))
                .min(LONGEST_PAUSE);
            state.until = Some(now + pause);
            state.openings += 1;
            // Half open afterwards: the next failure opens again.
            state.failures = FAILURES - 1;
        }
    }

    /// Whether calls are refused now.
    pub fn is_open(&self, now: Instant) -> bool {
        self.check(now).is_err()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn opens_longer_each_time_and_closes_on_success() {
        let breaker = Breaker::default();
        let start = Instant::now();
        for _ in 0..4 {
            breaker.failure(start);
        }
        assert!(!breaker.is_open(start));
        breaker.failure(start);
        assert_eq!(breaker.check(start), Err(FIRST_PAUSE));
        let later = start + FIRST_PAUSE;
        assert!(!breaker.is_open(later));
        breaker.failure(later);
        assert_eq!(breaker.check(later), Err(2 * FIRST_PAUSE));
        breaker.success();
        assert!(!breaker.is_open(later));
    }
}
