//! The node: its object and lease, its pods, what they share.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::Duration;

use futures::StreamExt as _;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Node as NodeObject, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use kube::Client;
use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams, Preconditions};
use kube::runtime::watcher::{self, Event, watcher};
use serde_json::json;
use tokio::sync::watch;

use super::addresses::Addresses;
use super::events::Events;
use super::image::{Image, Images};
use super::pod::{self, ORPHAN_GRACE};
use super::state::{Deletion, PodCell};
use super::values::Place;
use crate::error::{Asking as _, Result};
use crate::identity::accept_existing;

/// What pods see as the node's memory, in bytes.
const MEMORY: i128 = 16 << 30;
/// What pods see as the node's processors.
const PROCESSORS: i128 = 8;
/// How many pods it takes.
const PODS: i128 = 500;
/// Between two renewals of the lease. A kubelet does so every 10 s; tests have shorter patience.
const RENEW: Duration = Duration::from_secs(3);
/// Before something that failed is tried again.
const RETRY: Duration = Duration::from_millis(200);
/// The namespace of nodes' leases.
const LEASES: &str = "kube-node-lease";

/// What all pods of the node share.
pub struct Node {
    pub name: String,
    pub client: Client,
    pub address: Ipv4Addr,
    pub api_port: u16,
    /// The program that becomes a container.
    pub helper: PathBuf,
    /// The pause after a second crash of a container.
    pub restart_pause: Duration,
    pub folder: PathBuf,
    pub images: RwLock<Images>,
    /// Whether it takes part at all.
    pub alive: watch::Sender<bool>,
    /// Whether pods' status is reported.
    pub reporting: watch::Sender<bool>,
    pub labels: BTreeMap<String, String>,
    addresses: Addresses,
    events: Events,
    numbers: AtomicU64,
    cells: Mutex<BTreeMap<String, Arc<PodCell>>>,
}

impl Node {
    pub fn new(parts: Parts) -> Self {
        let Parts {
            name,
            client,
            api_port,
            helper,
            restart_pause,
            folder,
            images,
            addresses,
        } = parts;
        let labels = [
            ("kubernetes.io/hostname", name.as_str()),
            ("kubernetes.io/os", "linux"),
            ("kubernetes.io/arch", architecture()),
        ];
        let labels = labels.map(|(key, value)| (key.to_owned(), value.to_owned()));
        Self {
            events: Events::new(client.clone(), name.clone()),
            address: addresses.node(),
            labels: labels.into(),
            name,
            client,
            api_port,
            helper,
            restart_pause,
            folder,
            images: RwLock::new(images),
            alive: watch::Sender::new(true),
            reporting: watch::Sender::new(true),
            addresses,
            numbers: AtomicU64::new(0),
            cells: Mutex::default(),
        }
    }

    /// What a pod's fields are resolved with.
    pub fn place(&self, cell: &PodCell) -> Place {
        Place {
            pod_ip: cell.address,
            host_ip: self.address,
            memory: MEMORY,
            processors: PROCESSORS,
        }
    }

    /// What an image's name stands for.
    pub fn image(&self, name: &str) -> Option<Image> {
        let images = self.images.read().unwrap_or_else(PoisonError::into_inner);
        images.find(name)
    }

    pub fn next_number(&self) -> u64 {
        self.numbers.fetch_add(1, Ordering::Relaxed)
    }

    /// All pods, by uid.
    pub fn cells(&self) -> MutexGuard<'_, BTreeMap<String, Arc<PodCell>>> {
        self.cells.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until the node takes part.
    pub async fn alive(&self) {
        let _ = self.alive.subscribe().wait_for(|alive| *alive).await;
    }

    /// Waits until status may be reported.
    pub async fn may_report(&self) {
        loop {
            self.alive().await;
            let _ = self.reporting.subscribe().wait_for(|may| *may).await;
            if *self.alive.borrow() {
                return;
            }
        }
    }

    /// Tells people about a pod.
    pub fn event(self: &Arc<Self>, cell: &PodCell, kind: &str, reason: &str, message: &str) {
        if *self.alive.borrow() {
            self.events
                .tell(&cell.pod(), "kubelet", kind, reason, message);
        }
    }

    /// Tells people, as the scheduler does, that a pod finds no place.
    pub fn scheduler_event(&self, pod: &Pod, kind: &str, reason: &str, message: &str) {
        self.events
            .tell(pod, "default-scheduler", kind, reason, message);
    }

