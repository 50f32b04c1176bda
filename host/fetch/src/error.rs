//! Everything that can go wrong when a tree is fetched.

use serde::{Deserialize, Serialize};

/// What kind of failure it is: decides whether and how often it is tried again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ErrorClass {
    /// The other side or this machine cannot answer now; trying again may help.
    Unavailable,
    /// The credential does not open the repository, or there is none.
    Denied,
    /// The repository, commit, archive or directory does not exist.
    NotFound,
    /// The request or the content is not acceptable; only an edit helps.
    Invalid,
    /// The content is larger than what the administrator allows.
    Limit,
}

impl ErrorClass {
    /// Every class, in the order in which counts by class are given.
    pub const ALL: [ErrorClass; 5] = [
        ErrorClass::Unavailable,
        ErrorClass::Denied,
        ErrorClass::NotFound,
        ErrorClass::Invalid,
        ErrorClass::Limit,
    ];

    /// The variant's name, as the label of a metric.
    pub fn name(self) -> &'static str {
        match self {
            ErrorClass::Unavailable => "Unavailable",
            ErrorClass::Denied => "Denied",
            ErrorClass::NotFound => "NotFound",
            ErrorClass::Invalid => "Invalid",
            ErrorClass::Limit => "Limit",
        }
    }
}

/// Why a fetch failed. Variant names are public reasons; texts say what to do and
/// never contain credentials or the user part of a URL.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
#[serde(tag = "reason")]
pub enum FetchError {
    // Unavailable.
    #[error("cannot reach {host}: {detail}; it is tried again")]
    Unreachable { host: String, detail: String },
    #[error("{host} answered with an error of its own (HTTP status {status}); it is tried again")]
    ServerError { host: String, status: u16 },
    #[error("the answer of {host} could not be understood: {detail}")]
    BadAnswer { host: String, detail: String },
    #[error("{host} did not deliver within {seconds} s; the fetch was ended and is tried again")]
    TimedOut { host: String, seconds: u64 },
    #[error("the fetching process ended unexpectedly: {detail}")]
    WorkerFailed { detail: String },
    #[error("the tree store cannot be used: {detail}; check the disk of the store directory")]
    StoreFailed { detail: String },

    // Denied.
    #[error(
        "{host} wants credentials for this repository; name a secret with read access in the Stack"
    )]
    CredentialsRequired { host: String },
    #[error(
        "{host} refused the credentials given for this repository; check that they are valid and may read it"
    )]
    CredentialsRefused { host: String },

    #[error(
        "no host key of {host} is known here, so that it cannot be told from an impostor; put its line of known_hosts into the administrator's file, or into the Secret under the key known_hosts"
    )]
    HostKeyUnknown { host: String },
    #[error(
        "{host} shows another host key than the one that is known, or a revoked one; if it was changed on purpose, correct its line of known_hosts"
    )]
    HostKeyChanged { host: String },

    // Not found.
    #[error("{host} has no repository at this address, or does not show it to these credentials")]
    RepositoryNotFound { host: String },
    #[error("commit {commit} is not in the repository at {host}")]
    CommitNotFound { host: String, commit: String },
    #[error("{host} has no archive at this address, or does not show it to these credentials")]
    ArchiveNotFound { host: String },
    #[error("there is no directory {dir:?} in this revision; check repoDir")]
    DirectoryNotFound { dir: String },
    #[error("tree {digest} is no longer stored; fetch it again")]
    TreeNotStored { digest: String },

    // Invalid.
    #[error("this is no usable repository address: {detail}")]
    UrlInvalid { detail: String },
    #[error("addresses of the form {scheme}: are not allowed here; use https")]
    SchemeNotAllowed { scheme: String },
    #[error("the address of {host} is not allowed: {detail}")]
    AddressDenied { host: String, detail: String },
    #[error("credentials are not sent over plain http to {host}; use https")]
    CredentialsOverPlainHttp { host: String },
    #[error(
        "{host} redirects elsewhere, which is not followed with credentials; use the final address"
    )]
    RedirectRefused { host: String },
    #[error("the credential cannot be used: {detail}")]
    CredentialInvalid { detail: String },
    #[error("{commit:?} is no full commit id of 40 hexadecimal digits")]
    CommitInvalid { commit: String },
    #[error("{commit} names a {kind}, not a commit or tag of one")]
    NotACommit { commit: String, kind: String },
    #[error("{digest:?} is no digest of the form sha256:<64 hexadecimal digits>")]
    DigestInvalid { digest: String },
    #[error("the archive from {host} has digest {actual}, expected {expected}")]
    DigestMismatch {
        host: String,
        expected: String,
        actual: String,
    },
    #[error("the extra CA certificates are no valid PEM: {detail}")]
    CaInvalid { detail: String },
    #[error("the address of the proxy cannot be used")]
    ProxyInvalid,
    #[error("the entry {path:?} is not acceptable: {detail}; remove or rename it in the source")]
    NameForbidden { path: String, detail: String },
    #[error("the symbolic link {path:?} leads out of the tree; make it point inside")]
    SymlinkEscapes { path: String },
    #[error(
        "{path:?} is a submodule; submodules are not supported: copy the files or use an archive"
    )]
    SubmoduleUnsupported { path: String },
    #[error(
        "{path:?} is a Git LFS pointer; LFS is not supported: store the file itself or use an archive"
    )]
    LfsUnsupported { path: String },
    #[error(
        "the archive entry {path:?} is {kind}; only files, directories and symbolic links are supported"
    )]
    EntryUnsupported { path: String, kind: String },
    #[error("the archive is damaged or no tar.gz: {detail}")]
    ArchiveInvalid { detail: String },

    // Limit.
    #[error("more than {limit} files and directories; split the repository or raise the limit")]
    TooManyFiles { limit: u64 },
    #[error("more than {limit} bytes; remove big files or raise the limit")]
    TooManyBytes { limit: u64 },
    #[error("{path:?} is deeper than {limit} directories")]
    TooDeep { path: String, limit: u64 },
    #[error("a name is longer than {limit} bytes: {path:?}")]
    NameTooLong { path: String, limit: u64 },
    #[error(
        "a single object needs more than the memory limit of {limit} bytes; remove big files or raise the limit"
    )]
    MemoryExceeded { limit: u64 },
}

