//! `spec.healthChecks`: what must be healthy before a Stack is Ready.

use pretty_assertions::assert_eq;
use serde_json::json;
use windlass_api::health_check::HealthCheck;
use windlass_core::decision::Activity;
use windlass_core::snapshot::Verdict;

use crate::support::{World, after, failed, fresh};
use windlass_core::failure::FailureClass;

fn web() -> HealthCheck {
    HealthCheck {
        api_version: "apps/v1".into(),
        kind: "Deployment".into(),
        name: "web".into(),
        namespace: None,
    }
}

fn checked() -> serde_json::Value {
    json!({"healthChecks": [{"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}]})
}

/// What is found of the object from now on.
fn found(world: &mut World, healthy: bool, message: &str) {
    world.s.objects.health = vec![Verdict {
        check: web(),
        healthy,
        message: message.into(),
        at: world.s.now,
    }];
}

#[test]
fn a_stack_is_ready_when_what_it_waits_for_is_healthy() {
    let mut world = fresh(checked()).settled();
    assert_eq!(world.runs.len(), 1);
    assert_eq!(world.reason(), "Unhealthy");
    world.pass(2);
    found(&mut world, false, "progressing: 1 of 2 copies are ready");
    let decision = world.settle();
    assert_eq!(
        world.message(),
        "waiting for what must be healthy: Deployment web: progressing: 1 of 2 copies are ready"
    );
    assert!(matches!(decision.activity, Activity::Blocked { .. }));
    found(&mut world, true, "healthy");
    world.settle();
    assert_eq!(world.reason(), "ProcessingCompleted");
    // And no longer, when it is not.
    found(&mut world, false, "degraded: it crashes");
    world.settle();
    assert_eq!(world.reason(), "Unhealthy");
    assert_eq!(world.runs.len(), 1, "nothing is run for it");
}

#[test]
fn what_was_seen_before_a_run_says_nothing_about_what_it_did() {
    let mut world = fresh(checked());
    found(&mut world, true, "healthy");
    world.settle();
    assert_eq!(world.reason(), "Unhealthy");
    // The time of the end is stored in whole seconds: it is looked at again after that second.
    let decision = world.settle();
    let wait = decision.wake_at.unwrap().since(world.s.now);
    assert!(wait.as_millis() <= 1000, "{wait:?}");
    world.pass(1);
    found(&mut world, true, "healthy");
    world.settle();
    assert_eq!(world.reason(), "ProcessingCompleted");
}

#[test]
fn a_resync_does_not_make_a_healthy_stack_doubtful() {
    let mut fields = checked();
    fields["continueResyncOnCommitMatch"] = json!(true);
    fields["resyncFrequencySeconds"] = json!(60);
    let mut world = fresh(fields).settled();
    world.pass(2);
    found(&mut world, true, "healthy");
    world.settle();
    world.pass(61).settle();
    assert_eq!(world.runs.len(), 2);
    assert_eq!(world.reason(), "ProcessingCompleted");
}

#[test]
fn a_failure_comes_before_health() {
    let mut world = after(checked(), failed(FailureClass::Program, "boom"));
    found(&mut world, true, "healthy");
    world.settle();
    assert_ne!(world.reason(), "ProcessingCompleted");
    assert_ne!(world.reason(), "Unhealthy");
}

#[test]
fn a_check_that_names_nothing_is_refused() {
    for (check, words) in [
        (
            json!({"apiVersion": "apps/v1", "kind": "", "name": "web"}),
            "kind is empty",
        ),
        (
            json!({"apiVersion": "a/b/c", "kind": "X", "name": "web"}),
            "neither VERSION nor",
        ),
    ] {
        let world = fresh(json!({"healthChecks": [check]})).settled();
        assert_eq!(world.reason(), "SpecInvalid");
        let message = world.message();
        assert!(
            message.contains("spec.healthChecks[0]") && message.contains(words),
            "{message}"
        );
    }
}