    /// Makes the node's object, ready.
    pub async fn register(&self) -> Result<()> {
        let nodes: Api<NodeObject> = Api::all(self.client.clone());
        let object = json!({
            "apiVersion": "v1", "kind": "Node",
            "metadata": {"name": self.name, "labels": self.labels},
        });
        let what = format!("node {}", self.name);
        let object: NodeObject = serde_json::from_value(object)
            .map_err(|error| crate::Error::Unable(format!("{what}: {error}")))?;
        accept_existing(nodes.create(&PostParams::default(), &object).await).asking(&what)?;
        self.renew().await.asking(&what)?;
        self.heartbeat().await.asking(&what)?;
        // The controllers take a new node's taint away when they have seen that it is ready; until
        // then no pod has a place on it.
        while self.is_tainted(&nodes).await.asking(&what)? {
            tokio::time::sleep(RETRY).await;
        }
        Ok(())
    }

    async fn is_tainted(&self, nodes: &Api<NodeObject>) -> std::result::Result<bool, kube::Error> {
        let spec = nodes.get(&self.name).await?.spec.unwrap_or_default();
        Ok(spec.taints.is_some_and(|taints| !taints.is_empty()))
    }

    /// Says that the node is ready.
    async fn heartbeat(&self) -> std::result::Result<(), kube::Error> {
        let nodes: Api<NodeObject> = Api::all(self.client.clone());
        let now = jiff::Timestamp::now()
            .strftime("%Y-%m-%dT%H:%M:%SZ")
            .to_string();
        let known = nodes.get(&self.name).await?.status.unwrap_or_default();
        let conditions = [
            ("MemoryPressure", "False", "KubeletHasSufficientMemory"),
            ("DiskPressure", "False", "KubeletHasNoDiskPressure"),
            ("PIDPressure", "False", "KubeletHasSufficientPID"),
            ("Ready", "True", "KubeletReady"),
        ]
        .map(|(kind, status, reason)| {
            let before = known.conditions.iter().flatten();
            let before = before.filter(|c| c.type_ == kind && c.status == status);
            let since = before.filter_map(|c| c.last_transition_time.clone()).next();
            json!({
                "type": kind, "status": status, "reason": reason, "message": "",
                "lastHeartbeatTime": now,
                "lastTransitionTime": since.map_or(json!(now), |since| json!(since)),
            })
        });
        let amounts = json!({
            "cpu": PROCESSORS.to_string(), "memory": MEMORY.to_string(), "pods": PODS.to_string(),
        });
        let patch = json!({"status": {
            "addresses": [
                {"type": "InternalIP", "address": self.address.to_string()},
                {"type": "Hostname", "address": self.name},
            ],
            "capacity": amounts, "allocatable": amounts, "conditions": conditions,
            "nodeInfo": {
                "architecture": architecture(), "operatingSystem": "linux",
                "kubeletVersion": "v0.0.0-windlass-test", "bootID": "", "machineID": "",
                "systemUUID": "", "kernelVersion": "", "osImage": "",
                "containerRuntimeVersion": "windlass-test://0", "kubeProxyVersion": "",
            },
        }});
        nodes
            .patch_status(
                &self.name,
                &PatchParams::default(),
                &Patch::Strategic(patch),
            )
            .await
            .map(drop)
    }

    async fn renew(&self) -> std::result::Result<(), kube::Error> {
        let leases: Api<Lease> = Api::namespaced(self.client.clone(), LEASES);
        let patch = json!({
            "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
            "metadata": {"name": self.name},
            "spec": {
                "holderIdentity": self.name, "leaseDurationSeconds": 40,
                "renewTime": MicroTime(jiff::Timestamp::now()),
            },
        });
        let params = PatchParams::apply("kubelet").force();
        leases
            .patch(&self.name, &params, &Patch::Apply(patch))
            .await
            .map(drop)
    }

    /// Renews the lease, and says that the node is ready if that has been taken back. It never ends.
    pub async fn keep_ready(&self) {
        let nodes: Api<NodeObject> = Api::all(self.client.clone());
        loop {
            self.alive().await;
            let _ = self.renew().await;
            if let Ok(node) = nodes.get_status(&self.name).await {
                let conditions = node.status.and_then(|status| status.conditions);
                let mut conditions = conditions.into_iter().flatten();
                if !conditions.any(|c| c.type_ == "Ready" && c.status == "True") {
                    let _ = self.heartbeat().await;
                }
            }
            tokio::time::sleep(RENEW).await;
        }
    }

    /// Follows the pods that are bound to this node. It never ends.
    pub async fn follow_pods(self: &Arc<Self>) {
        loop {
            self.alive().await;
            let mut alive = self.alive.subscribe();
            tokio::select! {
                () = self.follow_once() => {}
                _ = async { alive.wait_for(|alive| !alive).await.map(drop) } => {}
            }
        }
    }

