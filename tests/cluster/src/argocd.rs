//! The real Argo CD beside a control plane, without its user interface: its own processes on this machine.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::plane::ControlPlane;
use crate::process::{Program, tail};
use crate::tools::{go_module, on_path, skip, tools_folder};

/// Where Argo CD's own objects are, Applications among them.
pub const NAMESPACE: &str = "argocd";
/// How long a component may take until it answers.
const PATIENCE: Duration = Duration::from_secs(120);
const MODULE: &str = "github.com/argoproj/argo-cd/v3";

/// What Argo CD has beside `argocd-cm`. It reads ConfigMaps and Secrets with the label only; the project is one that
/// its API server would make.
const OBJECTS: &str = r#"
apiVersion: v1
kind: ConfigMap
metadata: {name: argocd-rbac-cm, namespace: argocd, labels: {app.kubernetes.io/part-of: argocd}}
---
apiVersion: v1
kind: Secret
metadata: {name: argocd-secret, namespace: argocd, labels: {app.kubernetes.io/part-of: argocd}}
stringData: {server.secretkey: of-a-test}
---
apiVersion: argoproj.io/v1alpha1
kind: AppProject
metadata: {name: default, namespace: argocd}
spec:
  sourceRepos: ["*"]
  destinations: [{server: "*", namespace: "*"}]
  clusterResourceWhitelist: [{group: "*", kind: "*"}]
"#;

/// A running Argo CD: Redis, the repository server, the application controller, and what else a test asks for. It ends
/// with this value, or with this process; use it no longer than its control plane.
pub struct ArgoCd {
    programs: Mutex<Vec<Program>>,
    binary: PathBuf,
    kubeconfig: PathBuf,
    folder: TempDir,
    watchdog: std::sync::Arc<crate::watchdog::Watchdog>,
    redis: u16,
    repo_server: u16,
    /// Address of the API server, once it is started.
    server: tokio::sync::OnceCell<String>,
}

/// Argo CD's binary; none, after saying why, where it has not been built.
pub fn argocd_binary() -> Option<PathBuf> {
    let binary = tools_folder().join("argocd");
    if binary.is_file() {
        return Some(binary);
    }
    skip("there is no argocd; `cargo xtask tools argocd` makes it");
    None
}

/// The folder of the pinned version's sources, with its definitions and its own settings; none, after saying why,
/// without Go.
pub fn argocd_sources() -> Option<PathBuf> {
    go_module("argocd", MODULE)
}

impl ArgoCd {
    /// Starts one. `settings` are manifests that are applied to its namespace over the `argocd-cm` that it is installed
    /// with; its processes ask the API server as `kubeconfig` says. None, after saying why, where something is not at
    /// hand.
    ///
    /// # Panics
    /// When it does not get ready, with its logs.
    pub async fn start(plane: &ControlPlane, kubeconfig: &Path, settings: &Path) -> Option<Self> {
        let binary = argocd_binary()?;
        let Some(redis_server) = on_path("redis-server") else {
            skip(
                "there is no redis-server; as root on Debian `cargo xtask tools argocd` installs it",
            );
            return None;
        };
        let sources = argocd_sources()?;
        let folder = tempfile::Builder::new()
            .prefix("windlass-argocd-")
            .tempdir()
            .unwrap_or_else(|error| panic!("a temporary directory: {error}"));
        let [redis, repo_server] = [free_port(), free_port()];
        let argocd = Self {
            programs: Mutex::new(Vec::new()),
            binary,
            kubeconfig: kubeconfig.to_owned(),
            watchdog: std::sync::Arc::clone(plane.watchdog()),
            folder,
            redis,
            repo_server,
            server: tokio::sync::OnceCell::new(),
        };
        let mut command = Command::new(redis_server);
        command
            .args(["--save", "", "--appendonly", "no", "--bind", "127.0.0.1"])
            .args(["--port", &redis.to_string()])
            .arg("--dir")
            .arg(argocd.folder.path());
        argocd.run("redis", command);
        let metrics = free_port().to_string();
        let mut command = argocd.component("argocd-repo-server");
        command
            .args(["--disable-tls", "--address", "127.0.0.1"])
            .args(["--port", &repo_server.to_string()])
            .args(["--metrics-address", "127.0.0.1", "--metrics-port", &metrics])
            .args(["--redis", &argocd.redis_address()]);
        argocd.run("argocd-repo-server", command);
        install(plane, &sources, settings).await;
        argocd.answers("argocd-repo-server", repo_server).await;
        let metrics = free_port();
        let mut command = argocd.component("argocd-application-controller");
        command
            .args(argocd.partners())
            .args(["--app-resync", "10", "--persist-resource-health"])
            .args(["--metrics-port", &metrics.to_string()])
            // It says at this level alone for which object it looks at an Application again.
            .args(["--loglevel", "debug"]);
        argocd.run("argocd-application-controller", command);
        argocd
            .answers("argocd-application-controller", metrics)
            .await;
        Some(argocd)
    }

