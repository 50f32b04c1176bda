//! Who speaks on the connection between the operator and a workspace's agent.
//!
//! Each side's certificate carries one URI as its only name. There are no host names in it: addresses of pods come and
//! go, and an address says nothing about whose pod answers there.

use std::fmt;
use std::str::FromStr;

/// The operator's name. Agents listen to nobody else.
pub const OPERATOR: &str = "windlass://operator";

const WORKSPACE: &str = "windlass://workspace/";

/// The name of one incarnation of a workspace: `windlass://workspace/NAMESPACE/UID/INCARNATION`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct WorkspaceIdentity {
    namespace: String,
    uid: String,
    incarnation: String,
}

/// What cannot be part of a name, or is none.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum IdentityError {
    #[error(
        "{0:?} cannot be part of a workspace's identity: 1 to 253 letters, digits, '-', '_' or '.' only, not beginning with '.'"
    )]
    PartInvalid(String),
    #[error("{0:?} is no workspace's identity: windlass://workspace/NAMESPACE/UID/INCARNATION")]
    NotAWorkspace(String),
}

fn part(text: impl Into<String>) -> Result<String, IdentityError> {
    let text = text.into();
    let fine = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    if text.is_empty() || text.len() > 253 || text.starts_with('.') || !text.chars().all(fine) {
        return Err(IdentityError::PartInvalid(text.chars().take(260).collect()));
    }
    Ok(text)
}

impl WorkspaceIdentity {
    /// `uid` is the Workspace object's; `incarnation` tells one pod of the workspace from the next.
    pub fn new(
        namespace: impl Into<String>,
        uid: impl Into<String>,
        incarnation: impl Into<String>,
    ) -> Result<WorkspaceIdentity, IdentityError> {
        Ok(WorkspaceIdentity {
            namespace: part(namespace)?,
            uid: part(uid)?,
            incarnation: part(incarnation)?,
        })
    }

    pub fn namespace(&self) -> &str {
        &self.namespace
    }

    pub fn uid(&self) -> &str {
        &self.uid
    }

    pub fn incarnation(&self) -> &str {
        &self.incarnation
    }
}

impl fmt::Display for WorkspaceIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let WorkspaceIdentity {
            namespace,
            uid,
            incarnation,
        } = self;
        write!(f, "{WORKSPACE}{namespace}/{uid}/{incarnation}")
    }
}

impl FromStr for WorkspaceIdentity {
    type Err = IdentityError;

    fn from_str(text: &str) -> Result<WorkspaceIdentity, IdentityError> {
        let other = || IdentityError::NotAWorkspace(text.chars().take(260).collect());
        let rest = text.strip_prefix(WORKSPACE).ok_or_else(other)?;
        let mut parts = rest.split('/');
        match (parts.next(), parts.next(), parts.next(), parts.next()) {
            (Some(namespace), Some(uid), Some(incarnation), None) => {
                WorkspaceIdentity::new(namespace, uid, incarnation)
            }
            _ => Err(other()),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn names_go_both_ways() {
        let identity = WorkspaceIdentity::new("team-a", "7c9e-01", "x1").unwrap();
        let text = identity.to_string();
        assert_eq!(text, "windlass://workspace/team-a/7c9e-01/x1");
        assert_eq!(text.parse::<WorkspaceIdentity>().unwrap(), identity);
    }

    #[test]
    fn no_part_can_pass_for_two() {
        for bad in ["", "a/b", "..", "a b", "a%2fb", "ü"] {
            assert!(WorkspaceIdentity::new(bad, "u", "i").is_err(), "{bad}");
            assert!(WorkspaceIdentity::new("n", "u", bad).is_err(), "{bad}");
        }
        for bad in [
            OPERATOR,
            "windlass://workspace/n/u",
            "windlass://workspace/n/u/i/more",
            "windlass://workspace//u/i",
            "https://workspace/n/u/i",
        ] {
            assert!(bad.parse::<WorkspaceIdentity>().is_err(), "{bad}");
        }
    }
}
