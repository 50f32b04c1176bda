//! What tests do to pods and nodes, and what they ask of them.

use std::path::PathBuf;
use std::process::Output;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Node as NodeObject, Pod};
use kube::api::{Api, DeleteParams, Patch, PatchParams};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::json;

use super::FakeKubelet;
use super::container::Running;
use super::state::PodCell;
use crate::error::{Asking as _, Error, Result};

/// The longest that a program given to `exec` may take.
const EXEC_LIMIT: Duration = Duration::from_secs(60);

/// What becomes of the processes of a node that vanishes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Processes {
    /// They go on: the node is cut off.
    GoOn,
    /// They are gone: the machine is.
    Killed,
}

impl FakeKubelet {
    fn cell(&self, namespace: &str, pod: &str) -> Result<Arc<PodCell>> {
        let cells = self.node.cells();
        // Of a pod and its predecessor of the same name, the later one.
        let mut found: Vec<_> = cells
            .values()
            .filter(|cell| cell.namespace == namespace && cell.name == pod)
            .collect();
        found.sort_by_key(|cell| cell.state().start);
        let found = found.last().map(|cell| Arc::clone(cell));
        found.ok_or_else(|| Error::Unable(format!("no pod {namespace}/{pod} on this node")))
    }

    fn running(&self, namespace: &str, pod: &str, container: &str) -> Result<Arc<Running>> {
        let found = self.cell(namespace, pod)?.container(container);
        found.ok_or_else(|| Error::Unable(format!("{container} of {namespace}/{pod} does not run")))
    }

    /// The process id, on this machine, of a container's first process.
    ///
    /// # Errors
    /// When it does not run.
    pub fn pid(&self, namespace: &str, pod: &str, container: &str) -> Result<i32> {
        Ok(self.running(namespace, pod, container)?.pid)
    }

    /// All process ids, on this machine, of a pod.
    ///
    /// # Errors
    /// When there is no such pod here.
    pub fn processes(&self, namespace: &str, pod: &str) -> Result<Vec<i32>> {
        let cell = self.cell(namespace, pod)?;
        let containers: Vec<_> = cell.containers().values().cloned().collect();
        Ok(containers
            .iter()
            .flat_map(|container| container.processes())
            .collect())
    }

    /// Kills a container as the kernel does (SIGKILL to its first process, which takes all others
    /// along). The kubelet sees it and acts.
    ///
    /// # Errors
    /// When it does not run.
    pub fn kill_container(&self, namespace: &str, pod: &str, container: &str) -> Result<()> {
        self.running(namespace, pod, container)?
            .signal(Signal::SIGKILL);
        Ok(())
    }

    /// Stops all of a pod's processes (SIGSTOP), until `thaw`.
    ///
    /// # Errors
    /// When there is no such pod here.
    pub fn freeze(&self, namespace: &str, pod: &str) -> Result<()> {
        // A process may start another one while the list is read: once more, until it is the same.
        let mut before = Vec::new();
        loop {
            let now = self.signal_all(namespace, pod, Signal::SIGSTOP)?;
            if now == before {
                return Ok(());
            }
            before = now;
        }
    }

    /// Lets a frozen pod go on.
    ///
    /// # Errors
    /// When there is no such pod here.
    pub fn thaw(&self, namespace: &str, pod: &str) -> Result<()> {
        self.signal_all(namespace, pod, Signal::SIGCONT).map(drop)
    }

    fn signal_all(&self, namespace: &str, pod: &str, signal: Signal) -> Result<Vec<i32>> {
        let mut pids = self.processes(namespace, pod)?;
        pids.sort_unstable();
        for pid in &pids {
            // It may have ended.
            let _ = kill(Pid::from_raw(*pid), signal);
        }
        Ok(pids)
    }

    /// Runs a program in a container, with the container's environment and user.
    ///
    /// # Errors
    /// When the container does not run, or the program takes over a minute.
    pub async fn exec(
        &self,
        namespace: &str,
        pod: &str,
        container: &str,
        argv: &[&str],
    ) -> Result<Output> {
        let running = self.running(namespace, pod, container)?;
        let argv: Vec<_> = argv.iter().map(|part| (*part).to_owned()).collect();
        let run = running.exec(&self.node.helper, &argv, EXEC_LIMIT).await;
        run.map_err(Error::Unable)
    }

    /// What a container has printed on both streams, in all of its runs.
    ///
    /// # Errors
    /// When there is no such pod here.
    pub fn logs(&self, namespace: &str, pod: &str, container: &str) -> Result<String> {
        let path: PathBuf = self.cell(namespace, pod)?.log(container);
        let bytes = std::fs::read(path).unwrap_or_default();
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// Stops reporting pods' status, until `resume_reporting`. Everything else goes on.
    pub fn pause_reporting(&self) {
        self.node.reporting.send_replace(false);
    }

    /// Reports again what has changed.
    pub fn resume_reporting(&self) {
        self.node.reporting.send_replace(true);
    }

    /// Takes the node away: no lease, no status, no attention to its pods, until `come_back`.
    pub fn vanish_node(&self, processes: Processes) {
        self.node.alive.send_replace(false);
        if processes == Processes::Killed {
            let cells: Vec<_> = self.node.cells().values().cloned().collect();
            for cell in cells {
                for container in cell.containers().values() {
                    container.kill();
                }
            }
        }
    }

    /// Brings the node back.
    pub fn come_back(&self) {
        self.node.alive.send_replace(true);
    }

    /// Marks the node as out of service: somebody has made sure that nothing runs on it.
    ///
    /// # Errors
    /// When the API server refuses.
    pub async fn out_of_service(&self, client: &kube::Client) -> Result<()> {
        let nodes: Api<NodeObject> = Api::all(client.clone());
        let patch = json!({"spec": {"taints": [{
            "key": "node.kubernetes.io/out-of-service", "value": "nodeshutdown",
            "effect": "NoExecute",
        }]}});
        nodes
            .patch(
                &self.node.name,
                &PatchParams::default(),
                &Patch::Strategic(patch),
            )
            .await
            .map(drop)
            .asking(format!("taint node {}", self.node.name))
    }

    /// Removes a pod's object without waiting for its processes.
    ///
    /// # Errors
    /// When the API server refuses.
    pub async fn force_delete(
        &self,
        client: &kube::Client,
        namespace: &str,
        pod: &str,
    ) -> Result<()> {
        let pods: Api<Pod> = Api::namespaced(client.clone(), namespace);
        pods.delete(pod, &DeleteParams::default().grace_period(0))
            .await
            .map(drop)
            .asking(format!("force the deletion of {namespace}/{pod}"))
    }
}
