//! The life of one pod: volumes, init containers, containers, their restarts, the end.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use futures::future::{join_all, select_all};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Container, PodSpec};

use super::container::{self, End, Running};
use super::environment::Sources;
use super::node::Node;
use super::state::{Ended, Now, PodCell, init_containers, is_sidecar};
use super::values::Place;
use super::volumes::{Unmounted, Volumes};
use super::{probe, report, sandbox};

/// How long to wait before trying again what a change elsewhere may mend.
const RETRY: Duration = Duration::from_millis(300);
/// The longest pause between two starts of a container.
const LONGEST_PAUSE: Duration = Duration::from_secs(300);
/// How much of a termination message is kept, in bytes.
const MESSAGE_LIMIT: usize = 4096;
/// What processes may take when their pod's object is gone already, in seconds.
pub const ORPHAN_GRACE: u64 = 2;

/// Lives a pod's life. It ends when the pod's processes are gone and its end is reported.
pub async fn live(node: Arc<Node>, cell: Arc<PodCell>) {
    let mut deletion = cell.deletion.subscribe();
    let publisher = report::publish(&node, &cell);
    let life = async {
        tokio::select! {
            () = work(&node, &cell) => {
                // It has run to its end. What is left is that somebody deletes it.
                cell.update(|state| state.over = true);
                let _ = deletion.wait_for(Option::is_some).await;
            }
            _ = async { deletion.wait_for(Option::is_some).await.map(drop) } => {}
        }
        end(&node, &cell).await;
    };
    tokio::select! {
        () = publisher => {}
        () = life => {}
    }
}

/// Ends what runs, reports it, and removes the object.
async fn end(node: &Arc<Node>, cell: &PodCell) {
    let mut deletion = cell.deletion.subscribe();
    let running: Vec<_> = cell.containers().clone().into_iter().collect();
    for (name, container) in &running {
        cell.record(name, |record| record.ready = false);
        if container.ended().is_none() {
            let message = format!("Stopping container {name}");
            node.event(cell, "Normal", "Killing", &message);
        }
    }
    loop {
        let grace = deletion
            .borrow_and_update()
            .map_or(0, |deletion| deletion.grace);
        let stops = running.iter().map(|(name, container)| async move {
            let end = container.stop(Duration::from_secs(grace)).await;
            finish(cell, name, container, end);
        });
        tokio::select! {
            _ = join_all(stops) => break,
            // Somebody has less patience.
            Ok(()) = deletion.changed() => {}
        }
    }
    cell.update(|state| {
        state.over = true;
        for record in state.containers.values_mut() {
            record.ready &= matches!(record.now, Now::Terminated(_));
        }
    });
    if cell
        .deletion
        .borrow()
        .is_none_or(|deletion| !deletion.object)
    {
        return;
    }
    report::now(node, cell).await;
    node.remove_object(cell).await;
}

async fn work(node: &Arc<Node>, cell: &Arc<PodCell>) {
    let pod = cell.pod();
    let Some(spec) = pod.spec.clone() else { return };
    let place = node.place(cell);
    let folder = cell.folder.join("volumes");
    let volumes = Volumes {
        client: &node.client,
        pod: &pod,
        place,
        folder: &folder,
    };
    let mounted = loop {
        match volumes.prepare().await {
            Ok(mounted) => break mounted,
            Err(Unmounted(why)) => {
                node.event(cell, "Warning", "FailedMount", &why);
                tokio::time::sleep(RETRY).await;
            }
        }
    };
    cell.update(|state| state.sandbox = true);
    let context = Context {
        node,
        cell,
        spec: &spec,
        mounted: &mounted,
        place,
    };
    tokio::select! {
        () = context.containers() => {}
        () = keep_current(node, cell, &folder) => {}
    }
}

/// Writes volumes again when what they come from changes. It never ends.
async fn keep_current(node: &Arc<Node>, cell: &PodCell, folder: &Path) {
    let mut object = cell.object.subscribe();
    let first = cell.pod();
    let place = node.place(cell);
    let client = &node.client;
    let mut changes = Volumes {
        client,
        pod: &first,
        place,
        folder,
    }
    .changes();
    let mut labels = (
        first.metadata.labels.clone(),
        first.metadata.annotations.clone(),
    );
    loop {
        let pod = tokio::select! {
            _ = changes.next() => cell.pod(),
            Ok(()) = object.changed() => {
                let pod = cell.pod();
                let new = (pod.metadata.labels.clone(), pod.metadata.annotations.clone());
                if std::mem::replace(&mut labels, new.clone()) == new {
                    continue;
                }
                pod
            }
        };
        let volumes = Volumes {
            client,
            pod: &pod,
            place,
            folder,
        };
        if let Err(Unmounted(why)) = volumes.prepare().await {
            node.event(cell, "Warning", "FailedMount", &why);
        }
    }
}

