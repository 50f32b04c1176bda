//! The part of a Stack's spec that this provider reads.

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
    pub ssh_auth: Option<Value>,
    pub basic_auth: Option<BasicAuth>,
    pub github_app: Option<Value>,
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
    pub url: &'a str,
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
        check_url(&self.project_repo)?;
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
        Ok(Checked {
            url: &self.project_repo,
            reference,
        })
    }
}

fn check_url(url: &str) -> Result<(), FieldError> {
    match url.split_once("://") {
        Some(("https" | "http" | "file", rest)) if !rest.is_empty() => Ok(()),
        Some(("ssh", _)) => Err(ssh()),
        // The short form of ssh: user@host:path.
        None if url.contains('@') && url.contains(':') => Err(ssh()),
        _ => Err(field(
            "projectRepo",
            &format!(
                "\"projectRepo\" is not an https, http or file URL: {}",
                shown(url)
            ),
        )),
    }
}

fn ssh() -> FieldError {
    field(
        "projectRepo",
        "ssh is not supported: use an https URL with an access token or basicAuth",
    )
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
