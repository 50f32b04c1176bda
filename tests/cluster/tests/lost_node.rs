//! A node that vanishes, as the control plane and pods' watchers see it.

#![allow(clippy::unwrap_used)]
#![cfg(target_os = "linux")]

use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::{Api, DeleteParams, PostParams};
use serde_json::{Value, json};
use windlass_cluster::kubelet::Processes;
use windlass_cluster::{ControlPlane, FakeKubelet, Options};

/// The control plane takes 20 s between two looks for pods of lost nodes.
const LIMIT: Duration = Duration::from_secs(300);

async fn until(what: &str, mut condition: impl AsyncFnMut() -> bool) {
    let deadline = Instant::now() + LIMIT;
    while !condition().await {
        assert!(Instant::now() < deadline, "waited in vain for {what}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

fn ready(object: impl serde::Serialize) -> String {
    let object = serde_json::to_value(object).unwrap();
    let conditions = object["status"]["conditions"].as_array().cloned();
    let mut conditions = conditions.unwrap_or_default().into_iter();
    let found = conditions.find(|condition| condition["type"] == "Ready");
    let status = found.map_or(Value::Null, |found| found["status"].clone());
    status.as_str().unwrap_or_default().to_owned()
}

#[tokio::test]
async fn a_vanished_node_keeps_its_pods_until_it_is_declared_out_of_service() {
    let options = Options {
        node_monitor_grace: Duration::from_secs(6),
        ..Options::default()
    };
    let Some(plane) = ControlPlane::start_with(options).await else {
        return;
    };
    let Some(kubelet) = FakeKubelet::start(&plane).await else {
        return;
    };
    let namespace = plane.namespace("lost").await;
    let client = plane.client().await;
    let nodes: Api<Node> = Api::all(client.clone());
    let pods: Api<Pod> = Api::namespaced(client.clone(), &namespace);
    let pod: Pod = serde_json::from_value(json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"},
        "spec": {"terminationGracePeriodSeconds": 1, "containers": [{
            "name": "main", "image": "example.com/tools:1", "command": ["sleep", "100000"],
        }]},
    }))
    .unwrap();
    pods.create(&PostParams::default(), &pod).await.unwrap();
    until("the pod", async || {
        ready(pods.get("p").await.unwrap()) == "True"
    })
    .await;
    let pid = kubelet.pid(&namespace, "p", "main").unwrap();

    kubelet.vanish_node(Processes::GoOn);
    let name = kubelet.node_name();
    until("silence to be noticed", async || {
        ready(nodes.get(name).await.unwrap()) == "Unknown"
    })
    .await;
    until("the pod to be given up", async || {
        ready(pods.get("p").await.unwrap()) == "False"
    })
    .await;
    pods.delete("p", &DeleteParams::default()).await.unwrap();
    let alive = || std::path::Path::new(&format!("/proc/{pid}/root/")).exists();
    // Nobody can say that it has ended, and it has not.
    assert!(pods.get_opt("p").await.unwrap().is_some() && alive());

    kubelet.out_of_service(&client).await.unwrap();
    until("the pod's object to go", async || {
        pods.get_opt("p").await.unwrap().is_none()
    })
    .await;
    assert!(alive(), "nobody reached the node to end it");
    kubelet.come_back();
    until("the node to be ready", async || {
        ready(nodes.get(name).await.unwrap()) == "True"
    })
    .await;
    until("the orphan to be ended", async || !alive()).await;
}