impl FetchError {
    /// The kind of failure.
    pub fn class(&self) -> ErrorClass {
        use FetchError as E;
        match self {
            E::Unreachable { .. }
            | E::ServerError { .. }
            | E::BadAnswer { .. }
            | E::TimedOut { .. }
            | E::WorkerFailed { .. }
            | E::StoreFailed { .. } => ErrorClass::Unavailable,
            E::CredentialsRequired { .. }
            | E::CredentialsRefused { .. }
            | E::HostKeyUnknown { .. }
            | E::HostKeyChanged { .. } => ErrorClass::Denied,
            E::RepositoryNotFound { .. }
            | E::CommitNotFound { .. }
            | E::ArchiveNotFound { .. }
            | E::DirectoryNotFound { .. }
            | E::TreeNotStored { .. } => ErrorClass::NotFound,
            E::UrlInvalid { .. }
            | E::SchemeNotAllowed { .. }
            | E::AddressDenied { .. }
            | E::CredentialsOverPlainHttp { .. }
            | E::RedirectRefused { .. }
            | E::CredentialInvalid { .. }
            | E::CommitInvalid { .. }
            | E::NotACommit { .. }
            | E::DigestInvalid { .. }
            | E::DigestMismatch { .. }
            | E::CaInvalid { .. }
            | E::ProxyInvalid
            | E::NameForbidden { .. }
            | E::SymlinkEscapes { .. }
            | E::SubmoduleUnsupported { .. }
            | E::LfsUnsupported { .. }
            | E::EntryUnsupported { .. }
            | E::ArchiveInvalid { .. } => ErrorClass::Invalid,
            E::TooManyFiles { .. }
            | E::TooManyBytes { .. }
            | E::TooDeep { .. }
            | E::NameTooLong { .. }
            | E::MemoryExceeded { .. } => ErrorClass::Limit,
        }
    }

    /// The stable public name of this failure: the variant's name.
    pub fn reason(&self) -> String {
        match serde_json::to_value(self) {
            Ok(value) => value["reason"].as_str().unwrap_or("Unknown").to_owned(),
            Err(_) => "Unknown".to_owned(),
        }
    }

    /// An error of the store's files.
    pub(crate) fn store(what: &str, err: &std::io::Error) -> Self {
        FetchError::StoreFailed {
            detail: format!("{what}: {err}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reason_is_the_variant_name() {
        let err = FetchError::TooManyFiles { limit: 3 };
        assert_eq!(err.reason(), "TooManyFiles");
        assert_eq!(err.class(), ErrorClass::Limit);
    }
}
