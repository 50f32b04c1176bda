//! Why a command ends without its result, and with which exit code.

use std::path::PathBuf;
use std::process::ExitCode;

/// Something failed, waits or is unhealthy.
pub const FAILED: u8 = 1;
/// The input is wrong: arguments, manifests, files.
pub const BAD_INPUT: u8 = 2;
/// Left by Ctrl-C.
pub const INTERRUPTED: u8 = 130;

pub type Result<T> = std::result::Result<T, Error>;

/// Each displays as one sentence: what, where, what to do.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("{path}: {source}", path = .path.display())]
    File {
        path: PathBuf,
        source: std::io::Error,
    },
    #[error("{path}: {message}", path = .path.display())]
    BadFile { path: PathBuf, message: String },
    #[error(
        "no data directory here: neither this directory nor one above has a `.windlass`; name it with --data-dir"
    )]
    NoDataDir,
    #[error("there is no Stack {key}; `windlass status` lists them{hint}")]
    NoStack { key: String, hint: String },
    #[error("Stack {0} has not been looked at yet; run `windlass local` on its manifests first")]
    NoSnapshot(String),
    #[error("{0}")]
    NoLog(String),
    #[error("Stack {0} has no run going on: there is nothing to cancel")]
    NothingRuns(String),
    #[error(
        "no plugin directory: build the built-in plugins with `cargo xtask plugins`, or name one with --plugin-dir"
    )]
    NoPluginDir,
    #[error(
        "windlass-agent is missing: looked for {looked}; put it beside this program or name it in WINDLASS_AGENT"
    )]
    NoAgent { looked: String },
    #[error("this program cannot find itself: {0}")]
    NoSelf(std::io::Error),
    #[error(transparent)]
    Policy(#[from] windlass_wasm::PolicyError),
    #[error("plugins cannot run here: {0}")]
    PluginHost(#[from] windlass_wasm::HostError),
    #[error("{plugin} ({reason}): {error}", reason = .error.reason())]
    Plugin {
        plugin: String,
        error: Box<windlass_wasm::PluginError>,
    },
    #[error("{0}")]
    Arguments(String),
    #[error(transparent)]
    Local(#[from] windlass_local::LocalError),
    #[error("{0}")]
    Cluster(String),
    #[error("agent of {key}: {source}")]
    Agent {
        key: String,
        source: Box<windlass_agent::ClientError>,
    },
    #[error("output: {0}")]
    Output(#[from] std::io::Error),
    #[error("output: {0}")]
    Json(#[from] serde_json::Error),
}

impl Error {
    pub fn exit_code(&self) -> ExitCode {
        ExitCode::from(match self {
            Error::File { .. }
            | Error::BadFile { .. }
            | Error::NoDataDir
            | Error::NoStack { .. }
            | Error::NoPluginDir
            | Error::NoAgent { .. }
            | Error::Policy(_)
            | Error::Arguments(_) => BAD_INPUT,
            Error::Local(error) if error.is_bad_input() => BAD_INPUT,
            Error::NoSnapshot(_)
            | Error::NoLog(_)
            | Error::NothingRuns(_)
            | Error::NoSelf(_)
            | Error::PluginHost(_)
            | Error::Plugin { .. }
            | Error::Local(_)
            | Error::Cluster(_)
            | Error::Agent { .. }
            | Error::Output(_)
            | Error::Json(_) => FAILED,
        })
    }
}

/// Names the path in an error of the file system.
pub trait AtPath<T> {
    /// # Errors
    /// `Error::File` with the path.
    fn at(self, path: &std::path::Path) -> Result<T>;
}

impl<T> AtPath<T> for std::io::Result<T> {
    fn at(self, path: &std::path::Path) -> Result<T> {
        self.map_err(|source| Error::File {
            path: path.to_owned(),
            source,
        })
    }
}
