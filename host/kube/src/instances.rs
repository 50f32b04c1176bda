//! Workspace instances as the core sees them: a pod, what the kubelet says of it, and what its agent says.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use k8s_openapi::api::core::v1::{Node, Pod};
use kube::Api;
use windlass_api::conditions::{COMPLETE, is_true, workspace_reason};
use windlass_api::names::{STACK_FINALIZER_MANAGER, workspace_pod_name};
use windlass_api::{Stack, Update};
use windlass_core::digest::digest;
use windlass_core::snapshot::{Instance, InstancePhase, Refusal, WorkspaceView};
use windlass_core::time::Timestamp;
use windlass_engine::{Key, StoreError};
use windlass_pods::{Images, PodView};

use crate::agents::{Agent, Agents, Contact};
use crate::api::{ApiError, Cluster, within};
use crate::certificates::{Certificates, identity};
use crate::clock;
use crate::config::OperatorConfig;
use crate::workspace_status::{Shown, show};
use crate::world::World;
use crate::write::remove_finalizer;

/// Finalizer of workspace pods: their end is seen before they go.
pub const POD_FINALIZER: &str = "windlass.pulumi.com/run";
/// How long what could not be made rests before it is tried again; doubled each time up to the second.
const FIRST_REST: Duration = Duration::from_secs(10);
const LONGEST_REST: Duration = Duration::from_secs(600);
/// How often pods on nodes that may be gone, and pods that were refused, are looked at.
const LOOK: Duration = Duration::from_secs(5);
/// The taint by which somebody says that a node is off and will stay so.
const OUT_OF_SERVICE: &str = "node.kubernetes.io/out-of-service";

/// Something that was refused, and rests before it is tried again.
struct Resting {
    refusal: Refusal,
    /// The Stack that was refused: another generation is tried at once.
    generation: Option<i64>,
    since: Timestamp,
    attempts: u32,
}

impl Resting {
    fn over(&self, now: Timestamp) -> bool {
        let rest = FIRST_REST
            .saturating_mul(1 << self.attempts.min(10))
            .min(LONGEST_REST);
        now.since(self.since) >= rest
    }
}

