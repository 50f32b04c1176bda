//! `windlass-agent exec -- pulumi ...`: a person's command in the environment of the runs, in the one slot for a CLI.

use std::path::{Path, PathBuf};
use std::process::ExitStatus;

use tokio::signal::unix::{SignalKind, signal};

use crate::environment::{self, Env, which};
use crate::slot::Slot;

#[derive(Debug, thiserror::Error)]
pub enum ExecError {
    #[error("busy: {0} goes on in this workspace. Wait for its end, or use --wait")]
    Busy(String),
    #[error("there is no {0:?} on the PATH of the workspace")]
    ProgramMissing(String),
    #[error("{0}: {1}")]
    Unstartable(PathBuf, std::io::Error),
    #[error("the state directory {0} cannot be used: {1}")]
    StateDirUnusable(PathBuf, std::io::Error),
}

/// Runs a command and returns how it ended. Terminal, directory and standard streams are the person's.
pub async fn exec(
    state_dir: &Path,
    own: &Env,
    command: &[String],
    wait: bool,
) -> Result<ExitStatus, ExecError> {
    let unusable = |e| ExecError::StateDirUnusable(state_dir.to_owned(), e);
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
    // What the last run was given by its backend: without it the CLI would look elsewhere.
    let added: Env = std::fs::read(state_dir.join("last-env.json"))
        .ok()
        .and_then(|b| serde_json::from_slice(&b).ok())
        .unwrap_or_default();
    let mut env = environment::compose(own, &added, state_dir);
    environment::prepare_home(&env).map_err(unusable)?;
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
