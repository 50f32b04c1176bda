//! What plugins decide: one function for each.

use std::borrow::Cow;

use serde::Serialize;
use serde_json::{Value, json};
use windlass_sdk::{
    Artifact, BackendRequest, Failure, FieldError, Health, LockHolder, LockVerdict, ObjectRef,
    Outcome, Previous, ReportedLock, Resolution, Session,
};

use crate::call::{Call, Output};
use crate::egress;
use crate::error::PluginError;
use crate::evaluate::Evaluation;
use crate::host::{Evaluated, PluginHost, Resolved, Work};
use crate::load::Plugin;
use crate::login;
use crate::outside::http::denied;
use crate::redact;
use crate::transcript::Failed;
use crate::vault::Vault;

impl PluginHost {
    /// What is wrong with a spec.
    pub async fn validate(&self, source: &str, work: &Work) -> Evaluated<Vec<FieldError>> {
        let call = Call::Validate {
            spec: shown(&work.spec).to_string(),
        };
        let done = self.call(&format!("source:{source}"), call, work).await;
        done.map("field errors", |output| match output {
            Output::FieldErrors(errors) => Some(errors),
            _ => None,
        })
    }

    /// Objects whose change resolves again.
    pub async fn watches(&self, source: &str, work: &Work) -> Evaluated<Vec<ObjectRef>> {
        let call = Call::Watches {
            spec: shown(&work.spec).to_string(),
        };
        let done = self.call(&format!("source:{source}"), call, work).await;
        done.map("objects", |output| match output {
            Output::Objects(objects) => Some(objects),
            _ => None,
        })
    }

    /// Where the program is. `previous` is the revision that the last resolution named.
    pub async fn resolve(
        &self,
        source: &str,
        work: &Work,
        previous: Option<&str>,
    ) -> Evaluated<Resolved> {
        let previous = previous.map(|revision| Previous {
            revision: revision.into(),
        });
        let request = json!({
            "metadata": work.metadata, "spec": shown(&work.spec), "previous": previous, "nowMs": work.now_ms,
        });
        let call = Call::Resolve {
            request: request.to_string(),
        };
        let claim = format!("source:{source}");
        let plugin = match self.0.set.load().find(&claim) {
            Ok(plugin) => plugin,
            Err(error) => {
                return Evaluated {
                    result: Err(error),
                    transcript: None,
                };
            }
        };
        let Evaluation {
            result,
            mut vault,
            mut transcript,
        } = self.evaluate(&plugin, call, work).await;
        let result = match result {
            Ok(Output::Resolution(resolution)) => {
                self.resolved(&plugin, resolution, &mut vault).await
            }
            Ok(_) => Err(PluginError::Host("resolve gave something else".into())),
            Err(error) => Err(error),
        };
        if let Err(error) = &result {
            transcript.result = Err(Failed::from(error));
        }
        Evaluated {
            result,
            transcript: Some(Box::new(transcript)),
        }
    }

    /// Opens a stack in the backend of the URL's scheme.
    pub async fn open_backend(
        &self,
        url: &str,
        project: Option<&str>,
        stack: &str,
        work: &Work,
    ) -> Evaluated<Session> {
        let request = BackendRequest {
            project: project.map(str::to_owned),
            stack: stack.into(),
            url: url.into(),
            spec: shown(&work.spec),
            now_ms: work.now_ms,
        };
        let call = Call::Open {
            request: text(&request),
        };
        let plugin = match self.0.set.load().find(&backend(url)) {
            Ok(plugin) => plugin,
            Err(error) => {
                return Evaluated {
                    result: Err(error),
                    transcript: None,
                };
            }
        };
        let done = self.call_of(&plugin, call, work).await;
        done.map("a session", |output| match output {
            Output::Session(session) => Some(session),
            _ => None,
        })
        .check(|session| {
            let forbidden = session.env.keys().find(|name| is_forbidden(name));
            forbidden.map_or(Ok(()), |name| {
                Err(PluginError::BadResult {
                    expected: "plain variables",
                    message: format!("env sets {name}"),
                })
            })?;
            login::check(
                &session.login,
                url,
                &plugin.grants,
                &self.0.evaluator.network,
            )
        })
    }

