//! Whether a run is due: a row for every cause.

use pretty_assertions::assert_eq;
use serde_json::{Value, json};
use windlass_api::intent::Cause;
use windlass_api::stack::{LastUpdate, StackSpec};
use windlass_core::due::{Due, Question, due};
use windlass_core::time::Timestamp;

use crate::support::T0;

struct Row {
    what: &'static str,
    spec: Value,
    last: Value,
    ask: fn(&mut Question<'_>),
    want: Due,
}

/// 100 s after the last run, which was for generation 1 and revision `r1`.
fn answer(row: &Row) -> Due {
    let mut spec = row.spec.clone();
    spec["stack"] = json!("dev");
    let spec: StackSpec = serde_json::from_value(spec).unwrap();
    let last: Option<LastUpdate> = (!row.last.is_null()).then(|| {
        let mut last = json!({
            "generation": 1, "type": "up", "lastResyncTime": "2026-01-01T00:00:00Z",
            "lastAttemptedCommit": "r1", "lastSuccessfulCommit": "r1",
        });
        for (key, value) in row.last.as_object().unwrap() {
            last[key] = value.clone();
        }
        serde_json::from_value(last).unwrap()
    });
    let mut question = Question {
        uid: "uid",
        spec: &spec,
        generation: 1,
        reconcile_request: None,
        deleting: false,
        revision: Some("r1"),
        source_digest: None,
        stack_outputs: "",
        last: last.as_ref(),
        now: Timestamp(T0 + 100_000),
    };
    (row.ask)(&mut question);
    due(&question)
}

fn row(what: &'static str, spec: Value, last: Value, ask: fn(&mut Question<'_>), want: Due) -> Row {
    Row {
        what,
        spec,
        last,
        ask,
        want,
    }
}

fn ok() -> Value {
    json!({"state": "succeeded"})
}

fn bad(class: &str, failures: i64) -> Value {
    json!({"state": "failed", "failures": failures, "failureClass": class})
}

const IDLE: Due = Due::Synced { until: None };

