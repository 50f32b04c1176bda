//! What `windlass run` is told.

use std::path::PathBuf;
use std::time::Duration;

use windlass_tasks::ProgressPace;

use crate::lease::LeaseSettings;

/// How to run the operator.
#[derive(Clone, Debug)]
pub struct OperatorConfig {
    /// The file that names the cluster, where it is not that of the pod.
    pub kubeconfig: Option<PathBuf>,
    /// How long a request to the API server may take. Watches last longer.
    pub api_timeout: Duration,
    /// Where others reach the archives of Programs, `HOST:PORT` or a URL; none: there are none.
    pub program_address: Option<String>,
    /// Namespaces to look after; all if empty.
    pub namespaces: Vec<String>,
    pub lease: LeaseSettings,
    /// Trees, machine code of components. Private to this process.
    pub data_dir: PathBuf,
    pub plugin_dirs: Vec<PathBuf>,
    /// Digests of the plugins that belong to this build: `{"NAME": "sha256:..."}`.
    pub builtin_digests: Option<PathBuf>,
    pub policy: Option<PathBuf>,
    /// The program that fetches, and its arguments.
    pub fetch_worker: (PathBuf, Vec<String>),
    /// Image with `windlass-agent`, for the init container that puts it into a workspace.
    pub agent_image: String,
    /// `Always`, `IfNotPresent` or `Never`.
    pub agent_image_pull_policy: String,
    /// Image of workspaces whose Stack names none.
    pub workspace_image: Option<String>,
    /// Stacks that run at a time.
    pub max_runs: usize,
    /// Seconds that an idle workspace is kept; none keeps it.
    pub idle_seconds: Option<u64>,
    /// Whether addresses of this machine may be fetched from: for tests.
    pub allow_loopback: bool,
    pub progress: ProgressPace,
}
