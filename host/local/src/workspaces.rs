//! Agent processes: one for each workspace, in a session of its own, outliving whoever started it.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use nix::sys::signal::Signal;
use serde::{Deserialize, Serialize};
use tokio::sync::OnceCell;
use windlass_agent::AgentClient;
use windlass_core::snapshot::{Instance, InstancePhase, WorkspaceView};
use windlass_core::time::Timestamp;
use windlass_engine::{Handle, Key};

use crate::agent_process;
use crate::db::{Db, DbError, Side};
use crate::process::{self, Process};

/// How long a new agent may take until it answers.
const START_DEADLINE: Duration = Duration::from_secs(20);
/// How long an agent that is asked to end may take; it interrupts no run, for it is asked only when idle.
const STOP_DEADLINE: Duration = Duration::from_secs(15);
/// Starts that are tried at once before an agent counts as failing.
const QUICK_STARTS: u32 = 3;
/// How long a failing agent rests before it is tried again.
const FAILING_PAUSE: Duration = Duration::from_secs(30);
/// How often a living agent's process is looked at.
const LOOK: Duration = Duration::from_millis(250);

/// What is remembered of a workspace across processes.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Record {
    uid: String,
    spec_digest: String,
    process: Process,
    socket: PathBuf,
    idle_since: Timestamp,
    /// Earlier incarnations, whose processes are gone.
    #[serde(default)]
    ended: Vec<String>,
    /// This incarnation is over too.
    #[serde(default)]
    stopped: bool,
}

/// Starts, watches and stops agents.
pub struct Workspaces {
    db: Arc<Db>,
    root: PathBuf,
    sockets: PathBuf,
    agent: PathBuf,
    epoch: u64,
    hostname: String,
    phases: Mutex<HashMap<Key, InstancePhase>>,
    /// Starts that failed in a row.
    failed_starts: Mutex<HashMap<Key, u32>>,
    handle: OnceCell<Handle>,
    clock: fn() -> Timestamp,
}

/// Why an agent could not be started or stopped.
#[derive(Debug, thiserror::Error)]
pub enum WorkspaceError {
    #[error("{path}: {source}", path = path.display())]
    Io {
        path: PathBuf,
        source: std::io::Error,
    },
    #[error(transparent)]
    Store(#[from] DbError),
}

impl Workspaces {
    pub fn new(
        db: Arc<Db>,
        data_dir: &Path,
        agent: PathBuf,
        epoch: u64,
        clock: fn() -> Timestamp,
    ) -> Workspaces {
        Workspaces {
            db,
            root: data_dir.join("workspaces"),
            sockets: agent_process::socket_dir(data_dir),
            agent,
            epoch,
            hostname: process::hostname(),
            phases: Mutex::default(),
            failed_starts: Mutex::default(),
            handle: OnceCell::new(),
            clock,
        }
    }

    /// Whom to wake when an agent comes up or goes down.
    pub fn wakes(&self, handle: Handle) {
        let _ = self.handle.set(handle);
    }

    fn phases(&self) -> MutexGuard<'_, HashMap<Key, InstancePhase>> {
        self.phases.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn record(&self, key: &Key) -> Result<Option<Record>, DbError> {
        self.db.side(Side::Workspaces, &key.namespace, &key.name)
    }

    /// The directory of a workspace: its files, its agent's state, its logs.
    pub fn dir(&self, key: &Key) -> PathBuf {
        // Names hold no dots in a namespace, and no slashes at all.
        self.root.join(format!("{}.{}", key.namespace, key.name))
    }

    /// What is known of a workspace now.
    pub fn view(self: &Arc<Self>, key: &Key) -> Result<WorkspaceView, DbError> {
        let Some(record) = self.record(key)? else {
            return Ok(WorkspaceView::default());
        };
        let mut ended = record.ended.clone();
        if record.stopped {
            ended.push(record.uid);
            return Ok(WorkspaceView {
                current: None,
                ended,
            });
        }
        let known = self.phases().get(key).cloned();
        let phase = match known {
            Some(phase) => phase,
            // Left by an earlier process: is its agent still there?
            None if record.process.is_alive() => {
                self.await_agent(key.clone(), &record);
                InstancePhase::Starting {
                    message: String::new(),
                }
            }
            None => InstancePhase::Down,
        };
        let current = Instance {
            uid: record.uid,
            hostname: self.hostname.clone(),
            node: None,
            spec_digest: record.spec_digest,
            phase,
            idle_since: record.idle_since,
        };
        Ok(WorkspaceView {
            current: Some(current),
            ended,
        })
    }

