//! `windlass logs STACK [-f]`: from the agent while it answers, else from the file it left.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::ExitCode;

use tokio_stream::StreamExt;
use windlass_agent::{AgentClient, ClientError, RunEvent};
use windlass_api::run::RunState;
use windlass_engine::Key;
use windlass_local::StateReader;

use crate::error::{AtPath, Error, Result};
use crate::{print, status};

/// An agent that does not answer at once does not answer; the file is there all the same.
const PATIENCE: std::time::Duration = std::time::Duration::from_secs(2);

/// Prints the log of a run.
///
/// # Errors
/// `NoStack`, `NoLog`, and of the store and the agent.
pub async fn logs(
    data_dir: &Path,
    key: &Key,
    update: Option<&str>,
    follow: bool,
) -> Result<ExitCode> {
    let reader = StateReader::open(data_dir)?;
    status::must_exist(&reader, key)?;
    let run = wanted(&reader, key, update)?;
    if follow && let Some(agent) = connect(&reader, key).await {
        match watch(&agent, &run).await {
            // The agent has forgotten the run, which is over then.
            Err(ClientError::UnknownRun(_)) => {}
            Err(source) => {
                return Err(Error::Agent {
                    key: key.to_string(),
                    source: Box::new(source),
                });
            }
            Ok(()) => return Ok(ExitCode::SUCCESS),
        }
    }
    let file = reader.run_log(key, &run);
    if !file.is_file() {
        return Err(Error::NoLog(format!(
            "nothing has been printed by {run} yet, or its log is no longer kept"
        )));
    }
    copy(&file)?;
    Ok(ExitCode::SUCCESS)
}

/// The run that is meant: the named one, the one that goes on, the last.
fn wanted(reader: &StateReader, key: &Key, update: Option<&str>) -> Result<String> {
    let updates = reader.updates(key)?;
    let name = |update: &windlass_api::Update| update.metadata.name.clone().unwrap_or_default();
    if let Some(wanted) = update {
        return match updates.iter().any(|update| name(update) == wanted) {
            true => Ok(wanted.to_owned()),
            false => Err(Error::NoLog(format!(
                "Stack {key} has no Update {wanted}; `windlass status {key}` lists them"
            ))),
        };
    }
    let sequence = |update: &&windlass_api::Update| {
        update
            .spec
            .intent
            .as_ref()
            .map_or(0, |intent| intent.sequence)
    };
    updates
        .iter()
        .max_by_key(sequence)
        .map(name)
        .ok_or_else(|| {
            Error::NoLog(format!(
                "Stack {key} has not run yet; `windlass explain {key}` says why"
            ))
        })
}

async fn connect(reader: &StateReader, key: &Key) -> Option<AgentClient> {
    let socket = reader.agent_socket(key)?;
    // Looking needs no epoch: an agent refuses only requests that change something.
    tokio::time::timeout(PATIENCE, AgentClient::connect(&socket, 0))
        .await
        .ok()?
        .ok()
}

async fn watch(agent: &AgentClient, run: &str) -> std::result::Result<(), ClientError> {
    let mut events = agent.watch_run(run, 0).await?;
    while let Some(event) = events.next().await {
        match event? {
            RunEvent::Progress(_) => {}
            RunEvent::Log(line) => {
                if print::line(&line.text).is_err() {
                    return Ok(());
                }
            }
            RunEvent::Result(result) => {
                let end = match result.state {
                    RunState::Succeeded => "succeeded".to_owned(),
                    other => format!(
                        "{}: {}",
                        format!("{other:?}").to_lowercase(),
                        result.message
                    ),
                };
                eprintln!("{} {end}", result.operation);
            }
        }
    }
    Ok(())
}

/// Line by line: what a program prints must not steer the terminal.
fn copy(file: &Path) -> Result<()> {
    let mut reader = BufReader::new(std::fs::File::open(file).at(file)?);
    let mut line = Vec::new();
    while reader.read_until(b'\n', &mut line).at(file)? > 0 {
        let text = String::from_utf8_lossy(&line);
        print::line(text.trim_end_matches(['\r', '\n']))?;
        line.clear();
    }
    Ok(())
}
