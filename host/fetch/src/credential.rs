//! Credentials for repositories and archives.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::error::FetchError;

/// What proves to a server that we may read. Serialised only on the pipe to the
/// child process; `Debug` shows the kind alone.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Credential {
    /// User name and password, or user name and access token.
    Basic { user: String, pass: String },
    /// A bearer token.
    Bearer { token: String },
    /// One header as the server wants it.
    Header { name: String, value: String },
    /// A private key, for ssh addresses only.
    SshKey {
        /// In OpenSSH's or PEM form.
        private_key: String,
        passphrase: Option<String>,
        /// Lines of a known_hosts file that hold beside the administrator's.
        known_hosts: Option<String>,
    },
}

impl std::fmt::Debug for Credential {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let kind = match self {
            Credential::Basic { .. } => "Basic",
            Credential::Bearer { .. } => "Bearer",
            Credential::Header { .. } => "Header",
            Credential::SshKey { .. } => "SshKey",
        };
        write!(f, "Credential::{kind}(redacted)")
    }
}

impl Credential {
    /// The request header that carries this credential: name and value.
    ///
    /// # Errors
    /// `CredentialInvalid` when it contains characters that no header may carry.
    pub fn header(&self) -> Result<(String, String), FetchError> {
        let (name, value) = match self {
            Credential::Basic { user, pass } => {
                if user.contains(':') {
                    return Err(invalid("a user name must not contain a colon"));
                }
                (
                    "authorization".to_owned(),
                    format!("Basic {}", STANDARD.encode(format!("{user}:{pass}"))),
                )
            }
            Credential::Bearer { token } => (
                "authorization".to_owned(),
                format!("Bearer {}", token.trim_end()),
            ),
            Credential::Header { name, value } => (name.to_ascii_lowercase(), value.clone()),
            Credential::SshKey { .. } => {
                return Err(invalid("an ssh key opens ssh addresses only"));
            }
        };
        let name_ok = !name.is_empty()
            && name
                .bytes()
                .all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_');
        if !name_ok {
            return Err(invalid(
                "a header name consists of letters, digits, - and _",
            ));
        }
        if value.bytes().any(|b| b < 0x20 || b == 0x7f) {
            return Err(invalid(
                "it contains a line break or another control character",
            ));
        }
        Ok((name, value))
    }

    /// Whether it can open addresses of this kind, and is well formed as far as can be said here.
    ///
    /// # Errors
    /// `CredentialInvalid`.
    pub(crate) fn check(&self, ssh: bool) -> Result<(), FetchError> {
        match (ssh, self) {
            (true, Credential::SshKey { .. }) => Ok(()),
            (true, _) => Err(invalid("ssh addresses are opened by an ssh key only")),
            (false, _) => self.header().map(|_| ()),
        }
    }

    /// Distinguishes credentials without revealing them: a hash with a key that
    /// lives as long as this process.
    pub(crate) fn fingerprint(credential: Option<&Credential>, key: &[u8; 32]) -> Fingerprint {
        let Some(credential) = credential else {
            return Fingerprint([0; 32]);
        };
        let mut hash = Sha256::new();
        hash.update(key);
        let parts: [&str; 4] = match credential {
            Credential::Basic { user, pass } => ["basic", user, pass, ""],
            Credential::Bearer { token } => ["bearer", token, "", ""],
            Credential::Header { name, value } => ["header", name, value, ""],
            Credential::SshKey {
                private_key,
                passphrase,
                known_hosts,
            } => [
                "ssh",
                private_key,
                passphrase.as_deref().unwrap_or_default(),
                known_hosts.as_deref().unwrap_or_default(),
            ],
        };
        for part in parts {
            hash.update((part.len() as u64).to_le_bytes());
            hash.update(part.as_bytes());
        }
        Fingerprint(hash.finalize().into())
    }
}

fn invalid(detail: &str) -> FetchError {
    FetchError::CredentialInvalid {
        detail: detail.to_owned(),
    }
}

/// Equal for equal credentials, within this process only.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Fingerprint([u8; 32]);

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn debug_shows_no_secret() {
        let text = format!(
            "{:?}",
            Credential::Basic {
                user: "u".into(),
                pass: "hunter2".into()
            }
        );
        assert!(!text.contains("hunter2"));
    }

    #[test]
    fn line_breaks_cannot_smuggle_headers() {
        let bad = Credential::Header {
            name: "x".into(),
            value: "a\r\nhost: b".into(),
        };
        assert!(bad.header().is_err());
        let good = Credential::Bearer {
            token: "t\n".into(),
        };
        assert_eq!(good.header().unwrap().1, "Bearer t");
    }

    #[test]
    fn fingerprints_tell_parts_apart() {
        let key = [7; 32];
        let one = Credential::Basic {
            user: "ab".into(),
            pass: "c".into(),
        };
        let two = Credential::Basic {
            user: "a".into(),
            pass: "bc".into(),
        };
        assert!(
            Credential::fingerprint(Some(&one), &key) != Credential::fingerprint(Some(&two), &key)
        );
    }
}
