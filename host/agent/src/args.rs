//! The command line.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

use clap::{Parser, Subcommand};
use windlass_agent::listen;

/// Runs Pulumi operations beside the CLI.
///
/// One agent serves one workspace. It runs at most one operation at a time, writes what it does into a journal, and
/// goes on with what runs after it was killed and started again.
#[derive(Parser)]
#[command(name = "windlass-agent", version, disable_version_flag = true)]
pub struct Args {
    #[command(subcommand)]
    pub command: Command,
}

/// The agent's own directory in a pod: on the volume that outlives its container.
const STATE_DIR: &str = "/share/state";

#[derive(Subcommand)]
pub enum Command {
    /// Serve a workspace until a signal or a client's request; a running operation is interrupted and let finish.
    #[command(
        after_help = "The CLI is `pulumi` on the PATH. It inherits this process's environment, without PULUMI_OPTION_*.\n\
        Its home is $PULUMI_HOME; in a pod else $HOME/.pulumi if that can be written, else STATE_DIR/pulumi-home.\n\n\
        Examples:\n  windlass-agent serve --mounts /var/run/secrets/windlass\n  \
        windlass-agent serve --socket /run/w/agent.sock --workspace /srv/w --state-dir /srv/state"
    )]
    Serve(Serve),
    /// Wait for the operator to send the program, make the workspace directory a link to it, and end.
    ///
    /// For an init container, so that those after it find the program in place.
    Receive(Receive),
    /// Run a command, such as `pulumi stack`, in the environment of this workspace's runs.
    ///
    /// Only one CLI runs at a time: while an operation goes on the command is refused, or waits with --wait; while the
    /// command goes on no operation begins.
    Exec {
        /// The agent's own directory.
        #[arg(long, value_name = "DIR", env = "WINDLASS_STATE_DIR", default_value = STATE_DIR)]
        state_dir: PathBuf,
        /// Lines of NAME=value to add to the environment.
        #[arg(long, value_name = "FILE", env = "PULUMI_ENV")]
        env_file: Option<PathBuf>,
        /// Wait for the operation that goes on instead of refusing.
        #[arg(long)]
        wait: bool,
        /// The command and its arguments.
        #[arg(required = true, last = true)]
        command: Vec<String>,
    },
    /// End with 0 if the agent listens for the operator, else with 1: for a readiness probe.
    Probe {
        /// The agent's own directory.
        #[arg(long, value_name = "DIR", env = "WINDLASS_STATE_DIR", default_value = STATE_DIR)]
        state_dir: PathBuf,
    },
    /// Copy this program to DEST and make the workspace directory, for the first init container of a pod.
    Install {
        /// Where the program is to lie; a directory gets a file `agent`.
        dest: PathBuf,
        /// Made unless something is there; empty to make none.
        // As a path, an empty one would be refused.
        #[arg(long, value_name = "DIR", default_value = "/share/workspace")]
        workspace: std::ffi::OsString,
    },
    /// Print the version.
    Version,
    /// Between an agent and the CLI that it starts. Not for people.
    #[command(hide = true)]
    Supervise { dir: PathBuf },
}

#[derive(clap::Args)]
pub struct Serve {
    /// Listen at a unix socket that only this user may connect to, instead of TCP.
    #[arg(long, value_name = "PATH", conflicts_with = "listen")]
    socket: Option<PathBuf>,
    #[command(flatten)]
    tcp: Tcp,
    /// Directory that relative files and the program directories of a request are found below.
    #[arg(long, value_name = "DIR", default_value = "/share/workspace")]
    pub workspace: PathBuf,
    /// The agent's own directory: journal, trees, runs. It must survive a restart.
    #[arg(long, value_name = "DIR", env = "WINDLASS_STATE_DIR", default_value = STATE_DIR)]
    pub state_dir: PathBuf,
    /// Directory that absolute files of a request may be below, such as mounted secrets. Repeatable.
    #[arg(long, value_name = "DIR")]
    pub mounts: Vec<PathBuf>,
    /// Token of the workspace's service account, to be exchanged where a backend's login asks for that.
    #[arg(long, value_name = "FILE", env = "WINDLASS_LOGIN_TOKEN_FILE")]
    pub login_token_file: Option<PathBuf>,
    /// Verbosity of the CLI's own log, which goes where its other output goes.
    #[arg(long, value_name = "LEVEL", env = "WINDLASS_PULUMI_LOG_LEVEL")]
    pub pulumi_log_level: Option<u8>,
    /// Lines of NAME=value to add to the environment, as init containers leave them.
    #[arg(long, value_name = "FILE", env = "PULUMI_ENV")]
    pub env_file: Option<PathBuf>,
    /// Seconds that an interrupted operation has to finish by itself. Then a second interrupt makes the CLI drop
    /// what runs, which leaves pending operations; a minute later it is killed, which leaves its lock. In a pod
    /// both must fit into its termination grace period.
    #[arg(long, value_name = "SECONDS", default_value_t = 600)]
    pub interrupt_grace_seconds: u64,
    /// Memory of the container, which the agent's own buffers respect. What the CLI uses is not bounded by it.
    #[arg(long, value_name = "BYTES", env = "AGENT_MEMLIMIT")]
    pub memory: Option<String>,
}

/// The downward API gives an empty text before there is an address.
#[derive(Clone, Copy)]
struct PodIp(Option<IpAddr>);

fn pod_ip(text: &str) -> Result<PodIp, std::net::AddrParseError> {
    if text.is_empty() {
        return Ok(PodIp(None));
    }
    text.parse().map(|ip| PodIp(Some(ip)))
}

#[derive(clap::Args)]
pub struct Tcp {
    /// Listen here, for the operator alone. If the address is unspecified and POD_IP is set, that is taken.
    #[arg(long, value_name = "ADDR:PORT", default_value = "0.0.0.0:50051")]
    listen: SocketAddr,
    #[arg(long, env = "POD_IP", hide = true, value_parser = pod_ip)]
    pod_ip: Option<PodIp>,
    /// Directory with tls.crt and tls.key of this workspace, and ca.crt, the authorities of the operator's
    /// certificate. Changed files count for the next connection.
    #[arg(
        long,
        value_name = "DIR",
        env = "WINDLASS_TLS_DIR",
        default_value = "/var/run/secrets/windlass/tls"
    )]
    pub tls_dir: PathBuf,
}

impl Tcp {
    pub fn address(&self) -> SocketAddr {
        listen::address(self.listen, self.pod_ip.and_then(|PodIp(ip)| ip))
    }
}

#[derive(clap::Args)]
pub struct Receive {
    #[command(flatten)]
    pub tcp: Tcp,
    /// Made a link to the program.
    #[arg(long, value_name = "DIR", default_value = "/share/workspace")]
    pub workspace: PathBuf,
    /// The agent's own directory.
    #[arg(long, value_name = "DIR", env = "WINDLASS_STATE_DIR", default_value = STATE_DIR)]
    pub state_dir: PathBuf,
}

/// Where to listen.
pub enum Where<'a> {
    Socket(&'a PathBuf),
    Tcp(&'a Tcp),
}

impl Serve {
    pub fn place(&self) -> Where<'_> {
        match &self.socket {
            Some(path) => Where::Socket(path),
            None => Where::Tcp(&self.tcp),
        }
    }
}
