//! Each class of failure, attempt by attempt: the conditions, the pause, and who is waited for.

use std::time::Duration;

use pretty_assertions::assert_eq;
use serde_json::{Value, json};
use windlass_core::decision::{Activity, Slot};
use windlass_core::failure::FailureClass::{self, *};
use windlass_core::time::Timestamp;

use crate::support::{World, after, failed, failure, fresh, ready};

/// A Stack whose first `failures` runs failed so, each tried as soon as it was due.
fn failing(fields: Value, class: FailureClass, failures: usize) -> World {
    let mut world = after(fields, failed(class, "boom"));
    for _ in 1..failures {
        world.ends.push_back(failed(class, "boom"));
        let before = world.runs.len();
        while world.runs.len() == before {
            world.wake();
        }
    }
    world
}

/// Reason, message, the pause in seconds (0: none), and the activity.
fn seen(world: &mut World) -> (String, String, i64, Activity) {
    let activity = world.settle().activity;
    let pause = world
        .last()
        .next_attempt
        .map_or(0, |at| (at.0.as_millisecond() - world.s.now.0) / 1000);
    (world.reason(), world.message(), pause, activity)
}

fn retrying(attempts: i64, patient: bool) -> Activity {
    Activity::Retrying { attempts, patient }
}

#[test]
fn each_class_and_attempt_has_its_row() {
    let few = |n: i64| format!("{n} update failure(s): boom");
    let many = "up failed 3 times or more; trying again ever more rarely: boom";
    let rows = [
        (
            Program,
            1,
            "RetryingAfterFailure",
            few(1),
            10,
            retrying(1, false),
        ),
        (
            Program,
            2,
            "RetryingAfterFailure",
            few(2),
            30,
            retrying(2, false),
        ),
        (
            Program,
            3,
            "UpdateFailed",
            many.into(),
            90,
            retrying(3, false),
        ),
        (
            Program,
            5,
            "UpdateFailed",
            many.into(),
            810,
            retrying(5, false),
        ),
        (
            Policy,
            1,
            "RetryingAfterFailure",
            few(1),
            10,
            retrying(1, false),
        ),
        (
            Policy,
            3,
            "UpdateFailed",
            many.into(),
            90,
            retrying(3, false),
        ),
        (
            Unavailable,
            1,
            "RetryingAfterFailure",
            few(1),
            10,
            retrying(1, true),
        ),
        (
            Unavailable,
            6,
            "RetryingAfterFailure",
            few(6),
            600,
            retrying(6, true),
        ),
        (
            Conflict,
            1,
            "RetryingAfterFailure",
            few(1),
            1,
            retrying(1, true),
        ),
        (
            Conflict,
            5,
            "RetryingAfterFailure",
            few(5),
            81,
            retrying(5, true),
        ),
        (
            Lost,
            1,
            "RetryingAfterFailure",
            few(1),
            1,
            retrying(1, true),
        ),
        (
            Lost,
            4,
            "RetryingAfterFailure",
            few(4),
            27,
            retrying(4, true),
        ),
    ];
    for (class, failures, reason, message, pause, activity) in rows {
        let mut world = failing(json!({}), class, failures);
        let (found_reason, found_message, found_pause, found_activity) = seen(&mut world);
        assert_eq!(
            (
                found_reason.as_str(),
                found_message.as_str(),
                found_activity
            ),
            (reason, message.as_str(), activity),
            "{class:?} {failures}"
        );
        // The jitter adds up to a tenth; stored times are whole seconds.
        let most = pause + pause / 10 + 1;
        assert!(
            (pause - 1..=most).contains(&found_pause),
            "{class:?} {failures}: {found_pause} s"
        );
        assert_eq!(world.runs.len(), failures);
        assert_eq!(world.last().failures, i64::try_from(failures).unwrap());
    }
}