    /// Starts an agent, or brings a fallen one back as the same instance. Nothing happens if it is there.
    pub fn ensure(
        self: &Arc<Self>,
        key: &Key,
        spec_digest: &str,
        environment: impl FnOnce() -> Result<std::collections::BTreeMap<String, String>, DbError>,
    ) -> Result<(), WorkspaceError> {
        let before = self.record(key)?;
        if let Some(record) = &before
            && !record.stopped
            && record.process.is_alive()
        {
            if !self.phases().contains_key(key) {
                self.await_agent(key.clone(), record);
            }
            return Ok(());
        }
        let (uid, ended) = match before {
            Some(record) if record.stopped => {
                let mut ended = record.ended;
                ended.push(record.uid);
                let surplus = ended.len().saturating_sub(20);
                ended.drain(..surplus);
                (self.db.new_uid()?, ended)
            }
            Some(record) => (record.uid, record.ended),
            None => (self.db.new_uid()?, Vec::new()),
        };
        let dir = self.dir(key);
        let socket = self
            .sockets
            .join(format!("{}.sock", windlass_core::digest::digest(key)));
        let process = agent_process::start(&self.agent, &dir, &socket, environment()?)?;
        let now = (self.clock)();
        let record = Record {
            uid,
            spec_digest: spec_digest.to_owned(),
            process,
            socket,
            idle_since: now,
            ended,
            stopped: false,
        };
        self.db
            .put_side(Side::Workspaces, &key.namespace, &key.name, &record)?;
        self.await_agent(key.clone(), &record);
        Ok(())
    }

    /// Waits until the agent answers, then for its end.
    fn await_agent(self: &Arc<Self>, key: Key, record: &Record) {
        self.phases().insert(
            key.clone(),
            InstancePhase::Starting {
                message: String::new(),
            },
        );
        let (this, record) = (Arc::clone(self), record.clone());
        tokio::spawn(async move {
            let phase = this.first_answer(&record).await;
            let answers = matches!(phase, InstancePhase::Ready { .. });
            if !answers && this.starts_again(&key) {
                // Killed as it came up, perhaps: brought back like any that has fallen.
                this.set_phase(&key, &record, InstancePhase::Down);
                return;
            }
            this.set_phase(&key, &record, phase);
            if !answers {
                tokio::time::sleep(FAILING_PAUSE).await;
                this.set_phase(&key, &record, InstancePhase::Down);
            } else {
                this.failed_starts().remove(&key);
                while record.process.is_alive() {
                    tokio::time::sleep(LOOK).await;
                }
                this.set_phase(&key, &record, InstancePhase::Down);
            }
        });
    }

    fn failed_starts(&self) -> MutexGuard<'_, HashMap<Key, u32>> {
        self.failed_starts
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts a start that failed. True: another one is worth it at once.
    fn starts_again(&self, key: &Key) -> bool {
        let mut failed = self.failed_starts();
        let count = failed.entry(key.clone()).or_default();
        *count += 1;
        *count <= QUICK_STARTS
    }

