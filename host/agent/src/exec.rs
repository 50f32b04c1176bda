//! `windlass-agent exec -- pulumi ...`: a person's command in the environment of the runs, in the one slot for a CLI.

use std::path::{Path, PathBuf};
use std::process::ExitStatus;

use serde::{Deserialize, Serialize};
use tokio::signal::unix::{SignalKind, signal};
use windlass_api::run::{LoginExchange, RunRequest};

use crate::environment::{self, Env, which};
use crate::login::{self, Logins};
use crate::slot::Slot;
use crate::supervise;

#[derive(Debug, thiserror::Error)]
pub enum ExecError {
    #[error(
        "busy: {0} goes on in this workspace, and only one command of pulumi can run at a time. \
        Wait for its end, or say `exec --wait -- ...`"
    )]
    Busy(String),
    #[error("no agent has ever served {0}: say which state directory it is with --state-dir")]
    NoAgent(PathBuf),
    #[error("there is no {0:?} on the PATH of the workspace")]
    ProgramMissing(String),
    #[error("{0}: {1}")]
    Unstartable(PathBuf, std::io::Error),
    #[error("the state directory {0} cannot be used: {1}")]
    StateDirUnusable(PathBuf, std::io::Error),
}

/// What the last run was given by its backend: without it a person's CLI would look elsewhere. No secret is in it.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Given {
    env: Env,
    login: Option<LoginExchange>,
}

const GIVEN: &str = "last-run.json";

impl Given {
    pub fn of(request: &RunRequest) -> Given {
        Given {
            env: request.env.clone(),
            login: request.login.clone(),
        }
    }

    /// For whoever comes; a run goes on without.
    pub fn keep(&self, state_dir: &Path) {
        keep(&state_dir.join(GIVEN), self);
    }

    fn kept(state_dir: &Path) -> Given {
        supervise::read_json(&state_dir.join(GIVEN)).unwrap_or_default()
    }
}

/// Where the agent of a state directory stands.
#[derive(Debug, Serialize, Deserialize)]
pub struct Place {
    pub home: PathBuf,
    pub login_token_file: Option<PathBuf>,
}

const PLACE: &str = "place.json";

impl Place {
    pub fn keep(&self, state_dir: &Path) {
        keep(&state_dir.join(PLACE), self);
    }

    fn kept(state_dir: &Path) -> Place {
        supervise::read_json(&state_dir.join(PLACE)).unwrap_or_else(|| Place {
            home: environment::own_home(state_dir),
            login_token_file: None,
        })
    }
}

fn keep(path: &Path, what: &impl Serialize) {
    let kept = serde_json::to_vec(what)
        .map_err(std::io::Error::from)
        .and_then(|json| supervise::replace(path, &json));
    if let Err(e) = kept {
        tracing::warn!("{}: {e}", path.display());
    }
}

/// Runs a command and returns how it ended. Terminal, directory and standard streams are the person's.
pub async fn exec(
    state_dir: &Path,
    own: &Env,
    command: &[String],
    wait: bool,
) -> Result<ExitStatus, ExecError> {
    let unusable = |e| ExecError::StateDirUnusable(state_dir.to_owned(), e);
    if !state_dir.is_dir() {
        return Err(ExecError::NoAgent(state_dir.to_owned()));
    }
    let slot = Slot::new(state_dir);
    let by = format!(
        "the command {:?} of a person (pid {})",
        command.join(" "),
        std::process::id()
    );
    let taken = if wait {
        Some(slot.wait(&by))
    } else {
        slot.take(&by).transpose()
    };
    let Some(taken) = taken.transpose().map_err(unusable)? else {
        return Err(ExecError::Busy(slot.holder()));
    };
    let Given { env: added, login } = Given::kept(state_dir);
    let Place {
        home,
        login_token_file,
    } = Place::kept(state_dir);
    let mut env = environment::compose(own, &added, &home);
    environment::prepare_home(&env).map_err(unusable)?;
    if let Some(exchange) = login.filter(|_| !login::has_token(&env)) {
        match Logins::new(login_token_file).token(&exchange, &env).await {
            Ok(token) => {
                env.insert(login::TOKEN.to_owned(), token.as_str().to_owned());
            }
            // Many commands do without.
            Err(e) => eprintln!("windlass-agent: {e}"),
        }
    }
    // A person's own command is no automation.
    env.remove("PULUMI_AUTOMATION_API");
    let name = command.first().cloned().unwrap_or_default();
    let program = if name.contains('/') {
        PathBuf::from(&name)
    } else {
        which(&name, &env).ok_or_else(|| ExecError::ProgramMissing(name.clone()))?
    };
    // The terminal sends Ctrl-C to both; the command alone decides what it means.
    let _interrupt = signal(SignalKind::interrupt());
    let mut terminate = signal(SignalKind::terminate()).map_err(unusable)?;
    let mut child = tokio::process::Command::new(&program)
        .args(&command[1..])
        .env_clear()
        .envs(&env)
        .spawn()
        .map_err(|e| ExecError::Unstartable(program.clone(), e))?;
    let id = child
        .id()
        .and_then(|p| crate::procs::ProcessId::of(p as i32));
    let status = loop {
        tokio::select! {
            status = child.wait() => break status,
            _ = terminate.recv() => if let Some(id) = &id {
                let _ = id.signal(rustix::process::Signal::TERM);
            },
        }
    };
    drop(taken);
    status.map_err(|e| ExecError::Unstartable(program, e))
}
