//! What `windlass local` is told, and what it tells while it works.

use std::path::PathBuf;

use windlass_api::run::RunProgress;
use windlass_core::Decision;
use windlass_core::decision::Event;
use windlass_core::snapshot::Snapshot;
use windlass_engine::Key;
use windlass_tasks::ProgressPace;

/// How to reconcile a directory of manifests.
#[derive(Clone, Debug)]
pub struct LocalConfig {
    /// Files and directories of manifests.
    pub manifests: Vec<PathBuf>,
    /// Store, workspaces, trees and logs. Private to this user.
    pub data_dir: PathBuf,
    pub plugin_dirs: Vec<PathBuf>,
    /// Digests of the plugins that belong to this build: `{"NAME": "sha256:..."}`.
    pub builtin_digests: Option<PathBuf>,
    pub policy: Option<PathBuf>,
    /// The program `windlass-agent`.
    pub agent: PathBuf,
    /// The program that fetches, and its arguments.
    pub fetch_worker: (PathBuf, Vec<String>),
    /// Stacks that run at a time.
    pub parallel: usize,
    /// Take everything down, whatever the manifests say of finalizers.
    pub destroy: bool,
    /// Seconds that an idle agent is kept.
    pub idle_seconds: Option<u64>,
    /// End when nothing goes on any more.
    pub once: bool,
    pub progress: ProgressPace,
}

impl LocalConfig {
    pub(crate) fn store_path(&self) -> PathBuf {
        self.data_dir.join("store.db")
    }
}

/// Hears what happens. Called from the engine's loop and from tasks: must not block.
pub trait LocalObserver: Send + Sync {
    fn stepped(&self, key: &Key, snapshot: &Snapshot, decision: &Decision);
    fn progress(&self, key: &Key, update: &str, progress: &RunProgress);
    /// A line of the run's log, redacted by the agent.
    fn log(&self, key: &Key, line: &str);
    fn event(&self, key: &Key, event: &Event);
    /// Something that a person should know and that is no Stack's state.
    fn problem(&self, key: Option<&Key>, message: &str);
}