    /// Why a run failed. `url` is the backend's.
    pub async fn classify(&self, url: &str, outcome: &Outcome, work: &Work) -> Evaluated<Failure> {
        let call = Call::Classify {
            outcome: text(outcome),
        };
        let done = self.call(&backend(url), call, work).await;
        done.map("a failure", |output| match output {
            Output::Failure(failure) => Some(failure),
            _ => None,
        })
    }

    /// Whether the locks that stand in the way are left over.
    pub async fn stale_lock(
        &self,
        url: &str,
        locks: &[ReportedLock],
        holders: &[LockHolder],
        work: &Work,
    ) -> Evaluated<LockVerdict> {
        let call = Call::StaleLock {
            locks: text(&locks),
            holders: text(&holders),
        };
        let done = self.call(&backend(url), call, work).await;
        done.map("a verdict", |output| match output {
            Output::LockVerdict(verdict) => Some(verdict),
            _ => None,
        })
    }

    /// The health of an object, given as JSON. `kind` is `group/Kind`.
    pub async fn assess(
        &self,
        kind: &str,
        object: String,
        context: String,
        work: &Work,
    ) -> Evaluated<Health> {
        let object = match redact::marked_text(&object) {
            Cow::Borrowed(_) => object,
            Cow::Owned(clean) => clean,
        };
        let done = self
            .call(
                &format!("health:{kind}"),
                Call::Assess { object, context },
                work,
            )
            .await;
        done.map("a verdict", |output| match output {
            Output::Health(health) => Some(health),
            _ => None,
        })
    }

    async fn resolved(
        &self,
        plugin: &Plugin,
        resolution: Resolution,
        vault: &mut Vault,
    ) -> Result<Resolved, PluginError> {
        let (grants, network) = (&plugin.grants, &self.0.evaluator.network);
        let (checked, auth) = match &resolution.artifact {
            Artifact::GitTree { url, auth, .. } => (
                Some(egress::check_repository(url, grants, network).await),
                auth.as_ref(),
            ),
            Artifact::Archive { url, auth, .. } => (
                Some(egress::check(url, grants, network).await),
                auth.as_ref(),
            ),
            Artifact::Files { .. } | Artifact::WorkspacePath { .. } | Artifact::Other { .. } => {
                (None, None)
            }
        };
        let url = match checked {
            Some(checked) => Some(checked.map_err(|error| {
                if error.is_temporary() {
                    PluginError::Fault(denied(&error))
                } else {
                    PluginError::UrlDenied {
                        message: error.to_string(),
                    }
                }
            })?),
            None => None,
        };
        let credential = auth
            .map(|auth| vault.credential(auth))
            .transpose()
            .map_err(PluginError::Fault)?;
        Ok(Resolved {
            resolution,
            credential,
            url,
        })
    }
}

impl Evaluated<Output> {
    fn map<T>(
        self,
        expected: &'static str,
        pick: impl FnOnce(Output) -> Option<T>,
    ) -> Evaluated<T> {
        let Evaluated { result, transcript } = self;
        let result = result.and_then(|output| {
            pick(output).ok_or_else(|| {
                PluginError::Host(format!("the call gave something else than {expected}"))
            })
        });
        Evaluated { result, transcript }
    }
}

impl<T> Evaluated<T> {
    fn check(self, check: impl FnOnce(&T) -> Result<(), PluginError>) -> Self {
        let Evaluated { result, transcript } = self;
        let result = result.and_then(|value| check(&value).map(|()| value));
        Evaluated { result, transcript }
    }
}

/// A spec as plugins see it.
fn shown(spec: &Value) -> Value {
    let mut spec = spec.clone();
    redact::marked(&mut spec);
    spec
}

/// Variables that decide what is run, or turn into options of the CLI.
fn is_forbidden(name: &str) -> bool {
    name == "PATH" || name.starts_with("LD_") || name.starts_with("PULUMI_OPTION_")
}

fn backend(url: &str) -> String {
    let scheme = url.split_once("://").map_or("", |(scheme, _)| scheme);
    format!("backend:{scheme}")
}

fn text<T: Serialize>(value: &T) -> String {
    // Plain data with string keys: there is nothing that could fail.
    serde_json::to_string(value).unwrap_or_default()
}
