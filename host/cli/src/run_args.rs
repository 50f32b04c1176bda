//! The options of `windlass run`. Those that the Pulumi Kubernetes Operator has keep its names, and its variables win
//! nowhere over a flag that is given.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use crate::args::Plugins;

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
    /// Where /healthz and /readyz are served.
    #[arg(long, default_value = ":8081", value_name = "ADDRESS", value_parser = address)]
    pub health_probe_bind_address: SocketAddr,
    /// Accepted for the sake of manifests that have it: a leader is always elected.
    #[arg(long, num_args = 0..=1, default_missing_value = "true", hide = true)]
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
}

/// As Go reads it: `:8081` is every address of the machine.
fn address(text: &str) -> Result<SocketAddr, String> {
    let full = match text.strip_prefix(':') {
        Some(port) => format!("0.0.0.0:{port}"),
        None => text.to_owned(),
    };
    full.parse()
        .map_err(|_| format!("{text:?} is no address; write :PORT or ADDRESS:PORT"))
}

fn duration(text: &str) -> Result<Duration, String> {
    windlass_api::duration::parse(text).map_err(|error| error.to_string())
}
