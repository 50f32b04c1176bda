//! The runs of one workspace: which there are, which one goes on, what is known of each.
//!
//! At most one run is open at a time. A run belongs to this agent until `forget`; whoever asked for it may come and go.

mod board;
mod mask;
mod options;
mod reporter;

use std::collections::BTreeMap;
use std::fs::File;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use windlass_api::run::{InterruptCause, OutputValue, RunRequest, RunResult, RunState};

use mask::{masked_request, masked_result};
use reporter::Reporter;

pub use board::{LogLine, Look, Run};
pub use options::Options;

use crate::cli::Finder;
use crate::environment;
use crate::journal::{Journal, JournalError, Memory, Record, Told};
use crate::login::Logins;
use crate::run::{self, Workspace};
use crate::slot::{Slot, Taken};
use crate::supervise::{self, Claim};
use crate::tree::Trees;

/// Why the agent refuses a request.
#[derive(Debug, thiserror::Error)]
pub enum AgentError {
    #[error("epoch {asked} is over: a leader with epoch {seen} has spoken")]
    StaleEpoch { asked: u64, seen: u64 },
    #[error("busy: {by} goes on in this workspace")]
    Busy { by: String },
    #[error("there is no run {0:?} here")]
    UnknownRun(String),
    #[error("the run {0:?} goes on: cancel it first")]
    StillRunning(String),
    #[error("{0:?} is no id of a run: letters, digits, '-' and '.' only, at most 253")]
    BadId(String),
    #[error("the agent is stopping")]
    Stopping,
    #[error("another agent serves the state directory {0}")]
    StateDirTaken(PathBuf),
    #[error("the state directory {path} cannot be used: {source}")]
    StateDirUnusable {
        path: PathBuf,
        source: std::io::Error,
    },
    #[error(transparent)]
    Journal(#[from] JournalError),
}

#[derive(Debug)]
struct State {
    epoch: u64,
    runs: BTreeMap<String, Arc<Run>>,
    open: Option<String>,
    stopping: bool,
}

/// The agent of one workspace.
#[derive(Debug)]
pub struct Agent {
    pub boot_id: String,
    pub workspace: Arc<Workspace>,
    slot: Slot,
    journal: Mutex<Journal>,
    state: Mutex<State>,
    _alone: File,
}

fn good_id(id: &str) -> bool {
    let fine = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | '_');
    !id.is_empty() && id.len() <= 253 && !id.starts_with('.') && id.chars().all(fine)
}