    async fn follow_once(self: &Arc<Self>) {
        let pods: Api<Pod> = Api::all(self.client.clone());
        let selector = format!("spec.nodeName={}", self.name);
        let config = watcher::Config::default().fields(&selector);
        let mut events = watcher(pods, config).boxed();
        let mut listed = Vec::new();
        while let Some(event) = events.next().await {
            match event {
                Ok(Event::Init) => listed.clear(),
                Ok(Event::InitApply(pod)) => {
                    listed.push(pod.metadata.uid.clone().unwrap_or_default());
                    self.seen(pod);
                }
                Ok(Event::InitDone) => {
                    let known: Vec<_> = self.cells().values().cloned().collect();
                    for cell in known.iter().filter(|cell| !listed.contains(&cell.uid)) {
                        self.gone(cell);
                    }
                }
                Ok(Event::Apply(pod)) => self.seen(pod),
                Ok(Event::Delete(pod)) => {
                    let uid = pod.metadata.uid.unwrap_or_default();
                    let cell = self.cells().get(&uid).cloned();
                    if let Some(cell) = cell {
                        self.gone(&cell);
                    }
                }
                Err(_) => tokio::time::sleep(RETRY).await,
            }
        }
    }

    /// A pod's object is new or has changed.
    fn seen(self: &Arc<Self>, pod: Pod) {
        let uid = pod.metadata.uid.clone().unwrap_or_default();
        let deleted = pod.metadata.deletion_timestamp.is_some();
        let grace = pod.metadata.deletion_grace_period_seconds.unwrap_or(30);
        let pod = Arc::new(pod);
        let known = self.cells().get(&uid).cloned();
        let cell = match known {
            Some(cell) => {
                cell.object.send_replace(Arc::clone(&pod));
                cell
            }
            None => {
                let phase = pod
                    .status
                    .as_ref()
                    .and_then(|status| status.phase.as_deref());
                if matches!(phase, Some("Succeeded" | "Failed")) && !deleted {
                    return;
                }
                let folder = self.folder.join(&uid);
                let cell = Arc::new(PodCell::new(pod, self.addresses.next(), folder));
                self.cells().insert(uid.clone(), Arc::clone(&cell));
                let (node, own) = (Arc::clone(self), Arc::clone(&cell));
                tokio::spawn(async move {
                    // Output goes to files in it before anything else does.
                    let _ = std::fs::create_dir_all(&own.folder);
                    pod::live(Arc::clone(&node), Arc::clone(&own)).await;
                    // Finalizers may keep the object; then it is still known.
                    if own
                        .deletion
                        .borrow()
                        .is_none_or(|deletion| !deletion.object)
                    {
                        node.cells().remove(&own.uid);
                    }
                });
                cell
            }
        };
        if deleted {
            let grace = u64::try_from(grace).unwrap_or_default();
            cell.deletion.send_if_modified(|deletion| {
                let news = deletion.is_none_or(|known| grace < known.grace);
                if news {
                    *deletion = Some(Deletion {
                        grace,
                        object: true,
                    });
                }
                news
            });
        }
    }

    /// A pod's object is gone.
    fn gone(&self, cell: &Arc<PodCell>) {
        cell.deletion.send_replace(Some(Deletion {
            grace: ORPHAN_GRACE,
            object: false,
        }));
        // What still runs is in its task's hands.
        if cell.containers().is_empty() {
            self.cells().remove(&cell.uid);
        }
    }

    /// Removes a pod's object once nothing of it runs. Finalizers may keep it.
    pub async fn remove_object(&self, cell: &PodCell) {
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), &cell.namespace);
        let params = DeleteParams {
            preconditions: Some(Preconditions {
                uid: Some(cell.uid.clone()),
                resource_version: None,
            }),
            ..DeleteParams::default()
        }
        .grace_period(0);
        loop {
            self.may_report().await;
            match pods.delete(&cell.name, &params).await {
                Ok(_) => return,
                Err(kube::Error::Api(answer)) if matches!(answer.code, 404 | 409) => return,
                Err(_) => tokio::time::sleep(RETRY).await,
            }
        }
    }
}

/// What a node is made from.
pub struct Parts {
    pub name: String,
    pub client: Client,
    pub api_port: u16,
    pub helper: PathBuf,
    pub restart_pause: Duration,
    pub folder: PathBuf,
    pub images: Images,
    pub addresses: Addresses,
}

fn architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}
