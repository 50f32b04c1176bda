//! What an agent answers, and why it did not.

use std::io;
use std::pin::Pin;

use futures::Stream;
use tonic::{Code, Status};
use windlass_api::run::{RunProgress, RunResult, RunState};

use crate::agent::LogLine;
use crate::tls::trust_problem;

use super::tame::LONGEST_TEXT;

/// Why an agent did not do what it was asked.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// Nobody answers there. The agent may be gone; what it runs may go on.
    #[error("no agent answers at {place}: {message}")]
    Unreachable { place: String, message: String },
    /// Somebody answers there who is not the agent that should, or who does not take this side for the operator.
    #[error("the agent at {place} and the operator do not trust each other: {message}")]
    Untrusted { place: String, message: String },
    /// Another run, or a person, has the workspace.
    #[error("{0}")]
    Busy(String),
    /// A newer leader has spoken to this agent.
    #[error("{0}")]
    StaleEpoch(String),
    /// The agent does not know the run.
    #[error("{0}")]
    UnknownRun(String),
    /// The agent is about to end.
    #[error("{0}")]
    Stopping(String),
    #[error("the agent refused: {0}")]
    Refused(String),
    /// What the agent sent cannot be understood.
    #[error("the agent sent what cannot be read: {0}")]
    Unreadable(String),
    #[error("the tree cannot be read: {0}")]
    TreeUnreadable(#[from] io::Error),
}

impl ClientError {
    /// `distrust` is what the agent's side of the connection had against this one.
    pub(super) fn of(place: &str, status: Status, distrust: Option<String>) -> ClientError {
        // A reconnection that failed carries its own cause.
        let lost = matches!(
            status.code(),
            Code::Unavailable | Code::Unknown | Code::Internal
        );
        if let Some(message) = trust_problem(&status).or(distrust.filter(|_| lost)) {
            let place = place.to_owned();
            return ClientError::Untrusted { place, message };
        }
        let text: String = status.message().chars().take(LONGEST_TEXT).collect();
        match status.code() {
            Code::ResourceExhausted => ClientError::Busy(text),
            Code::FailedPrecondition => ClientError::StaleEpoch(text),
            Code::NotFound => ClientError::UnknownRun(text),
            Code::Unavailable if text == "the agent is stopping" => ClientError::Stopping(text),
            Code::Unavailable | Code::Unknown | Code::Cancelled | Code::DeadlineExceeded => {
                ClientError::Unreachable {
                    place: place.to_owned(),
                    message: text,
                }
            }
            // The transport's own words for messages that are too large or are none.
            Code::OutOfRange if text.starts_with("Error, decoded message length too large") => {
                ClientError::Unreadable(text)
            }
            Code::Internal if text.starts_with("failed to decode") => ClientError::Unreadable(text),
            _ => ClientError::Refused(text),
        }
    }
}

/// What an agent says of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AgentInfo {
    pub protocol: u32,
    /// New with every start of the agent.
    pub boot_id: String,
    pub pid: u32,
    pub agent_version: String,
    /// Or why there is no usable CLI.
    pub pulumi: Result<String, String>,
    /// Id of the run that goes on.
    pub open_run: Option<String>,
    pub hostname: String,
}

/// Whether a request began something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Started {
    New,
    /// The same id was asked before.
    Known,
}

/// What became of a tree that was offered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TreePut {
    /// It was there: nothing was sent but its name.
    Present,
    Sent {
        bytes: u64,
        entries: u32,
    },
}

/// One of an agent's runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunSummary {
    pub id: String,
    pub operation: String,
    pub state: RunState,
    pub accepted_at_ms: i64,
}

/// News of a run. The result is the last.
#[derive(Clone, Debug, PartialEq)]
pub enum RunEvent {
    Progress(RunProgress),
    Log(LogLine),
    Result(Box<RunResult>),
}

/// News of a run, in order.
pub type RunEvents = Pin<Box<dyn Stream<Item = Result<RunEvent, ClientError>> + Send>>;
