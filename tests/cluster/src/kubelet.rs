//! A stand-in for a kubelet: it runs pods' containers as processes in namespaces of their own.
//!
//! What pods see of it is meant to be what a kubelet shows: their status, their files, their
//! signals. What is not there: images (see `Image`), a network of the pod's own (each has an address
//! on loopback instead, which a server must bind), limits, DNS, logs and exec through the API server.

mod addresses;
mod atomic_dir;
mod chaos;
mod container;
mod environment;
mod events;
mod image;
mod node;
mod pod;
mod probe;
mod report;
mod sandbox;
mod schedule;
mod state;
mod status;
mod values;
mod volumes;

use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use tempfile::TempDir;
use tokio::runtime::Runtime;
use tokio::sync::OnceCell;

use crate::error::{At as _, Error, Result};
use crate::identity::{self, Identity};
use crate::plane::ControlPlane;
use crate::tools;
use addresses::Addresses;
use node::{Node, Parts};

pub use chaos::Processes;
pub use image::{Image, Images};

/// The program that becomes a container.
const HELPER: &str = "windlass-test-container";
/// How long registration may take.
const START_LIMIT: Duration = Duration::from_secs(120);
/// How long killed containers may take to be gone.
const KILL_LIMIT: Duration = Duration::from_secs(10);

/// What a test may want otherwise.
#[derive(Debug, Clone)]
pub struct KubeletOptions {
    /// The node's name.
    pub node: String,
    /// What stands for images.
    pub images: Images,
    /// The pause after the second crash of a container, which doubles with each further one. A
    /// kubelet's is 10 s.
    pub restart_pause: Duration,
}

impl Default for KubeletOptions {
    fn default() -> Self {
        Self {
            node: "node1".to_owned(),
            images: Images::default(),
            restart_pause: Duration::from_secs(1),
        }
    }
}

/// A node that runs pods as processes, and schedules them too. It stops when it is dropped, or with
/// this process; pods' objects stay as they are.
pub struct FakeKubelet {
    node: Arc<Node>,
    // Outlives the tests' runtimes, each of which ends with its test.
    runtime: Option<Runtime>,
    _folder: TempDir,
}

impl FakeKubelet {
    /// Starts one with the default options. `None`, after saying `SKIP:`, where namespaces cannot be
    /// had.
    ///
    /// # Panics
    /// When its node cannot be registered, or its helper has not been built.
    pub async fn start(plane: &ControlPlane) -> Option<Self> {
        Self::start_with(plane, KubeletOptions::default()).await
    }

    /// As `start`, with options.
    ///
    /// # Panics
    /// As `start`.
    pub async fn start_with(plane: &ControlPlane, options: KubeletOptions) -> Option<Self> {
        let helper = tools::binaries_folder().join(HELPER);
        assert!(
            helper.is_file(),
            "{} is not built; `cargo xtask test` builds it first, or `cargo build -p windlass-cluster`",
            helper.display()
        );
        let probe = std::process::Command::new(&helper).arg("probe").output();
        let refused = match probe {
            Ok(output) if output.status.success() => None,
            Ok(output) => Some(String::from_utf8_lossy(&output.stderr).trim().to_owned()),
            Err(error) => Some(error.to_string()),
        };
        if let Some(why) = refused {
            tools::skip(&format!("pods cannot be run as processes here: {why}"));
            return None;
        }
        match Self::try_start(plane, options, helper).await {
            Ok(kubelet) => Some(kubelet),
            Err(error) => panic!(
                "the fake kubelet does not start: {error}\n{}",
                plane.log_tails()
            ),
        }
    }

    /// The one on the shared control plane, for the tests of this process; both are `None` together
    /// if one of them cannot be had.
    ///
    /// # Panics
    /// As `start`.
    pub async fn shared() -> Option<(&'static ControlPlane, &'static Self)> {
        static SHARED: OnceCell<Option<FakeKubelet>> = OnceCell::const_new();
        let plane = ControlPlane::shared().await?;
        let kubelet = SHARED.get_or_init(|| Self::start(plane)).await.as_ref()?;
        Some((plane, kubelet))
    }

    async fn try_start(
        plane: &ControlPlane,
        options: KubeletOptions,
        helper: std::path::PathBuf,
    ) -> Result<Self> {
        let KubeletOptions {
            node: name,
            images,
            restart_pause,
        } = options;
        // It may do everything; a node's own rights would let it see a Secret only some
        // milliseconds after its pod was bound.
        let who = Identity::User {
            name: format!("system:node:{name}"),
            group: Some("system:masters".to_owned()),
        };
        let kubeconfig = plane.config_of(&who).await?;
        // Below the control plane's folder, which goes even if this process is killed.
        let folder = tempfile::Builder::new()
            .prefix(&format!("{name}-"))
            .tempdir_in(plane.folder())
            .at(plane.folder())?;
        use std::os::unix::fs::PermissionsExt as _;
        for path in [plane.folder(), folder.path()] {
            // Users of containers pass through.
            std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o711)).at(path)?;
        }
        let addresses = Addresses::take()?;
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .thread_name("fake-kubelet")
            .enable_all()
            .build()
            .at(folder.path())?;
        let (path, api_port) = (folder.path().to_owned(), plane.port());
        let started = runtime.spawn(async move {
            let node = Arc::new(Node::new(Parts {
                client: identity::client(&kubeconfig).await?,
                name,
                api_port,
                helper,
                restart_pause,
                folder: path,
                images,
                addresses,
            }));
            tokio::time::timeout(START_LIMIT, node.register())
                .await
                .map_err(|_| Error::Unable("the node could not be registered in time".into()))??;
            let own = Arc::clone(&node);
            tokio::spawn(async move { own.keep_ready().await });
            let own = Arc::clone(&node);
            tokio::spawn(async move { own.follow_pods().await });
            tokio::spawn(schedule::schedule(Arc::clone(&node)));
            Ok::<_, Error>(node)
        });
        let node = started
            .await
            .map_err(|error| Error::Unable(error.to_string()))??;
        Ok(Self {
            node,
            runtime: Some(runtime),
            _folder: folder,
        })
    }

    /// The node's name.
    pub fn node_name(&self) -> &str {
        &self.node.name
    }

    /// Lets a name, exactly as pods have it, stand for an image from now on.
    pub fn set_image(&self, name: &str, image: Image) {
        let mut images = self
            .node
            .images
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        images.set(name, image);
    }
}

impl Drop for FakeKubelet {
    fn drop(&mut self) {
        self.node.alive.send_replace(false);
        let containers: Vec<_> = self
            .node
            .cells()
            .values()
            .flat_map(|cell| cell.containers().values().cloned().collect::<Vec<_>>())
            .collect();
        if let Some(runtime) = self.runtime.take() {
            // Dropping it here would panic inside of a test's own runtime.
            runtime.shutdown_background();
        }
        let deadline = Instant::now() + KILL_LIMIT;
        for container in containers {
            container.kill();
            while container.ended().is_none() && Instant::now() < deadline {
                std::thread::sleep(Duration::from_millis(2));
            }
        }
    }
}
