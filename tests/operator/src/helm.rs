//! The chart under the real `helm`: on any control plane, and on a real node with the operator in a container.

use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};
use std::time::Duration;

use serde_json::Value;
use windlass_cluster::node::{Layer, NodeImage, image};
use windlass_cluster::{ControlPlane, Options, RealNode, skip, tools_folder};
use windlass_e2e::components::example;
use windlass_e2e::world::workspace_root;

use crate::manual::{at_home, typed};
use crate::{Operator, PULUMI_IMAGE, backend};

/// The operator's image without its tag, of which there are two with the same content.
pub const REGISTRY: &str = "test.example";
pub const REPOSITORY: &str = "windlass/windlass";
pub const TAGS: [&str; 2] = ["one", "two"];
/// The namespace of releases, as the manual has it.
pub const NAMESPACE: &str = "pulumi-kubernetes-operator";
/// An image that users make of a plugin, and the plugin in it.
pub const PLUGINS_IMAGE: &str = "test.example/plugins:1";
pub const OF_IMAGE: &str = "source-oci";
/// A name of the API server that its certificate has.
const API_SERVER: &str = "kubernetes.default.svc";

/// The chart.
pub fn chart() -> PathBuf {
    workspace_root().join("deploy/helm/windlass")
}

/// Whether `helm` is there; says visibly if it is not.
pub fn is_there() -> Option<()> {
    if tools_folder().join("helm").is_file() {
        return Some(());
    }
    skip("helm is not built; `cargo xtask tools helm` makes it");
    None
}

/// Runs `helm` on a cluster, with an input.
pub async fn helm(plane: &ControlPlane, arguments: &[&str], input: &[u8]) -> Output {
    use tokio::io::AsyncWriteExt as _;
    let mut command = tokio::process::Command::new(tools_folder().join("helm"));
    at_home(plane, &mut command);
    command
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command.spawn().expect("helm");
    let mut stdin = child.stdin.take().expect("its input");
    // One that does not read its input may end before it is written.
    let _ = stdin.write_all(input).await;
    drop(stdin);
    child.wait_with_output().await.expect("helm")
}

impl Operator<RealNode> {
    /// A node that has the images of an operator and of workspaces, and no operator; None with a visible reason where
    /// something is not at hand.
    pub async fn prepare_for_helm() -> Option<Operator<RealNode>> {
        is_there()?;
        let provider = backend::provider()?;
        RealNode::possible()?;
        let options = Options {
            node_monitor_grace: Duration::from_secs(30),
            // Pods reach it by the node's address.
            apiserver_arguments: vec!["--bind-address=0.0.0.0".to_owned()],
            ..Options::default()
        };
        let plane = ControlPlane::start_with(options).await?;
        let mut images = image::usual(crate::AGENT_IMAGE, PULUMI_IMAGE, &[provider])
            .unwrap_or_else(|error| panic!("no images: {error}"));
        images.push(plugins_image().await);
        let archive = plane.folder().join("windlass.oci.tar");
        let (made, node) = tokio::join!(operator_image(&archive), RealNode::start(&plane, images));
        let node = node?;
        made?;
        known(&node, &archive).await;
        let mut operator = Self::without_definitions(plane, node).await;
        operator.furnish().await;
        Some(operator)
    }

    /// Runs a command of a manual as it is written, and gives what it says.
    ///
    /// # Panics
    /// When it fails, with what it says and what the operator's pods said.
    pub async fn typed(&self, line: &str) -> String {
        let output = typed(&self.plane, &self.namespace, line).await;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            panic!("$ {line}\n{said}\n{}", self.of_pods().await);
        }
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// As `typed`, for a command of `helm` that is given a file of values at its end, as a reader has one for a cluster.
    pub async fn typed_with(&self, line: &str, values: &Value) -> String {
        let file = self.plane.folder().join("values.json");
        std::fs::write(&file, values.to_string()).expect("a file of values");
        self.typed(&format!("{line} --values {}", file.display()))
            .await
    }

    /// The values without which nothing runs here: the image, and where the API server is, for no Service answers.
    pub fn values(&self, tag: &str) -> Value {
        serde_json::json!({
            "image": {"registry": REGISTRY, "repository": REPOSITORY, "tag": tag, "pullPolicy": "Never"},
            "controller": {"workspaceImage": PULUMI_IMAGE},
            "hostAliases": [{"ip": self.kubelet.address(), "hostnames": [API_SERVER]}],
            "extraEnv": [
                {"name": "KUBERNETES_SERVICE_HOST", "value": API_SERVER},
                {"name": "KUBERNETES_SERVICE_PORT", "value": self.plane.port().to_string()},
            ],
        })
    }

    /// Pods of the operator itself, and what they said.
    pub async fn of_pods(&self) -> String {
        let mut text = String::new();
        for arguments in [
            &["get", "pods,jobs,events", "-o", "wide"][..],
            &["describe", "pods"],
            &[
                "logs",
                "--all-containers",
                "--prefix",
                "--tail=200",
                "-l",
                "app.kubernetes.io/part-of=windlass",
            ],
        ] {
            let all = [&["-n", NAMESPACE], arguments].concat();
            let output = self.plane.kubectl(&all).await;
            text += &String::from_utf8_lossy(&output.stdout);
            text += &String::from_utf8_lossy(&output.stderr);
        }
        text
    }
}

/// Makes the operator's image as `cargo xtask image` does for everybody; None, with a visible reason, where it cannot.
async fn operator_image(archive: &Path) -> Option<()> {
    let name = format!("{REGISTRY}/{REPOSITORY}");
    let mut command = tokio::process::Command::new(backend::binaries().join("xtask"));
    command
        .args([
            "image",
            "--debug-build",
            "--name",
            &name,
            "--tag",
            TAGS[0],
            "--output",
        ])
        .arg(archive)
        .stdin(Stdio::null())
        .kill_on_drop(true);
    let output = command.output().await.expect("xtask");
    let said = String::from_utf8_lossy(&output.stderr);
    if said.contains("is missing: ") || said.contains("apt knows no ") {
        skip(&format!(
            "the operator's image cannot be made: {}",
            said.trim()
        ));
        return None;
    }
    assert!(output.status.success(), "{said}");
    Some(())
}

/// An example of the SDK as a component.
pub async fn example_of(plugin: &str) -> PathBuf {
    let plugin = plugin.to_owned();
    let built = tokio::task::spawn_blocking(move || example(&plugin));
    built.await.expect("it is built")
}

/// Something with a shell, and a plugin where the chart expects it.
async fn plugins_image() -> NodeImage {
    let file = format!("/plugins/{OF_IMAGE}.wasm");
    let plugin = Layer::default().program(&file, &example_of(OF_IMAGE).await);
    let base = Layer::base();
    let layers =
        [base, plugin].map(|layer| layer.unwrap_or_else(|error| panic!("no image: {error}")));
    NodeImage::new(PLUGINS_IMAGE, &layers)
}

/// Makes the operator's image known to a node, under both of its tags.
async fn known(node: &RealNode, archive: &Path) {
    let [one, two] = TAGS.map(|tag| format!("{REGISTRY}/{REPOSITORY}:{tag}"));
    let archive = archive.display().to_string();
    for arguments in [
        &["images", "import", &archive][..],
        &["images", "tag", &one, &two],
    ] {
        let output = node.ctr(arguments).await.expect("ctr");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "ctr {arguments:?}: {said}");
    }
    let _ = std::fs::remove_file(archive);
}