/// Instances of all workspaces.
pub struct Instances {
    cluster: Cluster,
    world: Arc<World>,
    agents: Arc<Agents>,
    pub certificates: Arc<Certificates>,
    pub images: Images,
    resting: Mutex<HashMap<Key, Resting>>,
    /// Pods whose node is proven to be gone, by uid.
    lost_nodes: Mutex<HashMap<String, Key>>,
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
        }
    }

    fn resting(&self) -> MutexGuard<'_, HashMap<Key, Resting>> {
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

    fn pod(&self, key: &Key) -> Option<Arc<Pod>> {
        self.world
            .pods
            .get(&key.namespace, &workspace_pod_name(&key.name))
    }

    /// What is known of a workspace now.
    pub fn view(&self, key: &Key, updates: &[Update]) -> WorkspaceView {
        let Some(pod) = self.pod(key) else {
            self.agents.gone(key);
            return WorkspaceView::default();
        };
        let uid = pod.metadata.uid.clone().unwrap_or_default();
        let lost = self
            .lost_nodes
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .contains_key(&uid);
        let phase = match windlass_pods::read(&pod, &[]) {
            PodView::Ended { .. } => None,
            PodView::Stopping { .. } | PodView::Unreachable { .. } if lost => None,
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
            } => Some(self.running(key, &pod, &uid, container_id, ready, pod_ip)),
        };
        let Some(phase) = phase else {
            self.agents.gone(key);
            return WorkspaceView {
                current: None,
                ended: vec![uid],
            };
        };
        let hostname = windlass_pods::hostname(&pod).unwrap_or_default().to_owned();
        let spec_digest = windlass_pods::spec_digest(&pod)
            .unwrap_or_default()
            .to_owned();
        WorkspaceView {
            current: Some(Instance {
                uid,
                hostname,
                spec_digest,
                phase,
                idle_since: idle_since(&pod, updates),
            }),
            ended: Vec::new(),
        }
    }

    fn running(
        &self,
        key: &Key,
        pod: &Pod,
        uid: &str,
        container_id: String,
        ready: bool,
        pod_ip: Option<String>,
    ) -> InstancePhase {
        let address = pod_ip.and_then(|ip| ip.parse().ok());
        let identity = identity(&self.world, &key.namespace, &key.name, pod);
        let (Some(address), Some(identity)) = (address, identity) else {
            return InstancePhase::Starting {
                message: "waiting for the pod's address".into(),
            };
        };
        let agent = Agent {
            pod_uid: uid.to_owned(),
            container_id,
            address,
            identity,
        };
        match self.agents.contact(key, agent) {
            Contact::Connected { boot_id, pulumi: _ } => InstancePhase::Ready { boot_id },
            Contact::Silent(message) if ready => InstancePhase::Unreachable { message },
            Contact::Silent(message) => InstancePhase::Starting { message },
            Contact::Dialling => InstancePhase::Starting {
                message: String::new(),
            },
        }
    }

    /// A pod stands where a new one is to be: one that has ended goes, one that runs stays.
    pub async fn clear_away(&self, key: &Key, pod: &Pod) -> Result<(), ApiError> {
        if !matches!(windlass_pods::read(pod, &[]), PodView::Ended { .. }) {
            return Ok(());
        }
        if pod.metadata.deletion_timestamp.is_none() {
            let name = workspace_pod_name(&key.name);
            self.cluster
                .delete::<Pod>(&key.namespace, &name, pod.metadata.uid.as_deref())
                .await?;
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

    /// Looks after pods that are being deleted, nodes that may be gone, and what rests. Never returns; meant to be
    /// spawned.
    pub async fn keep(&self) {
        let mut news = self.world.pod_news();
        loop {
            match tokio::time::timeout(LOOK, news.recv()).await {
                Ok(Ok(key)) => {
                    self.release_if_over(&key).await;
                    self.show(&key, false).await;
                }
                // Missed some, or nothing happened for a while: look at all of them.
                Ok(Err(tokio::sync::broadcast::error::RecvError::Lagged(_))) | Err(_) => {
                    self.look_at_all().await;
                }
                Ok(Err(tokio::sync::broadcast::error::RecvError::Closed)) => return,
            }
        }
    }

    async fn look_at_all(&self) {
        let now = clock();
        let awake: Vec<Key> = self
            .resting()
            .iter()
            .filter(|(_, resting)| resting.over(now))
            .map(|(key, _)| key.clone())
            .collect();
        for key in awake {
            self.world.wake(key);
        }
        for pod in self.world.pods.all() {
            let labels = pod.metadata.labels.as_ref();
            let workspace =
                labels.and_then(|labels| labels.get(windlass_api::names::WORKSPACE_NAME_LABEL));
            let Some(key) = pod
                .metadata
                .namespace
                .clone()
                .zip(workspace.cloned())
                .map(|(namespace, name)| Key::new(namespace, name))
            else {
                continue;
            };
            if pod.metadata.deletion_timestamp.is_some() {
                self.release_if_over(&key).await;
            }
            self.show(&key, true).await;
            let doubtful = matches!(
                windlass_pods::read(&pod, &[]),
                PodView::Stopping { .. } | PodView::Unreachable { .. }
            );
            if doubtful && let Err(error) = self.look_at_node(&key, &pod).await {
                tracing::debug!(stack = %key, %error, "looking at a node");
            }
        }
    }

    /// Keeps the Workspace's status in step. A pod that is only on its way is not worth a write, unless it `lingers`.
    async fn show(&self, key: &Key, lingers: bool) {
        let Some(pod) = self.pod(key) else { return };
        let uid = pod.metadata.uid.as_deref().unwrap_or_default();
        let shown = match windlass_pods::read(&pod, &[]) {
            PodView::Running { .. } => match self.agents.known(key, uid) {
                Some((agent, Contact::Connected { boot_id: _, pulumi })) => Shown::Ready {
                    address: std::net::SocketAddr::new(agent.address, crate::agents::PORT)
                        .to_string(),
                    pulumi_version: pulumi.ok(),
                },
                Some((_, Contact::Silent(message))) => Shown::NotReady {
                    reason: workspace_reason::CONNECTION_FAILED.into(),
                    message,
                },
                Some((_, Contact::Dialling)) | None if lingers => Shown::waiting(""),
                Some((_, Contact::Dialling)) | None => return,
            },
            PodView::Starting { message } if lingers => Shown::waiting(&message),
            PodView::Starting { .. } | PodView::Ended { .. } => return,
            PodView::Failing { reason, message } => Shown::NotReady { reason, message },
            PodView::Stopping { message } => Shown::NotReady {
                reason: workspace_reason::DELETING.into(),
                message,
            },
            PodView::Unreachable { message } => Shown::NotReady {
                reason: workspace_reason::CONNECTION_FAILED.into(),
                message,
            },
        };
        if let Err(error) = show(&self.cluster, &self.world, key, &shown).await {
            tracing::debug!(stack = %key, %error, "writing a Workspace's status");
        }
    }

    /// A node that is deleted, or tainted as out of service, runs nothing: somebody has said so.
    async fn look_at_node(&self, key: &Key, pod: &Pod) -> Result<(), StoreError> {
        let (Some(node), Some(uid)) = (windlass_pods::node(pod), pod.metadata.uid.clone()) else {
            return Ok(());
        };
        let api: Api<Node> = Api::all(self.cluster.client.clone());
        let found = within(api.get_opt(node)).await?;
        let gone = match &found {
            None => true,
            Some(node) => node
                .spec
                .iter()
                .flat_map(|spec| spec.taints.iter().flatten())
                .any(|taint| taint.key == OUT_OF_SERVICE),
        };
        if gone {
            let new = self
                .lost_nodes
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .insert(uid, key.clone())
                .is_none();
            if new {
                tracing::info!(stack = %key, node, "the node of the workspace's pod is gone");
                self.world.wake(key.clone());
            }
        }
        Ok(())
    }
}

fn open_on(update: &Update, pod_uid: &str) -> bool {
    let status = update.status.as_ref();
    let here = status
        .and_then(|status| status.run.as_ref())
        .is_some_and(|run| run.instance == pod_uid);
    here && !status.is_some_and(|status| is_true(&status.conditions, COMPLETE))
}

/// When the pod was made, or its last run ended.
fn idle_since(pod: &Pod, updates: &[Update]) -> Timestamp {
    let made = pod
        .metadata
        .creation_timestamp
        .as_ref()
        .map_or(0, |time| time.0.as_millisecond());
    let ended = updates
        .iter()
        .filter_map(|update| Some(update.status.as_ref()?.summary.as_ref()?.ended_at_ms))
        .max()
        .unwrap_or_default();
    Timestamp(made.max(ended))
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
    use super::*;

    #[test]
    fn host_names_differ_by_incarnation_and_are_labels() {
        let first = hostname("web.example", "uid", Timestamp(1));
        assert_ne!(first, hostname("web.example", "uid", Timestamp(2)));
        assert!(first.starts_with("web-example-"), "{first}");
        let long = hostname(&"s".repeat(80), "uid", Timestamp(1));
        assert_eq!(long.len(), 63);
    }
}
