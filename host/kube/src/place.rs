//! A cluster as the place where workspaces live.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Secret;
use windlass_agent::AgentClient;
use windlass_api::reference::Selector;
use windlass_api::run::{LockInfo, RunProgress};
use windlass_api::{ConfigMap, Stack};
use windlass_core::failure::{Failure, FailureClass};
use windlass_core::request::Mounts;
use windlass_engine::{Key, TaskInput};
use windlass_sdk::{LockHolder, ObjectRef};
use windlass_tasks::{PULUMI_CLOUD, Place, ProgressNotes, unavailable};

use crate::agents::Agents;
use crate::api::{ApiError, Cluster};
use crate::clock;
use crate::follow::Follow;
use crate::outside::KubeOutside;
use crate::world::Followed;

/// The variable that names a backend where `spec.backend` does not.
const BACKEND_URL: &str = "PULUMI_BACKEND_URL";

pub struct KubePlace {
    pub cluster: Cluster,
    pub agents: Arc<Agents>,
    pub follow: Arc<Follow>,
    pub outside: Arc<KubeOutside>,
    pub notes: Arc<ProgressNotes>,
}

impl Place for KubePlace {
    const WORKSPACE_PATH: bool = true;

    async fn client(&self, key: &Key, instance: &str) -> Result<AgentClient, Failure> {
        self.agents.client(key, instance).ok_or_else(|| {
            Failure::new(
                FailureClass::Unavailable,
                "AgentUnavailable",
                "the agent of the workspace is not connected",
            )
        })
    }

    async fn backend_url(&self, stack: &Stack) -> Result<String, Failure> {
        if let Some(url) = &stack.spec.backend {
            return Ok(url.clone());
        }
        let namespace = stack.metadata.namespace.as_deref().unwrap_or_default();
        if let Some(reference) = stack.spec.env_refs.get(BACKEND_URL) {
            let found = match reference.selector(namespace) {
                Ok(Selector::Literal(text)) => Some(text.expose().to_owned()),
                Ok(Selector::Secret(secret)) => self
                    .cluster
                    .get::<Secret>(namespace, &secret.name)
                    .await
                    .map_err(|error| api_failure(&error))?
                    .and_then(|found| found.data?.remove(&secret.key))
                    .and_then(|bytes| String::from_utf8(bytes.0).ok()),
                Ok(Selector::ConfigMap(map)) => self
                    .cluster
                    .get::<ConfigMap>(namespace, &map.name)
                    .await
                    .map_err(|error| api_failure(&error))?
                    .and_then(|found| found.data?.remove(&map.key)),
                Ok(Selector::StackOutput { .. }) | Err(_) => None,
            };
            return found.ok_or_else(|| {
                unavailable(&format!(
                    "spec.envRefs.{BACKEND_URL}: the value does not exist or is no text"
                ))
            });
        }
        let template = stack
            .spec
            .workspace_template
            .as_ref()
            .and_then(|template| template.spec.as_ref());
        let named = template
            .into_iter()
            .flat_map(|spec| &spec.env)
            .find(|variable| variable.name == BACKEND_URL)
            .and_then(|variable| variable.value.clone());
        Ok(named.unwrap_or_else(|| PULUMI_CLOUD.to_owned()))
    }

    /// The kubelet has mounted them.
    async fn mounts(&self, _key: &Key, _stack: &Stack) -> Result<Mounts<'static>, Failure> {
        Ok(windlass_pods::layout::mounts())
    }

    /// Holders are known by the host names of this workspace's pods: every pod has one of its own. One that is not the
    /// pod under work is dead, for a workspace has one pod at a time. Of those in the pod under work its agent knows.
    async fn holders(&self, input: &TaskInput, locks: &[LockInfo]) -> Vec<LockHolder> {
        let objects = &input.objects;
        let current = objects
            .workspace
            .current
            .as_ref()
            .map(|instance| instance.hostname.as_str());
        let earlier: BTreeSet<&str> = objects
            .updates
            .iter()
            .filter_map(|update| update.status.as_ref()?.run.as_ref())
            .map(|run| run.hostname.as_str())
            .filter(|hostname| Some(*hostname) != current)
            .collect();
        locks
            .iter()
            .map(|lock| LockHolder {
                hostname: lock.hostname.clone(),
                dead: earlier.contains(lock.hostname.as_str())
                    || locks
                        .iter()
                        .filter(|other| other.hostname == lock.hostname)
                        .all(|other| other.gone),
            })
            .collect()
    }

    fn follows(&self, key: &Key, objects: Vec<ObjectRef>) {
        let followed = objects
            .into_iter()
            .map(|object| Followed {
                api_version: object.api_version,
                kind: object.kind,
                namespace: key.namespace.clone(),
                name: object.name,
            })
            .collect();
        self.follow.set(key, followed);
    }

    fn polls(&self, key: &Key, interval: Option<Duration>) {
        self.outside.subscriptions.pace(key, interval);
    }

    fn look_afresh(&self, key: &Key) {
        self.outside.subscriptions.look_afresh(key);
    }

    fn progress(&self, key: &Key, update: &str, progress: &RunProgress) {
        self.notes.heard(key, update, progress, clock());
    }

    /// The lines are in the pod's own log.
    fn log(&self, _key: &Key, _line: &str) {}
}

fn api_failure(error: &ApiError) -> Failure {
    unavailable(&error.to_string())
}
