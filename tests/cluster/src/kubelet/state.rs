//! What the fake kubelet knows of one pod.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Container, Pod, PodSpec, PodStatus};
use tokio::sync::{Notify, watch};

use super::container::Running;

/// A container's state, as in its status.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Now {
    Waiting { reason: String, message: String },
    Running { since: Timestamp },
    Terminated(Ended),
}

impl Now {
    pub fn waiting(reason: &str, message: impl Into<String>) -> Self {
        Self::Waiting {
            reason: reason.to_owned(),
            message: message.into(),
        }
    }
}

/// The end of a run of a container.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ended {
    pub code: i32,
    pub reason: String,
    pub message: String,
    pub started: Option<Timestamp>,
    pub finished: Timestamp,
    pub id: Option<String>,
}

/// What is known of one container.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    pub now: Now,
    pub last: Option<Ended>,
    pub restarts: i32,
    pub ready: bool,
    pub started: bool,
    pub id: Option<String>,
}

impl Record {
    fn new(reason: &str) -> Self {
        Self {
            now: Now::waiting(reason, ""),
            last: None,
            restarts: 0,
            ready: false,
            started: false,
            id: None,
        }
    }
}

/// What is known of a pod's containers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PodState {
    pub start: Timestamp,
    /// Whether its volumes and address are there.
    pub sandbox: bool,
    /// By name; init containers too.
    pub containers: BTreeMap<String, Record>,
    /// Whether nothing will be started any more.
    pub over: bool,
}

/// How a pod is to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Deletion {
    /// How long its processes may take, in seconds.
    pub grace: u64,
    /// Whether its object is still there and has to be removed.
    pub object: bool,
}

/// One pod on this node.
pub struct PodCell {
    pub namespace: String,
    pub name: String,
    pub uid: String,
    pub address: Ipv4Addr,
    /// Holds its volumes, roots and logs.
    pub folder: PathBuf,
    pub object: watch::Sender<Arc<Pod>>,
    pub deletion: watch::Sender<Option<Deletion>>,
    state: Mutex<PodState>,
    /// Somebody waits for a container to have started.
    pub looked_at: Notify,
    /// There is something new to report.
    pub changed: Notify,
    /// The containers that run, by name.
    pub running: Mutex<BTreeMap<String, Arc<Running>>>,
    /// The status that was last reported.
    pub reported: tokio::sync::Mutex<Option<PodStatus>>,
}

impl PodCell {
    pub fn new(pod: Arc<Pod>, address: Ipv4Addr, folder: PathBuf) -> Self {
        let metadata = &pod.metadata;
        let text = |value: &Option<String>| value.clone().unwrap_or_default();
        let mut containers = BTreeMap::new();
        if let Some(spec) = &pod.spec {
            let inits = init_containers(spec);
            let reason = if inits.is_empty() {
                "ContainerCreating"
            } else {
                "PodInitializing"
            };
            for container in inits.iter().chain(&spec.containers) {
                containers.insert(container.name.clone(), Record::new(reason));
            }
        }
        Self {
            namespace: text(&metadata.namespace),
            name: text(&metadata.name),
            uid: text(&metadata.uid),
            address,
            folder,
            state: Mutex::new(PodState {
                start: Timestamp::now(),
                sandbox: false,
                containers,
                over: false,
            }),
            object: watch::Sender::new(pod),
            deletion: watch::Sender::new(None),
            looked_at: Notify::new(),
            changed: Notify::new(),
            running: Mutex::default(),
            reported: tokio::sync::Mutex::new(None),
        }
    }

    /// The object as it was last seen.
    pub fn pod(&self) -> Arc<Pod> {
        Arc::clone(&self.object.borrow())
    }

    /// A copy of what is known.
    pub fn state(&self) -> PodState {
        self.locked().clone()
    }

    fn locked(&self) -> MutexGuard<'_, PodState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes what is known, and has it reported if it is different then.
    pub fn update(&self, change: impl FnOnce(&mut PodState)) {
        let mut state = self.locked();
        let before = state.clone();
        change(&mut state);
        if *state != before {
            drop(state);
            self.changed.notify_one();
            self.looked_at.notify_waiters();
        }
    }

    /// Changes what is known of one container.
    pub fn record(&self, container: &str, change: impl FnOnce(&mut Record)) {
        self.update(|state| {
            if let Some(record) = state.containers.get_mut(container) {
                change(record);
            }
        });
    }

    /// The container, if it runs.
    pub fn container(&self, name: &str) -> Option<Arc<Running>> {
        self.containers().get(name).cloned()
    }

    /// All that run.
    pub fn containers(&self) -> MutexGuard<'_, BTreeMap<String, Arc<Running>>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The file with a container's output.
    pub fn log(&self, container: &str) -> PathBuf {
        self.folder.join(format!("{container}.log"))
    }

    /// `NAME_NAMESPACE(UID)`, as in the kubelet's messages.
    pub fn full_name(&self) -> String {
        format!("{}_{}({})", self.name, self.namespace, self.uid)
    }
}

/// A pod's init containers.
pub fn init_containers(spec: &PodSpec) -> &[Container] {
    spec.init_containers.as_deref().unwrap_or_default()
}

/// Whether an init container goes on beside the others.
pub fn is_sidecar(container: &Container) -> bool {
    container.restart_policy.as_deref() == Some("Always")
}
