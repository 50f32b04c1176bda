//! The scheduler's part: binding pods to this node, or saying why not.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use k8s_openapi::api::core::v1::{Node as NodeObject, Pod, PodSpec, Taint, Toleration};
use kube::api::{Api, Patch, PatchParams, PostParams};
use kube::runtime::watcher::{self, Event, watcher};
use serde_json::json;

use super::node::Node;
use super::values::thousandths;

/// How often what found no place is looked at again.
const AGAIN: Duration = Duration::from_millis(500);

/// Binds pods that nobody has bound. It never ends.
pub async fn schedule(node: Arc<Node>) {
    let pods: Api<Pod> = Api::all(node.client.clone());
    let config = watcher::Config::default().fields("spec.nodeName=");
    let mut events = watcher(pods, config).boxed();
    let mut waiting: BTreeMap<String, Pod> = BTreeMap::new();
    let mut again = tokio::time::interval(AGAIN);
    loop {
        let pods: Vec<Pod> = tokio::select! {
            event = events.next() => match event {
                Some(Ok(Event::Apply(pod) | Event::InitApply(pod))) => vec![pod],
                Some(Ok(Event::Delete(pod))) => {
                    waiting.remove(pod.metadata.uid.as_deref().unwrap_or_default());
                    continue;
                }
                Some(Ok(Event::Init | Event::InitDone)) => continue,
                Some(Err(_)) => {
                    tokio::time::sleep(AGAIN).await;
                    continue;
                }
                None => return,
            },
            _ = again.tick(), if !waiting.is_empty() => waiting.values().cloned().collect(),
        };
        node.alive().await;
        for pod in pods {
            let uid = pod.metadata.uid.clone().unwrap_or_default();
            if place(&node, &pod, waiting.contains_key(&uid)).await {
                waiting.remove(&uid);
            } else {
                waiting.insert(uid, pod);
            }
        }
    }
}

/// Binds one pod, if it has a place here. Answers whether there is nothing more to do for it.
async fn place(node: &Arc<Node>, pod: &Pod, told: bool) -> bool {
    let (metadata, Some(spec)) = (&pod.metadata, &pod.spec) else {
        return true;
    };
    let ours = spec
        .scheduler_name
        .as_deref()
        .unwrap_or("default-scheduler")
        == "default-scheduler";
    let gated = spec
        .scheduling_gates
        .as_ref()
        .is_some_and(|gates| !gates.is_empty());
    let bound = spec.node_name.as_ref().is_some_and(|name| !name.is_empty());
    if !ours || gated || bound || metadata.deletion_timestamp.is_some() {
        return true;
    }
    let nodes: Api<NodeObject> = Api::all(node.client.clone());
    let Ok(object) = nodes.get(&node.name).await else {
        return false;
    };
    let name = metadata.name.as_deref().unwrap_or_default();
    let namespace = metadata.namespace.as_deref().unwrap_or_default();
    let pods: Api<Pod> = Api::namespaced(node.client.clone(), namespace);
    let Err(why) = fits(&object, spec) else {
        let binding = json!({
            "apiVersion": "v1", "kind": "Binding",
            "metadata": {"name": name, "uid": metadata.uid},
            "target": {"apiVersion": "v1", "kind": "Node", "name": node.name},
        });
        let bound: Result<serde_json::Value, _> = pods
            .create_subresource("binding", name, &PostParams::default(), &binding)
            .await;
        return match bound {
            Ok(_) => {
                let message = format!("Successfully assigned {namespace}/{name} to {}", node.name);
                node.scheduler_event(pod, "Normal", "Scheduled", &message);
                true
            }
            // Gone, or bound by another.
            Err(kube::Error::Api(answer)) => matches!(answer.code, 404 | 409),
            Err(_) => false,
        };
    };
    if !told {
        let message = format!(
            "0/1 nodes are available: 1 {why}. preemption: 0/1 nodes are available: 1 Preemption \
             is not helpful for scheduling."
        );
        node.scheduler_event(pod, "Warning", "FailedScheduling", &message);
        let patch = json!({"metadata": {"uid": metadata.uid}, "status": {"conditions": [{
            "type": "PodScheduled", "status": "False", "reason": "Unschedulable",
            "message": message,
            "lastTransitionTime": jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
            "observedGeneration": metadata.generation,
        }]}});
        let params = PatchParams::default();
        let _ = pods
            .patch_status(name, &params, &Patch::Strategic(patch))
            .await;
    }
    false
}

/// # Errors
/// Why a pod has no place on a node, in the scheduler's words.
fn fits(node: &NodeObject, spec: &PodSpec) -> Result<(), String> {
    let labels = node.metadata.labels.clone().unwrap_or_default();
    let mut wanted = spec.node_selector.iter().flatten();
    if wanted.any(|(key, value)| labels.get(key) != Some(value)) || required_affinity(spec) {
        return Err("node(s) didn't match Pod's node affinity/selector".to_owned());
    }
    let node_spec = node.spec.clone().unwrap_or_default();
    let tolerations = spec.tolerations.as_deref().unwrap_or_default();
    let unschedulable = node_spec.unschedulable == Some(true);
    for taint in node_spec.taints.iter().flatten() {
        let refuses = matches!(taint.effect.as_str(), "NoSchedule" | "NoExecute");
        if refuses
            && !tolerations
                .iter()
                .any(|toleration| tolerates(toleration, taint))
        {
            let value = taint.value.as_deref().unwrap_or_default();
            return Err(format!(
                "node(s) had untolerated taint {{{}: {value}}}",
                taint.key
            ));
        }
    }
    if unschedulable {
        return Err("node(s) were unschedulable".to_owned());
    }
    for volume in spec.volumes.iter().flatten() {
        if let Some(claim) = &volume.persistent_volume_claim {
            let name = &claim.claim_name;
            return Err(format!("persistentvolumeclaim {name:?} not found"));
        }
    }
    let allocatable = node
        .status
        .as_ref()
        .and_then(|status| status.allocatable.as_ref());
    for resource in ["cpu", "memory"] {
        let requested: i128 = spec
            .containers
            .iter()
            .filter_map(|container| {
                let requests = container.resources.as_ref()?.requests.as_ref()?;
                thousandths(requests.get(resource)?)
            })
            .sum();
        let there = allocatable.and_then(|all| thousandths(all.get(resource)?));
        if there.is_some_and(|there| requested > there) {
            return Err(format!("Insufficient {resource}"));
        }
    }
    Ok(())
}

/// Rules that would need an evaluation of expressions count as asking for what this node is not.
fn required_affinity(spec: &PodSpec) -> bool {
    let affinity = spec
        .affinity
        .as_ref()
        .and_then(|affinity| affinity.node_affinity.as_ref());
    affinity.is_some_and(|affinity| {
        affinity
            .required_during_scheduling_ignored_during_execution
            .is_some()
    })
}

fn tolerates(toleration: &Toleration, taint: &Taint) -> bool {
    let effect = toleration.effect.as_deref().unwrap_or_default();
    let key = toleration.key.as_deref().unwrap_or_default();
    let exists = toleration.operator.as_deref() == Some("Exists");
    (effect.is_empty() || effect == taint.effect)
        && (key == taint.key || key.is_empty() && exists)
        && (exists || toleration.value == taint.value)
}
