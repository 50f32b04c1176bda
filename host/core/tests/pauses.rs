//! How long is waited: after failures, by class and by what the Stack says, and between resyncs.

use std::collections::BTreeSet;

use pretty_assertions::assert_eq;
use serde_json::{Value, json};
use windlass_api::stack::{LastUpdate, StackSpec};
use windlass_core::due::{next_attempt, resync_interval};

use crate::support::T0;

fn spec(mut fields: Value) -> StackSpec {
    fields["stack"] = json!("dev");
    serde_json::from_value(fields).unwrap()
}

fn failed(class: &str, failures: i64) -> LastUpdate {
    serde_json::from_value(json!({
        "state": "failed", "failures": failures, "failureClass": class, "lastResyncTime": "2026-01-01T00:00:00Z",
    }))
    .unwrap()
}

/// Whole seconds until the next attempt.
fn pause(fields: Value, class: &str, failures: i64) -> i64 {
    (next_attempt("uid", &spec(fields), &failed(class, failures)).0 - T0) / 1000
}

#[test]
fn pauses_grow_with_the_failures_and_keep_to_the_cap_of_the_class() {
    // Jitter adds up to a tenth and never goes over the cap.
    for (class, failures, least, most) in [
        ("program", 1, 10, 11),
        ("program", 2, 30, 33),
        ("program", 3, 90, 99),
        ("program", 4, 270, 297),
        ("program", 20, 3600, 3600),
        ("policy", 1, 10, 11),
        ("policy", 20, 3600, 3600),
        ("unavailable", 1, 10, 11),
        ("unavailable", 20, 600, 600),
        ("conflict", 1, 1, 1),
        ("conflict", 2, 3, 3),
        ("conflict", 20, 600, 600),
        ("lost", 1, 1, 1),
        ("lost", 20, 600, 600),
    ] {
        let found = pause(json!({}), class, failures);
        assert!(
            (least..=most).contains(&found),
            "{class} {failures}: {found}"
        );
    }
}

#[test]
fn the_stack_says_how_long_at_first_and_at_most() {
    for (fields, failures, least, most) in [
        (json!({"retryMaxBackoffDurationSeconds": 40}), 9, 40, 40),
        (
            json!({"retry": {"maxBackoffSeconds": 50}, "retryMaxBackoffDurationSeconds": 40}),
            9,
            50,
            50,
        ),
        (json!({"retryMaxBackoffDurationSeconds": 0}), 9, 3600, 3600),
        (json!({"retryMaxBackoffDurationSeconds": -1}), 9, 3600, 3600),
        (json!({"retry": {"initialBackoffSeconds": 60}}), 1, 60, 66),
        (json!({"retry": {"initialBackoffSeconds": 60}}), 2, 180, 198),
        (json!({"retry": {"initialBackoffSeconds": 0}}), 1, 10, 11),
        (
            json!({"retry": {"initialBackoffSeconds": 60, "maxBackoffSeconds": 20}}),
            1,
            20,
            20,
        ),
    ] {
        let found = pause(fields.clone(), "program", failures);
        assert!(
            (least..=most).contains(&found),
            "{fields} {failures}: {found}"
        );
    }
}

#[test]
fn a_fleet_that_failed_together_does_not_come_back_together() {
    let (spec, last) = (spec(json!({})), failed("program", 4));
    let times: BTreeSet<i64> = (0..50)
        .map(|n| next_attempt(&format!("uid-{n}"), &spec, &last).0)
        .collect();
    assert!(times.len() > 45, "{times:?}");
}

#[test]
fn a_resync_is_never_more_often_than_every_minute() {
    for (written, seconds) in [
        (json!(null), 60),
        (json!(0), 60),
        (json!(-5), 60),
        (json!(59), 60),
        (json!(61), 61),
    ] {
        let spec = spec(json!({"resyncFrequencySeconds": written}));
        assert_eq!(resync_interval(&spec).as_secs(), seconds, "{written}");
    }
}
