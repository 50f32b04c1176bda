//! The health of a Stack, as Argo CD's bundled rule has it, with what that rule cannot say: suspended, and a requested
//! run that has not been picked up.

use serde::Deserialize;
use windlass_sdk::{Descriptor, Health, HealthCheck, HealthStatus, Host, Plugin};

/// The plugin.
pub struct ArgoCd;

/// Asks for a run; the operator copies it to the status once it has seen it.
const REQUEST: &str = "pulumi.com/reconciliation-request";

/// Conditions by weight, with the verdict that each gives when it is true.
const VERDICTS: [(&str, HealthStatus); 3] = [
    ("Stalled", HealthStatus::Degraded),
    ("Reconciling", HealthStatus::Progressing),
    ("Ready", HealthStatus::Healthy),
];

impl Plugin for ArgoCd {
    fn describe() -> Descriptor {
        Descriptor {
            name: "health-argocd".into(),
            version: env!("CARGO_PKG_VERSION").into(),
            summary: "Health of a Stack as Argo CD shows it".into(),
            health_kinds: vec!["pulumi.com/Stack".into()],
            ..Descriptor::default()
        }
    }
}

impl HealthCheck for ArgoCd {
    fn assess(_: &(impl Host + ?Sized), object: &str, _context: &str) -> Health {
        assess(object)
    }
}

// What the rule looks at. Texts that may hold escapes are owned; everything else is skipped by the parser.
#[derive(Deserialize)]
struct Stack {
    #[serde(default)]
    metadata: Metadata,
    #[serde(default)]
    spec: Spec,
    status: Option<Status>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Metadata {
    generation: Option<i64>,
    deletion_timestamp: Option<String>,
    annotations: Option<std::collections::BTreeMap<String, String>>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Spec {
    suspend: Option<bool>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Status {
    observed_generation: Option<i64>,
    observed_reconcile_request: Option<String>,
    conditions: Option<Vec<Condition>>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Condition {
    #[serde(rename = "type")]
    name: String,
    status: String,
    message: Option<String>,
}

/// The verdict on a Stack given as JSON; `null` is a Stack that is not there.
pub fn assess(object: &str) -> Health {
    match serde_json::from_str::<Option<Stack>>(object) {
        Ok(Some(stack)) => verdict(&stack),
        Ok(None) => health(HealthStatus::Missing, "the stack does not exist"),
        Err(error) => health(
            HealthStatus::Unknown,
            &format!("the object is no Stack: {error}"),
        ),
    }
}

fn verdict(stack: &Stack) -> Health {
    let Stack {
        metadata,
        spec,
        status,
    } = stack;
    if metadata.deletion_timestamp.is_some() {
        return health(HealthStatus::Progressing, "Pending deletion");
    }
    let unseen = || {
        health(
            HealthStatus::Progressing,
            "Waiting for the operator to observe the latest spec change",
        )
    };
    let Some(status) = status else {
        return unseen();
    };
    if status.observed_generation != metadata.generation {
        return unseen();
    }
    if spec.suspend == Some(true) {
        return health(HealthStatus::Suspended, "The stack is suspended");
    }
    let requested = metadata
        .annotations
        .as_ref()
        .and_then(|annotations| annotations.get(REQUEST));
    if requested.is_some() && requested != status.observed_reconcile_request.as_ref() {
        return health(
            HealthStatus::Progressing,
            "Waiting for the operator to pick up the requested run",
        );
    }
    let conditions = status.conditions.as_deref().unwrap_or_default();
    for (name, verdict) in VERDICTS {
        if let Some(condition) = conditions
            .iter()
            .find(|it| it.name == name && it.status == "True")
        {
            return health(verdict, condition.message.as_deref().unwrap_or_default());
        }
    }
    health(
        HealthStatus::Progressing,
        "Waiting for the stack to be reconciled",
    )
}

fn health(status: HealthStatus, message: &str) -> Health {
    Health {
        status,
        message: message.into(),
    }
}

windlass_sdk::export_plugin!(ArgoCd: health);

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn with(conditions: &Value) -> Value {
        json!({"metadata": {"generation": 3}, "status": {"observedGeneration": 3, "conditions": conditions}})
    }

    fn judged(object: &Value) -> (HealthStatus, String) {
        let Health { status, message } = assess(&object.to_string());
        (status, message)
    }

    #[test]
    fn conditions_by_weight() {
        let ready = json!({"type": "Ready", "status": "False", "message": "no"});
        let stalled = json!({"type": "Stalled", "status": "True", "message": "bad \"spec\""});
        let reconciling = json!({"type": "Reconciling", "status": "True", "message": "at it"});
        let cases = [
            (
                json!([ready, reconciling, stalled]),
                HealthStatus::Degraded,
                "bad \"spec\"",
            ),
            (
                json!([ready, reconciling]),
                HealthStatus::Progressing,
                "at it",
            ),
            (
                json!([{"type": "Ready", "status": "True", "message": "done"}]),
                HealthStatus::Healthy,
                "done",
            ),
            (
                json!([{"type": "Ready", "status": "True"}]),
                HealthStatus::Healthy,
                "",
            ),
            (
                json!([ready]),
                HealthStatus::Progressing,
                "Waiting for the stack to be reconciled",
            ),
            (
                json!(null),
                HealthStatus::Progressing,
                "Waiting for the stack to be reconciled",
            ),
        ];
        for (conditions, status, message) in cases {
            assert_eq!(
                judged(&with(&conditions)),
                (status, message.to_owned()),
                "{conditions}"
            );
        }
    }

    #[test]
    fn an_old_status_says_nothing() {
        let mut object = with(&json!([{"type": "Ready", "status": "True"}]));
        object["metadata"]["generation"] = json!(4);
        assert_eq!(
            judged(&object).1,
            "Waiting for the operator to observe the latest spec change"
        );
        assert_eq!(
            judged(&json!({"metadata": {"generation": 1}})).0,
            HealthStatus::Progressing
        );
    }

    #[test]
    fn deletion_comes_first_and_suspension_before_conditions() {
        let mut object = with(&json!([{"type": "Stalled", "status": "True"}]));
        object["spec"] = json!({"suspend": true});
        assert_eq!(judged(&object).0, HealthStatus::Suspended);
        object["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        assert_eq!(
            judged(&object),
            (HealthStatus::Progressing, "Pending deletion".into())
        );
    }

    #[test]
    fn a_requested_run_is_waited_for() {
        let mut object = with(&json!([{"type": "Ready", "status": "True", "message": "done"}]));
        object["metadata"]["annotations"] = json!({REQUEST: "now"});
        assert_eq!(
            judged(&object).1,
            "Waiting for the operator to pick up the requested run"
        );
        object["status"]["observedReconcileRequest"] = json!("now");
        assert_eq!(judged(&object).0, HealthStatus::Healthy);
    }

    #[test]
    fn what_is_no_stack() {
        assert_eq!(judged(&json!(null)).0, HealthStatus::Missing);
        assert_eq!(assess("{").status, HealthStatus::Unknown);
    }
}
