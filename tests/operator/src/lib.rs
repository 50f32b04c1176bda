//! The real `windlass run` on a real control plane, with a stand-in for the kubelet or a real node: a namespace for its
//! Stacks, a directory for their state.

pub mod exposition;
pub mod helm;

use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::process::Child;
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;
use windlass_cluster::{ControlPlane, FakeKubelet, Image, Images, KubeletOptions};
use windlass_e2e::world::workspace_root;

pub mod argocd;
pub mod backend;
pub mod history;
pub mod manual;
pub mod promql;
pub mod real;
pub mod replica;
pub mod stacks;

pub use history::History;
pub use replica::Replica;

/// Image names of the tests.
pub const AGENT_IMAGE: &str = "test/windlass:1";
pub const PULUMI_IMAGE: &str = "test/pulumi:1";
/// How long anything may take.
const PATIENCE: Duration = Duration::from_secs(180);

/// A cluster of its own with an operator on it. Its processes end with it.
///
/// `K` is what runs its pods: a `FakeKubelet`, or a `RealNode` in tests of what only one of these does.
pub struct Operator<K = FakeKubelet> {
    pub plane: ControlPlane,
    pub kubelet: K,
    /// The namespace of the Stacks.
    pub namespace: String,
    dir: TempDir,
    child: Option<Child>,
    starts: u32,
    pub port: u16,
    /// Port of the archives of Programs.
    pub programs_port: u16,
    /// The kubeconfig of the operator's process: the administrator's unless a test says otherwise.
    pub kubeconfig: PathBuf,
    /// Further arguments of the operator's process.
    pub arguments: Vec<String>,
    /// The volume of pods that holds the state, as one line of YAML.
    volume: &'static str,
    /// Duration, renewal deadline and retry period of the lease: shorter than the operator's own, for tests wait for them.
    pub lease: [&'static str; 3],
}

/// The directory of the state, as pods get it that may mount what they like.
const HOST_PATH: &str = r#"hostPath: {path: "@STATE@"}"#;

impl Operator {
    /// Starts everything; None with a visible reason where something is not at hand.
    pub async fn start() -> Option<Operator> {
        Self::start_with(&[]).await
    }

    /// As `start`, with further arguments of `windlass run`.
    pub async fn start_with(arguments: &[&str]) -> Option<Operator> {
        let mut operator = Self::prepare().await?;
        operator.arguments = arguments.iter().map(ToString::to_string).collect();
        operator.launch();
        Some(operator)
    }

    /// Starts everything but the operator's process; None with a visible reason where something is not at hand.
    pub async fn prepare() -> Option<Operator> {
        let plane = ControlPlane::start().await?;
        let images = Images::none()
            .with(AGENT_IMAGE, Image::usual())
            .with(PULUMI_IMAGE, backend::image());
        let options = KubeletOptions {
            images,
            ..KubeletOptions::default()
        };
        let kubelet = FakeKubelet::start_with(&plane, options).await?;
        Some(Self::on(plane, kubelet).await)
    }
}

impl<K> Operator<K> {
    /// What belongs to an operator, on a cluster that is there: the definitions, and a namespace for its lease.
    async fn on(plane: ControlPlane, kubelet: K) -> Operator<K> {
        let crds = workspace_root().join("deploy/crds");
        let applied = plane
            .kubectl(&["apply", "--server-side", "-f", &crds.display().to_string()])
            .await;
        assert!(
            applied.status.success(),
            "{}",
            String::from_utf8_lossy(&applied.stderr)
        );
        served(&plane).await;
        let made = plane.kubectl(&["create", "namespace", "operator"]).await;
        assert!(made.status.success(), "{made:?}");
        Self::without_definitions(plane, kubelet).await
    }

