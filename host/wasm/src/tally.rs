//! Evaluations counted, with how long they took: by plugin, function and result, each a closed set.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use crate::call::{Call, Output};
use crate::error::PluginError;

/// Upper bounds of the buckets of durations, in seconds. What is longer is in none of them but in the count.
pub const BUCKETS: [f64; 12] = [
    0.0001, 0.0005, 0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 15.0, 60.0,
];

/// What evaluations are told apart by.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct EvaluationKind {
    pub plugin: String,
    /// The exported function.
    pub function: &'static str,
    /// `ok`, or the failure's [`PluginError::label`].
    pub result: &'static str,
}

/// Evaluations of one kind.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct EvaluationCount {
    pub count: u64,
    /// Seconds, questions and their answers included.
    pub seconds: f64,
    /// How many took no longer than the bound of [`BUCKETS`] at their place, and longer than the one before.
    pub buckets: [u64; BUCKETS.len()],
}

/// Counts of a host. They only grow.
#[derive(Default)]
pub struct Tally(Mutex<BTreeMap<EvaluationKind, EvaluationCount>>);

impl Tally {
    pub fn count(
        &self,
        plugin: &str,
        call: &Call,
        result: &Result<Output, PluginError>,
        took: Duration,
    ) {
        let kind = EvaluationKind {
            plugin: plugin.to_owned(),
            function: call.function(),
            result: result.as_ref().map_or_else(PluginError::label, |_| "ok"),
        };
        let seconds = took.as_secs_f64();
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let counted = counts.entry(kind).or_default();
        counted.count += 1;
        counted.seconds += seconds;
        if let Some(bucket) = BUCKETS.iter().position(|bound| seconds <= *bound) {
            counted.buckets[bucket] += 1;
        }
    }

    pub fn read(&self) -> Vec<(EvaluationKind, EvaluationCount)> {
        let counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        counts
            .iter()
            .map(|(kind, count)| (kind.clone(), count.clone()))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use windlass_sdk::{ErrorClass, Fault};

    #[test]
    fn evaluations_are_told_apart_and_a_plugins_own_reason_makes_no_label() {
        let tally = Tally::default();
        let objects = || Ok(Output::Objects(Vec::new()));
        let watches = Call::Watches { spec: "{}".into() };
        tally.count("a", &watches, &objects(), Duration::from_micros(300));
        tally.count("a", &watches, &objects(), Duration::from_secs(3600));
        let fault = Err(PluginError::Fault(Fault {
            class: ErrorClass::Denied,
            reason: "AnythingAPluginLikes17".into(),
            message: "no".into(),
            retry_after_ms: None,
        }));
        tally.count("a", &watches, &fault, Duration::from_millis(2));
        let read = tally.read();
        let results: Vec<_> = read.iter().map(|(kind, _)| kind.result).collect();
        assert_eq!(results, ["FaultDenied", "ok"]);
        let (kind, ok) = read.last().unwrap();
        assert_eq!((kind.plugin.as_str(), kind.function), ("a", "watches"));
        assert_eq!(ok.count, 2);
        assert_eq!(ok.buckets.iter().sum::<u64>(), 1, "an hour is in no bucket");
        assert_eq!(ok.buckets[1], 1);
        assert!(ok.seconds > 3600.0);
    }
}
