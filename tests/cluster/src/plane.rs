//! etcd, kube-apiserver and kube-controller-manager as child processes.

mod arguments;
mod definitions;
mod lifecycle;
mod ports;

pub use ports::free_port;

use std::path::{Path, PathBuf};
use std::process::Output;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use k8s_openapi::api::core::v1::{Namespace, ServiceAccount};
use k8s_openapi::api::rbac::v1::PolicyRule;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Client;
use kube::api::{Api, PostParams};
use tempfile::TempDir;
use tokio::sync::OnceCell;

use crate::audit::AuditLog;
use crate::error::{Asking as _, Error, Result};
use crate::identity::{self, Identity};
use crate::pki::Authority;
use crate::process;
use crate::tools;
use crate::watchdog::Watchdog;
use lifecycle::Processes;
use ports::Ports;

/// One of the control plane's programs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Component {
    /// The store.
    Etcd,
    /// The API server.
    ApiServer,
    /// Garbage collection, namespaces, service accounts, the life of nodes.
    ControllerManager,
}

impl Component {
    const ALL: [Self; 3] = [Self::Etcd, Self::ApiServer, Self::ControllerManager];

    /// The program's name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Etcd => "etcd",
            Self::ApiServer => "kube-apiserver",
            Self::ControllerManager => "kube-controller-manager",
        }
    }
}

/// What a test may want otherwise.
#[derive(Debug, Clone)]
pub struct Options {
    /// How long a node may be silent before it is marked unreachable. Kubernetes' own default is
    /// 50 s; tests wait less, and a busy machine must not lose nodes.
    pub node_monitor_grace: Duration,
    /// Further arguments of the API server.
    pub apiserver_arguments: Vec<String>,
    /// Further arguments of the controller manager.
    pub controller_manager_arguments: Vec<String>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            node_monitor_grace: Duration::from_secs(20),
            apiserver_arguments: Vec::new(),
            controller_manager_arguments: Vec::new(),
        }
    }
}

/// A running control plane. It stops when it is dropped, or with this process.
pub struct ControlPlane {
    // Dropped in this order: the processes, the watchdog over them, the folder they write to.
    processes: Mutex<Processes>,
    watchdog: Arc<Watchdog>,
    folder: TempDir,
    authority: Authority,
    ports: Ports,
    options: Options,
    /// The administrator's kubeconfig, as data and as a file.
    admin: serde_json::Value,
    counter: AtomicU32,
}

/// How many lines of each log are shown when something goes wrong.
const SHOWN_LINES: usize = 25;

impl ControlPlane {
    /// Starts one with the default options. `None`, after saying `SKIP:`, if its programs have not
    /// been built.
    ///
    /// # Panics
    /// When it does not get ready; the message ends with the components' logs.
    pub async fn start() -> Option<Self> {
        Self::start_with(Options::default()).await
    }

    /// As `start`, with options.
    ///
    /// # Panics
    /// As `start`.
    pub async fn start_with(options: Options) -> Option<Self> {
        match Self::try_start(options).await {
            Ok(plane) => Some(plane),
            Err(missing @ Error::MissingTool { .. }) => {
                tools::skip(&missing.to_string());
                None
            }
            Err(error) => panic!("the control plane does not start: {error}"),
        }
    }

