//! What the engine remembers of a key: which tasks are out, whose answers still count, and how often it has failed.

use pretty_assertions::assert_eq;
use windlass_core::decision::{Slot, Task, TaskKind};
use windlass_core::failure::{Failure, FailureClass};
use windlass_core::obs::{Answer, Obs};
use windlass_core::snapshot::Resolution;
use windlass_core::time::Timestamp;
use windlass_engine::{Found, Keyed};

use crate::support::key;

fn resolve(cause: &str) -> Task {
    Task {
        cause: cause.into(),
        kind: TaskKind::Resolve { fresh: false },
    }
}

fn cancel(cause: &str) -> Task {
    Task {
        cause: cause.into(),
        kind: TaskKind::Cancel {
            update: "u".into(),
            instance: "i".into(),
        },
    }
}

fn source(revision: &str) -> Found {
    Found::Source(Resolution {
        revision: revision.into(),
        dir: String::new(),
        poll_after_ms: None,
        workspace_path: false,
        artifact: serde_json::Value::Null,
    })
}

fn at(seconds: i64) -> Timestamp {
    Timestamp(seconds * 1000)
}

fn down(class: FailureClass) -> Failure {
    Failure::new(class, "Reason", "down")
}

/// A memory to which this answer has come.
fn after(result: Result<Found, Failure>) -> Keyed {
    let mut memory = Keyed::default();
    memory.schedule(&[resolve("a")], at(0));
    assert!(memory.observe(&key("web"), Slot::Source, "a", result, at(1)));
    memory
}

fn revision(memory: &Keyed) -> Option<&str> {
    memory
        .seen
        .source
        .last()
        .map(|known| known.value.revision.as_str())
}

#[test]
fn a_task_is_started_once_while_it_is_out() {
    let mut memory = Keyed::default();
    assert_eq!(
        memory.schedule(&[resolve("a")], at(0)),
        (vec![resolve("a")], vec![])
    );
    assert_eq!(memory.schedule(&[resolve("a")], at(1)), (vec![], vec![]));
    assert_eq!(memory.seen.source.answer("a"), Answer::Waiting(at(0)));
}

#[test]
fn another_question_takes_the_place_of_the_one_that_is_out() {
    let mut memory = Keyed::default();
    memory.schedule(&[resolve("a")], at(0));
    assert_eq!(
        memory.schedule(&[resolve("b")], at(1)),
        (vec![resolve("b")], vec![])
    );
    assert!(
        !memory.observe(&key("web"), Slot::Source, "a", Ok(source("old")), at(2)),
        "nobody asks that any more"
    );
    assert_eq!(
        (revision(&memory), memory.seen.source.answer("b")),
        (None, Answer::Waiting(at(1)))
    );
    assert!(memory.observe(&key("web"), Slot::Source, "b", Ok(source("new")), at(3)));
    assert_eq!(revision(&memory), Some("new"));
    assert!(!memory.observe(&key("web"), Slot::Source, "b", Ok(source("twice")), at(4)));
    assert_eq!(revision(&memory), Some("new"));
}

#[test]
fn what_is_no_longer_wanted_is_abandoned_and_what_was_known_stays() {
    let mut memory = after(Ok(source("r1")));
    memory.schedule(&[resolve("b")], at(2));
    assert_eq!(memory.schedule(&[], at(3)), (vec![], vec![Slot::Source]));
    assert!(
        matches!(&memory.seen.source, Obs::Known(known) if known.value.revision == "r1" && known.cause == "a")
    );
    assert!(!memory.observe(&key("web"), Slot::Source, "b", Ok(source("late")), at(4)));
    let mut memory = Keyed::default();
    memory.schedule(&[resolve("a")], at(0));
    memory.schedule(&[], at(1));
    assert_eq!(memory.seen.source, Obs::Unknown);
}

