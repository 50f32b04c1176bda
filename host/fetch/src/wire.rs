//! What is said between a [`crate::Fetcher`] and its child process: one JSON line
//! on stdin, one JSON text on stdout. Trees go through two files in the scratch
//! directory; the parent believes nothing in them.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::config::{Limits, Proxy, Unsupported};
use crate::credential::Credential;
use crate::error::FetchError;
use crate::reach::Reach;
use crate::ssh::SshSettings;
use crate::tree::Kind;

/// File in the scratch directory with one JSON [`ExportedEntry`] per line.
pub(crate) const ENTRIES: &str = "entries";
/// File in the scratch directory that holds the contents of all entries.
pub(crate) const CONTENT: &str = "content";
/// Longest request, and longest response, in bytes.
pub(crate) const MAX_MESSAGE: u64 = 32 << 20;

/// One request. Never printed: it may hold a credential.
#[derive(Serialize, Deserialize)]
pub(crate) struct WorkerRequest {
    pub operation: Operation,
    pub credential: Option<Credential>,
    pub limits: Limits,
    pub extra_ca_pem: Option<String>,
    pub proxy: Option<Proxy>,
    pub unsupported: Unsupported,
    pub allow_file: bool,
    pub reach: Reach,
    /// For ssh addresses only.
    pub ssh: Option<SshSettings>,
    /// The only directory that the child may write to.
    pub scratch: PathBuf,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Operation {
    /// The refs whose names begin with one of the prefixes; all if there is none.
    Refs { url: String, prefixes: Vec<String> },
    /// The tree of a commit.
    Tree { url: String, commit: String },
    /// The tree in a tar.gz with this digest.
    Archive { url: String, digest: String },
    /// Whether the archive would be served.
    ArchiveReadable { url: String },
    /// What the sandbox lets through, for tests.
    #[cfg(feature = "test-probe")]
    Probe(crate::worker::probe::Probe),
}

impl Operation {
    /// The address that is contacted, if any.
    pub fn url(&self) -> Option<&str> {
        match self {
            Operation::Refs { url, .. }
            | Operation::Tree { url, .. }
            | Operation::Archive { url, .. }
            | Operation::ArchiveReadable { url } => Some(url),
            #[cfg(feature = "test-probe")]
            Operation::Probe(_) => None,
        }
    }
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct WorkerResponse {
    pub result: Result<Answer, FetchError>,
    /// Most memory that the child has had resident, in bytes.
    pub peak_rss: u64,
    /// What the kernel could not enforce, if anything.
    pub sandbox_gap: Option<String>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Answer {
    Refs(Vec<RemoteRef>),
    Exported,
    Readable,
    #[cfg(feature = "test-probe")]
    Probed(std::collections::BTreeMap<String, String>),
}

/// A ref as a server lists it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RemoteRef {
    /// Full name, like `refs/heads/main`, or `HEAD`.
    pub name: String,
    /// The object the ref points to, 40 hexadecimal digits.
    pub oid: String,
    /// For an annotated tag, the object the tag points to.
    pub peeled: Option<String>,
}

impl RemoteRef {
    /// The commit that is meant: what an annotated tag points to, else the object.
    pub fn commit(&self) -> &str {
        self.peeled.as_deref().unwrap_or(&self.oid)
    }
}

/// One line of [`ENTRIES`].
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct ExportedEntry {
    pub path: String,
    pub kind: Kind,
    pub offset: u64,
    pub size: u64,
}
