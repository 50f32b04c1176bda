//! The configuration of containerd and the kubelet.

use std::path::Path;

use serde_json::{Value, json};

use super::network::Bridge;
use crate::error::{At as _, Result};

/// The image of pods' sandboxes.
pub const PAUSE_IMAGE: &str = "localhost/pause:1";

/// Files in the node's folder.
pub const SOCKET: &str = "containerd.sock";
pub const CONTAINERD: &str = "containerd.toml";
pub const KUBELET: &str = "kubelet.json";
pub const KUBELET_KUBECONFIG: &str = "kubelet.kubeconfig";
pub const SCHEDULER_KUBECONFIG: &str = "scheduler.kubeconfig";

/// What the kubelet shall do differently from what it does by itself.
pub struct Kubelet<'a> {
    pub bridge: &'a Bridge,
    /// The port of its own API, on the bridge's address.
    pub port: u16,
    /// Who may ask it: whoever has a certificate of the cluster's.
    pub authority: &'a Path,
}

/// Writes every file.
///
/// # Errors
/// When a file cannot be written.
pub fn write(folder: &Path, plugins: &Path, kubelet: &Kubelet<'_>) -> Result<()> {
    let put = |name: &str, content: String| {
        let path = folder.join(name);
        std::fs::write(&path, content).at(&path)
    };
    let networks = folder.join("networks");
    std::fs::create_dir_all(&networks).at(&networks)?;
    let network = kubelet.bridge.plugins(&folder.join("addresses"));
    put("networks/10-pods.conflist", network.to_string())?;
    put(CONTAINERD, containerd(folder, plugins, &networks))?;
    // No name is ever asked for; a pod has to have some file.
    put("resolv.conf", "nameserver 127.0.0.1\n".to_owned())?;
    put(KUBELET, configuration(folder, kubelet).to_string())
}

fn containerd(folder: &Path, plugins: &Path, networks: &Path) -> String {
    // Debug quotes a path as TOML has it.
    let at = |name: &str| folder.join(name);
    format!(
        r#"version = 2
root = {root:?}
state = {state:?}
disabled_plugins = [
  "io.containerd.snapshotter.v1.aufs", "io.containerd.snapshotter.v1.btrfs",
  "io.containerd.snapshotter.v1.devmapper", "io.containerd.snapshotter.v1.zfs",
]

[grpc]
address = {socket:?}

[plugins."io.containerd.internal.v1.opt"]
path = {opt:?}

[plugins."io.containerd.grpc.v1.cri"]
sandbox_image = "{PAUSE_IMAGE}"
# Root may lack the right to make a process less likely to be killed for want of memory.
restrict_oom_score_adj = true
stream_server_address = "127.0.0.1"
stream_server_port = "0"

[plugins."io.containerd.grpc.v1.cri".containerd]
snapshotter = "overlayfs"
default_runtime_name = "runc"

[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"

[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
SystemdCgroup = false

[plugins."io.containerd.grpc.v1.cri".cni]
bin_dir = {plugins:?}
conf_dir = {networks:?}
"#,
        root = at("containerd"),
        state = at("state"),
        socket = at(SOCKET),
        opt = at("opt"),
    )
}

fn configuration(folder: &Path, kubelet: &Kubelet<'_>) -> Value {
    let at = |name: &str| folder.join(name);
    json!({
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "containerRuntimeEndpoint": format!("unix://{}", at(SOCKET).display()),
        "address": kubelet.bridge.address(),
        "port": kubelet.port,
        "healthzPort": 0,
        "authentication": {
            "anonymous": {"enabled": false},
            "webhook": {"enabled": false},
            "x509": {"clientCAFile": kubelet.authority},
        },
        "authorization": {"mode": "AlwaysAllow"},
        "resolvConf": at("resolv.conf"),
        "podLogsDir": at("logs"),
        "volumePluginDir": at("volume-plugins"),
        // A machine's own, whatever its version of cgroups, and none of its settings changed.
        "failCgroupV1": false,
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": format!("/{}-node", kubelet.bridge.name()),
        "cgroupsPerQOS": false,
        "enforceNodeAllocatable": [],
        "makeIPTablesUtilChains": false,
        "oomScoreAdj": 0,
        "failSwapOn": false,
        "localStorageCapacityIsolation": false,
        // How full the machine's disk is says nothing about a test.
        "evictionHard": {"memory.available": "1Mi"},
        "imageGCHighThresholdPercent": 100,
        "registerNode": true,
        // A tenth of the usual times: tests wait for a silent node to be noticed.
        "nodeLeaseDurationSeconds": 4,
        "nodeStatusUpdateFrequency": "2s",
        "nodeStatusReportFrequency": "20s",
        "volumeStatsAggPeriod": "10m",
        "serializeImagePulls": false,
    })
}