    async fn first_answer(&self, record: &Record) -> InstancePhase {
        let begun = tokio::time::Instant::now();
        let mut pause = Duration::from_millis(10);
        loop {
            if let Ok(client) = AgentClient::connect(&record.socket, self.epoch).await
                && let Ok(info) = client.hello().await
            {
                return InstancePhase::Ready {
                    boot_id: info.boot_id,
                };
            }
            if !record.process.is_alive() {
                return InstancePhase::Failing {
                    reason: "AgentEnded".into(),
                    message: "the agent ended at once; see agent.log in the workspace's directory"
                        .into(),
                };
            }
            if begun.elapsed() > START_DEADLINE {
                return InstancePhase::Unreachable {
                    message: "the agent does not answer".into(),
                };
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(Duration::from_millis(100));
        }
    }

    fn set_phase(&self, key: &Key, record: &Record, phase: InstancePhase) {
        // Another incarnation may have taken its place.
        let current = self.record(key).ok().flatten();
        if current.is_none_or(|current| current.process != record.process || current.stopped) {
            return;
        }
        self.phases().insert(key.clone(), phase);
        if let Some(handle) = self.handle.get() {
            handle.wake(key.clone());
        }
    }

    /// Asks an idle agent to end, and records its end once the process is gone.
    pub fn stop(self: &Arc<Self>, key: &Key, uid: &str) -> Result<(), WorkspaceError> {
        let Some(record) = self.record(key)? else {
            return Ok(());
        };
        if record.uid != uid || record.stopped {
            return Ok(());
        }
        self.phases().insert(key.clone(), InstancePhase::Stopping);
        let (this, key) = (Arc::clone(self), key.clone());
        tokio::spawn(async move {
            this.end(&record).await;
            if let Err(error) = this.mark_stopped(&key, record) {
                tracing::warn!(%key, %error, "recording the end of a workspace");
            }
            this.phases().remove(&key);
            if let Some(handle) = this.handle.get() {
                handle.wake(key);
            }
        });
        Ok(())
    }

    /// Stops every idle agent and waits for their ends.
    pub async fn stop_all(self: &Arc<Self>, keys: &[Key]) {
        let stopping = keys.iter().map(|key| async move {
            let Ok(Some(record)) = self.record(key) else {
                return;
            };
            if !record.stopped {
                self.end(&record).await;
                if let Err(error) = self.mark_stopped(key, record) {
                    tracing::warn!(%key, %error, "recording the end of a workspace");
                }
            }
        });
        futures::future::join_all(stopping).await;
    }

    async fn end(&self, record: &Record) {
        if let Ok(client) = AgentClient::connect(&record.socket, self.epoch).await {
            let _ = client.shutdown().await;
        }
        let begun = tokio::time::Instant::now();
        let mut asked = false;
        while record.process.is_alive() {
            if begun.elapsed() > STOP_DEADLINE && !asked {
                asked = true;
                // It finishes what it does; a run is never cut off here.
                record.process.signal(Signal::SIGTERM);
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        let _ = std::fs::remove_file(&record.socket);
    }

    fn mark_stopped(&self, key: &Key, mut record: Record) -> Result<(), DbError> {
        record.stopped = true;
        self.db
            .put_side(Side::Workspaces, &key.namespace, &key.name, &record)
    }

    /// A run has ended: the workspace is idle from now on.
    pub fn idle_from_now(&self, key: &Key) -> Result<(), DbError> {
        if let Some(mut record) = self.record(key)? {
            record.idle_since = (self.clock)();
            self.db
                .put_side(Side::Workspaces, &key.namespace, &key.name, &record)?;
        }
        Ok(())
    }

    /// Forgets a workspace whose Stack is gone, with its files.
    pub fn forget(&self, key: &Key) -> Result<(), WorkspaceError> {
        if let Some(record) = self.record(key)?
            && !record.stopped
            && record.process.is_alive()
        {
            return Ok(());
        }
        self.db
            .delete_side(Side::Workspaces, &key.namespace, &key.name)?;
        let dir = self.dir(key);
        match std::fs::remove_dir_all(&dir) {
            Err(source) if source.kind() != std::io::ErrorKind::NotFound => {
                Err(WorkspaceError::Io { path: dir, source })
            }
            _ => Ok(()),
        }
    }

    /// Lets the agent drop what it keeps of a run that is recorded and no longer of interest. If it is not there, that
    /// stays until the workspace goes.
    pub fn forget_run(self: &Arc<Self>, key: &Key, update: &str) {
        let Ok(Some(record)) = self.record(key) else {
            return;
        };
        if record.stopped || !record.process.is_alive() {
            return;
        }
        let (this, update) = (Arc::clone(self), update.to_owned());
        tokio::spawn(async move {
            if let Ok(client) = AgentClient::connect(&record.socket, this.epoch).await {
                let _ = client.forget_run(&update).await;
            }
        });
    }

    pub fn hostname(&self) -> &str {
        &self.hostname
    }

    /// Connects to the agent of this very incarnation.
    pub async fn client(&self, key: &Key, uid: &str) -> Result<AgentClient, String> {
        let record = self.record(key).map_err(|error| error.to_string())?;
        let record = record
            .filter(|record| record.uid == uid && !record.stopped)
            .ok_or("the workspace has changed")?;
        AgentClient::connect(&record.socket, self.epoch)
            .await
            .map_err(|error| error.to_string())
    }
}

/// The socket of a workspace's agent, for other processes.
pub fn agent_socket(db: &Db, key: &Key) -> Option<PathBuf> {
    let record: Record = db
        .side(Side::Workspaces, &key.namespace, &key.name)
        .ok()??;
    (!record.stopped && record.process.is_alive()).then_some(record.socket)
}