/// What every container of a pod needs.
struct Context<'a> {
    node: &'a Arc<Node>,
    cell: &'a Arc<PodCell>,
    spec: &'a PodSpec,
    mounted: &'a BTreeMap<String, PathBuf>,
    place: Place,
}

impl Context<'_> {
    /// Runs everything in order. It ends when all containers have, for good.
    async fn containers(&self) {
        let mut sidecars = Vec::new();
        for init in init_containers(self.spec) {
            if is_sidecar(init) {
                let mut life = Box::pin(self.repeat(init, "Always"));
                tokio::select! {
                    _ = &mut life => {}
                    () = self.started(init) => {}
                }
                sidecars.push(life);
                continue;
            }
            let policy = match self.spec.restart_policy.as_deref() {
                Some("Never") => "Never",
                _ => "OnFailure",
            };
            let one = self.repeat(init, policy);
            let ended = if sidecars.is_empty() {
                one.await
            } else {
                tokio::select! {
                    ended = one => ended,
                    // Sidecars come to no end.
                    (ended, ..) = select_all(sidecars.iter_mut()) => ended,
                }
            };
            if ended != 0 {
                return;
            }
            self.cell.record(&init.name, |record| record.ready = true);
        }
        let policy = self.spec.restart_policy.as_deref().unwrap_or("Always");
        let all = self.spec.containers.iter();
        let all = join_all(all.map(|container| self.repeat(container, policy)));
        if sidecars.is_empty() {
            all.await;
        } else {
            tokio::select! {
                _ = all => {}
                _ = select_all(sidecars) => {}
            }
            for init in init_containers(self.spec).iter().filter(|c| is_sidecar(c)) {
                if let Some(running) = self.cell.container(&init.name) {
                    let end = running.stop(Duration::from_secs(2)).await;
                    finish(self.cell, &init.name, &running, end);
                }
            }
        }
    }

    async fn started(&self, container: &Container) {
        loop {
            let changed = self.cell.looked_at.notified();
            let state = self.cell.state();
            if state
                .containers
                .get(&container.name)
                .is_some_and(|record| record.started)
            {
                return;
            }
            changed.await;
        }
    }

    /// Runs a container, again and again as `policy` has it. Answers its last exit code.
    async fn repeat(&self, container: &Container, policy: &str) -> i32 {
        let mut pause = Duration::ZERO;
        loop {
            self.node.alive().await;
            let code = match self.once(container).await {
                Ok(code) => code,
                Err(Unstarted { code }) => code,
            };
            let again = match policy {
                "Always" => true,
                "OnFailure" => code != 0,
                _ => false,
            };
            if !again {
                return code;
            }
            // The first time at once, then after a pause that grows.
            if !pause.is_zero() {
                self.wait_after_crash(container, pause).await;
            }
            pause = (pause * 2).clamp(self.node.restart_pause, LONGEST_PAUSE);
            self.cell
                .record(&container.name, |record| record.restarts += 1);
        }
    }

    async fn wait_after_crash(&self, container: &Container, pause: Duration) {
        let message = format!(
            "back-off {} restarting failed container={} pod={}",
            go_duration(pause),
            container.name,
            self.cell.full_name()
        );
        self.cell.record(&container.name, |record| {
            if let Now::Terminated(ended) = &record.now {
                record.last = Some(ended.clone());
            }
            record.now = Now::waiting("CrashLoopBackOff", &message);
        });
        let text = format!(
            "Back-off restarting failed container {} in pod {}",
            container.name,
            self.cell.full_name()
        );
        self.node.event(self.cell, "Warning", "BackOff", &text);
        tokio::time::sleep(pause).await;
    }

    /// Runs a container once. Answers its exit code.
    async fn once(&self, container: &Container) -> Result<i32, Unstarted> {
        let running = Arc::new(self.start(container).await?);
        let name = &container.name;
        self.cell
            .containers()
            .insert(name.clone(), Arc::clone(&running));
        let unprobed = container.readiness_probe.is_none() && container.startup_probe.is_none();
        self.cell.record(name, |record| {
            if let Now::Terminated(ended) = &record.now {
                record.last = Some(ended.clone());
            }
            record.now = Now::Running {
                since: running.started,
            };
            record.id = Some(running.id.clone());
            record.started = container.startup_probe.is_none();
            record.ready = unprobed;
        });
        self.node.event(
            self.cell,
            "Normal",
            "Started",
            &format!("Started container {name}"),
        );
        let end = tokio::select! {
            end = running.wait() => end,
            () = probe::all(self.node, self.cell, container, &running) => running.wait().await,
        };
        finish(self.cell, name, &running, end);
        Ok(end.exit_code())
    }

    /// Starts a container; waits as long as what it needs is not there.
    async fn start(&self, container: &Container) -> Result<Running, Unstarted> {
        let (node, cell) = (self.node, self.cell);
        let image = sandbox::image(node, cell, container).await;
        let pod = cell.pod();
        let hostname = sandbox::hostname(cell, self.spec);
        let sources = Sources {
            client: &node.client,
            pod: &pod,
            place: self.place,
            api_port: node.api_port,
            hostname: &hostname,
        };
        let process = loop {
            match sources.process(container, &image).await {
                Ok(process) => break process,
                Err(message) => {
                    cell.record(&container.name, |record| {
                        record.now = Now::waiting("CreateContainerConfigError", &message);
                    });
                    node.event(cell, "Warning", "Failed", &format!("Error: {message}"));
                    tokio::time::sleep(RETRY).await;
                }
            }
        };
        let number = node.next_number();
        let id = format!("windlass-test://{}-{number}", container.name);
        let started = async {
            let launch = sandbox::launch(
                cell,
                self.spec,
                container,
                &image,
                self.mounted,
                process,
                number,
            )?;
            node.event(
                cell,
                "Normal",
                "Created",
                &format!("Created container: {}", container.name),
            );
            container::start(&node.helper, id.clone(), launch).await
        };
        started.await.map_err(|why| {
            let message = format!(
                "failed to create containerd task: failed to create shim task: OCI runtime create \
                 failed: runc create failed: unable to start container process: {why}"
            );
            node.event(cell, "Warning", "Failed", &format!("Error: {message}"));
            let ended = Ended {
                code: crate::launch::START_ERROR,
                reason: "StartError".to_owned(),
                message,
                started: None,
                finished: Timestamp::now(),
                id: Some(id),
            };
            let code = ended.code;
            cell.record(&container.name, |record| {
                record.now = Now::Terminated(ended)
            });
            Unstarted { code }
        })
    }
}