impl Agent {
    /// Opens the state directory, alone, and takes up the runs that go on.
    pub fn open(options: Options) -> Result<Arc<Agent>, AgentError> {
        use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
        let Options {
            workspace,
            state_dir,
            env,
            supervisor,
            interrupt_grace,
            mounts,
            login_token_file,
            pulumi_log_level,
            in_pod,
            memory,
        } = options;
        let unusable = |source| AgentError::StateDirUnusable {
            path: state_dir.clone(),
            source,
        };
        std::fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&state_dir)
            .map_err(unusable)?;
        let runs = state_dir.join("runs");
        std::fs::create_dir_all(&runs).map_err(unusable)?;
        if in_pod {
            // The workspace directory leads into the trees, and the pod's containers may run as different users.
            for (dir, mode) in [(&runs, 0o700), (&state_dir, 0o711)] {
                let mode = std::fs::Permissions::from_mode(mode);
                std::fs::set_permissions(dir, mode).map_err(unusable)?;
            }
        }
        let alone = std::fs::OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(state_dir.join("agent.lock"))
            .map_err(unusable)?;
        if rustix::fs::flock(&alone, rustix::fs::FlockOperation::NonBlockingLockExclusive).is_err()
        {
            return Err(AgentError::StateDirTaken(state_dir));
        }
        let (journal, told) = Journal::open(&state_dir.join("journal.jsonl"))?;
        let Memory { epoch, runs } = told;
        let home = if in_pod {
            environment::home_in_pod(&env, &state_dir)
        } else {
            environment::own_home(&state_dir)
        };
        crate::exec::Place {
            home: home.clone(),
            login_token_file: login_token_file.clone(),
        }
        .keep(&state_dir);
        let workspace = Arc::new(Workspace {
            dir: workspace,
            mounts,
            home,
            in_pod,
            log_bytes: options::log_bytes(memory),
            logins: Logins::new(login_token_file),
            pulumi_log_level,
            trees: Trees::new(state_dir.join("trees")),
            env,
            supervisor,
            grace: interrupt_grace,
            finder: Finder::default(),
            crypter: Mutex::default(),
            state_dir: state_dir.clone(),
        });
        let mut boot = [0u8; 16];
        aws_lc_rs::rand::fill(&mut boot)
            .map_err(|_| unusable(std::io::Error::other("the system gives no random numbers")))?;
        let agent = Arc::new(Agent {
            boot_id: hex::encode(boot),
            workspace,
            slot: Slot::new(&state_dir),
            journal: Mutex::new(journal),
            state: Mutex::new(State {
                epoch,
                runs: BTreeMap::new(),
                open: None,
                stopping: false,
            }),
            _alone: alone,
        });
        for told in runs {
            agent.take_up(told)?;
        }
        Ok(agent)
    }

    /// Goes on with a run of the journal.
    fn take_up(self: &Arc<Self>, told: Told) -> Result<(), AgentError> {
        let Told {
            request,
            accepted_at_ms,
            started_at_ms,
            interrupted,
            result,
        } = told;
        let id = request.id.clone();
        let run = Arc::new(Run::new(
            request.clone(),
            accepted_at_ms,
            self.workspace.log_bytes,
        ));
        locked(&self.state).runs.insert(id.clone(), run.clone());
        if let Some(result) = result {
            run.change(|seen| {
                seen.masked = result
                    .outputs
                    .iter()
                    .flat_map(|o| o.values())
                    .any(|o| o.secret);
                seen.result = Some(result);
            });
            // The agent before may have ended between the two.
            run::drop_raw(&self.workspace.run_dir(&id));
            return Ok(());
        }
        let dir = self.workspace.run_dir(&id);
        let unusable = |source| AgentError::StateDirUnusable {
            path: dir.clone(),
            source,
        };
        std::fs::create_dir_all(&dir).map_err(unusable)?;
        // Whoever claims the run first decides whether its operation is started at all.
        if supervise::claim(&dir, &Claim::Barred).map_err(unusable)?
            || matches!(
                supervise::read_json(&dir.join(supervise::CLAIM)),
                Some(Claim::Barred)
            )
        {
            self.end(&run, run::barred(&request, accepted_at_ms));
            return Ok(());
        }
        locked(&self.state).open = Some(id.clone());
        let agent = self.clone();
        let orders = run.orders.subscribe();
        tokio::spawn(async move {
            let listener = Reporter {
                agent: agent.clone(),
                run: run.clone(),
            };
            let started = started_at_ms.unwrap_or(accepted_at_ms);
            let workspace = agent.workspace.clone();
            let result =
                run::adopt(workspace, request, started, interrupted, orders, &listener).await;
            agent.end(&run, result);
        });
        Ok(())
    }

    fn append(&self, record: &Record) -> Result<(), AgentError> {
        Ok(locked(&self.journal).append(record)?)
    }

    /// Refuses a leader whose time is over; remembers a newer one.
    pub fn check_epoch(&self, epoch: u64) -> Result<(), AgentError> {
        let mut state = locked(&self.state);
        if epoch < state.epoch {
            return Err(AgentError::StaleEpoch {
                asked: epoch,
                seen: state.epoch,
            });
        }
        if epoch > state.epoch {
            self.append(&Record::Epoch { epoch })?;
            state.epoch = epoch;
        }
        Ok(())
    }

    /// Starts a run; false if the id is known already. Returns once the journal has it.
    pub fn start(self: &Arc<Self>, request: RunRequest) -> Result<bool, AgentError> {
        self.check_epoch(request.epoch)?;
        if !good_id(&request.id) {
            return Err(AgentError::BadId(request.id.chars().take(300).collect()));
        }
        let mut state = locked(&self.state);
        if state.runs.contains_key(&request.id) {
            return Ok(false);
        }
        if state.stopping {
            return Err(AgentError::Stopping);
        }
        if let Some(open) = &state.open {
            return Err(AgentError::Busy {
                by: format!("the run {open:?}"),
            });
        }
        let unusable = |source| AgentError::StateDirUnusable {
            path: self.workspace.state_dir.clone(),
            source,
        };
        let by = format!("the run {:?}", request.id);
        let Some(slot) = self.slot.take(&by).map_err(unusable)? else {
            return Err(AgentError::Busy {
                by: self.slot.holder(),
            });
        };
        let at_ms = now_ms();
        self.append(&Record::Accepted {
            at_ms,
            request: Box::new(masked_request(&request)),
        })?;
        let run = Arc::new(Run::new(request.clone(), at_ms, self.workspace.log_bytes));
        state.runs.insert(request.id.clone(), run.clone());
        state.open = Some(request.id.clone());
        drop(state);
        crate::exec::Given::of(&request).keep(&self.workspace.state_dir);
        tokio::spawn(self.clone().carry(run, request, slot));
        Ok(true)
    }

    async fn carry(self: Arc<Self>, run: Arc<Run>, request: RunRequest, slot: Taken) {
        let listener = Reporter {
            agent: self.clone(),
            run: run.clone(),
        };
        let orders = run.orders.subscribe();
        let result = run::execute(self.workspace.clone(), request, &slot, orders, &listener).await;
        drop(slot);
        self.end(&run, result);
    }

    fn end(&self, run: &Run, result: RunResult) {
        tracing::info!(run = %result.id, operation = %result.operation, state = ?result.state, "{}", result.message);
        match self.append(&Record::Finished {
            result: Box::new(masked_result(&result)),
        }) {
            Ok(()) => run::drop_raw(&self.workspace.run_dir(&result.id)),
            // The result is still told to whoever watches; a restart would judge the run again.
            Err(e) => tracing::error!("{e}"),
        }
        let mut state = locked(&self.state);
        if state.open.as_ref() == Some(&result.id) {
            state.open = None;
        }
        drop(state);
        run.change(|seen| seen.result = Some(result));
    }

    pub fn run(&self, id: &str) -> Result<Arc<Run>, AgentError> {
        locked(&self.state)
            .runs
            .get(id)
            .cloned()
            .ok_or_else(|| AgentError::UnknownRun(id.to_owned()))
    }

    pub fn runs(&self) -> Vec<Arc<Run>> {
        locked(&self.state).runs.values().cloned().collect()
    }

    /// Id of the run that goes on.
    pub fn open_run(&self) -> Option<String> {
        locked(&self.state).open.clone()
    }

    /// Asks a run to stop. A run that has ended stays as it is.
    pub fn cancel(&self, epoch: u64, id: &str, cause: InterruptCause) -> Result<(), AgentError> {
        self.check_epoch(epoch)?;
        self.run(id)?.orders.send_modify(|order| {
            order.get_or_insert(cause);
        });
        Ok(())
    }

    /// Forgets a run that has ended. Forgetting what is not known is fine: it was done before.
    pub fn forget(&self, epoch: u64, id: &str) -> Result<(), AgentError> {
        self.check_epoch(epoch)?;
        let mut state = locked(&self.state);
        if !state.runs.contains_key(id) {
            return Ok(());
        }
        if state.open.as_deref() == Some(id) {
            return Err(AgentError::StillRunning(id.to_owned()));
        }
        self.append(&Record::Forgotten { id: id.to_owned() })?;
        state.runs.remove(id);
        drop(state);
        let _ = std::fs::remove_dir_all(self.workspace.run_dir(id));
        Ok(())
    }

    /// Reads again what the journal may not hold, before a result is told.
    pub async fn unmask(&self, run: &Run) {
        let Some(mut outputs) = run.masked_outputs() else {
            return;
        };
        let read = run::reread(&self.workspace, &run.request, &mut outputs)
            .await
            .map_err(|e| e.to_string());
        run.change(|seen| {
            let Some(result) = &mut seen.result else {
                return;
            };
            if let Err(e) = read {
                tracing::warn!(run = %result.id, "{e}");
                result.message = e;
                outputs.retain(|_: &String, o: &mut OutputValue| !o.secret);
            } else {
                seen.masked = false;
            }
            result.outputs = Some(outputs);
        });
    }

    /// Takes no new run, interrupts the one that goes on, returns when there is none.
    pub async fn stop(&self) {
        let open = {
            let mut state = locked(&self.state);
            state.stopping = true;
            state
                .open
                .as_ref()
                .and_then(|id| state.runs.get(id).cloned())
        };
        let Some(run) = open else { return };
        run.orders.send_modify(|order| {
            order.get_or_insert(InterruptCause::AgentStopping);
        });
        let mut changes = run.changes();
        while run.state() == RunState::Running && changes.changed().await.is_ok() {}
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn now_ms() -> i64 {
    std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .map_or(0, |d| i64::try_from(d.as_millis()).unwrap_or(i64::MAX))
}
