//! The door to plugins: set up once, asked by `decisions`.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use serde_json::{Value, json};
use windlass_sdk::Resolution;

use crate::cache::Cache;
use crate::call::{Call, Output};
use crate::egress::{self, Network};
use crate::engine::engine;
use crate::error::{LoadError, PluginError};
use crate::evaluate::{Evaluation, Evaluator, Subject};
use crate::grants::Builtins;
use crate::guest;
use crate::load::{CodeCache, Examined, Loader, Plugin};
use crate::outside::{Credential, Outside, Scope};
use crate::policy::Policy;
use crate::registry::{PluginStatus, Set};
use crate::tally::{EvaluationCount, EvaluationKind, Tally};
use crate::threads::Threads;
use crate::transcript::Transcript;

/// How the host is set up.
#[derive(Clone, Debug, Default)]
pub struct HostOptions {
    /// Directories of `NAME.wasm`, in order.
    pub plugin_dirs: Vec<PathBuf>,
    /// A private directory for machine code; made if there is none.
    pub cache_dir: PathBuf,
    pub policy: Policy,
    pub builtins: Builtins,
    /// Built-ins that decide nothing without a configuration are not compiled while they have none.
    pub leave_idle: bool,
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
    Cache {
        dir: PathBuf,
        source: std::io::Error,
    },
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
pub struct PluginHost(pub(crate) Arc<Inner>);

pub(crate) struct Inner {
    dirs: Vec<PathBuf>,
    loader: Loader,
    pub(crate) evaluator: Evaluator,
    pub(crate) set: ArcSwap<Set>,
    reloading: tokio::sync::Mutex<()>,
}

impl PluginHost {
    /// Sets up the host and loads what lies in the directories.
    ///
    /// # Errors
    /// Only the machine's; a plugin that does not load shows in [`PluginHost::list`].
    pub async fn new(options: HostOptions, outside: Arc<dyn Outside>) -> Result<Self, HostError> {
        let HostOptions {
            plugin_dirs,
            cache_dir,
            policy,
            builtins,
            leave_idle,
            file_urls,
            network,
            threads,
        } = options;
        let wasmtime = |error: wasmtime::Error| HostError::Engine(format!("{error:#}"));
        let engine = engine().map_err(wasmtime)?;
        let linker = guest::linker(&engine).map_err(wasmtime)?;
        let cache = CodeCache::open(&cache_dir, &engine).map_err(|source| HostError::Cache {
            dir: cache_dir.clone(),
            source,
        })?;
        let processors = std::thread::available_parallelism()
            .map_or(2, std::num::NonZero::get)
            .min(4);
        let threads = Threads::new(if threads == 0 { processors } else { threads })
            .map_err(HostError::Threads)?;
        let host = PluginHost(Arc::new(Inner {
            dirs: plugin_dirs,
            loader: Loader {
                engine,
                linker,
                cache,
                builtins,
                policy,
                leave_idle,
                file_urls,
            },
            evaluator: Evaluator {
                threads,
                outside,
                cache: Cache::default(),
                network,
                tally: Tally::default(),
            },
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
        let loaded = tokio::task::spawn_blocking(move || {
            inner.set.load().reload(&inner.loader, &inner.dirs)
        })
        .await;
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
            let current =
                tokio::task::spawn_blocking(move || inner.set.load().is_current(&inner.dirs)).await;
            if matches!(current, Ok(false)) {
                self.reload().await;
            }
        }
    }

    /// Every plugin in the directories, served or not.
    pub fn list(&self) -> Vec<PluginStatus> {
        self.0.set.load().list()
    }

    /// The plugin that judges the health of a kind (`group/Kind`, `/Kind` in the core group); none if no plugin does. With
    /// patterns among the claims, [`PluginHost::list`] does not tell.
    pub fn judge_of(&self, kind: &str) -> Option<String> {
        let set = self.0.set.load();
        let plugin = set.find(&format!("health:{kind}")).ok()?;
        Some(plugin.name.clone())
    }

    /// What a file says of itself, whatever the policy. `name` is the one that it would be installed by.
    ///
    /// # Errors
    /// What keeps it from being served under every policy.
    pub async fn examine(&self, file: PathBuf, name: &str) -> Result<Examined, LoadError> {
        let (inner, name) = (self.0.clone(), name.to_owned());
        tokio::task::spawn_blocking(move || inner.loader.examine(&file, &name))
            .await
            .unwrap_or_else(|error| Err(LoadError::Unreadable(error.to_string())))
    }

    /// Evaluations so far, by plugin, function and result.
    pub fn evaluations(&self) -> Vec<(EvaluationKind, EvaluationCount)> {
        self.0.evaluator.tally.read()
    }

    /// Runs a recorded evaluation again, on the plugin of the same name, with the recorded answers only.
    ///
    /// # Errors
    /// `Unknown` if no such plugin is served. How the evaluation ends stands in the transcript that is returned.
    pub async fn replay(&self, recorded: &Transcript) -> Result<Transcript, PluginError> {
        let plugin =
            self.0
                .set
                .load()
                .by_name(&recorded.plugin)
                .ok_or_else(|| PluginError::Unknown {
                    claim: recorded.plugin.clone(),
                })?;
        Ok(self.0.evaluator.replay(&plugin, recorded).await)
    }

    /// Makes any call of a plugin by its name: for authors, who try one out.
    pub async fn run(&self, name: &str, call: Call, work: &Work) -> Evaluated<Output> {
        let Some(plugin) = self.0.set.load().by_name(name) else {
            return Evaluated {
                result: Err(PluginError::Unknown { claim: name.into() }),
                transcript: None,
            };
        };
        self.call_of(&plugin, call, work).await
    }

    pub(crate) async fn call(&self, claim: &str, call: Call, work: &Work) -> Evaluated<Output> {
        let plugin = match self.0.set.load().find(claim) {
            Ok(plugin) => plugin,
            Err(error) => {
                return Evaluated {
                    result: Err(error),
                    transcript: None,
                };
            }
        };
        self.call_of(&plugin, call, work).await
    }

    pub(crate) async fn call_of(
        &self,
        plugin: &Arc<Plugin>,
        call: Call,
        work: &Work,
    ) -> Evaluated<Output> {
        let Evaluation {
            result,
            vault: _,
            transcript,
        } = self.evaluate(plugin, call, work).await;
        Evaluated {
            result,
            transcript: Some(Box::new(transcript)),
        }
    }

    pub(crate) async fn evaluate(
        &self,
        plugin: &Arc<Plugin>,
        call: Call,
        work: &Work,
    ) -> Evaluation {
        let scope = Scope {
            plugin: plugin.name.clone(),
            namespace: work.namespace.clone(),
            object: work.name.clone(),
        };
        let object = json!({"metadata": work.metadata, "spec": work.spec});
        let subject = Subject {
            scope,
            call,
            object,
            now_ms: work.now_ms,
        };
        self.0.evaluator.evaluate(plugin, subject).await
    }
}
