//! The options of `windlass run`. Those that the Pulumi Kubernetes Operator has keep its names, and its variables win
//! nowhere over a flag that is given.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use crate::args::{Plugins, ProgressArgs};
use crate::run_endpoints::Endpoints;
use crate::run_logging::Zap;

#[derive(Debug, Args)]
pub struct OperatorArgs {
    /// Namespaces to look after, separated by commas; all if absent.
    #[arg(
        long,
        env = "WATCH_NAMESPACES",
        value_delimiter = ',',
        value_name = "NAMESPACE,..."
    )]
    pub namespaces: Vec<String>,
    /// Namespace of the operator itself: its lease and certificates are there.
    #[arg(
        long,
        env = "POD_NAMESPACE",
        default_value = "pulumi-kubernetes-operator",
        value_name = "NAMESPACE"
    )]
    pub namespace: String,
    /// Name of this process among replicas; one that starts again under its name takes its lease back at once.
    #[arg(long, env = "POD_NAME", value_name = "NAME")]
    pub identity: Option<String>,
    /// Image with the agent, which every workspace gets its agent from.
    #[arg(long, env = "AGENT_IMAGE", value_name = "IMAGE", default_value = concat!("windlass/windlass:", env!("CARGO_PKG_VERSION")))]
    pub agent_image: String,
    /// When the agent's image is pulled: Always, IfNotPresent or Never.
    #[arg(long, env = "AGENT_IMAGE_PULL_POLICY", value_name = "POLICY", default_value = "IfNotPresent", ignore_case = true, value_parser = ["Always", "IfNotPresent", "Never"])]
    pub agent_image_pull_policy: String,
    /// Image of workspaces whose Stack names none.
    #[arg(long, env = "WORKSPACE_IMAGE", value_name = "IMAGE")]
    pub workspace_image: Option<String>,
    /// Runs that may go on at the same time.
    #[arg(long, env = "MAX_CONCURRENT_RECONCILES", default_value_t = 25, value_name = "N", value_parser = crate::args::at_least_one)]
    pub max_runs: usize,
    /// Seconds that an idle workspace is kept where its Stack does not say; without the option it is kept.
    #[arg(long, env = "WORKSPACE_IDLE_SECONDS", value_name = "SECONDS")]
    pub workspace_idle_seconds: Option<u64>,
    /// Directory for fetched trees and compiled plugins.
    #[arg(
        long,
        env = "WINDLASS_DATA_DIR",
        default_value = "/var/lib/windlass",
        value_name = "DIR"
    )]
    pub data_dir: PathBuf,
    #[command(flatten)]
    pub progress: ProgressArgs,
    /// How long a request to the API server may take, as in 30s. Watches last longer.
    #[arg(long, env = "KUBE_API_TIMEOUT", default_value = "15s", value_name = "DURATION", value_parser = duration)]
    pub kube_api_timeout: Duration,
    /// File that names the cluster; without it the cluster is that of the pod, else of KUBECONFIG.
    #[arg(long, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,
    /// Accepted for the sake of manifests that have it: a leader is always elected, for two that act at once would be one
    /// too many.
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "true", value_name = "BOOL", value_parser = boolean)]
    pub leader_elect: Option<bool>,
    /// How long other replicas wait after the leader's last word.
    #[arg(long, env = "LEADER_ELECTION_LEASE_DURATION", default_value = "15s", value_name = "DURATION", value_parser = duration)]
    pub leader_election_lease_duration: Duration,
    /// How long the leader goes on without being able to renew its lease.
    #[arg(long, env = "LEADER_ELECTION_RENEW_DEADLINE", default_value = "10s", value_name = "DURATION", value_parser = duration)]
    pub leader_election_renew_deadline: Duration,
    /// How often the lease is looked at.
    #[arg(long, env = "LEADER_ELECTION_RETRY_PERIOD", default_value = "2s", value_name = "DURATION", value_parser = duration)]
    pub leader_election_retry_period: Duration,
    /// Let sources be fetched from this very machine. For tests.
    #[arg(long, env = "WINDLASS_ALLOW_LOOPBACK", hide = true)]
    pub allow_loopback: bool,
    #[command(flatten)]
    pub plugins: Plugins,
    // Their headings hold for whatever comes after them.
    #[command(flatten)]
    pub endpoints: Endpoints,
    #[command(flatten)]
    pub zap: Zap,
}

/// As Go reads it.
pub fn duration(text: &str) -> Result<Duration, String> {
    windlass_api::duration::parse(text).map_err(|error| error.to_string())
}

/// As Go reads it.
pub fn boolean(text: &str) -> Result<bool, String> {
    match text {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Ok(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Ok(false),
        _ => Err("write true or false".to_owned()),
    }
}