#[test]
fn what_time_cannot_mend_waits_for_a_person() {
    for (class, message) in [
        (
            Invalid,
            "up was refused; not retrying until the spec or source changes: boom",
        ),
        (
            Cancelled,
            "up was cancelled; not retrying until the spec or source changes: boom",
        ),
    ] {
        let mut world = after(json!({}), failed(class, "boom"));
        let (reason, found, pause, activity) = seen(&mut world);
        assert_eq!(
            (reason.as_str(), found.as_str(), pause),
            ("UpdateFailed", message, 0)
        );
        assert!(matches!(activity, Activity::Blocked { .. }), "{activity:?}");
        world.pass(1_000_000);
        world.settle();
        assert_eq!(world.runs.len(), 1, "{class:?}");
        world.push("r2", "t2").settle();
        assert_eq!(
            (world.runs.len(), world.reason().as_str()),
            (2, "ProcessingCompleted")
        );
    }
}

#[test]
fn the_limit_gives_up() {
    let mut world = failing(json!({"retry": {"limit": 1}}), Program, 2);
    assert_eq!(
        world.message(),
        "up failed 2 times; not retrying until the spec or source changes: boom"
    );
    world.pass(1_000_000);
    let decision = world.settle();
    assert_eq!(world.runs.len(), 2);
    assert!(matches!(decision.activity, Activity::Blocked { .. }));
    world.request("please").settle();
    assert_eq!(world.runs.len(), 3);
}

#[test]
fn a_preview_that_fails_says_so() {
    let world = failing(json!({"preview": true}), Program, 2);
    assert_eq!(
        (world.reason().as_str(), world.message().as_str()),
        ("PreviewFailed", "preview failed (2 attempt(s)): boom")
    );
    let world = failing(json!({"preview": true}), Program, 3);
    assert_eq!(
        world.message(),
        "preview failed 3 times or more; trying again ever more rarely: boom"
    );
}

#[test]
fn an_old_cli_has_its_own_reason() {
    let mut end = failed(Invalid, "pulumi 3.1 is too old");
    end.reason = Some("PulumiVersionTooLow".into());
    let world = after(json!({}), end);
    assert_eq!(
        (world.reason().as_str(), world.message().as_str()),
        ("PulumiVersionTooLow", "pulumi 3.1 is too old")
    );
}

#[test]
fn the_count_begins_again_where_the_cause_is_new() {
    type Change = fn(&mut World);
    let rows: [(&str, Change, i64); 6] = [
        (
            "the same again",
            |w| {
                w.wake();
            },
            3,
        ),
        (
            "edit",
            |w| {
                w.edit(json!({"refresh": true})).settle();
            },
            1,
        ),
        (
            "request",
            |w| {
                w.request("again").settle();
            },
            1,
        ),
        (
            "revision",
            |w| {
                w.push("r2", "t2").settle();
            },
            1,
        ),
        (
            "success",
            |w| {
                w.ends.clear();
                w.wake();
                w.ends.push_back(failed(Program, "boom"));
                w.request("again").settle();
            },
            1,
        ),
        (
            "another class counts on",
            |w| {
                w.ends = [failed(Unavailable, "boom")].into();
                while w.runs.len() == 2 {
                    w.wake();
                }
            },
            3,
        ),
    ];
    for (what, change, failures) in rows {
        let mut world = failing(json!({}), Program, 2);
        world.ends.push_back(failed(Program, "boom"));
        change(&mut world);
        assert_eq!(world.last().failures, failures, "{what}");
    }
}

#[test]
fn stalled_stays_stalled_through_further_attempts_without_toggling() {
    let mut world = failing(json!({}), Program, 3);
    let stalled = world.conditions();
    world.hold_run();
    world.ends.push_back(failed(Program, "boom"));
    while world.runs.len() == 3 {
        world.wake();
        assert_eq!(world.conditions(), stalled);
    }
    world.pass(30);
    world.settle();
    assert_eq!(world.conditions(), stalled, "while it runs");
    world.let_run_end();
    assert_eq!(
        (world.conditions(), world.last().failures),
        (stalled, 4),
        "after it"
    );
    while world.runs.len() == 4 {
        world.wake();
    }
    assert_eq!(world.reason(), "ProcessingCompleted");
}