    /// Starts the controller of ApplicationSets too.
    ///
    /// # Panics
    /// When it does not get ready, with its log.
    pub async fn application_sets(&self) {
        let name = "argocd-applicationset-controller";
        let [metrics, probes, webhooks] = [free_port(), free_port(), free_port()];
        let mut command = self.component(name);
        command
            .args(["--namespace", NAMESPACE])
            .args(["--argocd-repo-server", &self.repo_server_address()])
            .arg("--repo-server-plaintext")
            .args(["--metrics-addr", &format!("127.0.0.1:{metrics}")])
            .args(["--probe-addr", &format!("127.0.0.1:{probes}")])
            .args(["--webhook-addr", &format!("127.0.0.1:{webhooks}")]);
        self.run(name, command);
        self.answers(name, probes).await;
    }

    /// Address of the API server, which asks nobody who he is; the first call starts it.
    ///
    /// # Panics
    /// When it does not get ready, with its log.
    pub async fn server(&self) -> &str {
        self.server.get_or_init(|| self.start_server()).await
    }

    async fn start_server(&self) -> String {
        let [port, metrics] = [free_port(), free_port()];
        let mut command = self.component("argocd-server");
        command
            .args(self.partners())
            .args(["--insecure", "--disable-auth", "--address", "127.0.0.1"])
            .args(["--port", &port.to_string()])
            .args([
                "--metrics-address",
                "127.0.0.1",
                "--metrics-port",
                &metrics.to_string(),
            ])
            .args(["--dex-server", "http://127.0.0.1:1"]);
        self.run("argocd-server", command);
        self.answers("argocd-server", port).await;
        format!("http://127.0.0.1:{port}")
    }

    /// What a component has said so far.
    pub fn log(&self, component: &str) -> String {
        std::fs::read_to_string(self.log_file(component)).unwrap_or_default()
    }

    /// The ends of all logs, for messages.
    pub fn log_tails(&self) -> String {
        let mut text = String::new();
        for entry in std::fs::read_dir(self.folder.path())
            .into_iter()
            .flatten()
            .flatten()
        {
            let path = entry.path();
            if path.extension().is_some_and(|extension| extension == "log") {
                text.push_str(&format!("--- {}\n{}\n", path.display(), tail(&path, 25)));
            }
        }
        text
    }

    fn redis_address(&self) -> String {
        format!("127.0.0.1:{}", self.redis)
    }

    fn repo_server_address(&self) -> String {
        format!("127.0.0.1:{}", self.repo_server)
    }

    /// What the components are told of each other.
    fn partners(&self) -> Vec<String> {
        let (repo_server, redis) = (self.repo_server_address(), self.redis_address());
        let arguments = ["--namespace", NAMESPACE, "--repo-server", &repo_server];
        let more = ["--repo-server-plaintext", "--redis", &redis];
        arguments
            .iter()
            .chain(&more)
            .map(ToString::to_string)
            .collect()
    }

