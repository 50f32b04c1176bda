//! What the administrator decides about fetching.

use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::ssh::SshConfig;

/// Bounds of one fetch. Whatever exceeds one is an error on that fetch alone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    /// Wall-clock time of one request to a remote, connect to last byte.
    pub wall: Duration,
    /// Memory of the child process, in bytes.
    pub memory: u64,
    /// Sum of all file sizes of a tree, in bytes; also of what is downloaded.
    pub bytes: u64,
    /// Files and directories of a tree.
    pub files: u64,
    /// Directories above a file.
    pub depth: u64,
    /// Length of one path component, in bytes.
    pub name: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            wall: Duration::from_secs(30),
            memory: 256 << 20,
            bytes: 1 << 30,
            files: 50_000,
            depth: 64,
            name: 255,
        }
    }
}

/// The program that is started for each request to a remote.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkerCommand {
    /// An executable that ends in `windlass_fetch::worker::main`.
    pub program: PathBuf,
    /// Its arguments: the hidden subcommand. Never anything of a request.
    pub args: Vec<String>,
}

/// An HTTP proxy. Names are then resolved by it, so that it decides which
/// addresses they may have; addresses given as numbers are still checked here.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Proxy {
    /// Its address; may contain a user name and password.
    pub url: String,
    /// Hosts that are reached without it, as in `NO_PROXY`.
    pub except: Option<String>,
}

impl std::fmt::Debug for Proxy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Proxy")
            .field("url", &"(may hold a password)")
            .field("except", &self.except)
            .finish()
    }
}

/// What happens to submodules and Git LFS pointers, which are not resolved.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Unsupported {
    /// A tree with one is an error that names it.
    #[default]
    Refuse,
    /// As the Pulumi Kubernetes Operator has it: a submodule is missing from the
    /// tree, a pointer stays a small text file.
    LeaveOut,
}

/// Configuration of a [`crate::Fetcher`].
#[derive(Debug, Clone)]
pub struct FetchConfig {
    /// Where trees are stored; made if it does not exist. May be shared by processes.
    pub store_dir: PathBuf,
    /// The child process.
    pub worker: WorkerCommand,
    /// Bounds of one fetch.
    pub limits: Limits,
    /// Whether `file:` addresses are served: on a person's own machine only.
    pub allow_file_urls: bool,
    /// Whether this machine's own addresses may be contacted, and credentials
    /// sent to them over plain http: on a person's own machine only.
    pub allow_loopback: bool,
    /// Addresses that are never contacted, whatever name leads there: the API server's.
    pub denied: Vec<IpAddr>,
    /// Certificates trusted beside the system's, as PEM.
    pub extra_ca_pem: Option<String>,
    /// Submodules and Git LFS pointers.
    pub unsupported: Unsupported,
    /// The proxy to reach servers through.
    pub proxy: Option<Proxy>,
    /// How repositories at ssh addresses are reached.
    pub ssh: SshConfig,
    /// How many child processes may run at once.
    pub parallel: usize,
    /// How many of them for one host, so that one that hangs leaves the others theirs.
    pub parallel_per_host: usize,
    /// How long a proof of read access holds.
    pub access_ttl: Duration,
}

impl FetchConfig {
    /// The defaults of a shared installation: no `file:`, no loopback.
    pub fn new(store_dir: impl Into<PathBuf>, worker: WorkerCommand) -> Self {
        FetchConfig {
            store_dir: store_dir.into(),
            worker,
            limits: Limits::default(),
            allow_file_urls: false,
            allow_loopback: false,
            denied: Vec::new(),
            extra_ca_pem: None,
            unsupported: Unsupported::default(),
            proxy: None,
            ssh: SshConfig::default(),
            parallel: 8,
            parallel_per_host: 4,
            access_ttl: Duration::from_secs(600),
        }
    }
}
