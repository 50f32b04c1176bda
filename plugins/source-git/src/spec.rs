//! The part of a Stack's spec that this provider reads.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::Value;
use windlass_sdk::FieldError;

/// Git fields of a Stack's spec, as the user wrote them.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Spec {
    pub project_repo: String,
    pub repo_dir: String,
    pub commit: String,
    pub branch: String,
    pub shallow: bool,
    pub git_auth_secret: String,
    pub git_auth: Option<GitAuth>,
    pub resync_frequency_seconds: Option<i64>,
}

/// `spec.gitAuth`. The bodies of the references are the host's business.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct GitAuth {
    pub access_token: Option<Value>,
    pub ssh_auth: Option<SshAuth>,
    pub basic_auth: Option<BasicAuth>,
    pub github_app: Option<GithubApp>,
}

/// `spec.gitAuth.sshAuth`.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SshAuth {
    pub ssh_private_key: Option<Value>,
    /// Of the key.
    pub password: Option<Value>,
}

/// `spec.gitAuth.githubApp`.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct GithubApp {
    #[serde(rename = "appID")]
    pub app_id: Option<Value>,
    #[serde(rename = "installationID")]
    pub installation_id: Option<Value>,
    pub private_key: Option<Value>,
}

/// `spec.gitAuth.basicAuth`.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct BasicAuth {
    pub user_name: Option<Value>,
    pub password: Option<Value>,
}

/// What a spec asks for, checked.
pub struct Checked<'a> {
    /// As a URL, whatever form it was written in.
    pub url: Cow<'a, str>,
    pub reference: Reference<'a>,
}

/// Which commit is meant.
pub enum Reference<'a> {
    Hash(&'a str),
    Branch(&'a str),
    Commit(&'a str),
}

impl Spec {
    /// # Errors
    /// A field of the wrong type.
    pub fn parse(spec: &Value) -> Result<Self, FieldError> {
        Self::deserialize(spec).map_err(|error| FieldError {
            field: String::new(),
            message: error.to_string(),
        })
    }

    /// # Errors
    /// No repository, or not exactly one of branch and commit, in PKO's words.
    pub fn check(&self) -> Result<Checked<'_>, FieldError> {
        if self.project_repo.is_empty() {
            return Err(field("projectRepo", "missing \"projectRepo\""));
        }
        let url = url(&self.project_repo)?;
        let reference = match (self.commit.as_str(), self.branch.as_str()) {
            ("", "") => return Err(field("branch", "missing \"commit\" or \"branch\"")),
            ("", branch) if is_hash(branch) => Reference::Hash(branch),
            ("", branch) => Reference::Branch(branch),
            (commit, "") if is_hash(commit) => Reference::Hash(commit),
            (commit, "") => Reference::Commit(commit),
            _ => {
                return Err(field(
                    "branch",
                    "only one of \"commit\" or \"branch\" should be specified",
                ));
            }
        };
        Ok(Checked { url, reference })
    }
}

fn url(text: &str) -> Result<Cow<'_, str>, FieldError> {
    match text.split_once("://") {
        Some(("https" | "http" | "file" | "ssh", rest)) if !rest.is_empty() => Ok(text.into()),
        None => short_ssh(text).map(Cow::Owned).ok_or_else(|| no_url(text)),
        _ => Err(no_url(text)),
    }
}

fn no_url(text: &str) -> FieldError {
    field(
        "projectRepo",
        &format!(
            "\"projectRepo\" is not an https, http, ssh or file URL: {}",
            shown(text)
        ),
    )
}

/// Whether a repository is reached over ssh.
pub fn is_ssh(repository: &str) -> bool {
    repository.starts_with("ssh://")
        || (!repository.contains("://") && short_ssh(repository).is_some())
}

/// The URL of ssh's short form, `user@host:path`. A path that does not begin with a slash counts from the user's home,
/// which a URL writes as `/~/`.
fn short_ssh(text: &str) -> Option<String> {
    let (account, rest) = text.rsplit_once('@').unwrap_or(("", text));
    // An IPv6 address has colons of its own.
    let end = rest.starts_with('[').then(|| rest.find(']')).flatten();
    let colon = end.unwrap_or(0) + rest[end.unwrap_or(0)..].find(':')?;
    let (host, path) = (&rest[..colon], &rest[colon + 1..]);
    if host.is_empty() || host.contains('/') || account.contains(['/', ':']) || path.is_empty() {
        return None;
    }
    let path = path
        .replace('%', "%25")
        .replace('?', "%3F")
        .replace('#', "%23")
        .replace(' ', "%20");
    let at = if account.is_empty() { "" } else { "@" };
    let root = if path.starts_with('/') { "" } else { "/~/" };
    let path = path.strip_prefix("~/").unwrap_or(&path);
    Some(format!("ssh://{account}{at}{host}{root}{path}"))
}

/// A URL without what may be a password in it.
fn shown(url: &str) -> &str {
    url.rsplit_once('@').map_or(url, |(_, rest)| rest)
}

fn is_hash(text: &str) -> bool {
    matches!(text.len(), 40 | 64) && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// An error about one field.
pub fn field(field: &str, message: &str) -> FieldError {
    FieldError {
        field: field.into(),
        message: message.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::{is_ssh, short_ssh};

    #[test]
    fn the_short_form_of_ssh() {
        for (text, expected) in [
            (
                "git@host.test:org/a.git",
                Some("ssh://git@host.test/~/org/a.git"),
            ),
            (
                "git@host.test:/srv/a.git",
                Some("ssh://git@host.test/srv/a.git"),
            ),
            ("git@host.test:~/a", Some("ssh://git@host.test/~/a")),
            ("host.test:a b%?#", Some("ssh://host.test/~/a%20b%25%3F%23")),
            ("git@[fd00::1]:a", Some("ssh://git@[fd00::1]/~/a")),
            ("git@host.test", None),
            ("git@host.test:", None),
            ("/srv/a:b", None),
            ("./a:b", None),
            ("me:pw@host.test:a", None),
        ] {
            assert_eq!(short_ssh(text).as_deref(), expected, "{text}");
            assert_eq!(is_ssh(text), expected.is_some(), "{text}");
        }
        assert!(is_ssh("ssh://host/a") && !is_ssh("https://git@host/a:b"));
    }
}
