//! Kubernetes events, in the background: none is worth waiting for.

use k8s_openapi::api::core::v1::{Event as CoreEvent, EventSource, ObjectReference};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use windlass_api::{ObjectMeta, Resource, Stack};
use windlass_core::decision::Event;

use crate::api::Cluster;

/// The longest note that the API server takes.
const LONGEST_NOTE: usize = 1024;

/// Tells of what happened.
#[derive(Clone)]
pub struct Events {
    pub cluster: Cluster,
    /// Name of this process, as `reportingInstance`.
    pub instance: String,
}

impl Events {
    /// An event about a Stack, from the component that the Pulumi Kubernetes Operator names.
    pub fn stack(&self, stack: &Stack, event: &Event) {
        let involved = ObjectReference {
            api_version: Some(Stack::api_version(&()).into_owned()),
            kind: Some("Stack".into()),
            name: stack.metadata.name.clone(),
            namespace: stack.metadata.namespace.clone(),
            uid: stack.metadata.uid.clone(),
            resource_version: stack.metadata.resource_version.clone(),
            field_path: None,
        };
        self.send(involved, "stack-controller", event);
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
            reporting_instance: Some(self.instance.clone()),
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
