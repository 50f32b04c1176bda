//! Events about pods: the same one again counts up.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Event, EventSource, ObjectReference, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use kube::Client;
use kube::api::{Api, Patch, PatchParams, PostParams};
use serde_json::json;

/// What makes two events the same: pod, reason, message.
type Key = (String, String, String);

/// Tells about pods.
pub struct Events {
    client: Client,
    host: String,
    /// By what they say: the event's name and how often it was told.
    told: Arc<Mutex<HashMap<Key, (String, i32)>>>,
}

impl Events {
    pub fn new(client: Client, host: String) -> Self {
        Self {
            client,
            host,
            told: Arc::default(),
        }
    }

    /// Tells something about a pod, in the background. A reader may miss it as anywhere.
    pub fn tell(&self, pod: &Pod, component: &str, kind: &str, reason: &str, message: &str) {
        let metadata = &pod.metadata;
        let text = |value: &Option<String>| value.clone().unwrap_or_default();
        let (namespace, uid) = (text(&metadata.namespace), text(&metadata.uid));
        let key = (uid, reason.to_owned(), message.to_owned());
        let now = Timestamp::now();
        let api: Api<Event> = Api::namespaced(self.client.clone(), &namespace);
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((name, count)) = told.get_mut(&key) {
            *count += 1;
            let patch = json!({"count": *count, "lastTimestamp": Time(now)});
            let name = name.clone();
            tokio::spawn(async move {
                let params = PatchParams::default();
                let _ = api.patch(&name, &params, &Patch::Merge(patch)).await;
            });
            return;
        }
        let name = format!("{}.{:x}", text(&metadata.name), now.as_nanosecond());
        let event = Event {
            metadata: ObjectMeta {
                name: Some(name.clone()),
                namespace: Some(namespace),
                ..ObjectMeta::default()
            },
            involved_object: ObjectReference {
                api_version: Some("v1".to_owned()),
                kind: Some("Pod".to_owned()),
                name: metadata.name.clone(),
                namespace: metadata.namespace.clone(),
                uid: metadata.uid.clone(),
                resource_version: metadata.resource_version.clone(),
                ..ObjectReference::default()
            },
            count: Some(1),
            first_timestamp: Some(Time(now)),
            last_timestamp: Some(Time(now)),
            type_: Some(kind.to_owned()),
            reason: Some(reason.to_owned()),
            message: Some(message.to_owned()),
            reporting_component: Some(component.to_owned()),
            source: Some(EventSource {
                component: Some(component.to_owned()),
                host: Some(self.host.clone()),
            }),
            ..Event::default()
        };
        told.insert(key, (name, 1));
        tokio::spawn(async move {
            let _ = api.create(&PostParams::default(), &event).await;
        });
    }
}
