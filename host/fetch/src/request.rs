//! What is asked of a [`crate::Fetcher`].

use std::collections::BTreeMap;

use crate::credential::Credential;
use crate::error::FetchError;

/// Asks for the refs of a repository.
#[derive(Debug, Clone)]
pub struct RefsRequest {
    pub url: String,
    /// Beginnings of full names, like `refs/heads/main` or `refs/tags/`; none means all.
    pub prefixes: Vec<String>,
    pub credential: Option<Credential>,
}

/// Asks for a tree.
#[derive(Debug, Clone)]
pub struct TreeRequest {
    pub artifact: Artifact,
    /// The asking Stack's own credential: a stored tree is served only if this
    /// credential has itself read the place lately.
    pub credential: Option<Credential>,
}

/// What a tree comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Artifact {
    /// The tree of a commit, given as 40 hexadecimal digits.
    GitTree { url: String, commit: String },
    /// The files in a tar.gz with this `sha256:` digest.
    Archive { url: String, digest: String },
    /// Files given here.
    Files(BTreeMap<String, Vec<u8>>),
}

/// What was done so far; grows only.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FetchStats {
    /// Refs listings asked of servers.
    pub refs_requests: u64,
    /// Those that failed, in the order of [`crate::ErrorClass::ALL`].
    pub refs_failures: [u64; 5],
    /// Trees and archives fetched from servers, or tried to.
    pub fetches: u64,
    /// Those that failed, in the order of [`crate::ErrorClass::ALL`].
    pub fetch_failures: [u64; 5],
    /// Bytes of the files in what was fetched.
    pub fetched_bytes: u64,
    /// Trees served from the store without fetching.
    pub hits: u64,
    /// Looks at watched repositories.
    pub polls: u64,
    /// Those that failed.
    pub poll_failures: u64,
    /// Most memory that any child process has had, in bytes.
    pub peak_child_rss: u64,
}

pub(crate) fn check_commit(commit: &str) -> Result<(), FetchError> {
    let hex = commit.len() == 40
        && commit
            .bytes()
            .all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b));
    if hex {
        Ok(())
    } else {
        Err(FetchError::CommitInvalid {
            commit: commit.chars().take(80).collect(),
        })
    }
}

/// Prefixes become part of refspecs, so nothing with a meaning there may be in them.
pub(crate) fn check_prefixes(prefixes: &[String]) -> Result<(), FetchError> {
    let good = |prefix: &String| {
        prefix == "HEAD"
            || (prefix.starts_with("refs/")
                && !prefix.contains("..")
                && !prefix
                    .bytes()
                    .any(|b| b <= b' ' || b == 0x7f || b"*?[]\\:^~".contains(&b)))
    };
    match prefixes.iter().find(|prefix| !good(prefix)) {
        None => Ok(()),
        Some(bad) => Err(FetchError::UrlInvalid {
            detail: format!("{bad:?} is no ref name; it is HEAD or begins with refs/"),
        }),
    }
}
