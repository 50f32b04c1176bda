//! Health of Stacks: the script for Argo CD and the operator's own rule agree on every state.

use pretty_assertions::assert_eq;
use serde_json::{Value, json};
use windlass_api::run::Operation;
use windlass_core::failure::FailureClass;
use windlass_core::phase::{Phase, StallReason};

use crate::Rules;

/// A Stack in a phase, as the operator writes it.
pub fn stack(phase: &Phase) -> Value {
    let conditions: Vec<Value> = phase
        .conditions()
        .into_iter()
        .map(|condition| {
            json!({
                "type": condition.type_, "status": if condition.status { "True" } else { "False" },
                "reason": condition.reason, "message": condition.message,
                "lastTransitionTime": "2030-01-01T00:00:00Z",
            })
        })
        .collect();
    let spec = match phase {
        Phase::Suspended => json!({"stack": "organization/web/dev", "suspend": true}),
        _ => json!({"stack": "organization/web/dev"}),
    };
    json!({
        "apiVersion": "pulumi.com/v1", "kind": "Stack",
        "metadata": {"name": "web", "namespace": "apps", "generation": 3},
        "spec": spec,
        "status": {"observedGeneration": 3, "conditions": conditions},
    })
}

/// Every phase that there is, and what Argo CD is to say of it: only what needs somebody is Degraded.
fn phases() -> Vec<(Phase, &'static str, &'static str)> {
    let mut all = vec![
        (
            Phase::Ready,
            "Healthy",
            "the stack has been processed and is up to date",
        ),
        (
            Phase::processing("stack is being processed"),
            "Progressing",
            "stack is being processed",
        ),
        (
            Phase::PrerequisiteNotSatisfied {
                message: "waits for \"network\"".into(),
            },
            "Progressing",
            "waits for \"network\"",
        ),
        (
            Phase::SourceUnavailable {
                message: "no such branch\nsays the server".into(),
            },
            "Progressing",
            "no such branch\nsays the server",
        ),
        (
            Phase::Unhealthy {
                message: "waiting for what must be healthy: Deployment web".into(),
            },
            "Progressing",
            "waiting for what must be healthy: Deployment web",
        ),
        (Phase::Suspended, "Suspended", "The stack is suspended"),
    ];
    let retrying = |operation, class| Phase::Retrying {
        operation,
        failures: 2,
        class,
        message: "bad day".into(),
    };
    for class in [
        FailureClass::Program,
        FailureClass::Policy,
        FailureClass::Unavailable,
        FailureClass::Conflict,
        FailureClass::Lost,
    ] {
        all.push((
            retrying(Operation::Up, class),
            "Progressing",
            "2 update failure(s): bad day",
        ));
    }
    all.push((
        retrying(Operation::Preview, FailureClass::Program),
        "Progressing",
        "preview failed (2 attempt(s)): bad day",
    ));
    for reason in [
        StallReason::SpecInvalid,
        StallReason::PulumiVersionTooLow,
        StallReason::WorkspaceFailed,
        StallReason::UpdateFailed,
        StallReason::NamespaceTerminating,
    ] {
        // A reason more needs a line above.
        match reason {
            StallReason::SpecInvalid
            | StallReason::PulumiVersionTooLow
            | StallReason::WorkspaceFailed
            | StallReason::UpdateFailed
            | StallReason::NamespaceTerminating => {}
        }
        all.push((
            Phase::stalled(reason, "not by itself"),
            "Degraded",
            "not by itself",
        ));
    }
    // A phase more needs a line above.
    for (phase, _, _) in &all {
        match phase {
            Phase::Ready
            | Phase::Processing { .. }
            | Phase::PrerequisiteNotSatisfied { .. }
            | Phase::Retrying { .. }
            | Phase::SourceUnavailable { .. }
            | Phase::Unhealthy { .. }
            | Phase::Suspended
            | Phase::Stalled { .. } => {}
        }
    }
    all
}