    /// A namespace for Stacks and a directory for their state, on a cluster that knows nothing of them yet.
    async fn without_definitions(plane: ControlPlane, kubelet: K) -> Operator<K> {
        let dir = tempfile::Builder::new()
            .prefix("op")
            .tempdir()
            .expect("a temporary directory");
        let state = dir.path().join("state");
        std::fs::create_dir(&state).expect("a directory");
        // Pods run as another user.
        for path in [dir.path(), state.as_path()] {
            std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o777))
                .expect("permissions");
        }
        let namespace = plane.namespace("apps").await;
        let (port, programs_port) = (free_port(), free_port());
        Operator {
            kubeconfig: plane.kubeconfig(),
            arguments: Vec::new(),
            volume: HOST_PATH,
            lease: ["10s", "8s", "1s"],
            programs_port,
            plane,
            kubelet,
            namespace,
            dir,
            child: None,
            starts: 0,
            port,
        }
    }

    /// Starts the operator's process. Each start has a log of its own.
    pub fn launch(&mut self) {
        self.starts += 1;
        let data = self.dir.path().join("data");
        let mut command = self.command(
            "operator-0",
            &data,
            [self.port, self.programs_port],
            &self.log(),
        );
        self.child = Some(command.spawn().expect("windlass run"));
    }

    /// The operator's process; none if it does not run.
    pub fn pid(&self) -> Option<u32> {
        self.child.as_ref().map(Child::id)
    }

    pub fn log(&self) -> PathBuf {
        self.dir
            .path()
            .join(format!("operator-{}.log", self.starts))
    }

    /// What the operator has said in all its lives.
    pub fn logs(&self) -> String {
        (1..=self.starts)
            .map(|start| {
                let path = self.dir.path().join(format!("operator-{start}.log"));
                let text = std::fs::read_to_string(path).unwrap_or_default();
                format!("== start {start}\n{text}")
            })
            .collect()
    }

    /// Ends the operator at once.
    pub fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    /// Asks the operator to end, and waits.
    pub fn terminate(&mut self) -> Option<i32> {
        let mut child = self.child.take()?;
        let pid = nix::unistd::Pid::from_raw(i32::try_from(child.id()).expect("a pid"));
        let _ = nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGTERM);
        child.wait().ok()?.code()
    }

    /// Applies manifests to the namespace of the Stacks. `@VOLUME@` becomes the volume that holds the state, `@STATE@` its
    /// directory.
    pub async fn apply(&self, manifests: &str) {
        let text = manifests
            .replace("@VOLUME@", self.volume)
            .replace("@STATE@", &self.state().display().to_string());
        let output = self
            .plane
            .kubectl_with(
                // Checked by the API server; kubectl's own check begins with megabytes of schemas.
                &[
                    "apply",
                    "--validate=false",
                    "-n",
                    &self.namespace,
                    "-f",
                    "-",
                ],
                text.as_bytes(),
            )
            .await;
        assert!(
            output.status.success(),
            "{}\n{text}",
            String::from_utf8_lossy(&output.stderr)
        );
    }

    /// A Stack on the file backend, its other fields given as YAML below `spec`.
    pub async fn stack(&self, name: &str, spec: &str) {
        self.apply(&stack_manifest(name, spec)).await;
    }

    /// The directory of the state.
    pub fn state(&self) -> PathBuf {
        self.dir.path().join("state")
    }

    /// Merges into an object of the namespace.
    pub async fn patch(&self, kind: &str, name: &str, patch: &str) {
        let output = self
            .plane
            .kubectl(&[
                "patch",
                kind,
                name,
                "-n",
                &self.namespace,
                "--type=merge",
                "-p",
                patch,
            ])
            .await;
        assert!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
    }

    /// Runs kubectl in the namespace and gives its output.
    ///
    /// # Panics
    /// When it fails, with what it says.
    pub async fn kubectl(&self, arguments: &[&str]) -> String {
        let mut all = vec!["-n", self.namespace.as_str()];
        all.extend(arguments);
        let output = self.plane.kubectl(&all).await;
        assert!(
            output.status.success(),
            "kubectl {arguments:?}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// An object of the namespace as JSON; none if there is none.
    ///
    /// # Panics
    /// When the API server does not say so in time.
    pub async fn get(&self, kind: &str, name: &str) -> Option<Value> {
        self.told(&["get", kind, name, "--ignore-not-found"]).await
    }

    /// What kubectl says of the namespace as JSON; none if it says nothing. An API server that does not answer has not said
    /// that there is nothing: it is asked again.
    async fn told(&self, arguments: &[&str]) -> Option<Value> {
        let all = [arguments, &["-n", &self.namespace, "-o", "json"]].concat();
        let begun = Instant::now();
        loop {
            let output = self.plane.kubectl(&all).await;
            if output.status.success() {
                return serde_json::from_slice(&output.stdout).ok();
            }
            assert!(
                begun.elapsed() < PATIENCE,
                "kubectl {all:?}: {}",
                String::from_utf8_lossy(&output.stderr)
            );
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    }

    /// All objects of a kind in the namespace.
    ///
    /// # Panics
    /// When the API server does not answer in time.
    pub async fn list(&self, kind: &str) -> Vec<Value> {
        let list = self.told(&["get", kind]).await.unwrap_or_default();
        list["items"].as_array().cloned().unwrap_or_default()
    }

    /// Waits until a Stack is as it should be.
    ///
    /// # Panics
    /// When it is not in time, with everything that helps to see why.
    pub async fn stack_when(
        &self,
        name: &str,
        what: &str,
        condition: impl Fn(&Value) -> bool,
    ) -> Value {
        let begun = Instant::now();
        let mut last = None;
        while begun.elapsed() < PATIENCE {
            last = self.get("stack", name).await;
            if let Some(stack) = &last
                && condition(stack)
            {
                return stack.clone();
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        let pods = self.list("pods").await;
        let updates = self.list("updates").await;
        panic!(
            "{name} is not {what}\nstack: {:#}\npods: {:#}\nupdates: {:#}\n{}",
            last.unwrap_or_default()["status"],
            pods.iter()
                .map(|pod| pod["status"].clone())
                .collect::<Value>(),
            updates
                .iter()
                .map(|update| update["status"].clone())
                .collect::<Value>(),
            self.logs(),
        );
    }

    /// Waits until a Stack is Ready at its present generation.
    pub async fn ready(&self, name: &str) -> Value {
        self.stack_when(name, "Ready", is_ready).await
    }

    /// Waits until something is so, at most this long.
    ///
    /// # Panics
    /// When it is not in time, with what the operator said.
    pub async fn until(&self, what: &str, limit: Duration, mut is: impl AsyncFnMut() -> bool) {
        let begun = Instant::now();
        while !is().await {
            assert!(
                begun.elapsed() < limit,
                "not within {limit:?}: {what}\n{}",
                self.logs()
            );
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    /// Waits until an object is gone.
    pub async fn gone(&self, kind: &str, name: &str) {
        let begun = Instant::now();
        while self.get(kind, name).await.is_some() {
            assert!(
                begun.elapsed() < PATIENCE,
                "{kind} {name} is still there\n{:#}\n{}",
                self.get(kind, name).await.unwrap_or_default(),
                self.logs()
            );
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }
}

impl<K> Drop for Operator<K> {
    fn drop(&mut self) {
        self.kill();
    }
}

/// The manifest of a Stack on the file backend, its other fields given as YAML below `spec`; for `Operator::apply`.
pub fn stack_manifest(name: &str, spec: &str) -> String {
    let spec: String = spec.lines().map(|line| format!("  {line}\n")).collect();
    format!(
        r#"---
apiVersion: pulumi.com/v1
kind: Stack
metadata: {{name: {name}}}
spec:
  stack: organization/{name}/dev
  backend: file:///state
  envRefs:
    PULUMI_CONFIG_PASSPHRASE: {{type: Literal, literal: {{value: test}}}}
  workspaceTemplate:
    spec:
      podTemplate:
        spec:
          containers:
          - name: pulumi
            volumeMounts: [{{name: state, mountPath: /state}}]
          volumes: [{{name: state, @VOLUME@}}]
{spec}"#
    )
}

/// Waits until the definitions that were applied are served.
async fn served(plane: &ControlPlane) {
    let begun = Instant::now();
    loop {
        let asked = plane
            .kubectl(&["get", "stacks,programs,workspaces,updates"])
            .await;
        if asked.status.success() {
            return;
        }
        assert!(
            begun.elapsed() < PATIENCE,
            "the definitions are not served: {}",
            String::from_utf8_lossy(&asked.stderr)
        );
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// A port of 127.0.0.1 that is this process's own, for a program that listens later.
///
/// # Panics
/// When there is none.
pub fn free_port() -> u16 {
    windlass_cluster::plane::free_port().expect("a free port")
}

/// Ready at its present generation.
pub fn is_ready(stack: &Value) -> bool {
    stack["status"]["observedGeneration"] == stack["metadata"]["generation"]
        && condition(stack, "Ready").is_some_and(|condition| condition["status"] == "True")
}

/// A condition of an object.
pub fn condition(object: &Value, type_: &str) -> Option<Value> {
    object["status"]["conditions"]
        .as_array()?
        .iter()
        .find(|condition| condition["type"] == type_)
        .cloned()
}
