//! Workspace instances as the core sees them: a pod, what the kubelet says of it, and what its agent says.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use windlass_api::conditions::{COMPLETE, is_true};
use windlass_api::names::{STACK_FINALIZER_MANAGER, workspace_pod_name};
use windlass_api::{Stack, Update};
use windlass_core::digest::digest;
use windlass_core::snapshot::{Instance, InstancePhase, Refusal, WorkspaceView};
use windlass_core::time::Timestamp;
use windlass_engine::Key;
use windlass_pods::{Images, PodView};

use crate::agents::{Agent, Agents, Contact};
use crate::api::{ApiError, Cluster};
use crate::certificates::{Certificates, identity};
use crate::clock;
use crate::config::OperatorConfig;
use crate::warnings::Warnings;
use crate::world::World;
use crate::write::remove_finalizer;

/// Finalizer of workspace pods: their end is seen before they go.
pub const POD_FINALIZER: &str = "windlass.pulumi.com/run";
/// How long a pod may start before its Stack says what it waits for.
pub(crate) const LINGERS: Duration = Duration::from_secs(10);
/// How long what could not be made rests before it is tried again; doubled each time up to the second.
const FIRST_REST: Duration = Duration::from_secs(10);
const LONGEST_REST: Duration = Duration::from_secs(600);

/// Something that was refused, and rests before it is tried again.
pub(crate) struct Resting {
    refusal: Refusal,
    /// The Stack that was refused: another generation is tried at once.
    generation: Option<i64>,
    since: Timestamp,
    attempts: u32,
}

impl Resting {
    pub(crate) fn over(&self, now: Timestamp) -> bool {
        let rest = FIRST_REST
            .saturating_mul(1 << self.attempts.min(10))
            .min(LONGEST_REST);
        now.since(self.since) >= rest
    }
}

/// Instances of all workspaces.
pub struct Instances {
    pub(crate) cluster: Cluster,
    pub(crate) world: Arc<World>,
    pub(crate) agents: Arc<Agents>,
    pub certificates: Arc<Certificates>,
    pub images: Images,
    resting: Mutex<HashMap<Key, Resting>>,
    /// Instances whose node is proven to be gone, by the uid of their pod.
    pub(crate) lost_nodes: Mutex<HashMap<String, Key>>,
    pub(crate) warnings: Warnings,
}

impl Instances {
    pub fn new(
        cluster: Cluster,
        world: Arc<World>,
        agents: Arc<Agents>,
        certificates: Arc<Certificates>,
        config: OperatorConfig,
    ) -> Instances {
        let mut images = Images::new(config.agent_image);
        images.agent_pull_policy = Some(config.agent_image_pull_policy);
        if let Some(image) = config.workspace_image {
            images.pulumi_nonroot.clone_from(&image);
            images.pulumi = image;
        }
        Instances {
            cluster,
            world,
            agents,
            certificates,
            images,
            resting: Mutex::default(),
            lost_nodes: Mutex::default(),
            warnings: Warnings::default(),
        }
    }

    pub(crate) fn resting(&self) -> MutexGuard<'_, HashMap<Key, Resting>> {
        self.resting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Remembers that something of a Stack could not be made.
    pub fn refused(&self, key: &Key, stack: &Stack, refusal: Refusal) {
        tracing::info!(stack = %key, reason = refusal.reason, message = refusal.message, "refused by the API server");
        let generation = stack.metadata.generation;
        let mut resting = self.resting();
        let attempts = resting
            .get(key)
            .filter(|before| before.generation == generation)
            .map_or(0, |before| before.attempts + 1);
        resting.insert(
            key.clone(),
            Resting {
                refusal,
                generation,
                since: clock(),
                attempts,
            },
        );
    }

    /// What was refused to this very Stack a moment ago.
    pub fn refusal(&self, key: &Key, stack: &Stack) -> Option<Refusal> {
        let resting = self.resting();
        let found = resting.get(key)?;
        let same = found.generation == stack.metadata.generation;
        (same && !found.over(clock())).then(|| found.refusal.clone())
    }

    pub fn forget_refusal(&self, key: &Key) {
        self.resting().remove(key);
    }

    pub(crate) fn pod(&self, key: &Key) -> Option<Arc<Pod>> {
        self.world
            .pods
            .get(&key.namespace, &workspace_pod_name(&key.name))
    }

