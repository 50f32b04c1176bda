//! A namespace with pods, and waiting for them.

use std::path::Path;
use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::{Event, Pod, Secret};
use kube::Client;
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use windlass_cluster::FakeKubelet;

/// A namespace on the shared cluster, and what is asked of it.
pub struct Place {
    pub kubelet: &'static FakeKubelet,
    pub client: Client,
    pub namespace: String,
    pub pods: Api<Pod>,
}

impl Place {
    pub async fn new(name: &str) -> Option<Self> {
        let (plane, kubelet) = FakeKubelet::shared().await?;
        let namespace = plane.namespace(name).await;
        let client = plane.client().await;
        Some(Self {
            kubelet,
            pods: Api::namespaced(client.clone(), &namespace),
            client,
            namespace,
        })
    }

    pub async fn create(&self, name: &str, spec: Value) {
        let pod = json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": name, "labels": {"test": "yes"}}, "spec": spec,
        });
        let pod: Pod = serde_json::from_value(pod).unwrap();
        self.pods
            .create(&PostParams::default(), &pod)
            .await
            .unwrap();
    }

    pub async fn secret(&self, name: &str, key: &str, value: &str) {
        let secrets: Api<Secret> = Api::namespaced(self.client.clone(), &self.namespace);
        let secret = json!({
            "apiVersion": "v1", "kind": "Secret", "metadata": {"name": name},
            "stringData": {key: value},
        });
        let params = PatchParams::apply("test").force();
        secrets
            .patch(name, &params, &Patch::Apply(secret))
            .await
            .unwrap();
    }

    /// Waits until the pod, as JSON, is as wanted.
    pub async fn until(&self, name: &str, what: &str, condition: impl Fn(&Value) -> bool) -> Value {
        let deadline = Instant::now() + Duration::from_secs(120);
        loop {
            let pod = self.pods.get_opt(name).await.unwrap();
            let pod = pod.map_or(Value::Null, |pod| serde_json::to_value(pod).unwrap());
            if condition(&pod) {
                return pod;
            }
            assert!(
                Instant::now() < deadline,
                "waited in vain for {what}: {:#}\n{}",
                pod["status"],
                self.kubelet
                    .logs(&self.namespace, name, "main")
                    .unwrap_or_default()
            );
            tokio::time::sleep(Duration::from_millis(30)).await;
        }
    }

    pub async fn until_ready(&self, name: &str) -> Value {
        self.until(name, "readiness", |pod| condition(pod, "Ready") == "True")
            .await
    }

    pub async fn until_gone(&self, name: &str) {
        self.until(name, "its end", Value::is_null).await;
    }

    pub async fn until_logged(&self, name: &str, text: &str) {
        self.until(name, text, |_| self.logs(name).contains(text))
            .await;
    }

    pub fn logs(&self, name: &str) -> String {
        self.kubelet
            .logs(&self.namespace, name, "main")
            .unwrap_or_default()
    }

    pub async fn delete(&self, name: &str) {
        self.pods
            .delete(name, &DeleteParams::default())
            .await
            .unwrap();
    }

    pub async fn events(&self, reason: &str) -> Vec<String> {
        let events: Api<Event> = Api::namespaced(self.client.clone(), &self.namespace);
        let all = events.list(&ListParams::default()).await.unwrap();
        let of_reason = all
            .items
            .into_iter()
            .filter(|e| e.reason.as_deref() == Some(reason));
        of_reason.filter_map(|event| event.message).collect()
    }
}

pub fn condition<'a>(pod: &'a Value, kind: &str) -> &'a str {
    let all = pod["status"]["conditions"].as_array();
    let found = all.and_then(|all| all.iter().find(|c| c["type"] == kind));
    found.map_or("", |found| found["status"].as_str().unwrap_or_default())
}

pub fn main_state(pod: &Value) -> &Value {
    &pod["status"]["containerStatuses"][0]["state"]
}

pub fn sleeper() -> Value {
    json!({"containers": [shell("exec sleep 100000")]})
}

pub fn shell(script: &str) -> Value {
    json!({"name": "main", "image": "example.com/tools:1", "command": ["/bin/sh", "-c", script]})
}

pub fn runs(pid: i32) -> bool {
    Path::new(&format!("/proc/{pid}/root/")).exists()
}
