//! The door to plugins: one asynchronous function for each thing they decide.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use serde::Serialize;
use serde_json::{Value, json};
use windlass_sdk::{
    Artifact, BackendRequest, Failure, FieldError, Health, LockHolder, LockVerdict, ObjectRef, Outcome, Previous,
    ReportedLock, Resolution, Session,
};

use crate::cache::Cache;
use crate::call::{Call, Output};
use crate::egress::{self, Network};
use crate::engine::engine;
use crate::error::PluginError;
use crate::evaluate::{Evaluation, Evaluator, Subject};
use crate::grants::Builtins;
use crate::guest;
use crate::load::{CodeCache, Loader, Plugin};
use crate::outside::{Credential, Outside, Scope};
use crate::policy::Policy;
use crate::registry::{PluginStatus, Set};
use crate::threads::Threads;
use crate::transcript::{Failed, Transcript};

/// How the host is set up.
#[derive(Clone, Debug, Default)]
pub struct HostOptions {
    /// Directories of `NAME.wasm`, in order.
    pub plugin_dirs: Vec<PathBuf>,
    /// A private directory for machine code; made if there is none.
    pub cache_dir: PathBuf,
    pub policy: Policy,
    pub builtins: Builtins,
    /// `file:` URLs can be granted: one machine.
    pub file_urls: bool,
    pub network: Network,
    /// Threads for computing; 0 for as many as there are processors, at most 4.
    pub threads: usize,
}

/// Why there is no host.
#[derive(Debug, thiserror::Error)]
pub enum HostError {
    #[error("wasmtime: {0}")]
    Engine(String),
    #[error("the code cache {dir}: {source}", dir = dir.display())]
    Cache { dir: PathBuf, source: std::io::Error },
    #[error("threads: {0}")]
    Threads(std::io::Error),
}

/// A result with the record of how it came about; no record where no plugin was found to ask.
#[derive(Debug)]
pub struct Evaluated<T> {
    pub result: Result<T, PluginError>,
    pub transcript: Option<Box<Transcript>>,
}

/// The object under work, as far as plugins see it.
#[derive(Clone, Debug, Default)]
pub struct Work {
    pub namespace: String,
    pub name: String,
    pub metadata: Value,
    pub spec: Value,
    /// Milliseconds since the epoch.
    pub now_ms: u64,
}

/// A resolution, with what fetching needs beyond it.
#[derive(Debug)]
pub struct Resolved {
    pub resolution: Resolution,
    /// The artifact's credential with its values.
    pub credential: Option<Credential>,
    /// The artifact's URL, checked; none if it has none.
    pub url: Option<egress::Checked>,
}

/// Plugins, served. Clones share everything.
#[derive(Clone)]
pub struct PluginHost(Arc<Inner>);

struct Inner {
    dirs: Vec<PathBuf>,
    loader: Loader,
    evaluator: Evaluator,
    set: ArcSwap<Set>,
    reloading: tokio::sync::Mutex<()>,
}

impl PluginHost {
    /// Sets up the host and loads what lies in the directories.
    ///
    /// # Errors
    /// Only the machine's; a plugin that does not load shows in [`PluginHost::list`].
    pub async fn new(options: HostOptions, outside: Arc<dyn Outside>) -> Result<Self, HostError> {
        let HostOptions { plugin_dirs, cache_dir, policy, builtins, file_urls, network, threads } = options;
        let wasmtime = |error: wasmtime::Error| HostError::Engine(format!("{error:#}"));
        let engine = engine().map_err(wasmtime)?;
        let linker = guest::linker(&engine).map_err(wasmtime)?;
        let cache = CodeCache::open(&cache_dir, &engine)
            .map_err(|source| HostError::Cache { dir: cache_dir.clone(), source })?;
        let processors = std::thread::available_parallelism().map_or(2, std::num::NonZero::get).min(4);
        let threads = Threads::new(if threads == 0 { processors } else { threads }).map_err(HostError::Threads)?;
        let host = PluginHost(Arc::new(Inner {
            dirs: plugin_dirs,
            loader: Loader { engine, linker, cache, builtins, policy, file_urls },
            evaluator: Evaluator { threads, outside, cache: Cache::default(), network },
            set: ArcSwap::default(),
            reloading: tokio::sync::Mutex::default(),
        }));
        host.reload().await;
        Ok(host)
    }

