//! How an agent is set up.

use std::path::PathBuf;
use std::time::Duration;

use super::board::BYTES_KEPT;
use crate::environment::Env;

/// How an agent is set up.
#[derive(Clone, Debug)]
pub struct Options {
    /// Directory that relative names in requests belong to.
    pub workspace: PathBuf,
    /// The agent's own directory.
    pub state_dir: PathBuf,
    /// The environment that CLI processes inherit.
    pub env: Env,
    /// The binary to start as supervisor; this very one unless a test says otherwise.
    pub supervisor: PathBuf,
    /// From the first signal to the second.
    pub interrupt_grace: Duration,
    /// Directories that absolute names of files in requests may lead into: what is mounted for the runs.
    pub mounts: Vec<PathBuf>,
    /// Token of the workspace's service account, for logins by exchange.
    pub login_token_file: Option<PathBuf>,
    /// Verbosity of the CLI's own log; none is the CLI's silence.
    pub pulumi_log_level: Option<u8>,
    /// The agent has a pod for itself: a person who comes there finds the program in the workspace directory, the
    /// stack selected, and the CLI's own home where it always is.
    pub in_pod: bool,
    /// Memory that the agent's own buffers are to respect, in bytes; none if nobody said.
    pub memory: Option<u64>,
}

/// Bytes of a run's log that are kept: a small part of the memory: the rest is the CLI's.
pub(super) fn log_bytes(memory: Option<u64>) -> usize {
    let share = memory.and_then(|m| usize::try_from(m / 16).ok());
    share.map_or(BYTES_KEPT, |s| s.clamp(256 << 10, BYTES_KEPT))
}
