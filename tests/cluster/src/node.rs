//! A real node: containerd, a kubelet and a scheduler as processes of this machine, in namespaces of
//! their own.
//!
//! Pods are real containers in real images on a network that this machine reaches; `kubectl logs`
//! and `exec` work. There is no DNS, no Service answers, nothing is pulled: images are made by
//! `image`.

mod config;
pub mod image;
mod namespaces;
mod network;
mod programs;

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Output;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::Node;
use kube::api::Api;
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use tempfile::TempDir;

use crate::error::{At as _, Error, Result};
use crate::identity::{self, Identity};
use crate::plane::ControlPlane;
use crate::process::{self, Program};
use crate::tools;
use crate::watchdog::Watchdog;

pub use image::{Layer, NodeImage};
use namespaces::Namespaces;
use network::Bridge;
use programs::Programs;

/// The node's name.
const NAME: &str = "node1";
/// Far beyond the seconds it takes.
const START_LIMIT: Duration = Duration::from_secs(180);
/// How often a condition is looked at.
const LOOK: Duration = Duration::from_millis(50);
/// How many lines of each log are shown when something goes wrong.
const SHOWN_LINES: usize = 40;
/// The programs whose logs are shown.
const LOGS: [&str; 4] = ["namespaces", "containerd", "kubelet", "kube-scheduler"];

/// A running node. It stops when it is dropped, or with this process, and leaves nothing.
pub struct RealNode {
    // Dropped in this order: what runs on the node, what it runs in, the folder it writes to.
    kubelet: Mutex<Option<Program>>,
    _others: Vec<Program>,
    namespaces: Namespaces,
    folder: TempDir,
    programs: Programs,
    bridge: Bridge,
    watchdog: Arc<Watchdog>,
}

impl RealNode {
    /// Whether a node can be had; `None`, after saying `SKIP:`, where not. For tests that would
    /// otherwise start much before they find out.
    pub fn possible() -> Option<()> {
        match Programs::find() {
            Ok(_) => Some(()),
            Err(unable) => {
                tools::skip(&unable.to_string());
                None
            }
        }
    }

    /// Starts one that has these images; see `image::usual`. `None`, after saying `SKIP:`, where a
    /// node cannot be had: not as root, or without a container runtime.
    ///
    /// # Panics
    /// When it does not get ready; the message ends with its logs.
    pub async fn start(plane: &ControlPlane, images: Vec<NodeImage>) -> Option<Self> {
        match Self::try_start(plane, images).await {
            Ok(node) => Some(node),
            Err(unable @ (Error::MissingTool { .. } | Error::Unable(_))) => {
                tools::skip(&unable.to_string());
                None
            }
            Err(error) => panic!("the node does not start: {error}\n{}", plane.log_tails()),
        }
    }

    /// Starts one.
    ///
    /// # Errors
    /// `MissingTool` and `Unable` where it cannot be had here; `NotReady` with logs.
    pub async fn try_start(plane: &ControlPlane, images: Vec<NodeImage>) -> Result<Self> {
        let programs = Programs::find()?;
        let folder = tempfile::Builder::new()
            .prefix("windlass-node-")
            .tempdir()
            .at(&std::env::temp_dir())?;
        let bridge = Bridge::make()?;
        let namespaces = Namespaces::make(folder.path(), &bridge.name(), &programs.path)?;
        let mut node = Self {
            kubelet: Mutex::new(None),
            _others: Vec::new(),
            namespaces,
            folder,
            programs,
            bridge,
            watchdog: Arc::clone(plane.watchdog()),
        };
        node.configure(plane).await?;
        let containerd = node.launch(
            "containerd",
            "containerd",
            &[("--config", config::CONTAINERD)],
        )?;
        node._others.push(containerd);
        let (archive, scratch) = (node.at("images.tar"), node.at("scratch"));
        std::fs::create_dir(&scratch).at(&scratch)?;
        let made = tokio::task::spawn_blocking({
            let archive = archive.clone();
            move || image::archive(&images, &archive, &scratch)
        });
        node.until("containerd to answer", async |node| {
            node.ctr(&["version"])
                .await
                .is_ok_and(|o| o.status.success())
        })
        .await?;
        node.start_kubelet()?;
        let scheduler = node.scheduler()?;
        node._others.push(scheduler);
        made.await
            .map_err(|error| Error::Unable(error.to_string()))??;
        node.import(&archive).await?;
        let client = plane.client().await;
        node.until("the node to be ready", async |_| {
            let nodes: Api<Node> = Api::all(client.clone());
            nodes
                .get_opt(NAME)
                .await
                .is_ok_and(|n| n.is_some_and(is_ready))
        })
        .await?;
        Ok(node)
    }

