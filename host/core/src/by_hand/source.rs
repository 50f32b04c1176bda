//! The program of a Workspace that was made by hand.

use k8s_openapi::api::core::v1::SecretKeySelector;
use serde_json::json;
use windlass_api::reference::{
    BasicAuth, GitAuth, GitHubApp, ResourceRef, SecretSelector, SshAuth,
};
use windlass_api::run::ProgramSource;
use windlass_api::stack::StackSpec;
use windlass_api::workspace::{FluxArtifact, GitSource, GitSourceAuth, LocalSource};
use windlass_api::{Stack, Workspace};

use crate::decide::Live;
use crate::decision::TaskKind;
use crate::digest::digest;
use crate::obs::Answer;
use crate::snapshot::Resolution;

/// Variable by which a Workspace names its backend.
const BACKEND_URL: &str = "PULUMI_BACKEND_URL";

pub(super) enum Source {
    At {
        program: ProgramSource,
        revision: String,
    },
    OnItsWay,
}

/// A Stack in whose words the Workspace states the same, so that it is resolved, fetched and judged alike.
pub(super) fn as_stack(workspace: &Workspace, named: Option<String>) -> Stack {
    let backend = workspace
        .spec
        .env
        .iter()
        .find(|variable| variable.name == BACKEND_URL)
        .and_then(|variable| variable.value.clone());
    let mut spec = StackSpec {
        stack: named.unwrap_or_default(),
        backend,
        ..StackSpec::default()
    };
    if let Some(GitSource {
        url,
        ref_,
        dir,
        shallow: _,
        auth,
    }) = workspace.spec.git.clone()
    {
        spec.project_repo = url;
        spec.repo_dir = dir;
        spec.git_auth = auth.and_then(credentials);
        let reference = ref_.unwrap_or_default();
        let is_commit = reference.len() == 40 && reference.bytes().all(|b| b.is_ascii_hexdigit());
        if is_commit {
            spec.commit = Some(reference);
        } else if !reference.is_empty() {
            spec.branch = Some(reference);
        }
    }
    let mut stack = Stack::new("", spec);
    stack.metadata = super::metadata_of(workspace);
    stack
}

fn credentials(auth: GitSourceAuth) -> Option<GitAuth> {
    let GitSourceAuth {
        ssh_private_key,
        username,
        password,
        token,
        github_app,
    } = auth;
    if let Some(key) = ssh_private_key {
        let ssh_auth = SshAuth {
            ssh_private_key: reference(key),
            password: password.map(reference),
        };
        return Some(GitAuth {
            ssh_auth: Some(ssh_auth),
            ..GitAuth::default()
        });
    }
    if let Some(token) = token {
        return Some(GitAuth {
            access_token: Some(reference(token)),
            ..GitAuth::default()
        });
    }
    if let (Some(user), Some(password)) = (username, password) {
        let basic_auth = BasicAuth {
            user_name: reference(user),
            password: reference(password),
        };
        return Some(GitAuth {
            basic_auth: Some(basic_auth),
            ..GitAuth::default()
        });
    }
    let app = github_app?;
    Some(GitAuth {
        github_app: Some(GitHubApp {
            app_id: reference(app.app_id?),
            installation_id: reference(app.installation_id?),
            private_key: reference(app.private_key?),
        }),
        ..GitAuth::default()
    })
}

fn reference(selector: SecretKeySelector) -> ResourceRef {
    ResourceRef {
        type_: "Secret".to_owned(),
        secret: Some(SecretSelector {
            name: selector.name,
            key: selector.key,
            ..SecretSelector::default()
        }),
        ..ResourceRef::default()
    }
}

/// Where the program is, once it is anywhere.
///
/// # Errors
/// What is wrong, for the Update's condition. It is tried again.
pub(super) fn find(live: &mut Live<'_>, workspace: &Workspace) -> Result<Source, String> {
    let spec = &workspace.spec;
    if let Some(FluxArtifact { url, digest, dir }) = &spec.flux {
        let (Some(url), Some(digest)) = (url, digest) else {
            return Err("spec.flux needs url and digest".to_owned());
        };
        return fetch(
            live,
            Resolution {
                revision: digest.clone(),
                dir: dir.clone().unwrap_or_default(),
                poll_after_ms: None,
                workspace_path: false,
                artifact: json!({"type": "archive", "url": url, "digest": digest}),
            },
        );
    }
    if spec.git.is_some() {
        return resolve(live);
    }
    if let Some(LocalSource { dir }) = &spec.local {
        let dir = dir.clone().unwrap_or_default();
        return Ok(Source::At {
            program: ProgramSource::WorkspacePath { dir },
            revision: String::new(),
        });
    }
    let program = match spec.project_info.clone() {
        Some(info) => ProgramSource::ProjectOnly {
            name: info.name,
            runtime: info.runtime,
        },
        None => ProgramSource::WorkspacePath { dir: String::new() },
    };
    Ok(Source::At {
        program,
        revision: String::new(),
    })
}

fn resolve(live: &mut Live<'_>) -> Result<Source, String> {
    let question = digest(&("by-hand", &live.stack.metadata, &live.stack.spec));
    match live.s.seen.source.answer(&question) {
        Answer::Is(known) => {
            let resolution = known.value.clone();
            fetch(live, resolution)
        }
        Answer::Ask | Answer::Waiting(_) => {
            live.draft
                .task(question, TaskKind::Resolve { fresh: false });
            Ok(Source::OnItsWay)
        }
        Answer::Failed {
            failure, retry_at, ..
        } => {
            let message = failure.message.clone();
            live.draft
                .retry(retry_at, question, TaskKind::Resolve { fresh: false });
            Err(format!("the source: {message}"))
        }
    }
}

fn fetch(live: &mut Live<'_>, resolution: Resolution) -> Result<Source, String> {
    let question = digest(&("by-hand", &resolution));
    let revision = resolution.revision.clone();
    let task = TaskKind::Fetch { resolution };
    match live.s.seen.tree.answer(&question) {
        Answer::Is(known) => Ok(Source::At {
            program: known.value.program.clone(),
            revision,
        }),
        Answer::Ask | Answer::Waiting(_) => {
            live.draft.task(question, task);
            Ok(Source::OnItsWay)
        }
        Answer::Failed {
            failure, retry_at, ..
        } => {
            let message = failure.message.clone();
            live.draft.retry(retry_at, question, task);
            Err(format!("the source: {message}"))
        }
    }
}