#[test]
fn no_condition_has_a_clock_time_in_it() {
    for failures in 1..=4 {
        let early = failing(json!({}), Program, failures).conditions();
        let mut late = fresh(json!({}));
        late.pass(123_456);
        late.ends = vec![failed(Program, "boom"); failures].into();
        late.settle();
        while late.runs.len() < failures {
            late.wake();
        }
        assert_eq!(late.conditions(), early);
    }
}

#[test]
fn a_source_in_trouble_is_seen_at_once_on_a_new_stack() {
    let mut world = fresh(json!({}));
    world.trouble.insert(
        Slot::Source,
        failure(Unavailable, "git.example does not answer"),
    );
    let decision = world.settle();
    assert_eq!(
        (world.reason().as_str(), world.message().as_str()),
        ("SourceUnavailable", "git.example does not answer")
    );
    assert_eq!(decision.activity, retrying(1, true));
    world.trouble.clear();
    world.wake();
    assert_eq!(world.reason(), "ProcessingCompleted");
}

#[test]
fn a_source_in_trouble_shows_on_a_stack_in_step_from_the_third_time() {
    let mut world = ready(json!({}));
    world.trouble.insert(
        Slot::Source,
        failure(Unavailable, "git.example does not answer"),
    );
    for reason in [
        "ProcessingCompleted",
        "ProcessingCompleted",
        "SourceUnavailable",
    ] {
        world.wake();
        assert_eq!(world.reason(), reason);
    }
    world.trouble.clear();
    world.wake();
    assert_eq!(
        (world.reason().as_str(), world.runs.len()),
        ("ProcessingCompleted", 1)
    );
}

#[test]
fn what_is_refused_outside_waits_for_an_edit() {
    for slot in [Slot::Source, Slot::Tree, Slot::Backend] {
        let mut world = fresh(json!({}));
        world
            .trouble
            .insert(slot, failure(Invalid, "no such scheme: ftp"));
        let decision = world.settle();
        assert_eq!(
            (world.reason().as_str(), world.message().as_str()),
            ("SpecInvalid", "no such scheme: ftp"),
            "{slot:?}"
        );
        assert!(
            matches!(decision.activity, Activity::Blocked { .. }),
            "{slot:?}"
        );
        assert_eq!(decision.wake_at.filter(|_| slot == Slot::Source), None);
        world.trouble.clear();
        world.edit(json!({"backend": "file:///other", "branch": "fixed"}));
        world.push("r2", "t2").settle();
        assert_eq!(world.reason(), "ProcessingCompleted", "{slot:?}");
    }
}

#[test]
fn what_does_not_answer_is_asked_again_by_itself() {
    for (slot, reason, message) in [
        (Slot::Tree, "SourceUnavailable", "down"),
        (
            Slot::Backend,
            "StackProcessing",
            "the backend is not available: down",
        ),
        (
            Slot::Run,
            "StackProcessing",
            "the agent of the workspace: down",
        ),
    ] {
        let mut world = fresh(json!({}));
        world.trouble.insert(slot, failure(Unavailable, "down"));
        let decision = world.settle();
        assert_eq!(
            (world.reason().as_str(), world.message().as_str()),
            (reason, message),
            "{slot:?}"
        );
        let soon = Timestamp(world.s.now.0).after(Duration::from_secs(12));
        assert!(decision.wake_at.is_some_and(|at| at <= soon), "{slot:?}");
        world.trouble.clear();
        world.wake();
        assert_eq!(
            (world.reason().as_str(), world.runs.len()),
            ("ProcessingCompleted", 1),
            "{slot:?}"
        );
    }
}

#[test]
fn an_agent_that_refuses_ends_the_update() {
    let mut world = fresh(json!({}));
    world
        .trouble
        .insert(Slot::Run, failure(Invalid, "pulumi is missing"));
    world.settle();
    assert_eq!(world.last().failure_class.as_deref(), Some("invalid"));
    assert_eq!(
        world.message(),
        "up was refused; not retrying until the spec or source changes: pulumi is missing"
    );
    assert_eq!(world.status().mutated, Some(false), "it never ran");
}