    async fn configure(&self, plane: &ControlPlane) -> Result<()> {
        let kubelet = config::Kubelet {
            bridge: &self.bridge,
            port: self.free_port()?,
            authority: &plane.folder().join("ca.crt"),
        };
        config::write(self.folder.path(), &self.programs.plugins, &kubelet)?;
        let itself = Identity::User {
            name: format!("system:node:{NAME}"),
            group: Some("system:nodes".to_owned()),
        };
        let scheduler = Identity::user("system:kube-scheduler");
        for (who, name) in [
            (&itself, config::KUBELET_KUBECONFIG),
            (&scheduler, config::SCHEDULER_KUBECONFIG),
        ] {
            identity::write(&self.at(name), &plane.config_of(who).await?)?;
        }
        Ok(())
    }

    /// A port of the bridge's address that nobody listens on now.
    fn free_port(&self) -> Result<u16> {
        let bound = TcpListener::bind((self.bridge.address(), 0));
        let address = bound.and_then(|listener| listener.local_addr());
        address.map(|a| a.port()).at(self.folder.path())
    }

    fn at(&self, name: &str) -> std::path::PathBuf {
        self.folder.path().join(name)
    }

    /// Starts a program inside, with options that name files in the node's folder.
    fn launch(
        &self,
        name: &'static str,
        program: impl AsRef<std::ffi::OsStr>,
        files: &[(&str, &str)],
    ) -> Result<Program> {
        self.launch_with(name, program, files, &[])
    }

    fn launch_with(
        &self,
        name: &'static str,
        program: impl AsRef<std::ffi::OsStr>,
        files: &[(&str, &str)],
        arguments: &[String],
    ) -> Result<Program> {
        let mut command = self.namespaces.command(program);
        for (option, file) in files {
            command.arg(option).arg(self.at(file));
        }
        command.args(arguments).env_remove("KUBECONFIG");
        // As for the control plane.
        command.env("GOGC", "50");
        let log = self.at(&format!("{name}.log"));
        Program::start(name, command, &log, &self.watchdog)
    }