    /// The one that the tests of this process share: starting one takes seconds and some hundred
    /// megabytes. Each test works in a namespace of its own; see `namespace`. `None` as for `start`.
    /// It stops with the process.
    ///
    /// # Panics
    /// As `start`.
    pub async fn shared() -> Option<&'static Self> {
        static SHARED: OnceCell<Option<ControlPlane>> = OnceCell::const_new();
        SHARED.get_or_init(Self::start).await.as_ref()
    }

    /// Starts one.
    ///
    /// # Errors
    /// `MissingTool` when a program has not been built; `NotReady` with logs.
    pub async fn try_start(options: Options) -> Result<Self> {
        for component in Component::ALL {
            tools::tool(component.name())?;
        }
        let folder = tempfile::Builder::new()
            .prefix("windlass-cluster-")
            .tempdir()
            .map_err(|source| Error::File {
                path: std::env::temp_dir(),
                source,
            })?;
        let authority = Authority::new()?;
        let watchdog = Arc::new(Watchdog::new(folder.path())?);
        arguments::write_files(folder.path(), &authority)?;
        // A port found free may be taken a moment later by somebody else.
        let mut attempts = 3;
        loop {
            attempts -= 1;
            let ports = Ports::find()?;
            let admin = Identity::Admin.credentials(&authority, None).await?;
            let admin = identity::kubeconfig(&ports.server(), &authority, &admin);
            identity::write(&folder.path().join("admin.kubeconfig"), &admin)?;
            let manager = Identity::user("system:kube-controller-manager");
            let manager = manager.credentials(&authority, None).await?;
            let manager = identity::kubeconfig(&ports.server(), &authority, &manager);
            identity::write(&folder.path().join(arguments::MANAGER_KUBECONFIG), &manager)?;
            match Processes::start(folder.path(), ports, &options, &watchdog, &admin).await {
                Ok(processes) => {
                    return Ok(Self {
                        processes: Mutex::new(processes),
                        watchdog,
                        folder,
                        authority,
                        ports,
                        options,
                        admin,
                        counter: AtomicU32::new(0),
                    });
                }
                Err(Error::NotReady { logs, .. })
                    if attempts > 0 && logs.contains("address already in use") => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// The administrator's kubeconfig file.
    pub fn kubeconfig(&self) -> PathBuf {
        self.folder.path().join("admin.kubeconfig")
    }

    /// `https://127.0.0.1:PORT`.
    pub fn server(&self) -> String {
        self.ports.server()
    }

    /// The API server's port on 127.0.0.1.
    pub fn port(&self) -> u16 {
        self.ports.apiserver
    }

    /// The certificate of the cluster's authority, PEM.
    pub fn ca_certificate(&self) -> String {
        self.authority.certificate()
    }

    /// A folder that lives as long as the control plane, for what belongs to it.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// A client that may do everything. It belongs to the runtime it is made in, so each test makes
    /// its own.
    ///
    /// # Panics
    /// When the client cannot be made from our own kubeconfig.
    pub async fn client(&self) -> Client {
        identity::client(&self.admin)
            .await
            .unwrap_or_else(|error| panic!("{error}"))
    }

    /// A client for somebody. A service account is created if it is not there.
    ///
    /// # Errors
    /// When the API server gives no token.
    pub async fn client_as(&self, who: &Identity) -> Result<Client> {
        identity::client(&self.config_of(who).await?).await
    }

    /// A kubeconfig file for somebody, to give to a process. A service account is created if it is
    /// not there.
    ///
    /// # Errors
    /// When the API server gives no token, or the file cannot be written.
    pub async fn kubeconfig_as(&self, who: &Identity) -> Result<PathBuf> {
        let number = self.counter.fetch_add(1, Ordering::Relaxed);
        let path = self.folder.path().join(format!("user-{number}.kubeconfig"));
        identity::write(&path, &self.config_of(who).await?)?;
        Ok(path)
    }

    /// What ends processes with this one.
    pub(crate) fn watchdog(&self) -> &Arc<Watchdog> {
        &self.watchdog
    }

    pub(crate) async fn config_of(&self, who: &Identity) -> Result<serde_json::Value> {
        let admin = identity::client(&self.admin).await?;
        let user = who.credentials(&self.authority, Some(&admin)).await?;
        let server = self.ports.server();
        Ok(identity::kubeconfig(&server, &self.authority, &user))
    }

    /// Lets somebody do what `rules` say, in one namespace or, with `None`, in the whole cluster.
    ///
    /// # Errors
    /// When the API server refuses.
    pub async fn grant(
        &self,
        who: &Identity,
        namespace: Option<&str>,
        rules: Vec<PolicyRule>,
    ) -> Result<()> {
        identity::grant(&self.client().await, who, namespace, rules).await
    }

    /// Makes a namespace with a name of its own that begins with `prefix`, and waits until pods can
    /// be created in it, that is until its service account is there.
    ///
    /// # Panics
    /// When that does not come about.
    pub async fn namespace(&self, prefix: &str) -> String {
        let client = self.client().await;
        let namespaces: Api<Namespace> = Api::all(client.clone());
        let wanted = Namespace {
            metadata: ObjectMeta {
                generate_name: Some(format!("{prefix}-")),
                ..ObjectMeta::default()
            },
            ..Namespace::default()
        };
        let made = namespaces
            .create(&PostParams::default(), &wanted)
            .await
            .unwrap_or_else(|error| panic!("create a namespace: {error}"));
        let name = made.metadata.name.unwrap_or_default();
        lifecycle::default_account(&client, &name, Duration::from_secs(120))
            .await
            .unwrap_or_else(|error| panic!("{error}\n{}", self.log_tails()));
        name
    }

    /// Runs kubectl as the administrator.
    ///
    /// # Panics
    /// When kubectl cannot be started. That it fails is in the answer.
    pub async fn kubectl(&self, arguments: &[&str]) -> Output {
        self.kubectl_with(arguments, &[]).await
    }

    /// Runs kubectl as the administrator, with `input` (for `-f -`).
    ///
    /// # Panics
    /// As `kubectl`.
    pub async fn kubectl_with(&self, arguments: &[&str], input: &[u8]) -> Output {
        let program = tools::kubectl().unwrap_or_else(|error| panic!("{error}"));
        let run = async {
            let mut child = tokio::process::Command::new(program)
                .args(arguments)
                .env("KUBECONFIG", self.kubeconfig())
                // Its cache of the API's resources would know other clusters' on this port.
                .env("KUBECACHEDIR", self.folder.path().join("kubectl-cache"))
                .stdin(std::process::Stdio::piped())
                .stdout(std::process::Stdio::piped())
                .stderr(std::process::Stdio::piped())
                .kill_on_drop(true)
                .spawn()?;
            if let Some(mut stdin) = child.stdin.take() {
                // A kubectl that reads nothing closes the pipe early.
                let _ = tokio::io::AsyncWriteExt::write_all(&mut stdin, input).await;
            }
            child.wait_with_output().await
        };
        run.await
            .unwrap_or_else(|error: std::io::Error| panic!("kubectl {arguments:?}: {error}"))
    }

    /// Everything that the API server was asked so far.
    ///
    /// # Panics
    /// When its file cannot be read.
    pub fn audit_log(&self) -> AuditLog {
        AuditLog::read(&self.folder.path().join(arguments::AUDIT_LOG))
            .unwrap_or_else(|error| panic!("{error}"))
    }

    /// The file that holds a component's output.
    pub fn log(&self, component: Component) -> PathBuf {
        lifecycle::log_path(self.folder.path(), component)
    }

    /// The ends of all logs, for messages.
    pub fn log_tails(&self) -> String {
        lifecycle::log_tails(self.folder.path())
    }
}

impl Drop for ControlPlane {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("{}", self.log_tails());
        }
    }
}

/// Whether a namespace's default service account is there.
async fn has_account(client: &Client, namespace: &str) -> bool {
    let accounts: Api<ServiceAccount> = Api::namespaced(client.clone(), namespace);
    let found = accounts.get_opt("default").await;
    matches!(found.asking("default service account"), Ok(Some(_)))
}

/// The ends of the logs in `folder`.
fn tails(folder: &Path) -> String {
    let mut text = String::new();
    for component in Component::ALL {
        let log = lifecycle::log_path(folder, component);
        let tail = process::tail(&log, SHOWN_LINES);
        text.push_str(&format!("--- {}\n{tail}\n", component.name()));
    }
    text
}