    /// What is known of a workspace now.
    pub fn view(&self, key: &Key, updates: &[Update]) -> WorkspaceView {
        let lost = self.lost(updates);
        let Some(pod) = self.pod(key) else {
            self.agents.gone(key);
            return WorkspaceView {
                current: None,
                ended: lost,
            };
        };
        let uid = pod.metadata.uid.clone().unwrap_or_default();
        let on_lost_node = self.on_lost_node(&uid);
        let mut ended = lost;
        let phase = match windlass_pods::read(&pod, &self.warnings.of(&uid)) {
            PodView::Ended { .. } => None,
            PodView::Stopping { .. } | PodView::Unreachable { .. } if on_lost_node => None,
            PodView::Stopping { .. } => Some(InstancePhase::Stopping),
            PodView::Unreachable { message } => Some(InstancePhase::Unreachable { message }),
            PodView::Starting { message } => {
                self.agents.gone(key);
                Some(InstancePhase::Starting { message })
            }
            PodView::Failing { reason, message } => {
                self.agents.gone(key);
                Some(InstancePhase::Failing { reason, message })
            }
            PodView::Running {
                container_id,
                started_at: _,
                ready,
                pod_ip,
            } => Some(
                match self.reached(key, &pod, &uid, container_id, ready, pod_ip) {
                    Ok(boot_id) => InstancePhase::Ready { boot_id },
                    Err(phase) => phase,
                },
            ),
            PodView::Receiving {
                container_id,
                pod_ip,
            } => Some(
                match self.reached(key, &pod, &uid, container_id, false, pod_ip) {
                    Ok(boot_id) => InstancePhase::Receiving { boot_id },
                    Err(phase) => phase,
                },
            ),
        };
        let phase = phase.map(|phase| match phase {
            // Each text would be a write of the Stack's status.
            InstancePhase::Starting { .. } if !lingers(&pod, clock()) => InstancePhase::Starting {
                message: String::new(),
            },
            other => other,
        });
        let Some(phase) = phase else {
            self.agents.gone(key);
            ended.push(uid.clone());
            // Another one can be made when the watch tells that this one is gone, and not before.
            let current = stands_in_the_way(&pod)
                .then(|| instance(&pod, uid, InstancePhase::Stopping, updates));
            return WorkspaceView { current, ended };
        };
        WorkspaceView {
            current: Some(instance(&pod, uid, phase, updates)),
            ended,
        }
    }

    fn on_lost_node(&self, uid: &str) -> bool {
        let lost = self.lost_nodes.lock();
        lost.unwrap_or_else(PoisonError::into_inner)
            .contains_key(uid)
    }

    /// Instances that runs of these Updates were started on, and whose node is proven to be gone.
    fn lost(&self, updates: &[Update]) -> Vec<String> {
        let lost = self
            .lost_nodes
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let started = updates.iter().filter_map(|update| {
            let status = update.status.as_ref()?;
            Some(status.run.as_ref()?.instance.clone())
        });
        started.filter(|uid| lost.contains_key(uid)).collect()
    }

    /// The boot of the agent that answers in this container, else what is known of it.
    fn reached(
        &self,
        key: &Key,
        pod: &Pod,
        uid: &str,
        container_id: String,
        ready: bool,
        pod_ip: Option<String>,
    ) -> Result<String, InstancePhase> {
        let address = pod_ip.and_then(|ip| ip.parse().ok());
        let identity = identity(&self.world, &key.namespace, &key.name, pod);
        let (Some(address), Some(identity)) = (address, identity) else {
            return Err(InstancePhase::Starting {
                message: "waiting for the pod's address".into(),
            });
        };
        let agent = Agent {
            pod_uid: uid.to_owned(),
            container_id,
            address,
            identity,
        };
        Err(match self.agents.contact(key, agent) {
            Contact::Connected { boot_id, pulumi: _ } => return Ok(boot_id),
            Contact::Silent(message) if ready => InstancePhase::Unreachable { message },
            Contact::Silent(message) => InstancePhase::Starting { message },
            Contact::Dialling => InstancePhase::Starting {
                message: String::new(),
            },
        })
    }

    /// A pod stands where a new one is to be: one that has ended goes, one that runs stays.
    pub async fn clear_away(&self, key: &Key, pod: &Pod) -> Result<(), ApiError> {
        let uid = pod.metadata.uid.as_deref();
        let ended = matches!(windlass_pods::read(pod, &[]), PodView::Ended { .. });
        if !ended && !uid.is_some_and(|uid| self.on_lost_node(uid)) {
            return Ok(());
        }
        if pod.metadata.deletion_timestamp.is_none() {
            let name = workspace_pod_name(&key.name);
            self.cluster
                .delete::<Pod>(&key.namespace, &name, uid)
                .await?;
            // Not once more because the watch is behind.
            match self.cluster.get::<Pod>(&key.namespace, &name).await? {
                Some(pod) => self.world.took(pod),
                None => self.world.lost::<Pod>(&key.namespace, &name, uid),
            }
        }
        self.release_if_over(key).await;
        Ok(())
    }

