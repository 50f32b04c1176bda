//! The health of objects whose kind no plugin judges, by the conventions that most kinds keep: `observedGeneration`, the
//! conditions Ready, Available, Stalled and Reconciling, and the counts of what runs copies.

use serde_json::Value;
use windlass_sdk::{Health, HealthStatus};

/// Conditions that say that all is well, the most telling first.
const GOOD: [&str; 4] = ["Ready", "Available", "Healthy", "Succeeded"];

/// The verdict on an object that exists.
pub fn judge(object: &Value) -> Health {
    let status = &object["status"];
    if !object["metadata"]["deletionTimestamp"].is_null() {
        return health(HealthStatus::Progressing, "it is being deleted");
    }
    let generation = object["metadata"]["generation"].as_i64();
    let observed = status["observedGeneration"].as_i64();
    if let (Some(generation), Some(observed)) = (generation, observed)
        && observed < generation
    {
        return health(
            HealthStatus::Progressing,
            "its controller has not seen its latest specification yet",
        );
    }
    if condition(object, "Stalled", "True").is_some()
        || condition(object, "Failed", "True").is_some()
    {
        let named = ["Stalled", "Failed"];
        let words = named
            .iter()
            .find_map(|name| condition(object, name, "True"));
        return health(HealthStatus::Degraded, words.unwrap_or_default());
    }
    if let Some(words) = condition(object, "Reconciling", "True") {
        return health(HealthStatus::Progressing, words);
    }
    if let Some(words) = copies(object) {
        return health(HealthStatus::Progressing, &words);
    }
    for name in GOOD {
        if condition(object, name, "True").is_some() {
            return health(HealthStatus::Healthy, "");
        }
        for other in ["False", "Unknown"] {
            if let Some(words) = condition(object, name, other) {
                let words = if words.is_empty() {
                    format!("its condition {name} is {other}")
                } else {
                    words.to_owned()
                };
                return health(HealthStatus::Progressing, &words);
            }
        }
    }
    match object["status"]["phase"].as_str() {
        Some("Pending") => health(HealthStatus::Progressing, "its phase is Pending"),
        Some("Failed" | "Lost") => health(HealthStatus::Degraded, "its phase is Failed"),
        // It says nothing of its health: that it exists is all that can be asked.
        _ => health(HealthStatus::Healthy, ""),
    }
}

/// The message of a condition that has this status.
fn condition<'a>(object: &'a Value, type_: &str, status: &str) -> Option<&'a str> {
    let conditions = object["status"]["conditions"].as_array()?;
    let found = conditions
        .iter()
        .find(|it| it["type"] == type_ && it["status"] == status)?;
    Some(found["message"].as_str().unwrap_or_default())
}

/// What is missing of the copies that a Deployment, StatefulSet, ReplicaSet or DaemonSet is to run.
fn copies(object: &Value) -> Option<String> {
    let status = &object["status"];
    let number = |value: &Value| value.as_i64();
    let (wanted, updated, ready) = if let Some(wanted) = number(&status["desiredNumberScheduled"]) {
        (
            wanted,
            &status["updatedNumberScheduled"],
            &status["numberReady"],
        )
    } else {
        let kind = object["kind"].as_str().unwrap_or_default();
        if !["Deployment", "StatefulSet", "ReplicaSet"].contains(&kind) {
            return None;
        }
        let wanted = number(&object["spec"]["replicas"]).unwrap_or(1);
        let updated = if kind == "ReplicaSet" {
            &status["replicas"]
        } else {
            &status["updatedReplicas"]
        };
        (wanted, updated, &status["readyReplicas"])
    };
    let (updated, ready) = (number(updated).unwrap_or(0), number(ready).unwrap_or(0));
    if updated < wanted {
        return Some(format!("{updated} of {wanted} copies are up to date"));
    }
    if ready < wanted {
        return Some(format!("{ready} of {wanted} copies are ready"));
    }
    let all = number(&status["replicas"]).unwrap_or(wanted);
    (all > wanted).then(|| format!("{} copies of before are still there", all - wanted))
}

fn health(status: HealthStatus, message: &str) -> Health {
    Health {
        status,
        message: message.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use serde_json::json;

    fn said(object: Value) -> (HealthStatus, String) {
        let Health { status, message } = judge(&object);
        (status, message)
    }

    fn deployment(status: Value) -> Value {
        json!({"kind": "Deployment", "metadata": {"generation": 3}, "spec": {"replicas": 2}, "status": status})
    }

    #[test]
    fn a_deployment_is_healthy_once_all_its_copies_are_new_and_ready() {
        let good = json!({"observedGeneration": 3, "replicas": 2, "updatedReplicas": 2, "readyReplicas": 2,
            "conditions": [{"type": "Available", "status": "True"}]});
        assert_eq!(
            said(deployment(good.clone())),
            (HealthStatus::Healthy, String::new())
        );
        for (field, value, words) in [
            (
                "observedGeneration",
                2,
                "its controller has not seen its latest specification yet",
            ),
            ("updatedReplicas", 1, "1 of 2 copies are up to date"),
            ("readyReplicas", 0, "0 of 2 copies are ready"),
            ("replicas", 3, "1 copies of before are still there"),
        ] {
            let mut status = good.clone();
            status[field] = json!(value);
            let wanted = (HealthStatus::Progressing, words.to_owned());
            assert_eq!(said(deployment(status)), wanted, "{field}");
        }
    }

    #[test]
    fn conditions_speak_in_their_own_words() {
        let with = |type_: &str, status: &str, message: &str| {
            json!({"kind": "Database", "metadata": {},
                "status": {"conditions": [{"type": type_, "status": status, "message": message}]}})
        };
        for (type_, status, wanted, words) in [
            ("Ready", "True", HealthStatus::Healthy, ""),
            ("Ready", "False", HealthStatus::Progressing, "disk"),
            ("Ready", "Unknown", HealthStatus::Progressing, "disk"),
            ("Stalled", "True", HealthStatus::Degraded, "disk"),
            ("Failed", "True", HealthStatus::Degraded, "disk"),
            ("Reconciling", "True", HealthStatus::Progressing, "disk"),
            ("Other", "False", HealthStatus::Healthy, ""),
        ] {
            assert_eq!(
                said(with(type_, status, "disk")),
                (wanted, words.to_owned()),
                "{type_} {status}"
            );
        }
    }

    #[test]
    fn what_says_nothing_is_healthy_by_being_there() {
        assert_eq!(said(json!({"kind": "ConfigMap"})).0, HealthStatus::Healthy);
        let pending = json!({"kind": "PersistentVolumeClaim", "status": {"phase": "Pending"}});
        assert_eq!(said(pending).0, HealthStatus::Progressing);
        let going = json!({"kind": "ConfigMap", "metadata": {"deletionTimestamp": "now"}});
        assert_eq!(said(going).0, HealthStatus::Progressing);
    }
}
