//! Health of Updates, Workspaces and Programs.

use pretty_assertions::assert_eq;
use serde_json::{Value, json};
use windlass_api::intent::RunSummary;
use windlass_api::run::RunState;
use windlass_api::{Program, Update, Workspace};
use windlass_core::decision::UpdateOutcome;
use windlass_core::time::Timestamp;
use windlass_core::update_object;

use crate::Rules;

fn summary(state: RunState, message: &str) -> RunSummary {
    serde_json::from_value(json!({
        "state": state, "message": message, "reason": (state == RunState::Cancelled).then_some("Canceled"),
        "startedAtMs": 0, "endedAtMs": 1000, "reachedEngine": true,
    }))
    .unwrap()
}

#[test]
fn runs_workspaces_and_programs_have_a_health_too() {
    let Some(rules) = Rules::find() else { return };
    let now = Timestamp(1_900_000_000_000);
    let update = |change: &dyn Fn(&mut Update)| {
        let mut update = Update::default();
        update.metadata.name = Some("web-1".into());
        update.metadata.generation = Some(1);
        change(&mut update);
        serde_json::to_value(update).unwrap()
    };
    let record = json!({"instance": "u", "hostname": "h", "bootId": "b", "atMs": 0});
    let record = serde_json::from_value(record).unwrap();
    let finished = |outcome: UpdateOutcome| {
        update(&|update| {
            update_object::start(update, &record, now);
            update_object::finish(update, &outcome, "outputs", now);
        })
    };
    let ended = |state, message: &str| {
        let summary = Box::new(summary(state, message));
        finished(UpdateOutcome::Ended { summary: *summary })
    };
    let workspace = |status: Value| {
        let mut workspace = Workspace::default();
        workspace.metadata.name = Some("web".into());
        workspace.metadata.generation = Some(2);
        let mut object = serde_json::to_value(workspace).unwrap();
        object["status"] = status;
        object
    };
    let shown = |status: &str, reason: &str, message: &str| {
        let condition =
            json!({"type": "Ready", "status": status, "reason": reason, "message": message});
        workspace(json!({"observedGeneration": 2, "conditions": [condition]}))
    };
    let program = |status: Value| {
        let mut program = Program::default();
        program.metadata.name = Some("web".into());
        program.metadata.generation = Some(2);
        let mut object = serde_json::to_value(program).unwrap();
        object["status"] = status;
        object
    };
    let artifact = json!({"url": "http://a/b", "path": "b", "digest": "sha256:0", "revision": "1"});
    let table = [
        (
            update(&|_| {}),
            "Progressing",
            "Waiting for the operator to start the run",
        ),
        (
            update(&|update| update_object::waits(update, "WorkspaceNotReady", "no pod yet", now)),
            "Progressing",
            "no pod yet",
        ),
        (
            update(&|update| update_object::start(update, &record, now)),
            "Progressing",
            "The run goes on",
        ),
        (
            ended(RunState::Succeeded, ""),
            "Healthy",
            "The run succeeded",
        ),
        (
            ended(RunState::Failed, "no such bucket"),
            "Degraded",
            "no such bucket",
        ),
        (ended(RunState::Cancelled, ""), "Degraded", "Canceled"),
        (
            finished(UpdateOutcome::Superseded),
            "Healthy",
            "the inputs changed before the run started",
        ),
        (
            workspace(json!({})),
            "Progressing",
            "Waiting for the workspace",
        ),
        (shown("True", "Succeeded", ""), "Healthy", ""),
        (
            shown("False", "WaitingForReplicas", "soon"),
            "Progressing",
            "soon",
        ),
        (
            shown("False", "ConnectionFailed", "silent"),
            "Progressing",
            "silent",
        ),
        (
            shown("False", "ImagePullBackOff", "no image"),
            "Degraded",
            "no image",
        ),
        (
            shown("False", "Deleting", ""),
            "Suspended",
            "No pod; the next run brings one",
        ),
        (
            program(json!({})),
            "Progressing",
            "Waiting for the operator to observe the program",
        ),
        (
            program(json!({"observedGeneration": 2, "artifact": artifact})),
            "Healthy",
            "",
        ),
        (
            program(json!({"observedGeneration": 2})),
            "Degraded",
            "The program cannot be packed; its events say why",
        ),
    ];
    let objects: Vec<Value> = table.iter().map(|(object, _, _)| object.clone()).collect();
    for ((object, status, message), said) in table.iter().zip(rules.healths(&objects)) {
        assert_eq!(
            said,
            (status.to_string(), message.to_string()),
            "{object:#}"
        );
    }
}
