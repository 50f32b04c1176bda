//! What an agent says, before anybody believes it.
//!
//! An agent runs beside the user's own program and may be in its hands. It is trusted with the outcome of its own runs; it is
//! not trusted with the operator's memory, with other runs, or with texts of any length.

use windlass_api::run::{FailureEvidence, ProjectInfo, RunProgress, RunResult};

use super::{AgentInfo, ClientError, LogLine, RunSummary};

/// Texts for a person, in characters.
pub const LONGEST_TEXT: usize = 4096;
const LONGEST_NAME: usize = 253;
const LONGEST_LINE: usize = 128 << 10;
const MOST_RUNS: usize = 1000;
const MOST_DIAGNOSTICS: usize = 20;
const MOST_LOCKS: usize = 100;
const MOST_KINDS_OF_CHANGES: usize = 64;

fn unreadable(text: impl Into<String>) -> ClientError {
    ClientError::Unreadable(text.into())
}

fn cut(text: &mut String, most: usize) {
    if let Some((at, _)) = text.char_indices().nth(most) {
        text.truncate(at);
    }
}

/// A name is short and plain, or it is none.
fn name(what: &str, text: &str) -> Result<(), ClientError> {
    let fine = |c: char| c.is_ascii_graphic();
    if text.len() <= LONGEST_NAME && text.chars().all(fine) {
        return Ok(());
    }
    Err(unreadable(format!("{what} that is no name")))
}

pub fn info(info: AgentInfo) -> Result<AgentInfo, ClientError> {
    let AgentInfo {
        protocol,
        boot_id,
        pid,
        agent_version,
        mut pulumi,
        open_run,
        hostname,
    } = info;
    name("a boot id", &boot_id)?;
    name("a version", &agent_version)?;
    name("a host's name", &hostname)?;
    if let Some(run) = &open_run {
        name("a run's id", run)?;
    }
    match &mut pulumi {
        Ok(version) => name("a version of pulumi", version)?,
        Err(problem) => cut(problem, LONGEST_TEXT),
    }
    Ok(AgentInfo {
        protocol,
        boot_id,
        pid,
        agent_version,
        pulumi,
        open_run,
        hostname,
    })
}

pub fn summaries(runs: Vec<RunSummary>) -> Result<Vec<RunSummary>, ClientError> {
    if runs.len() > MOST_RUNS {
        return Err(unreadable(format!("{} runs", runs.len())));
    }
    for run in &runs {
        name("a run's id", &run.id)?;
        name("an operation", &run.operation)?;
    }
    Ok(runs)
}

/// `next` is the lowest number that the line may have.
pub fn line(line: LogLine, next: u64) -> Result<LogLine, ClientError> {
    if line.number < next {
        return Err(unreadable(format!(
            "line {} of the log after line {}",
            line.number,
            next.saturating_sub(1)
        )));
    }
    if line.text.len() > LONGEST_LINE {
        return Err(unreadable(format!(
            "a line of the log with {} bytes",
            line.text.len()
        )));
    }
    Ok(line)
}

pub fn progress(progress: RunProgress) -> RunProgress {
    let RunProgress {
        mut stage,
        done,
        total,
        mut current,
    } = progress;
    cut(&mut stage, 64);
    if let Some(current) = &mut current {
        cut(current, 1024);
    }
    RunProgress {
        stage,
        done,
        total,
        current,
    }
}

/// The result must be that of the run that was asked for. Its outputs are as large as they are: who stores them decides.
pub fn result(id: &str, result: RunResult) -> Result<RunResult, ClientError> {
    let RunResult {
        id: of,
        operation,
        state,
        started_at_ms,
        ended_at_ms,
        mut message,
        failure,
        outputs,
        changes,
        resources,
        permalink,
        project,
        reached_engine,
    } = result;
    if of != id {
        let of: String = of.chars().take(LONGEST_NAME).collect();
        return Err(unreadable(format!("the result of {of:?} for {id:?}")));
    }
    if changes.len() > MOST_KINDS_OF_CHANGES {
        return Err(unreadable("a result with too many kinds of changes"));
    }
    for kind in changes.keys() {
        name("a kind of change", kind)?;
    }
    if let Some(ProjectInfo { name: n, runtime }) = &project {
        name("a project", n)?;
        name("a runtime", runtime)?;
    }
    cut(&mut message, LONGEST_TEXT);
    Ok(RunResult {
        id: of,
        operation,
        state,
        started_at_ms,
        ended_at_ms,
        message,
        failure: failure.map(evidence).transpose()?,
        outputs,
        changes,
        resources,
        permalink: permalink.filter(|l| is_link(l)),
        project,
        reached_engine,
    })
}

/// It becomes a link that a person follows.
fn is_link(link: &str) -> bool {
    const SCHEMES: [&str; 6] = ["https", "http", "file", "s3", "gs", "azblob"];
    link.len() <= 2048
        && link.chars().all(|c| c.is_ascii_graphic())
        && link
            .split_once("://")
            .is_some_and(|(scheme, _)| SCHEMES.contains(&scheme))
}

fn evidence(evidence: FailureEvidence) -> Result<FailureEvidence, ClientError> {
    let FailureEvidence {
        exit_code,
        signal,
        interrupted,
        before_cli,
        reason,
        mut diagnostics,
        mut stderr_tail,
        mut locks,
    } = evidence;
    if let Some(reason) = &reason {
        // It becomes the reason of a condition, which the API server refuses in any other form.
        let plain = reason.chars().all(|c| c.is_ascii_alphanumeric());
        if !plain || reason.is_empty() || reason.len() > 128 {
            return Err(unreadable("a reason that is none"));
        }
    }
    let surplus = diagnostics.len().saturating_sub(MOST_DIAGNOSTICS);
    diagnostics.drain(..surplus);
    for diagnostic in &mut diagnostics {
        cut(&mut diagnostic.severity, 64);
        cut(&mut diagnostic.message, 4 * LONGEST_TEXT);
        if let Some(urn) = &mut diagnostic.urn {
            cut(urn, LONGEST_TEXT);
        }
    }
    cut(&mut stderr_tail, 2 * LONGEST_TEXT);
    locks.truncate(MOST_LOCKS);
    for lock in &mut locks {
        let texts = [&mut lock.user, &mut lock.hostname, &mut lock.created];
        texts.into_iter().for_each(|t| cut(t, LONGEST_NAME));
        cut(&mut lock.id, 1024);
    }
    Ok(FailureEvidence {
        exit_code,
        signal,
        interrupted,
        before_cli,
        reason,
        diagnostics,
        stderr_tail,
        locks,
    })
}
