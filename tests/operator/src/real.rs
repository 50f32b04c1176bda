//! An operator whose pods run on a real node, in a namespace that enforces the restricted standard of pod security.

use std::time::Duration;

use serde_json::json;
use windlass_cluster::node::image;
use windlass_cluster::{ControlPlane, Options, RealNode};

use crate::{AGENT_IMAGE, Operator, PULUMI_IMAGE, backend};

/// Pods of the restricted standard may not mount the host's directories; the administrator's volume may be one.
const CLAIM: &str = "persistentVolumeClaim: {claimName: state}";

impl Operator<RealNode> {
    /// Starts everything; None with a visible reason where something is not at hand. The workspaces' image holds the
    /// tests' provider.
    pub async fn start_on_node() -> Option<Operator<RealNode>> {
        let provider = backend::provider()?;
        RealNode::possible()?;
        let options = Options {
            // The node renews its lease every second.
            node_monitor_grace: Duration::from_secs(10),
            ..Options::default()
        };
        let plane = ControlPlane::start_with(options).await?;
        let images = image::usual(AGENT_IMAGE, PULUMI_IMAGE, &[provider])
            .unwrap_or_else(|error| panic!("the images cannot be made: {error}"));
        let node = RealNode::start(&plane, images).await?;
        let mut operator = Self::on(plane, node).await;
        operator.furnish().await;
        operator.launch();
        Some(operator)
    }

    /// Makes the namespace of the Stacks what those of the node's tests are: restricted, with a claim to their state.
    pub(crate) async fn furnish(&mut self) {
        self.volume = CLAIM;
        let claim = self.volume_of_state("state", &self.namespace, "ReadWriteMany");
        self.apply(&claim).await;
        let namespace = self.namespace.clone();
        let restricted = "pod-security.kubernetes.io/enforce=restricted";
        self.kubectl(&["label", "namespace", &namespace, restricted])
            .await;
    }

    /// A claim of this name to the folder of the state, and its volume.
    pub fn volume_of_state(&self, name: &str, namespace: &str, mode: &str) -> String {
        let size = json!({"storage": "1Gi"});
        let volume = json!({
            "apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name},
            "spec": {
                "capacity": size, "accessModes": [mode], "storageClassName": "",
                "hostPath": {"path": self.state()},
                "claimRef": {"name": name, "namespace": namespace},
            },
        });
        let claim = json!({
            "apiVersion": "v1", "kind": "PersistentVolumeClaim",
            "metadata": {"name": name, "namespace": namespace},
            "spec": {
                "accessModes": [mode], "storageClassName": "", "volumeName": name,
                "resources": {"requests": size},
            },
        });
        json!({"apiVersion": "v1", "kind": "List", "items": [volume, claim]}).to_string()
    }

    /// The identity of a container that runs, or ran last, as the runtime has it.
    pub async fn container_id(&self, pod: &str, container: &str) -> String {
        let pod = self.get("pod", pod).await.unwrap_or_default();
        let statuses = pod["status"]["containerStatuses"].as_array();
        let mut statuses = statuses.into_iter().flatten();
        let found = statuses.find(|status| status["name"] == container);
        let id = found.and_then(|status| status["containerID"].as_str());
        id.unwrap_or_default().to_owned()
    }

    /// Runs a program in a workspace's pod, as a person does. What it printed on stdout.
    ///
    /// # Panics
    /// When it fails, with what it says.
    pub async fn exec(&self, pod: &str, container: &str, argv: &[&str]) -> String {
        let mut all = vec!["exec", pod, "-c", container, "--"];
        all.extend(argv);
        self.kubectl(&all).await
    }
}