#[test]
fn each_cause_has_its_row() {
    let none = json!({});
    let same = |_: &mut Question<'_>| {};
    let rows = [
        row(
            "never ran",
            none.clone(),
            Value::Null,
            same,
            Due::Now(Cause::Initial),
        ),
        row(
            "never ran, deleting",
            none.clone(),
            Value::Null,
            |q| q.deleting = true,
            Due::Now(Cause::Deletion),
        ),
        row("in step", none.clone(), ok(), same, IDLE),
        row(
            "new generation",
            none.clone(),
            ok(),
            |q| q.generation = 2,
            Due::Now(Cause::NewGeneration { generation: 2 }),
        ),
        row(
            "new generation, deleting",
            none.clone(),
            ok(),
            |q| {
                q.generation = 2;
                q.deleting = true;
            },
            Due::Now(Cause::Deletion),
        ),
        row(
            "deleting, same generation",
            none.clone(),
            ok(),
            |q| q.deleting = true,
            Due::Now(Cause::Deletion),
        ),
        row(
            "destroyed",
            none.clone(),
            json!({"state": "succeeded", "type": "destroy"}),
            |q| q.deleting = true,
            IDLE,
        ),
        row(
            "request",
            none.clone(),
            ok(),
            |q| q.reconcile_request = Some("a"),
            Due::Now(Cause::ReconcileRequest { value: "a".into() }),
        ),
        row(
            "request served",
            none.clone(),
            json!({"state": "succeeded", "reconcileRequest": "a"}),
            |q| q.reconcile_request = Some("a"),
            IDLE,
        ),
        row(
            "request taken back",
            none.clone(),
            json!({"state": "succeeded", "reconcileRequest": "a"}),
            same,
            Due::Now(Cause::ReconcileRequest {
                value: String::new(),
            }),
        ),
        row(
            "empty request is none",
            none.clone(),
            ok(),
            |q| q.reconcile_request = Some(""),
            IDLE,
        ),
        row(
            "generation goes before request",
            none.clone(),
            ok(),
            |q| {
                q.generation = 2;
                q.reconcile_request = Some("a");
            },
            Due::Now(Cause::NewGeneration { generation: 2 }),
        ),
        row(
            "new revision",
            none.clone(),
            ok(),
            |q| q.revision = Some("r2"),
            Due::Now(Cause::NewRevision {
                revision: "r2".into(),
            }),
        ),
        row(
            "other content, same revision",
            none.clone(),
            json!({"state": "succeeded", "sourceDigest": "d1"}),
            |q| q.source_digest = Some("d2"),
            Due::Now(Cause::NewRevision {
                revision: "r1".into(),
            }),
        ),
        row(
            "the same content",
            none.clone(),
            json!({"state": "succeeded", "sourceDigest": "d1"}),
            |q| q.source_digest = Some("d1"),
            IDLE,
        ),
        row(
            "content that nobody noted, as after a takeover",
            none.clone(),
            ok(),
            |q| q.source_digest = Some("d2"),
            IDLE,
        ),
        row(
            "given up, other content",
            none.clone(),
            json!({"state": "failed", "failures": 1, "failureClass": "invalid", "sourceDigest": "d1"}),
            |q| q.source_digest = Some("d2"),
            Due::Now(Cause::NewRevision {
                revision: "r1".into(),
            }),
        ),
        row(
            "revision unknown",
            none.clone(),
            ok(),
            |q| q.revision = None,
            IDLE,
        ),
        row(
            "new revision, deleting after a destroy",
            none.clone(),
            json!({"state": "succeeded", "type": "destroy"}),
            |q| {
                q.deleting = true;
                q.revision = Some("r2");
            },
            IDLE,
        ),
        row(
            "outputs of another changed",
            none.clone(),
            ok(),
            |q| q.stack_outputs = "d2",
            Due::Now(Cause::InputsChanged),
        ),
        row(
            "outputs of another are the same",
            none.clone(),
            json!({"state": "succeeded", "stackOutputs": "d2"}),
            |q| q.stack_outputs = "d2",
            IDLE,
        ),
        row(
            "outputs of another no longer used",
            none.clone(),
            json!({"state": "succeeded", "stackOutputs": "d2"}),
            same,
            Due::Now(Cause::InputsChanged),
        ),
        row(
            "resync is over",
            json!({"continueResyncOnCommitMatch": true, "resyncFrequencySeconds": 100}),
            ok(),
            same,
            Due::Now(Cause::Resync),
        ),
        row(
            "resync is not over",
            json!({"continueResyncOnCommitMatch": true, "resyncFrequencySeconds": 101}),
            ok(),
            same,
            Due::Synced {
                until: Some(Timestamp(T0 + 101_000)),
            },
        ),
        row(
            "resync at least a minute",
            json!({"continueResyncOnCommitMatch": true, "resyncFrequencySeconds": 1}),
            ok(),
            |q| q.now = Timestamp(T0 + 59_999),
            Due::Synced {
                until: Some(Timestamp(T0 + 60_000)),
            },
        ),
        row(
            "no resync unless asked for",
            json!({"resyncFrequencySeconds": 60}),
            ok(),
            same,
            IDLE,
        ),
        row(
            "revision goes before resync",
            json!({"continueResyncOnCommitMatch": true}),
            ok(),
            |q| q.revision = Some("r2"),
            Due::Now(Cause::NewRevision {
                revision: "r2".into(),
            }),
        ),
        row(
            "retry is due",
            none.clone(),
            bad("program", 1),
            same,
            Due::Now(Cause::Retry { attempt: 2 }),
        ),
        row(
            "an older version's failure is the program's",
            none.clone(),
            json!({"state": "failed", "failures": 0}),
            same,
            Due::Now(Cause::Retry { attempt: 1 }),
        ),
        row(
            "invalid waits",
            none.clone(),
            bad("invalid", 1),
            same,
            Due::GivenUp,
        ),
        row(
            "cancelled waits",
            none.clone(),
            bad("cancelled", 1),
            same,
            Due::GivenUp,
        ),
        row(
            "invalid, edited",
            none.clone(),
            bad("invalid", 1),
            |q| q.generation = 2,
            Due::Now(Cause::NewGeneration { generation: 2 }),
        ),
        row(
            "invalid, requested",
            none.clone(),
            bad("invalid", 1),
            |q| q.reconcile_request = Some("a"),
            Due::Now(Cause::ReconcileRequest { value: "a".into() }),
        ),
        row(
            "invalid, new revision",
            none.clone(),
            bad("invalid", 1),
            |q| q.revision = Some("r2"),
            Due::Now(Cause::NewRevision {
                revision: "r2".into(),
            }),
        ),
        row(
            "a new revision does not wait for the pause",
            none.clone(),
            bad("program", 9),
            |q| q.revision = Some("r2"),
            Due::Now(Cause::NewRevision {
                revision: "r2".into(),
            }),
        ),
        row(
            "new inputs do not wait for the pause",
            none.clone(),
            bad("program", 9),
            |q| q.stack_outputs = "d2",
            Due::Now(Cause::InputsChanged),
        ),
        row(
            "a failed destroy knows no revisions",
            none.clone(),
            json!({"state": "failed", "failures": 1, "failureClass": "program", "type": "destroy"}),
            |q| {
                q.deleting = true;
                q.revision = Some("r2");
            },
            Due::Now(Cause::Retry { attempt: 2 }),
        ),
        row(
            "limit not reached",
            json!({"retry": {"limit": 1}}),
            bad("program", 1),
            same,
            Due::Now(Cause::Retry { attempt: 2 }),
        ),
        row(
            "limit reached",
            json!({"retry": {"limit": 1}}),
            bad("program", 2),
            same,
            Due::GivenUp,
        ),
        row(
            "no attempt at all",
            json!({"retry": {"limit": 0}}),
            bad("program", 1),
            same,
            Due::GivenUp,
        ),
        row(
            "a state that nobody knows",
            none.clone(),
            json!({"state": "resting"}),
            same,
            IDLE,
        ),
        row("no state at all", none.clone(), json!({}), same, IDLE),
    ];
    for row in &rows {
        assert_eq!(answer(row), row.want, "{}", row.what);
    }
}
