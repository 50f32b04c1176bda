//! Addresses of repositories: which are acceptable, and how they are written in texts.

use std::net::IpAddr;
use std::path::{Path, PathBuf};

use url::{Host, Url};

use crate::error::FetchError;
use crate::reach::Reach;

/// A checked address: http, https or an absolute local path, without user part; or ssh, with one.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(crate) struct Address(Url);

/// What addresses are allowed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct AddressRules<'a> {
    pub allow_file: bool,
    pub reach: &'a Reach,
}

/// Parts of an ssh address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SshAddress {
    pub user: String,
    /// In lower case; an IPv6 address in brackets.
    pub host: String,
    pub port: u16,
    /// As the other side is told.
    pub path: String,
}

impl Address {
    /// Checks a text that a user wrote.
    pub fn parse(
        text: &str,
        rules: AddressRules<'_>,
        with_credential: bool,
    ) -> Result<Self, FetchError> {
        let mut url = Url::parse(text).map_err(|err| FetchError::UrlInvalid {
            detail: format!(
                "{err}; it must begin with https:// or ssh:// (git@host:path is ssh://git@host/~/path)"
            ),
        })?;
        match url.scheme() {
            "https" | "http" => {}
            "ssh" => return Self::parse_ssh(url, rules),
            "file" if rules.allow_file => {}
            other => {
                return Err(FetchError::SchemeNotAllowed {
                    scheme: other.to_owned(),
                });
            }
        }
        if url.password().is_some() {
            return Err(FetchError::UrlInvalid {
                detail: "it contains a password; name a secret in the Stack instead".to_owned(),
            });
        }
        // A lone user name, as in https://git@host/..., is a habit from ssh and says nothing.
        if url.set_username("").is_err() && !url.username().is_empty() {
            return Err(FetchError::UrlInvalid {
                detail: "it has a user part".to_owned(),
            });
        }
        url.set_fragment(None);
        let address = Address(url);
        if address.0.scheme() == "file" {
            address.local_path()?;
            return Ok(address);
        }
        let host = address.host();
        if host.is_empty() {
            return Err(FetchError::UrlInvalid {
                detail: "it names no host".to_owned(),
            });
        }
        let literal = match address.0.host() {
            Some(Host::Ipv4(ip)) => Some(IpAddr::V4(ip)),
            Some(Host::Ipv6(ip)) => Some(IpAddr::V6(ip)),
            Some(Host::Domain(_)) | None => None,
        };
        if let Some(ip) = literal {
            rules
                .reach
                .check(ip)
                .map_err(|detail| FetchError::AddressDenied {
                    host: host.clone(),
                    detail,
                })?;
        }
        if with_credential && address.0.scheme() == "http" {
            let loopback = literal.is_some_and(|ip| ip.is_loopback()) || host == "localhost";
            if !(loopback && rules.reach.loopback) {
                return Err(FetchError::CredentialsOverPlainHttp { host });
            }
        }
        Ok(address)
    }

    /// The parser takes the parts of an ssh: address as they are written, so all of them are looked at here.
    fn parse_ssh(mut url: Url, rules: AddressRules<'_>) -> Result<Self, FetchError> {
        let invalid = |detail: &str| FetchError::UrlInvalid {
            detail: detail.to_owned(),
        };
        if url.password().is_some() {
            return Err(invalid(
                "it contains a password; name a secret with a key in the Stack instead",
            ));
        }
        url.set_fragment(None);
        if url.query().is_some() {
            return Err(invalid("it has a query part"));
        }
        let host = url.host_str().unwrap_or_default().to_ascii_lowercase();
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || b".-_[:]".contains(&byte);
        if host.is_empty() || host.starts_with('-') || !host.bytes().all(plain) {
            return Err(invalid("it names no host"));
        }
        url.set_host(Some(&host))
            .map_err(|_| invalid("it names no host"))?;
        if url.username().is_empty() {
            // As Git servers have it, and PKO.
            url.set_username("git").ok();
        }
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || b".-_".contains(&byte);
        if url.username().starts_with('-') || !url.username().bytes().all(plain) {
            return Err(invalid(
                "its user name has other than letters, digits, . - and _",
            ));
        }
        if url.port() == Some(22) {
            url.set_port(None).ok();
        }
        let address = Address(url);
        let Some(SshAddress { path, .. }) = address.ssh() else {
            return Err(invalid("its path is no text"));
        };
        if path.is_empty()
            || path == "/"
            || path.starts_with('-')
            || path.contains(char::is_control)
        {
            return Err(invalid("it names no repository"));
        }
        let bare = host.trim_start_matches('[').trim_end_matches(']');
        if let Ok(ip) = bare.parse::<IpAddr>() {
            rules
                .reach
                .check(ip)
                .map_err(|detail| FetchError::AddressDenied { host, detail })?;
        }
        Ok(address)
    }

    /// Account, host and path of an ssh address.
    pub fn ssh(&self) -> Option<SshAddress> {
        if self.0.scheme() != "ssh" {
            return None;
        }
        let path = percent_encoding::percent_decode_str(self.0.path())
            .decode_utf8()
            .ok()?;
        // As Git has it: /~/x lies in the user's home, where a relative path begins; /~you/x in yours.
        let path = match path.strip_prefix("/~/") {
            Some(relative) => relative,
            None if path.starts_with("/~") => &path[1..],
            None => &path,
        };
        Some(SshAddress {
            user: self.0.username().to_owned(),
            host: self.0.host_str()?.to_owned(),
            port: self.0.port().unwrap_or(22),
            path: path.to_owned(),
        })
    }