    /// Starts the kubelet again after `kill_kubelet`.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn start_kubelet(&self) -> Result<()> {
        let files = [
            ("--config", config::KUBELET),
            ("--kubeconfig", config::KUBELET_KUBECONFIG),
            ("--root-dir", "kubelet"),
            ("--cert-dir", "kubelet-certificates"),
        ];
        let arguments = [
            format!("--hostname-override={NAME}"),
            format!("--node-ip={}", self.bridge.address()),
        ];
        let kubelet = self.launch_with("kubelet", &self.programs.kubelet, &files, &arguments)?;
        *self.kubelet.lock().unwrap_or_else(PoisonError::into_inner) = Some(kubelet);
        Ok(())
    }

    fn scheduler(&self) -> Result<Program> {
        self.launch_with(
            "kube-scheduler",
            &self.programs.scheduler,
            &[("--kubeconfig", config::SCHEDULER_KUBECONFIG)],
            // Nobody asks it for its metrics.
            &["--leader-elect=false", "--secure-port=0"].map(str::to_owned),
        )
    }

    /// Kills the kubelet: the node falls silent, its containers go on.
    pub fn kill_kubelet(&self) {
        let mut kubelet = self.kubelet.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(mut kubelet) = kubelet.take() {
            // The program is the child of one that only waits for it.
            let _ = killpg(Pid::from_raw(kubelet.pid().cast_signed()), Signal::SIGKILL);
            kubelet.kill();
        }
    }

    /// The node's name.
    pub fn name(&self) -> &'static str {
        NAME
    }

    /// The node's address, by which pods reach what this machine serves to everybody.
    pub fn address(&self) -> std::net::Ipv4Addr {
        self.bridge.address()
    }

    /// Makes images from an archive known to the container runtime.
    async fn import(&self, archive: &Path) -> Result<()> {
        let path = archive.display().to_string();
        let output = self.ctr(&["images", "import", &path]).await?;
        if output.status.success() {
            return std::fs::remove_file(archive).at(archive);
        }
        Err(Error::NotReady {
            what: format!(
                "the images are refused: {}",
                String::from_utf8_lossy(&output.stderr)
            ),
            logs: self.log_tails(),
        })
    }

    /// Runs containerd's own client, in the namespace of Kubernetes' containers.
    ///
    /// # Errors
    /// When it cannot be started.
    pub async fn ctr(&self, arguments: &[&str]) -> Result<Output> {
        let mut command = tokio::process::Command::from(self.namespaces.command("ctr"));
        command
            .arg("--address")
            .arg(self.at(config::SOCKET))
            .args(["--namespace", "k8s.io"])
            .args(arguments)
            .stdin(std::process::Stdio::null())
            .kill_on_drop(true);
        command.output().await.map_err(|source| Error::Process {
            what: format!("cannot run ctr {arguments:?}"),
            source,
        })
    }

    /// Kills a container as the kernel does: SIGKILL to its first process, which takes all others
    /// along. The kubelet sees it and acts.
    ///
    /// # Errors
    /// When it does not run.
    pub async fn kill_container(&self, container_id: &str) -> Result<()> {
        self.task(&["kill", "--signal", "SIGKILL"], container_id)
            .await
    }

    /// Stops all processes of a container, for good: what they were connected to hears nothing any
    /// more.
    ///
    /// # Errors
    /// When it does not run.
    pub async fn freeze_container(&self, container_id: &str) -> Result<()> {
        self.task(&["kill", "--all", "--signal", "SIGSTOP"], container_id)
            .await
    }

    async fn task(&self, action: &[&str], container_id: &str) -> Result<()> {
        let id = container_id.trim_start_matches("containerd://");
        let output = self.ctr(&[&["task"], action, &[id]].concat()).await?;
        if output.status.success() {
            return Ok(());
        }
        Err(Error::Unable(format!(
            "ctr task {action:?} {id}: {}",
            String::from_utf8_lossy(&output.stderr)
        )))
    }

    /// What tells that the node is there, to look for when it shall be gone.
    pub fn traces(&self) -> Traces {
        Traces {
            name: self.bridge.name(),
            folder: self.folder.path().to_owned(),
        }
    }

    /// The ends of all logs, for messages.
    pub fn log_tails(&self) -> String {
        let mut text = String::new();
        for name in LOGS {
            let tail = process::tail(&self.at(&format!("{name}.log")), SHOWN_LINES);
            text.push_str(&format!("--- {name}\n{tail}\n"));
        }
        text
    }

    async fn until(&self, what: &str, mut is: impl AsyncFnMut(&Self) -> bool) -> Result<()> {
        let deadline = Instant::now() + START_LIMIT;
        while !is(self).await {
            if Instant::now() >= deadline {
                return Err(Error::NotReady {
                    what: format!("waited {} s for {what}", START_LIMIT.as_secs()),
                    logs: self.log_tails(),
                });
            }
            tokio::time::sleep(LOOK).await;
        }
        Ok(())
    }
}

/// What a node has of this machine.
#[derive(Debug, Clone)]
pub struct Traces {
    name: String,
    folder: PathBuf,
}

impl Traces {
    /// What is there: folders, processes, mounts.
    pub fn found(&self) -> Vec<String> {
        let interface = Path::new("/sys/class/net").join(&self.name);
        let mut found = vec![interface, self.folder.clone()];
        for controller in ["", "memory", "pids", "cpu"] {
            let cgroup = Path::new("/sys/fs/cgroup").join(controller);
            found.push(cgroup.join(format!("{}-node", self.name)));
        }
        found.retain(|path| path.exists());
        let mut found: Vec<_> = found
            .iter()
            .map(|path| path.display().to_string())
            .collect();
        let folder = self.folder.display().to_string();
        let processes = std::fs::read_dir("/proc").into_iter().flatten().flatten();
        for process in processes {
            // Shims and what they start name the folder in their arguments, or have it mounted.
            for file in ["cmdline", "mounts"] {
                let path = process.path().join(file);
                let text = std::fs::read(&path).unwrap_or_default();
                if String::from_utf8_lossy(&text).contains(&folder) {
                    found.push(path.display().to_string());
                }
            }
        }
        found
    }
}

impl Drop for RealNode {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("{}", self.log_tails());
        }
    }
}

fn is_ready(node: Node) -> bool {
    let conditions = node.status.and_then(|status| status.conditions);
    let mut conditions = conditions.into_iter().flatten();
    conditions.any(|condition| condition.type_ == "Ready" && condition.status == "True")
}
