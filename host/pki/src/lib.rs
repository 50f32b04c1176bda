//! The certificates between the operator and its workspaces.
//!
//! Two authorities, so that neither side's certificate is worth anything on the other side: [`Authority`] of the
//! operator's client certificates, and of the workspaces' server certificates. Both live in Secrets of the operator's
//! own namespace; this crate makes their content and says when it is to be made anew. It reads no clock and talks to no
//! cluster.
//!
//! A [`Leaf`] is what one side needs: its own certificate and key, and the authorities that it believes of the other.

mod authority;
mod leaf;
mod material;

pub use authority::{AUTHORITY_DAYS, Authority, Kind, PREPARE_DAYS, SPREAD_DAYS};
pub use leaf::{Leaf, OPERATOR_DAYS, Renewal, WORKSPACE_DAYS};

use std::collections::BTreeMap;

/// Content of a Secret.
pub type SecretData = BTreeMap<String, Vec<u8>>;

/// What is wrong with a stored certificate, or why none can be made.
#[derive(Debug, thiserror::Error)]
pub enum PkiError {
    /// The Secret was made or changed by somebody else.
    #[error("the Secret lacks {key:?}: delete it, and it is made anew")]
    KeyMissing { key: &'static str },
    #[error(
        "{key:?} of the Secret cannot be read: {message}. Delete the Secret, and it is made anew"
    )]
    Unreadable { key: &'static str, message: String },
    #[error(
        "the private key does not belong to the certificate in {key:?}: delete the Secret, and it is made anew"
    )]
    KeyMismatch { key: &'static str },
    #[error(
        "the certificate in {key:?} is no authority for {wanted}: delete the Secret, and it is made anew"
    )]
    WrongAuthority { key: &'static str, wanted: Kind },
    #[error("a point in time beyond what certificates can state: {0}")]
    TimeOutOfRange(jiff::Timestamp),
    #[error("the authority's certificate ends at {0}: renew it first")]
    AuthorityExpired(jiff::Timestamp),
    #[error("the certificate cannot be made: {0}")]
    NotMade(#[from] rcgen::Error),
}
