//! The status of Workspace objects: for people who look at them, and for what was written for the Pulumi Kubernetes
//! Operator. Nothing here reads it.

use serde_json::json;
use windlass_api::Workspace;
use windlass_api::conditions::{
    self, FALSE, NewCondition, READY, TRUE, workspace_reason as reasons,
};
use windlass_api::lenient::Lenient;
use windlass_api::names::{WORKSPACE_STATUS_MANAGER, workspace_pod_name};
use windlass_api::workspace::WorkspaceStatus;
use windlass_core::record::time;
use windlass_engine::Key;

use crate::api::{ApiError, Cluster, readable};
use crate::clock;
use crate::events::{Events, workspace_changed};
use crate::world::World;

/// What a Workspace's status is to say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Shown {
    Ready {
        address: String,
        pulumi_version: Option<String>,
    },
    NotReady {
        reason: String,
        message: String,
    },
}

impl Shown {
    /// Pod on its way.
    pub fn waiting(message: &str) -> Shown {
        Shown::NotReady {
            reason: reasons::WAITING_FOR_REPLICAS.into(),
            message: if message.is_empty() {
                "Waiting for the workspace pod to be available".into()
            } else {
                message.into()
            },
        }
    }
}

/// Writes the status if it says something else.
pub async fn show(
    cluster: &Cluster,
    world: &World,
    key: &Key,
    shown: &Shown,
) -> Result<(), ApiError> {
    let Some(workspace) = world.workspaces.get(&key.namespace, &key.name) else {
        return Ok(());
    };
    if workspace.metadata.deletion_timestamp.is_some() {
        return Ok(());
    }
    let stored = workspace.status.clone().unwrap_or_default();
    let mut status = WorkspaceStatus {
        observed_generation: workspace.metadata.generation,
        address: None,
        pulumi_version: stored.pulumi_version.clone(),
        conditions: stored.conditions.clone(),
    };
    let (value, reason, message) = match shown {
        Shown::Ready {
            address,
            pulumi_version,
        } => {
            status.address = Some(address.clone());
            status.pulumi_version.clone_from(pulumi_version);
            (TRUE, reasons::SUCCEEDED, "")
        }
        Shown::NotReady { reason, message } => (FALSE, reason.as_str(), message.as_str()),
    };
    let new = NewCondition {
        type_: READY,
        status: value,
        reason,
        message,
        observed_generation: None,
    };
    conditions::set(&mut status.conditions, &new, &time(clock().0));
    if status == stored {
        return Ok(());
    }
    let news = conditions::get(&status.conditions, READY).and_then(|now| {
        let before = conditions::get(&stored.conditions, READY);
        workspace_changed(before, now, &workspace_pod_name(&key.name))
    });
    let object = json!({
        "apiVersion": "auto.pulumi.com/v1alpha1",
        "kind": "Workspace",
        "metadata": {"name": key.name, "uid": workspace.metadata.uid},
        "status": status,
    });
    let answer: Lenient<Workspace> = cluster
        .apply_status(&key.namespace, &key.name, &object, WORKSPACE_STATUS_MANAGER)
        .await?;
    world.took(readable(answer)?);
    if let Some(event) = news {
        let cluster = cluster.clone();
        Events { cluster }.workspace(&workspace, &event);
    }
    Ok(())
}
