//! Kubernetes events, in the background: none is worth waiting for.

use k8s_openapi::api::core::v1::{Event as CoreEvent, EventSource, ObjectReference};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use windlass_api::conditions::{COMPLETE, TRUE, is_true, workspace_reason};
use windlass_api::run::{Operation, RunState};
use windlass_api::{Condition, ObjectMeta, Program, Resource, Stack, Update, Workspace};
use windlass_core::decision::{Event, UpdateOutcome};
use windlass_core::time::Timestamp;

use crate::api::Cluster;

/// The longest note that the API server takes.
const LONGEST_NOTE: usize = 1024;

/// Tells of what happened.
#[derive(Clone)]
pub struct Events {
    pub cluster: Cluster,
}

impl Events {
    /// An event about a Stack, from the component that the Pulumi Kubernetes Operator names.
    pub fn stack(&self, stack: &Stack, event: &Event) {
        self.send(involved(stack), "stack-controller", event);
    }

    pub fn program(&self, program: &Program, event: &Event) {
        self.send(involved(program), "program-controller", event);
    }

    pub fn workspace(&self, workspace: &Workspace, event: &Event) {
        self.send(involved(workspace), "workspace-controller", event);
    }

    pub fn update(&self, update: &Update, event: &Event) {
        self.send(involved(update), "update-controller", event);
    }

    fn send(&self, involved: ObjectReference, component: &str, event: &Event) {
        let now = jiff::Timestamp::now();
        let namespace = involved.namespace.clone().unwrap_or_default();
        let mut note = event.message.clone();
        if note.len() > LONGEST_NOTE {
            let end = (0..=LONGEST_NOTE - 3)
                .rev()
                .find(|end| note.is_char_boundary(*end))
                .unwrap_or(0);
            note.truncate(end);
            note.push_str("...");
        }
        let object = CoreEvent {
            metadata: ObjectMeta {
                // Unique for the object: client-go names its events the same way.
                name: Some(format!(
                    "{}.{:x}",
                    involved.name.as_deref().unwrap_or_default(),
                    now.as_nanosecond()
                )),
                namespace: Some(namespace.clone()),
                ..ObjectMeta::default()
            },
            involved_object: involved,
            type_: Some(if event.warning { "Warning" } else { "Normal" }.into()),
            reason: Some(event.reason.clone()),
            message: Some(note),
            source: Some(EventSource {
                component: Some(component.into()),
                host: None,
            }),
            reporting_component: Some(component.into()),
            reporting_instance: Some(self.cluster.instance.to_string()),
            first_timestamp: Some(Time(now)),
            last_timestamp: Some(Time(now)),
            count: Some(1),
            ..CoreEvent::default()
        };
        let cluster = self.cluster.clone();
        tokio::spawn(async move {
            if let Err(error) = cluster
                .create(&namespace, &object, windlass_api::names::MANAGER)
                .await
            {
                tracing::debug!(%error, "telling of an event");
            }
        });
    }
}

fn involved<K: Resource<DynamicType = ()>>(object: &K) -> ObjectReference {
    let metadata = object.meta();
    ObjectReference {
        api_version: Some(K::api_version(&()).into_owned()),
        kind: Some(K::kind(&()).into_owned()),
        name: metadata.name.clone(),
        namespace: metadata.namespace.clone(),
        uid: metadata.uid.clone(),
        resource_version: metadata.resource_version.clone(),
        field_path: None,
    }
}

/// What the Pulumi Kubernetes Operator says when a run has ended. None for one that never began.
pub fn update_ended(update: &Update, outcome: &UpdateOutcome) -> Option<Event> {
    let UpdateOutcome::Ended { summary } = outcome else {
        return None;
    };
    let (verb, done) = match update.spec.operation().ok()? {
        Operation::Preview => ("preview", "Previewed"),
        Operation::Up => ("update", "Updated"),
        Operation::Refresh => ("refresh", "Refreshed"),
        Operation::Destroy => ("destroy", "Destroyed"),
    };
    let stack = update.spec.stack_name.as_deref().unwrap_or_default();
    Some(if summary.state == RunState::Succeeded {
        event(false, "UpdateSucceeded", format!("{done} stack {stack:?}"))
    } else {
        event(
            true,
            "UpdateFailed",
            format!("Failed to {verb} stack {stack:?}"),
        )
    })
}

