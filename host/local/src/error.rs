//! What ends `windlass local`, or keeps it from starting. Trouble of one Stack is never here: it is in its status.

use std::path::PathBuf;

#[derive(Debug, thiserror::Error)]
pub enum LocalError {
    /// The manifests cannot be used. Each entry names file, line, column and field.
    #[error("{}", .0.join("\n"))]
    BadInput(Vec<String>),
    #[error("{path}: {source}; check that the directory exists and is yours", path = path.display())]
    Io {
        path: PathBuf,
        source: std::io::Error,
    },
    #[error("the store {path} cannot be used: {source}", path = path.display())]
    Store {
        path: PathBuf,
        source: rusqlite::Error,
    },
    #[error("the store {path} holds what this version cannot read: {message}", path = path.display())]
    Damaged { path: PathBuf, message: String },
    #[error("{path} is in use by another `windlass local` (pid {pid}); stop it, or give --data-dir another directory", path = path.display())]
    InUse { path: PathBuf, pid: String },
    #[error("{what} is not at {path}; build it, or say where it is", path = path.display())]
    Missing { what: &'static str, path: PathBuf },
    #[error("the plugins: {0}")]
    Plugins(String),
    #[error("the policy: {0}")]
    Policy(String),
    #[error("fetching: {0}")]
    Fetch(String),
}

impl LocalError {
    /// Whether the user's input is what is wrong.
    pub fn is_bad_input(&self) -> bool {
        matches!(self, LocalError::BadInput(_) | LocalError::Policy(_))
    }
}

/// Adds the path to an IO error.
pub(crate) trait AtPath<T> {
    fn at(self, path: &std::path::Path) -> Result<T, LocalError>;
}

impl<T> AtPath<T> for std::io::Result<T> {
    fn at(self, path: &std::path::Path) -> Result<T, LocalError> {
        self.map_err(|source| LocalError::Io {
            path: path.to_owned(),
            source,
        })
    }
}