/// A container that could not be started.
struct Unstarted {
    code: i32,
}

/// Writes down the end of a container's run.
fn finish(cell: &PodCell, name: &str, running: &Arc<Running>, end: End) {
    let mut containers = cell.containers();
    if containers
        .get(name)
        .is_some_and(|known| Arc::ptr_eq(known, running))
    {
        containers.remove(name);
    }
    drop(containers);
    let code = end.exit_code();
    let message = std::fs::read(sandbox::termination_message(cell, name)).unwrap_or_default();
    let message = &message[..message.len().min(MESSAGE_LIMIT)];
    let ended = Ended {
        code,
        reason: if code == 0 { "Completed" } else { "Error" }.to_owned(),
        message: String::from_utf8_lossy(message).into_owned(),
        started: Some(running.started),
        finished: Timestamp::now(),
        id: Some(running.id.clone()),
    };
    cell.record(name, |record| {
        // Its end may have been written down already, by the pod's.
        if matches!(record.now, Now::Running { .. }) {
            record.now = Now::Terminated(ended);
        }
        record.ready = false;
        record.started = false;
    });
}

/// A duration as Go prints it.
fn go_duration(duration: Duration) -> String {
    let seconds = duration.as_secs();
    match (seconds / 60, seconds % 60) {
        (0, 0) => format!("{}ms", duration.as_millis()),
        (0, seconds) => format!("{seconds}s"),
        (minutes, seconds) => format!("{minutes}m{seconds}s"),
    }
}