/// Said of an Update that is deleted because the time it was to be kept is over. None if it goes for another reason.
pub fn update_expired(update: &Update, now: Timestamp) -> Option<Event> {
    let kept = windlass_api::duration::parse(update.spec.ttl_after_completed.as_deref()?).ok()?;
    let conditions = &update.status.as_ref()?.conditions;
    if !is_true(conditions, COMPLETE) {
        return None;
    }
    let complete = conditions.iter().find(|each| each.type_ == COMPLETE)?;
    let since = Timestamp(complete.last_transition_time.0.as_millisecond());
    (now.since(since) >= kept).then(|| {
        event(
            false,
            "UpdateExpired",
            "The Update was complete for as long as it was to be kept".to_owned(),
        )
    })
}

/// Said of a workspace whose Ready condition was `before` and is `now`. None where that is no news.
pub fn workspace_changed(before: Option<&Condition>, now: &Condition, pod: &str) -> Option<Event> {
    let was = |status: &str, reason: &str| {
        before.is_some_and(|before| before.status == status && before.reason == reason)
    };
    if was(&now.status, &now.reason) {
        return None;
    }
    if now.status == TRUE {
        return Some(event(
            false,
            "Initialized",
            format!("Initialized workspace pod {pod}"),
        ));
    }
    let reason = match now.reason.as_str() {
        workspace_reason::CONNECTION_FAILED => "ConnectionFailure",
        workspace_reason::INSTALLATION_FAILED => "InstallationFailure",
        workspace_reason::INITIALIZATION_FAILED => "StackInitializationFailure",
        _ => return None,
    };
    Some(event(true, reason, now.message.clone()))
}

fn event(warning: bool, reason: &str, message: String) -> Event {
    Event {
        warning,
        reason: reason.to_owned(),
        message,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use serde_json::json;

    fn update(type_: &str, ttl: Option<&str>) -> Update {
        serde_json::from_value(json!({
            "apiVersion": "auto.pulumi.com/v1alpha1", "kind": "Update", "metadata": {"name": "u"},
            "spec": {"type": type_, "stackName": "org/p/dev", "ttlAfterCompleted": ttl},
            "status": {"conditions": [{
                "type": "Complete", "status": "True", "reason": "Updated", "message": "",
                "lastTransitionTime": "1970-01-01T00:01:00Z",
            }]},
        }))
        .unwrap()
    }

    fn ended(state: &str) -> UpdateOutcome {
        UpdateOutcome::Ended {
            summary: serde_json::from_value(
                json!({"state": state, "startedAtMs": 1, "endedAtMs": 2}),
            )
            .unwrap(),
        }
    }

    #[test]
    fn the_end_of_a_run_is_told_in_the_words_that_alerts_know() {
        let told = update_ended(&update("up", None), &ended("succeeded")).unwrap();
        assert_eq!(
            (told.warning, told.reason.as_str()),
            (false, "UpdateSucceeded")
        );
        assert_eq!(told.message, "Updated stack \"org/p/dev\"");
        let told = update_ended(&update("up", None), &ended("lost")).unwrap();
        assert_eq!((told.warning, told.reason.as_str()), (true, "UpdateFailed"));
        assert_eq!(told.message, "Failed to update stack \"org/p/dev\"");
        let told = update_ended(&update("destroy", None), &ended("succeeded")).unwrap();
        assert_eq!(told.message, "Destroyed stack \"org/p/dev\"");
        assert_eq!(
            update_ended(&update("up", None), &UpdateOutcome::Superseded),
            None
        );
    }

    #[test]
    fn only_an_update_whose_time_is_over_has_expired() {
        let minute = Timestamp(120_000);
        assert!(update_expired(&update("up", Some("60s")), minute).is_some());
        assert!(update_expired(&update("up", Some("61s")), minute).is_none());
        assert!(update_expired(&update("up", None), minute).is_none());
    }

    #[test]
    fn a_workspace_is_told_of_when_it_changes() {
        let condition = |status: &str, reason: &str| -> Condition {
            serde_json::from_value(json!({
                "type": "Ready", "status": status, "reason": reason, "message": "why",
                "lastTransitionTime": "1970-01-01T00:01:00Z",
            }))
            .unwrap()
        };
        let ready = condition("True", "Succeeded");
        let lost = condition("False", workspace_reason::CONNECTION_FAILED);
        let told = |before, now| workspace_changed(before, now, "p").map(|event| event.reason);
        assert_eq!(told(None, &ready).unwrap(), "Initialized");
        assert_eq!(told(Some(&ready), &ready), None);
        assert_eq!(told(Some(&ready), &lost).unwrap(), "ConnectionFailure");
        assert_eq!(told(Some(&lost), &lost), None);
        let waiting = condition("False", workspace_reason::WAITING_FOR_REPLICAS);
        assert_eq!(told(Some(&lost), &waiting), None);
    }
}