    /// Reads the directories again. Calls that are under way end with the plugin they began with.
    pub async fn reload(&self) {
        let _one_at_a_time = self.0.reloading.lock().await;
        let inner = self.0.clone();
        let loaded = tokio::task::spawn_blocking(move || inner.set.load().reload(&inner.loader, &inner.dirs)).await;
        match loaded {
            Ok(set) => self.0.set.store(Arc::new(set)),
            Err(error) => tracing::error!(%error, "reloading plugins"),
        }
    }

    /// Reloads whenever the directories change. Never returns; meant to be spawned.
    pub async fn watch(&self, interval: Duration) {
        loop {
            tokio::time::sleep(interval).await;
            let inner = self.0.clone();
            let current = tokio::task::spawn_blocking(move || inner.set.load().is_current(&inner.dirs)).await;
            if matches!(current, Ok(false)) {
                self.reload().await;
            }
        }
    }

    /// Every plugin in the directories, served or not.
    pub fn list(&self) -> Vec<PluginStatus> {
        self.0.set.load().list()
    }

    /// What is wrong with a spec.
    pub async fn validate(&self, source: &str, work: &Work) -> Evaluated<Vec<FieldError>> {
        let call = Call::Validate { spec: work.spec.to_string() };
        let done = self.call(&format!("source:{source}"), call, work).await;
        done.map("field errors", |output| match output {
            Output::FieldErrors(errors) => Some(errors),
            _ => None,
        })
    }

    /// Objects whose change resolves again.
    pub async fn watches(&self, source: &str, work: &Work) -> Evaluated<Vec<ObjectRef>> {
        let call = Call::Watches { spec: work.spec.to_string() };
        let done = self.call(&format!("source:{source}"), call, work).await;
        done.map("objects", |output| match output {
            Output::Objects(objects) => Some(objects),
            _ => None,
        })
    }

    /// Where the program is. `previous` is the revision that the last resolution named.
    pub async fn resolve(&self, source: &str, work: &Work, previous: Option<&str>) -> Evaluated<Resolved> {
        let previous = previous.map(|revision| Previous { revision: revision.into() });
        let request = json!({
            "metadata": work.metadata, "spec": work.spec, "previous": previous, "nowMs": work.now_ms,
        });
        let call = Call::Resolve { request: request.to_string() };
        let claim = format!("source:{source}");
        let plugin = match self.0.set.load().find(&claim) {
            Ok(plugin) => plugin,
            Err(error) => return Evaluated { result: Err(error), transcript: None },
        };
        let Evaluation { result, vault, mut transcript } = self.evaluate(&plugin, call, work).await;
        let result = match result {
            Ok(Output::Resolution(resolution)) => self.resolved(&plugin, resolution, &vault).await,
            Ok(_) => Err(PluginError::Host("resolve gave something else".into())),
            Err(error) => Err(error),
        };
        if let Err(error) = &result {
            transcript.result = Err(Failed::from(error));
        }
        Evaluated { result, transcript: Some(Box::new(transcript)) }
    }

    /// Opens a stack in the backend of the URL's scheme.
    pub async fn open_backend(&self, url: &str, project: Option<&str>, stack: &str, work: &Work) -> Evaluated<Session> {
        let request = BackendRequest {
            project: project.map(str::to_owned),
            stack: stack.into(),
            url: url.into(),
            spec: work.spec.clone(),
            now_ms: work.now_ms,
        };
        let call = Call::Open { request: text(&request) };
        let done = self.call(&backend(url), call, work).await;
        done.map("a session", |output| match output {
            Output::Session(session) => Some(session),
            _ => None,
        })
        .check(|session| {
            let forbidden = session.env.keys().find(|name| is_forbidden(name));
            forbidden.map_or(Ok(()), |name| {
                Err(PluginError::BadResult { expected: "plain variables", message: format!("env sets {name}") })
            })
        })
    }

