//! Looks after what no watch tells: nodes that may be gone, pods that wait to be let go, what rests after a refusal; and
//! keeps the status of Workspaces in step.

use std::collections::HashSet;
use std::sync::PoisonError;
use std::time::Duration;

use k8s_openapi::api::core::v1::Node;
use kube::Api;
use tokio::sync::broadcast::error::RecvError;
use tokio::time::MissedTickBehavior;
use windlass_api::conditions::workspace_reason;
use windlass_core::time::Timestamp;
use windlass_engine::Key;
use windlass_pods::PodView;

use crate::agents::Contact;
use crate::api::within;
use crate::clock;
use crate::instances::{Instances, lingers, open_on};
use crate::workspace_status::{Shown, show};

/// How often pods on nodes that may be gone, and pods that were refused, are looked at.
const LOOK: Duration = Duration::from_secs(5);
/// The taint by which somebody says that a node is off and will stay so.
const OUT_OF_SERVICE: &str = "node.kubernetes.io/out-of-service";

/// Two looks lie between these: what begins to be so is seen to begin.
fn before(now: Timestamp) -> Timestamp {
    Timestamp(now.0 - 2 * i64::try_from(LOOK.as_millis()).unwrap_or(i64::MAX / 4))
}

impl Instances {
    /// Looks after pods that are being deleted, nodes that may be gone, and what rests. Never returns; meant to be
    /// spawned.
    pub async fn keep(&self) {
        let mut news = self.world.pod_news();
        // However much news there is.
        let mut look = tokio::time::interval(LOOK);
        look.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                _ = look.tick() => self.look_at_all().await,
                heard = news.recv() => match heard {
                    Ok(key) => {
                        self.release_if_over(&key).await;
                        self.show(&key, false).await;
                    }
                    // Missed some: look at all of them.
                    Err(RecvError::Lagged(_)) => look.reset_immediately(),
                    Err(RecvError::Closed) => return,
                },
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
        let mut starting = HashSet::new();
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
            if let (Some(node), Some(uid)) = (windlass_pods::node(&pod), &pod.metadata.uid) {
                match windlass_pods::read(&pod, &[]) {
                    PodView::Starting { .. } => {
                        starting.insert(uid.clone());
                        let namespace = &key.namespace;
                        let news = self.warnings.look(&self.cluster, namespace, uid, now).await;
                        // From now on its Stack says what it waits for.
                        let begins = lingers(&pod, now) && !lingers(&pod, before(now));
                        if news || begins {
                            self.world.wake(key.clone());
                        }
                    }
                    PodView::Stopping { .. } | PodView::Unreachable { .. } => {
                        self.look_at_node(&key, node, uid).await;
                    }
                    _ => {}
                }
            }
            self.show(&key, true).await;
        }
        self.warnings.retain(&starting);
        self.look_for_vanished().await;
    }

    /// Runs whose pod was taken away by hand, finalizer and all: their node may still tell.
    async fn look_for_vanished(&self) {
        for update in self.world.updates.all() {
            let Some(run) = update
                .status
                .as_ref()
                .and_then(|status| status.run.as_ref())
            else {
                continue;
            };
            let metadata = &update.metadata;
            let key = metadata
                .namespace
                .clone()
                .zip(update.spec.workspace_name.clone())
                .map(|(namespace, name)| Key::new(namespace, name));
            if let (Some(key), Some(node)) = (key, &run.node)
                && open_on(&update, &run.instance)
                && self
                    .pod(&key)
                    .is_none_or(|pod| pod.metadata.uid.as_ref() != Some(&run.instance))
            {
                self.look_at_node(&key, node, &run.instance).await;
            }
        }
    }

    /// Keeps the Workspace's status in step. A pod that is only on its way is not worth a write, unless it `lingers`.
    async fn show(&self, key: &Key, lingers: bool) {
        let Some(pod) = self.pod(key) else { return };
        let uid = pod.metadata.uid.as_deref().unwrap_or_default();
        let shown = match windlass_pods::read(&pod, &self.warnings.of(uid)) {
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
            PodView::Receiving { .. } if lingers => Shown::waiting("putting the program in place"),
            PodView::Starting { .. } | PodView::Receiving { .. } | PodView::Ended { .. } => return,
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
    async fn look_at_node(&self, key: &Key, node: &str, uid: &str) {
        let api: Api<Node> = Api::all(self.cluster.client.clone());
        let found = match within(api.get_opt(node)).await {
            Ok(found) => found,
            Err(error) => {
                tracing::debug!(stack = %key, node, %error, "looking at a node");
                return;
            }
        };
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
                .insert(uid.to_owned(), key.clone())
                .is_none();
            if new {
                tracing::info!(stack = %key, node, "the node of the workspace's pod is gone");
                self.world.wake(key.clone());
            }
        }
    }
}