#[test]
fn asking_again_keeps_what_is_known_at_hand() {
    let mut memory = after(Ok(source("r1")));
    let (start, _) = memory.schedule(&[resolve("a")], at(60));
    assert_eq!((start.len(), revision(&memory)), (1, Some("r1")));
    memory.observe(
        &key("web"),
        Slot::Source,
        "a",
        Err(down(FailureClass::Unavailable)),
        at(61),
    );
    assert_eq!(revision(&memory), Some("r1"));
}

#[test]
fn failures_count_for_one_question_and_the_pause_grows() {
    let mut memory = after(Err(down(FailureClass::Unavailable)));
    let mut pauses = Vec::new();
    for attempt in 1..=4 {
        let Answer::Failed {
            attempts, retry_at, ..
        } = memory.seen.source.answer("a")
        else {
            panic!("{:?}", memory.seen.source);
        };
        assert_eq!(attempts, attempt);
        let now = retry_at.unwrap();
        pauses.push(now.0);
        memory.schedule(&[resolve("a")], now);
        // While the next attempt is out, the failure stays in sight.
        assert!(
            matches!(memory.seen.source.answer("a"), Answer::Failed { attempts, .. } if attempts == attempt)
        );
        memory.observe(
            &key("web"),
            Slot::Source,
            "a",
            Err(down(FailureClass::Unavailable)),
            now,
        );
    }
    let steps: Vec<i64> = pauses.windows(2).map(|w| (w[1] - w[0]) / 1000).collect();
    assert!(
        (30..=33).contains(&steps[0])
            && (90..=99).contains(&steps[1])
            && (270..=297).contains(&steps[2]),
        "{steps:?}"
    );
    // Another question begins at one; a success too.
    memory.schedule(&[resolve("b")], at(9000));
    memory.observe(
        &key("web"),
        Slot::Source,
        "b",
        Err(down(FailureClass::Unavailable)),
        at(9001),
    );
    assert!(matches!(
        memory.seen.source.answer("b"),
        Answer::Failed { attempts: 1, .. }
    ));
    memory.schedule(&[resolve("b")], at(9100));
    memory.observe(&key("web"), Slot::Source, "b", Ok(source("r9")), at(9101));
    memory.schedule(&[resolve("b")], at(9200));
    memory.observe(
        &key("web"),
        Slot::Source,
        "b",
        Err(down(FailureClass::Unavailable)),
        at(9201),
    );
    assert!(matches!(
        memory.seen.source.answer("b"),
        Answer::Failed { attempts: 1, .. }
    ));
}

#[test]
fn what_time_cannot_mend_has_no_next_attempt() {
    let memory = after(Err(down(FailureClass::Invalid)));
    assert!(matches!(
        memory.seen.source.answer("a"),
        Answer::Failed { retry_at: None, .. }
    ));
}

#[test]
fn slots_do_not_disturb_each_other() {
    let mut memory = Keyed::default();
    memory.schedule(&[resolve("a"), cancel("c")], at(0));
    assert_eq!(
        memory.schedule(&[resolve("a")], at(1)),
        (vec![], vec![Slot::Cancel])
    );
    assert_eq!(memory.seen.source.answer("a"), Answer::Waiting(at(0)));
}

#[test]
fn a_cancellation_that_was_heard_is_known() {
    let mut memory = Keyed::default();
    memory.schedule(&[cancel("c")], at(0));
    assert_eq!(memory.seen.cancel.answer("c"), Answer::Waiting(at(0)));
    assert!(memory.observe(&key("web"), Slot::Cancel, "c", Ok(Found::Cancelling), at(1)));
    assert!(matches!(memory.seen.cancel.answer("c"), Answer::Is(_)));
    assert_eq!(memory.seen.cancel.answer("another run"), Answer::Ask);
    memory.schedule(&[cancel("d")], at(2));
    memory.observe(
        &key("web"),
        Slot::Cancel,
        "d",
        Err(down(FailureClass::Unavailable)),
        at(3),
    );
    let Answer::Failed {
        retry_at: Some(next),
        ..
    } = memory.seen.cancel.answer("d")
    else {
        panic!("{:?}", memory.seen.cancel);
    };
    assert!(next > at(3), "not at once");
}
