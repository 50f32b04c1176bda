//! The Git source provider: which commit a Stack's `projectRepo` stands for.

mod auth;
mod github_app;
mod spec;

use serde_json::Value;
use windlass_sdk::{
    Artifact, Descriptor, ErrorClass, FieldError, GitRef, Host, ObjectRef, Plugin, PluginError,
    Resolution, SourceProvider, SourceRequest, Wants,
};

use auth::Opening;
use spec::{Checked, Reference, Spec};

/// The plugin.
pub struct Git;

/// A branch is asked about no more often than this.
const MIN_POLL_SECONDS: i64 = 60;

impl Plugin for Git {
    fn describe() -> Descriptor {
        Descriptor {
            name: "source-git".into(),
            version: env!("CARGO_PKG_VERSION").into(),
            summary: "Programs from Git repositories, by branch, tag or commit".into(),
            sources: vec!["git".into()],
            wants: Wants {
                interfaces: ["git", "secrets", "http", "cache"].map(Into::into).to_vec(),
                any_host: true,
                file_urls: true,
                ..Wants::default()
            },
            ..Descriptor::default()
        }
    }
}

impl SourceProvider for Git {
    fn validate(_: &(impl Host + ?Sized), spec: &Value) -> Vec<FieldError> {
        match Spec::parse(spec) {
            Ok(spec) => spec
                .check()
                .err()
                .into_iter()
                .chain(auth::check(&spec).err())
                .collect(),
            Err(error) => vec![error],
        }
    }

    fn watches(_: &(impl Host + ?Sized), spec: &Value) -> Vec<ObjectRef> {
        Spec::parse(spec)
            .map(|spec| auth::secrets(&spec))
            .unwrap_or_default()
    }

    fn resolve(
        host: &(impl Host + ?Sized),
        request: &SourceRequest,
    ) -> Result<Resolution, PluginError> {
        resolve(host, request)
    }
}

/// Names the commit. A full hash is taken as it is; anything else is looked up among branches, then tags.
///
/// # Errors
/// `invalid` `SpecInvalid` for a spec that cannot be meant, `unavailable` `SourceUnavailable` for a reference that the
/// repository does not have, and whatever the host's answers are.
pub fn resolve(
    host: &(impl Host + ?Sized),
    request: &SourceRequest,
) -> Result<Resolution, PluginError> {
    let spec = Spec::parse(&request.spec).map_err(spec_invalid)?;
    let Checked { url, reference } = spec.check().map_err(spec_invalid)?;
    auth::check(&spec).map_err(spec_invalid)?;
    let mut opening = auth::open(host, &spec, &url, request.now_ms)?;
    let (commit, polled) = match reference {
        Reference::Hash(hash) => (hash.to_owned(), false),
        Reference::Branch(name) => {
            let commit = look_up(host, &url, name, &mut opening, request.now_ms)?;
            (commit, true)
        }
        // A commit that is no full hash names a reference, but is not followed.
        Reference::Commit(name) => {
            let commit = look_up(host, &url, name, &mut opening, request.now_ms)?;
            (commit, false)
        }
    };
    let interval = spec
        .resync_frequency_seconds
        .unwrap_or(0)
        .max(MIN_POLL_SECONDS);
    Ok(Resolution {
        revision: commit.clone(),
        artifact: Artifact::GitTree {
            url: url.into_owned(),
            commit,
            auth: opening.credential().cloned(),
            depth: spec.shallow.then_some(1),
        },
        dir: spec.repo_dir.clone(),
        poll_after_ms: polled.then_some(
            u64::try_from(interval)
                .unwrap_or_default()
                .saturating_mul(1000),
        ),
    })
}

fn look_up(
    host: &(impl Host + ?Sized),
    url: &str,
    name: &str,
    opening: &mut Opening,
    now_ms: u64,
) -> Result<String, PluginError> {
    let full = if name.starts_with("refs/") {
        vec![name.to_owned()]
    } else {
        vec![format!("refs/heads/{name}"), format!("refs/tags/{name}")]
    };
    let prefixes: Vec<&str> = full.iter().map(String::as_str).collect();
    let refs = match host.git_refs(url, &prefixes, opening.credential()) {
        // A kept token may have been revoked meanwhile.
        Err(error) if is_denial(&error) => match std::mem::replace(opening, Opening::Anonymous) {
            Opening::GithubApp(token) if token.cached => {
                *opening = Opening::GithubApp(token.renewed(host, now_ms)?);
                host.git_refs(url, &prefixes, opening.credential())?
            }
            _ => return Err(error),
        },
        answer => answer?,
    };
    // The answer is by prefix: `main` brings `main-old` along.
    full.iter()
        .find_map(|wanted| refs.iter().find(|found| found.name == *wanted))
        .map(commit_of)
        .ok_or_else(|| {
            PluginError::unavailable(
                "SourceUnavailable",
                format!("no reference {name:?} in {url}"),
            )
        })
}

fn is_denial(error: &PluginError) -> bool {
    matches!(error, PluginError::Fault(fault) if fault.class == ErrorClass::Denied)
}

fn commit_of(found: &GitRef) -> String {
    found.peeled.clone().unwrap_or_else(|| found.oid.clone())
}

fn spec_invalid(error: FieldError) -> PluginError {
    PluginError::invalid("SpecInvalid", error.message)
}

windlass_sdk::export_plugin!(Git: source);

#[cfg(test)]
mod tests;
