//! Tells the news of a run to those who need them.

use std::sync::Arc;

use windlass_api::run::{InterruptCause, Operation, RunProgress};

use super::board::Run;
use super::{Agent, now_ms};
use crate::journal::Record;
use crate::run::Listener;

/// Tells watchers, the journal and the agent's own standard output.
pub struct Reporter {
    pub agent: Arc<Agent>,
    pub run: Arc<Run>,
}

impl Listener for Reporter {
    fn progress(&self, progress: RunProgress) {
        self.run.change(|seen| seen.progress = progress);
    }

    fn log(&self, stderr: bool, text: String) {
        let operation: Operation = self.run.request.operation;
        // A closed standard output must not end a run.
        let _ = std::io::Write::write_all(
            &mut std::io::stdout(),
            format!("{operation} | {text}\n").as_bytes(),
        );
        self.run.change(|seen| seen.add_line(stderr, text));
    }

    fn interrupting(&self, cause: InterruptCause) {
        let record = Record::Interrupted {
            at_ms: now_ms(),
            id: self.run.request.id.clone(),
            cause,
        };
        if let Err(e) = self.agent.append(&record) {
            tracing::error!("{e}");
        }
    }

    fn starting(&self) {
        let record = Record::Started {
            at_ms: now_ms(),
            id: self.run.request.id.clone(),
        };
        if let Err(e) = self.agent.append(&record) {
            tracing::error!("{e}");
        }
    }
}
