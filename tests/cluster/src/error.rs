//! What can go wrong while a cluster is brought up or asked.

use std::path::PathBuf;

/// The error of this crate. Tests mostly print it.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A program that must be built first.
    #[error("there is no {name} in {}; `cargo xtask tools k8s` makes it", folder.display())]
    MissingTool {
        /// The program's name.
        name: &'static str,
        /// Where it was looked for.
        folder: PathBuf,
    },
    /// A file or folder of the cluster.
    #[error("{}: {source}", path.display())]
    File {
        /// Which one.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// A process that cannot be started or signalled.
    #[error("{what}: {source}")]
    Process {
        /// What was tried, on which program.
        what: String,
        /// What the system said.
        source: std::io::Error,
    },
    /// Certificates and keys.
    #[error("cannot make a certificate: {0}")]
    Certificate(#[from] rcgen::Error),
    /// A component ended, or did not get ready in time.
    #[error("{what}\n{logs}")]
    NotReady {
        /// What was waited for.
        what: String,
        /// The ends of the components' logs.
        logs: String,
    },
    /// The API server refused or could not be reached.
    #[error("{what}: {source}")]
    Api {
        /// What was asked.
        what: String,
        /// The client's error.
        source: Box<kube::Error>,
    },
    /// A client cannot be made.
    #[error("cannot make a client: {0}")]
    Client(String),
    /// This machine cannot do what was asked.
    #[error("{0}")]
    Unable(String),
}

/// A result of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Says where a file's error happened.
pub(crate) trait At<T> {
    fn at(self, path: &std::path::Path) -> Result<T>;
}

impl<T> At<T> for std::io::Result<T> {
    fn at(self, path: &std::path::Path) -> Result<T> {
        self.map_err(|source| Error::File {
            path: path.to_owned(),
            source,
        })
    }
}

/// Says what was asked of the API server.
pub(crate) trait Asking<T> {
    fn asking(self, what: impl Into<String>) -> Result<T>;
}

impl<T> Asking<T> for std::result::Result<T, kube::Error> {
    fn asking(self, what: impl Into<String>) -> Result<T> {
        self.map_err(|source| Error::Api {
            what: what.into(),
            source: Box::new(source),
        })
    }
}