    /// Why a run failed. `url` is the backend's.
    pub async fn classify(&self, url: &str, outcome: &Outcome, work: &Work) -> Evaluated<Failure> {
        let call = Call::Classify { outcome: text(outcome) };
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
        let call = Call::StaleLock { locks: text(&locks), holders: text(&holders) };
        let done = self.call(&backend(url), call, work).await;
        done.map("a verdict", |output| match output {
            Output::LockVerdict(verdict) => Some(verdict),
            _ => None,
        })
    }

    /// The health of an object, given as JSON. `kind` is `group/Kind`.
    pub async fn assess(&self, kind: &str, object: String, context: String, work: &Work) -> Evaluated<Health> {
        let done = self.call(&format!("health:{kind}"), Call::Assess { object, context }, work).await;
        done.map("a verdict", |output| match output {
            Output::Health(health) => Some(health),
            _ => None,
        })
    }

    /// Runs a recorded evaluation again, on the plugin of the same name, with the recorded answers only.
    ///
    /// # Errors
    /// `Unknown` if no such plugin is served. How the evaluation ends stands in the transcript that is returned.
    pub async fn replay(&self, recorded: &Transcript) -> Result<Transcript, PluginError> {
        let plugin = self
            .0
            .set
            .load()
            .by_name(&recorded.plugin)
            .ok_or_else(|| PluginError::Unknown { claim: recorded.plugin.clone() })?;
        Ok(self.0.evaluator.replay(&plugin, recorded).await)
    }

    async fn call(&self, claim: &str, call: Call, work: &Work) -> Evaluated<Output> {
        let plugin = match self.0.set.load().find(claim) {
            Ok(plugin) => plugin,
            Err(error) => return Evaluated { result: Err(error), transcript: None },
        };
        let Evaluation { result, vault: _, transcript } = self.evaluate(&plugin, call, work).await;
        Evaluated { result, transcript: Some(Box::new(transcript)) }
    }

    async fn evaluate(&self, plugin: &Arc<Plugin>, call: Call, work: &Work) -> Evaluation {
        let scope =
            Scope { plugin: plugin.name.clone(), namespace: work.namespace.clone(), object: work.name.clone() };
        let object = json!({"metadata": work.metadata, "spec": work.spec});
        let subject = Subject { scope, call, object, now_ms: work.now_ms };
        self.0.evaluator.evaluate(plugin, subject).await
    }

    async fn resolved(
        &self,
        plugin: &Plugin,
        resolution: Resolution,
        vault: &crate::answer::Vault,
    ) -> Result<Resolved, PluginError> {
        let (url, auth) = match &resolution.artifact {
            Artifact::GitTree { url, auth, .. } | Artifact::Archive { url, auth, .. } => (Some(url), auth.as_ref()),
            Artifact::Files { .. } | Artifact::WorkspacePath { .. } | Artifact::Other { .. } => (None, None),
        };
        let url = match url {
            Some(url) => Some(egress::check(url, &plugin.grants, &self.0.evaluator.network).await.map_err(|error| {
                if error.is_temporary() {
                    PluginError::Fault(crate::outside::http::denied(&error))
                } else {
                    PluginError::UrlDenied { message: error.to_string() }
                }
            })?),
            None => None,
        };
        let credential = auth.map(|auth| vault.credential(auth)).transpose().map_err(PluginError::Fault)?;
        Ok(Resolved { resolution, credential, url })
    }
}

impl Evaluated<Output> {
    fn map<T>(self, expected: &'static str, pick: impl FnOnce(Output) -> Option<T>) -> Evaluated<T> {
        let Evaluated { result, transcript } = self;
        let result = result.and_then(|output| {
            pick(output).ok_or_else(|| PluginError::Host(format!("the call gave something else than {expected}")))
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
