//! What a tree is: a sorted list of files and symbolic links with safe names, and
//! its one deterministic form as a tar stream, whose hash is its digest.

pub(crate) mod check;
pub(crate) mod links;
pub(crate) mod tar;

use serde::{Deserialize, Serialize};

/// What an entry of a tree is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    File,
    Executable,
    /// A symbolic link; its content is the target.
    Symlink,
}

/// An entry of a stored tree.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// Relative path with `/` between components.
    pub path: String,
    pub kind: Kind,
    /// Bytes of content; for a symbolic link, of its target.
    pub size: u64,
    /// The target of a symbolic link.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<String>,
}

/// The order of entries in a tree: by path component, so that what is below a
/// directory is contiguous.
pub(crate) fn order(a: &str, b: &str) -> std::cmp::Ordering {
    a.split('/').cmp(b.split('/'))
}
