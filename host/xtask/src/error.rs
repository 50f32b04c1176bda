//! What can go wrong in a developer command, each as a sentence a person can act on.

use std::path::PathBuf;

/// A failed developer command.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A program that the command needs is not on PATH.
    #[error("{program} is missing: {why}; {how}")]
    MissingProgram {
        program: String,
        /// What needs it.
        why: &'static str,
        /// How to get it.
        how: &'static str,
    },
    /// A program ran and said no.
    #[error("`{command}` failed ({status})")]
    CommandFailed { command: String, status: String },
    /// A program could not be started although it exists, or its output could not be read.
    #[error("`{command}` could not be run: {source}")]
    CommandUnusable {
        command: String,
        source: std::io::Error,
    },
    /// A program printed something this command does not understand.
    #[error("`{command}` printed something unexpected: {what}")]
    UnexpectedOutput { command: String, what: String },
    /// Reading or writing a file failed.
    #[error("{}: {source}", path.display())]
    File {
        path: PathBuf,
        source: std::io::Error,
    },
    /// A file's content is not what it must be.
    #[error("{}: {what}", path.display())]
    BadFile { path: PathBuf, what: String },
    /// Something generated is not what its sources say.
    #[error("{what} is out of date; run `{how}`")]
    OutOfDate { what: String, how: &'static str },
    /// Several things are wrong; each was printed where it was found.
    #[error("{0}")]
    Failed(String),
}

pub type Result<T> = std::result::Result<T, Error>;

/// Gives an IO result the path it was about.
pub trait AtPath<T> {
    /// # Errors
    /// `Error::File` with `path` when the operation failed.
    fn at(self, path: impl Into<PathBuf>) -> Result<T>;
}

impl<T> AtPath<T> for std::io::Result<T> {
    fn at(self, path: impl Into<PathBuf>) -> Result<T> {
        self.map_err(|source| Error::File {
            path: path.into(),
            source,
        })
    }
}
