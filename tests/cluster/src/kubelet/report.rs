//! Writing a pod's status to the API server.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, Patch, PatchParams};
use serde_json::json;

use super::node::Node;
use super::state::PodCell;
use super::status::status;

/// Before a write that failed is tried again.
const RETRY: Duration = Duration::from_millis(200);

/// Reports whenever there is something new. It never ends.
pub async fn publish(node: &Arc<Node>, cell: &Arc<PodCell>) {
    loop {
        now(node, cell).await;
        cell.changed.notified().await;
    }
}

/// Reports what is known now, once reporting is allowed.
pub async fn now(node: &Arc<Node>, cell: &PodCell) {
    node.may_report().await;
    let mut reported = cell.reported.lock().await;
    loop {
        let pod = cell.pod();
        let new = status(
            &pod,
            &cell.state(),
            reported.as_ref(),
            cell.address,
            node.address,
        );
        if reported.as_ref() == Some(&new) {
            return;
        }
        // With the uid, so that a successor of the same name is not touched.
        let patch = json!({"metadata": {"uid": cell.uid}, "status": new});
        let pods: Api<Pod> = Api::namespaced(node.client.clone(), &cell.namespace);
        let written = pods
            .patch_status(
                &cell.name,
                &PatchParams::default(),
                &Patch::Strategic(patch),
            )
            .await;
        match written {
            Ok(_) => {
                *reported = Some(new);
                return;
            }
            // Gone, or another one by now: nobody is interested.
            Err(kube::Error::Api(answer)) if matches!(answer.code, 404 | 409) => {
                *reported = Some(new);
                return;
            }
            Err(kube::Error::Api(answer)) if answer.code == 422 => {
                // A mistake of ours that a test should see.
                eprintln!(
                    "fake kubelet: status of {}: {}",
                    cell.full_name(),
                    answer.message
                );
                *reported = Some(new);
                return;
            }
            Err(_) => tokio::time::sleep(RETRY).await,
        }
    }
}
