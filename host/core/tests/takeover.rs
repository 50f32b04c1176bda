//! Stacks that the Pulumi Kubernetes Operator left behind: their status has none of our notes.

use pretty_assertions::assert_eq;
use serde_json::{Value, json};
use windlass_core::decision::Activity;

use crate::support::{READY, World, fresh};

/// A Stack as that operator leaves it, after a success of this operation.
fn left(fields: Value, operation: &str) -> World {
    let mut world = fresh(fields);
    let stack = world.stack_mut();
    stack.metadata.finalizers = Some(vec!["finalizer.stack.pulumi.com".into()]);
    stack.status = serde_json::from_value(json!({
        "observedGeneration": 1,
        "conditions": [{
            "type": "Ready", "status": "True", "reason": "ProcessingCompleted", "message": READY,
            "lastTransitionTime": "2025-12-01T00:00:00Z",
        }],
        "lastUpdate": {
            "generation": 1, "name": "web-1958aa3f", "type": operation, "state": "succeeded",
            "lastAttemptedCommit": "r1", "lastSuccessfulCommit": "r1",
            "lastResyncTime": "2025-12-01T00:00:00Z",
        },
    }))
    .unwrap();
    world
}

#[test]
fn an_idle_ready_stack_costs_nothing() {
    let mut world = left(json!({}), "up");
    let decision = world.settle();
    assert_eq!(
        (world.log.as_slice(), world.runs.as_slice()),
        ([].as_slice(), [].as_slice())
    );
    assert_eq!(world.s.objects.workspace.current, None);
    assert_eq!(decision.activity, Activity::Settled);
}

#[test]
fn a_new_revision_runs_and_numbers_begin() {
    let mut world = left(json!({}), "up");
    world.push("r2", "t2").settle();
    assert_eq!((world.runs.len(), world.last().sequence), (1, 1));
}

#[test]
fn its_resources_are_destroyed_if_that_is_asked_for() {
    for (operation, destroys) in [("up", 1), ("refresh", 1), ("preview", 0), ("destroy", 1)] {
        let mut world = left(json!({"destroyOnFinalize": true}), operation);
        world.delete().settle();
        assert_eq!(
            (world.runs.len(), world.gone()),
            (destroys, true),
            "{operation}"
        );
    }
}

#[test]
fn its_project_is_proof_of_resources_whatever_ran_last() {
    let mut world = left(json!({"destroyOnFinalize": true}), "preview");
    world.stack_mut().status.as_mut().unwrap().outputs = Some([("a".to_owned(), json!(1))].into());
    world.delete().settle();
    assert_eq!((world.runs.len(), world.gone()), (1, true));
}

#[test]
fn a_stack_that_it_had_given_up_is_tried_again() {
    let mut world = left(json!({}), "up");
    let last = world
        .stack_mut()
        .status
        .as_mut()
        .unwrap()
        .last_update
        .as_mut()
        .unwrap();
    last.state = Some(windlass_api::stack::UpdateState::Failed);
    last.failures = 3;
    world.settle();
    assert_eq!(
        (world.runs.len(), world.reason().as_str()),
        (1, "ProcessingCompleted")
    );
}

#[test]
fn an_update_that_it_planned_and_never_made_is_forgotten() {
    let mut world = left(json!({}), "up");
    world.stack_mut().status.as_mut().unwrap().current_update =
        Some(windlass_api::stack::CurrentUpdate {
            generation: 1,
            name: Some("web-1958aa40".into()),
            ..Default::default()
        });
    world.settle();
    assert_eq!((world.status().current_update, world.runs.len()), (None, 0));
}
