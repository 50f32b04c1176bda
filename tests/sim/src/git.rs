//! The Git server: one branch per repository, whose head moves. What it stands for is answered by the real provider.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use windlass_api::run::{ProgramSource, ProjectInfo};
use windlass_core::failure::{Failure, FailureClass};
use windlass_core::snapshot::{Resolution, Tree};
use windlass_sdk::native::evaluate;
use windlass_sdk::{Answer, ErrorClass, Fault, GitRef, Question, SourceRequest};

/// All repositories.
#[derive(Clone, Debug, Default)]
pub struct Git {
    heads: BTreeMap<String, u64>,
    bad: BTreeMap<String, bool>,
    pub down: bool,
}

impl Git {
    pub fn url(repository: usize) -> String {
        format!("https://git.example/team/repo-{repository}.git")
    }

    pub fn push(&mut self, url: &str, bad: bool) {
        *self.heads.entry(url.to_owned()).or_insert(0) += 1;
        self.bad.insert(self.head(url), bad);
    }

    /// The commit at the head of the branch.
    pub fn head(&self, url: &str) -> String {
        commit(url, self.heads.get(url).copied().unwrap_or(0))
    }

    /// Whether the program of this commit fails.
    pub fn is_bad(&self, commit: &str) -> bool {
        self.bad.get(commit).copied().unwrap_or(false)
    }

    /// What the real provider says about this Stack's source.
    ///
    /// # Errors
    /// As the provider; `unavailable` while the server is down.
    pub fn resolve(&self, spec: &Value) -> Result<Resolution, Failure> {
        let request = SourceRequest {
            metadata: json!({"name": "s", "namespace": "default"}),
            spec: spec.clone(),
            previous: None,
            now_ms: 0,
        };
        let answer = |question: &Question| match question {
            Question::GitRefs { url, .. } if !self.down => Ok(Answer::Refs {
                refs: vec![GitRef {
                    name: "refs/heads/main".into(),
                    oid: self.head(url),
                    peeled: None,
                }],
            }),
            Question::GitRefs { .. } => Err(fault(ErrorClass::Unavailable, "connection refused")),
            _ => Err(fault(ErrorClass::NotFound, "not asked for here")),
        };
        match evaluate(|host| source_git::resolve(host, &request), answer) {
            Ok((found, _)) => Ok(Resolution {
                revision: found.revision,
                dir: found.dir,
                poll_after_ms: found.poll_after_ms,
                workspace_path: false,
                artifact: serde_json::to_value(&found.artifact).unwrap_or(Value::Null),
            }),
            Err(fault) => {
                let class = match fault.class {
                    ErrorClass::Unavailable => FailureClass::Unavailable,
                    _ => FailureClass::Invalid,
                };
                Err(Failure::new(class, fault.reason, fault.message))
            }
        }
    }

    /// # Errors
    /// `unavailable` while the server is down.
    pub fn fetch(&self, resolution: &Resolution) -> Result<Tree, Failure> {
        if self.down {
            return Err(Failure::new(
                FailureClass::Unavailable,
                "SourceUnavailable",
                "connection refused",
            ));
        }
        Ok(Tree {
            program: ProgramSource::Tree {
                digest: resolution.revision.clone(),
                dir: resolution.dir.clone(),
            },
            subtree: resolution.revision.clone(),
            project: Some(ProjectInfo {
                name: "project".into(),
                runtime: "yaml".into(),
            }),
        })
    }
}

fn commit(url: &str, number: u64) -> String {
    let digest = windlass_core::digest::digest(&(url, number));
    format!("{digest}{digest}")
}

fn fault(class: ErrorClass, message: &str) -> Fault {
    Fault {
        class,
        reason: "SourceUnavailable".into(),
        message: message.into(),
        retry_after_ms: None,
    }
}