    /// A component, not yet started.
    fn component(&self, name: &str) -> Command {
        let folder = self.folder.path();
        let temporary = folder.join("tmp");
        std::fs::create_dir_all(&temporary).unwrap_or_else(|error| panic!("a directory: {error}"));
        let mut command = Command::new(&self.binary);
        command
            .env("ARGOCD_BINARY_NAME", name)
            .env("ARGOCD_FAKE_IN_CLUSTER", "true")
            .env("KUBECONFIG", &self.kubeconfig)
            .env("ARGOCD_GPG_ENABLED", "false")
            .env("ARGOCD_TLS_DATA_PATH", folder.join("tls"))
            .env("ARGOCD_SSH_DATA_PATH", folder.join("ssh"))
            .env("REDIS_PASSWORD", "")
            .env("ARGOCD_SYNC_WAVE_DELAY", "1")
            .env("ARGOCD_RECONCILIATION_JITTER", "0")
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .env("HOME", folder)
            .env("TMPDIR", temporary)
            .current_dir(folder)
            .args(["--logformat", "text"]);
        command
    }

    fn run(&self, name: &str, command: Command) {
        let program = Program::start(name, command, &self.log_file(name), &self.watchdog)
            .unwrap_or_else(|error| panic!("{error}"));
        let mut programs = self
            .programs
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        programs.push(program);
    }

    fn log_file(&self, component: &str) -> PathBuf {
        self.folder.path().join(format!("{component}.log"))
    }

    async fn answers(&self, name: &str, port: u16) {
        let begun = Instant::now();
        while tokio::net::TcpStream::connect(("127.0.0.1", port))
            .await
            .is_err()
        {
            assert!(
                begun.elapsed() < PATIENCE,
                "{name} does not answer within {PATIENCE:?}\n{}",
                self.log_tails()
            );
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
}

impl Drop for ArgoCd {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("{}", self.log_tails());
        }
    }
}

/// Applies what Argo CD is installed with, and `settings` over it.
async fn install(plane: &ControlPlane, sources: &Path, settings: &Path) {
    let apply = [
        "apply",
        "--server-side",
        "--force-conflicts",
        "--validate=false",
    ];
    let definitions = sources.join("manifests/crds");
    let names = ["application-crd.yaml", "appproject-crd.yaml"];
    let files = names.map(|name| definitions.join(name).display().to_string());
    let mut arguments = apply.to_vec();
    for file in &files {
        arguments.extend(["-f", file]);
    }
    arguments.extend(["-f", "-"]);
    let sets = std::fs::read_to_string(definitions.join("applicationset-crd.yaml"))
        .unwrap_or_else(|error| panic!("the definition of ApplicationSets: {error}"));
    done(plane, &["create", "namespace", NAMESPACE], b"").await;
    done(plane, &arguments, without_schema(&sets).as_bytes()).await;
    let kinds = "applications.argoproj.io,appprojects.argoproj.io,applicationsets.argoproj.io";
    let begun = Instant::now();
    while !plane.kubectl(&["get", kinds]).await.status.success() {
        assert!(
            begun.elapsed() < PATIENCE,
            "Argo CD's definitions are not served within {PATIENCE:?}"
        );
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let own = sources
        .join("manifests/base/config/argocd-cm.yaml")
        .display()
        .to_string();
    let mut arguments = apply.to_vec();
    arguments.extend(["-n", NAMESPACE, "-f", &own, "-f", "-"]);
    done(plane, &arguments, OBJECTS.as_bytes()).await;
    let mut arguments = apply.to_vec();
    let settings = settings.display().to_string();
    arguments.extend([
        "--field-manager",
        "windlass",
        "-n",
        NAMESPACE,
        "-f",
        &settings,
    ]);
    done(plane, &arguments, b"").await;
}

/// A definition that takes anything: the schema of ApplicationSets is 1.4 MB, which costs an API server seconds.
fn without_schema(definition: &str) -> String {
    let (before, rest) = definition
        .split_once("      openAPIV3Schema:\n")
        .unwrap_or((definition, ""));
    let after = rest.rfind("    served: ").map_or("", |at| &rest[at..]);
    format!(
        "{before}      openAPIV3Schema: {{type: object, x-kubernetes-preserve-unknown-fields: true}}\n{after}"
    )
}

async fn done(plane: &ControlPlane, arguments: &[&str], input: &[u8]) {
    let output = plane.kubectl_with(arguments, input).await;
    assert!(
        output.status.success(),
        "kubectl {arguments:?}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
}

/// A port for one of Argo CD's programs.
fn free_port() -> u16 {
    crate::plane::free_port().unwrap_or_else(|error| panic!("{error}"))
}