/// The rule that Argo CD brings with it from 3.6 on: the generation, then the first condition that holds. It knows
/// neither suspension nor requests.
fn bundled(stack: &Value) -> &'static str {
    let status = &stack["status"];
    if status["observedGeneration"] != stack["metadata"]["generation"] {
        return "Progressing";
    }
    let holds = |name: &str| {
        let all = status["conditions"].as_array();
        all.into_iter()
            .flatten()
            .any(|one| one["type"] == name && one["status"] == "True")
    };
    let verdicts = [
        ("Stalled", "Degraded"),
        ("Reconciling", "Progressing"),
        ("Ready", "Healthy"),
    ];
    let found = verdicts.iter().find(|(name, _)| holds(name));
    found.map_or("Progressing", |(_, verdict)| verdict)
}

const UNSEEN: &str = "Waiting for the operator to observe the latest spec change";
const REQUESTED: &str = "Waiting for the operator to pick up the requested run";

#[test]
fn argo_cd_and_our_own_rule_say_the_same_of_every_state_of_a_stack() {
    let Some(rules) = Rules::find() else { return };
    let mut table: Vec<(String, Value, &str, &str)> = phases()
        .into_iter()
        .map(|(phase, status, message)| (format!("{phase:?}"), stack(&phase), status, message))
        .collect();
    for (what, object, status, _) in &table {
        if !what.starts_with("Suspended") {
            assert_eq!(bundled(object), *status, "{what}");
        }
    }
    let with = |phase: &Phase, change: &dyn Fn(&mut Value)| {
        let mut object = stack(phase);
        change(&mut object);
        object
    };
    let stalled = Phase::stalled(StallReason::UpdateFailed, "not by itself");
    let mut row = |what: &str, object, status, message| {
        table.push((what.to_owned(), object, status, message));
    };
    let edited = |object: &mut Value| object["metadata"]["generation"] = json!(4);
    row(
        "new",
        with(&Phase::Ready, &|o| o["status"] = Value::Null),
        "Progressing",
        UNSEEN,
    );
    row(
        "edited",
        with(&Phase::Ready, &edited),
        "Progressing",
        UNSEEN,
    );
    row(
        "stalled, then edited",
        with(&stalled, &edited),
        "Progressing",
        UNSEEN,
    );
    let suspended = |object: &mut Value| object["spec"]["suspend"] = json!(true);
    row(
        "stalled and suspended",
        with(&stalled, &suspended),
        "Suspended",
        "The stack is suspended",
    );
    let annotation = "pulumi.com/reconciliation-request";
    let asked = |object: &mut Value| object["metadata"]["annotations"] = json!({annotation: "2"});
    row(
        "asked",
        with(&Phase::Ready, &asked),
        "Progressing",
        REQUESTED,
    );
    row(
        "asked again",
        with(&stalled, &|object| {
            asked(object);
            object["status"]["observedReconcileRequest"] = json!("1");
        }),
        "Progressing",
        REQUESTED,
    );
    row(
        "heard",
        with(&Phase::Ready, &|object| {
            asked(object);
            object["status"]["observedReconcileRequest"] = json!("2");
        }),
        "Healthy",
        "the stack has been processed and is up to date",
    );
    row(
        "without conditions",
        with(&Phase::Ready, &|object| {
            object["status"]["conditions"] = json!([])
        }),
        "Progressing",
        "Waiting for the stack to be reconciled",
    );
    row(
        "deleted",
        with(&stalled, &|object| {
            object["metadata"]["deletionTimestamp"] = json!("2030-01-01T00:00:00Z");
        }),
        "Progressing",
        "Pending deletion",
    );

    let objects: Vec<Value> = table
        .iter()
        .map(|(_, object, _, _)| object.clone())
        .collect();
    let said = rules.healths(&objects);
    for ((what, object, status, message), said) in table.iter().zip(said) {
        assert_eq!(said, (status.to_string(), message.to_string()), "{what}");
        let own = health_argocd::assess(&object.to_string());
        assert_eq!(said, (format!("{:?}", own.status), own.message), "{what}");
    }
}
