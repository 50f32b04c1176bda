//! What the fake kubelet tells the program that becomes a container. It goes through a pipe, since
//! environments hold secrets.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// A container to be.
#[derive(Clone, Serialize, Deserialize)]
pub struct Launch {
    /// A folder on the host that becomes `/`; what is written outside of mounts ends there.
    pub root: PathBuf,
    /// What is bound into it, in this order.
    pub mounts: Vec<Mount>,
    /// Symbolic links to make: (path in the container, where it points).
    pub links: Vec<(PathBuf, PathBuf)>,
    /// The pod's host name.
    pub hostname: String,
    /// What to run, and as whom.
    pub process: Process,
    /// Whether `/` itself is read-only.
    pub read_only_root: bool,
    /// Whether `setuid` programs give nothing.
    pub no_new_privileges: bool,
    /// The file on the host that takes both output streams.
    pub log: PathBuf,
}

/// A program inside a container.
#[derive(Clone, Serialize, Deserialize)]
pub struct Process {
    /// Program and arguments; a program without `/` is looked for on the container's PATH.
    pub argv: Vec<String>,
    /// The whole environment.
    pub env: Vec<(String, String)>,
    /// The working directory, made if it is not there.
    pub cwd: PathBuf,
    /// The user's number.
    pub uid: u32,
    /// The group's number.
    pub gid: u32,
    /// Further groups.
    pub groups: Vec<u32>,
}

/// Something of the host inside a container.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Mount {
    /// On the host: a folder or a file.
    pub source: PathBuf,
    /// In the container.
    pub target: PathBuf,
    /// Whether it can be written there.
    pub read_only: bool,
}

/// A program to run in a container that runs already.
#[derive(Clone, Serialize, Deserialize)]
pub struct Exec {
    /// The process id of the container's first process, as the host sees it.
    pub pid: i32,
    /// What to run.
    pub process: Process,
}

/// A program that could not be started ends with this code, as `runc` has it.
pub const START_ERROR: i32 = 128;