    /// Lets a deleted pod go once nothing is to be learned from it any more: it has no open run.
    pub async fn release_if_over(&self, key: &Key) {
        let Some(pod) = self.pod(key) else { return };
        if pod.metadata.deletion_timestamp.is_none() {
            return;
        }
        let uid = pod.metadata.uid.as_deref().unwrap_or_default();
        let open = self
            .world
            .updates
            .group(key)
            .iter()
            .any(|update| open_on(update, uid));
        let present = pod.metadata.finalizers.clone().unwrap_or_default();
        if open {
            return;
        }
        let Some(patch) = remove_finalizer(&present, POD_FINALIZER, None) else {
            return;
        };
        let name = workspace_pod_name(&key.name);
        let released: Result<Pod, ApiError> = self
            .cluster
            .json_patch(&key.namespace, &name, &patch, STACK_FINALIZER_MANAGER)
            .await;
        match released {
            Ok(pod) => self.world.took(pod),
            Err(ApiError::NotFound) => self.world.lost::<Pod>(&key.namespace, &name, Some(uid)),
            Err(ApiError::Conflict) => {}
            Err(error) => tracing::warn!(stack = %key, %error, "letting a pod go"),
        }
    }

    /// The agent may drop what it keeps of a run.
    pub fn forget_run(&self, key: &Key, update: &str) {
        let Some(uid) = self.pod(key).and_then(|pod| pod.metadata.uid.clone()) else {
            return;
        };
        let Some(client) = self.agents.client(key, &uid) else {
            return;
        };
        let update = update.to_owned();
        tokio::spawn(async move {
            // What is not dropped now stays until the pod goes.
            let _ = client.forget_run(&update).await;
        });
    }
}

fn instance(pod: &Pod, uid: String, phase: InstancePhase, updates: &[Update]) -> Instance {
    let text = |known: Option<&str>| known.unwrap_or_default().to_owned();
    Instance {
        uid,
        hostname: text(windlass_pods::hostname(pod)),
        node: windlass_pods::node(pod).map(str::to_owned),
        spec_digest: text(windlass_pods::spec_digest(pod)),
        phase,
        idle_since: idle_since(pod, updates),
    }
}

/// A pod of which nothing runs any more and that only the kubelet, or whoever cleans up after it, can still remove.
fn stands_in_the_way(pod: &Pod) -> bool {
    let held = pod.metadata.finalizers.iter().flatten();
    pod.metadata.deletion_timestamp.is_some() && held.into_iter().all(|f| f != POD_FINALIZER)
}

pub(crate) fn open_on(update: &Update, pod_uid: &str) -> bool {
    let status = update.status.as_ref();
    let here = status
        .and_then(|status| status.run.as_ref())
        .is_some_and(|run| run.instance == pod_uid);
    here && !status.is_some_and(|status| is_true(&status.conditions, COMPLETE))
}

/// Whether a pod takes so long to start that people want to know what it waits for.
pub(crate) fn lingers(pod: &Pod, now: Timestamp) -> bool {
    now.since(made(pod)) >= LINGERS
}

fn made(pod: &Pod) -> Timestamp {
    let made = pod.metadata.creation_timestamp.as_ref();
    Timestamp(made.map_or(0, |time| time.0.as_millisecond()))
}

/// When the pod was made, or its last run ended.
fn idle_since(pod: &Pod, updates: &[Update]) -> Timestamp {
    let ended = updates
        .iter()
        .filter_map(|update| Some(update.status.as_ref()?.summary.as_ref()?.ended_at_ms))
        .max()
        .unwrap_or_default();
    made(pod).max(Timestamp(ended))
}

/// A host name that no other incarnation of the workspace has: a DNS label of at most 63 characters.
pub fn hostname(workspace: &str, workspace_uid: &str, now: Timestamp) -> String {
    let unique = &digest(&(workspace_uid, now))[..12];
    let room = 63 - 1 - unique.len();
    let mut stem: String = workspace
        .chars()
        .map(|c| {
            if c.is_ascii_alphanumeric() || c == '-' {
                c
            } else {
                '-'
            }
        })
        .take(room)
        .collect();
    while stem.ends_with('-') {
        stem.pop();
    }
    format!("{stem}-{unique}")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use serde_json::json;

    #[test]
    fn a_deleted_pod_is_in_the_way_once_nobody_here_holds_it() {
        let pod = |metadata: serde_json::Value| -> Pod {
            serde_json::from_value(json!({"metadata": metadata})).unwrap()
        };
        let deleted = "2026-01-01T00:00:00Z";
        assert!(!stands_in_the_way(&pod(json!({}))));
        assert!(!stands_in_the_way(&pod(
            json!({"deletionTimestamp": deleted, "finalizers": [POD_FINALIZER]})
        )));
        assert!(stands_in_the_way(&pod(
            json!({"deletionTimestamp": deleted, "finalizers": ["example.com/other"]})
        )));
        assert!(stands_in_the_way(&pod(
            json!({"deletionTimestamp": deleted})
        )));
    }

    #[test]
    fn host_names_differ_by_incarnation_and_are_labels() {
        let first = hostname("web.example", "uid", Timestamp(1));
        assert_ne!(first, hostname("web.example", "uid", Timestamp(2)));
        assert!(first.starts_with("web-example-"), "{first}");
        let long = hostname(&"s".repeat(80), "uid", Timestamp(1));
        assert_eq!(long.len(), 63);
    }
}