    /// The whole address; it holds no secret.
    pub fn as_str(&self) -> &str {
        self.0.as_str()
    }

    /// The host, for texts; `this machine` for local paths.
    pub fn host(&self) -> String {
        match self.0.scheme() {
            "file" => "this machine".to_owned(),
            _ => self.0.host_str().unwrap_or_default().to_owned(),
        }
    }

    /// Whether it is a local path.
    pub fn is_file(&self) -> bool {
        self.0.scheme() == "file"
    }

    /// The path of a `file:` address.
    pub fn local_path(&self) -> Result<PathBuf, FetchError> {
        self.0
            .to_file_path()
            .ok()
            .filter(|path| path.is_absolute() && path != Path::new("/"))
            .ok_or_else(|| FetchError::UrlInvalid {
                detail: "a file: address is file:///absolute/path".to_owned(),
            })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    const CLOSED: AddressRules<'static> = AddressRules {
        allow_file: false,
        reach: &Reach {
            loopback: false,
            denied: Vec::new(),
        },
    };
    const OPEN: AddressRules<'static> = AddressRules {
        allow_file: true,
        reach: &Reach {
            loopback: true,
            denied: Vec::new(),
        },
    };

    #[test]
    fn reasons_by_address() {
        for (text, rules, credential, reason) in [
            ("file:///srv/repo", CLOSED, false, "SchemeNotAllowed"),
            ("ssh://git@127.0.0.1/x", CLOSED, true, "AddressDenied"),
            ("ssh://git@[::1]/x", CLOSED, true, "AddressDenied"),
            ("ssh://git@169.254.169.254/x", OPEN, true, "AddressDenied"),
            ("ssh://git:hunter2@example.com/x", OPEN, true, "UrlInvalid"),
            ("ssh://-oProxyCommand=id/x", OPEN, true, "UrlInvalid"),
            (
                "ssh://-oProxyCommand=id@example.com/x",
                OPEN,
                true,
                "UrlInvalid",
            ),
            ("ssh://a%20b/x", OPEN, true, "UrlInvalid"),
            ("ssh://git@example.com/", OPEN, true, "UrlInvalid"),
            ("ssh://git@example.com/~/", OPEN, true, "UrlInvalid"),
            ("ssh://git@example.com/~/-x", OPEN, true, "UrlInvalid"),
            ("ssh://git@example.com/a%0Ab", OPEN, true, "UrlInvalid"),
            ("ssh://git@example.com/x?y", OPEN, true, "UrlInvalid"),
            ("ext::sh -c id", OPEN, false, "SchemeNotAllowed"),
            ("git@example.com:x/y.git", OPEN, false, "UrlInvalid"),
            ("https://u:hunter2@example.com/x", OPEN, false, "UrlInvalid"),
            (
                "http://example.com/x",
                OPEN,
                true,
                "CredentialsOverPlainHttp",
            ),
            ("http://127.0.0.1/x", CLOSED, false, "AddressDenied"),
            ("http://[::1]/x", CLOSED, false, "AddressDenied"),
            (
                "http://[::ffff:127.0.0.1]/x",
                CLOSED,
                false,
                "AddressDenied",
            ),
            ("http://2130706433/x", CLOSED, false, "AddressDenied"),
            (
                "http://169.254.169.254/latest",
                OPEN,
                false,
                "AddressDenied",
            ),
        ] {
            let err = Address::parse(text, rules, credential).err().unwrap();
            assert_eq!(err.reason(), reason, "{text}");
            assert!(!err.to_string().contains("hunter2"));
        }
    }

    #[test]
    fn parts_of_ssh_addresses() {
        for (text, user, host, port, path) in [
            (
                "ssh://git@Example.com/x.git",
                "git",
                "example.com",
                22,
                "/x.git",
            ),
            ("ssh://example.com:22/x", "git", "example.com", 22, "/x"),
            (
                "ssh://me@example.com:2222/~/a%20b",
                "me",
                "example.com",
                2222,
                "a b",
            ),
            (
                "ssh://me@example.com/~you/x",
                "me",
                "example.com",
                22,
                "~you/x",
            ),
            ("ssh://git@[fd00::1]/x", "git", "[fd00::1]", 22, "/x"),
        ] {
            let address = Address::parse(text, CLOSED, true).unwrap();
            let expected = SshAddress {
                user: user.into(),
                host: host.into(),
                port,
                path: path.into(),
            };
            assert_eq!(address.ssh(), Some(expected), "{text}");
        }
        let same = |text| Address::parse(text, CLOSED, true).unwrap();
        assert!(same("ssh://example.com:22/x") == same("ssh://git@EXAMPLE.com/x#y"));
    }

    #[test]
    fn user_names_are_dropped() {
        let address = Address::parse("https://git@example.com/x.git", CLOSED, true).unwrap();
        assert_eq!(address.as_str(), "https://example.com/x.git");
        assert!(Address::parse("http://127.0.0.1:80/x", OPEN, true).is_ok());
    }
}
