//! When a failed thing is tried again. Exponential, capped, spread by a hash instead of by chance.

use std::time::Duration;

use serde::Serialize;

use crate::digest::fraction;
use crate::failure::FailureClass;
use crate::time::Timestamp;

const FACTOR: f64 = 3.0;
/// Up to this share of the delay is added, so that a fleet that failed together does not come back together.
const JITTER: f64 = 0.1;

/// What a Stack says about its pauses; the class decides what it leaves open.
#[derive(Clone, Copy, Debug, Default)]
pub struct Pauses {
    pub first: Option<Duration>,
    pub cap: Option<Duration>,
}

/// The delay after the `attempts`-th failure (from 1). `key` is whatever names the object and the cause: the same key
/// and attempt give the same delay.
pub fn delay(class: FailureClass, attempts: i64, pauses: Pauses, key: &impl Serialize) -> Duration {
    let Pauses { first, cap } = pauses;
    let cap = cap.unwrap_or_else(|| class.cap()).as_secs_f64();
    let first = first.unwrap_or_else(|| class.first_delay()).as_secs_f64();
    let exponent = (attempts.clamp(1, 40) - 1) as f64;
    let plain = (first * FACTOR.powf(exponent)).min(cap);
    let spread = plain * JITTER * fraction(&(key, attempts));
    // The cap is a promise to the user: jitter stays below it.
    Duration::from_millis(((plain + spread).min(cap) * 1000.0) as u64)
}

/// The time of the next attempt.
pub fn next_attempt(
    failed_at: Timestamp,
    class: FailureClass,
    attempts: i64,
    pauses: Pauses,
    key: &impl Serialize,
) -> Timestamp {
    failed_at.after(delay(class, attempts, pauses, key))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grows_threefold_up_to_the_cap_of_the_class() {
        let seconds = |class, attempt| delay(class, attempt, Pauses::default(), &"uid").as_secs();
        assert_eq!(seconds(FailureClass::Program, 1), 10);
        assert!((30..=33).contains(&seconds(FailureClass::Program, 2)));
        assert!((90..=99).contains(&seconds(FailureClass::Program, 3)));
        assert_eq!(seconds(FailureClass::Program, 30), 3600);
        assert_eq!(seconds(FailureClass::Unavailable, 30), 600);
        assert_eq!(seconds(FailureClass::Lost, 1), 1);
    }

    #[test]
    fn the_stacks_cap_wins() {
        let five = Pauses {
            cap: Some(Duration::from_secs(5)),
            ..Pauses::default()
        };
        assert_eq!(
            delay(FailureClass::Program, 1, five, &"uid"),
            Duration::from_secs(5)
        );
    }

    #[test]
    fn is_a_function_of_its_arguments() {
        assert_eq!(
            delay(
                FailureClass::Program,
                4,
                Pauses::default(),
                &("uid", "cause")
            ),
            delay(
                FailureClass::Program,
                4,
                Pauses::default(),
                &("uid", "cause")
            )
        );
        assert_ne!(
            delay(
                FailureClass::Program,
                4,
                Pauses::default(),
                &("uid", "cause")
            ),
            delay(
                FailureClass::Program,
                4,
                Pauses::default(),
                &("uid2", "cause")
            )
        );
    }
}
