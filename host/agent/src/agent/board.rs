//! One run as its watchers see it.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Mutex;

use tokio::sync::watch;
use windlass_api::run::{
    InterruptCause, OutputValue, RunProgress, RunRequest, RunResult, RunState,
};

use super::locked;

/// Lines of a run that are kept for whoever asks later.
const LINES_KEPT: usize = 4096;
/// And their bytes, unless the agent is given less memory.
pub const BYTES_KEPT: usize = 8 << 20;
/// What a watcher gets at once.
const LINES_AT_ONCE: usize = 512;
const BYTES_AT_ONCE: usize = 256 << 10;

/// A line of a run's log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogLine {
    /// From 0, without gaps.
    pub number: u64,
    pub stderr: bool,
    pub text: String,
}

/// What is known of a run so far.
#[derive(Debug, Default)]
pub struct Seen {
    pub progress: RunProgress,
    lines: VecDeque<LogLine>,
    next_line: u64,
    bytes: usize,
    most_bytes: usize,
    pub result: Option<RunResult>,
    /// The result comes from the journal: values of its secret outputs are to be read again.
    pub masked: bool,
}

/// One run, as its watchers see it.
#[derive(Debug)]
pub struct Run {
    pub request: RunRequest,
    pub accepted_at_ms: i64,
    seen: Mutex<Seen>,
    changed: watch::Sender<u64>,
    pub orders: watch::Sender<Option<InterruptCause>>,
}

/// What a watcher gets at once.
#[derive(Debug)]
pub struct Look {
    pub progress: RunProgress,
    pub lines: Vec<LogLine>,
    /// There are more lines already.
    pub more: bool,
    pub result: Option<RunResult>,
}

impl Seen {
    pub fn add_line(&mut self, stderr: bool, text: String) {
        let number = self.next_line;
        self.next_line += 1;
        self.bytes += text.len();
        self.lines.push_back(LogLine {
            number,
            stderr,
            text,
        });
        while self.lines.len() > LINES_KEPT || self.bytes > self.most_bytes {
            let Some(oldest) = self.lines.pop_front() else {
                break;
            };
            self.bytes -= oldest.text.len();
        }
    }
}

impl Run {
    pub fn new(request: RunRequest, accepted_at_ms: i64, most_bytes: usize) -> Run {
        let seen = Seen {
            most_bytes,
            ..Seen::default()
        };
        Run {
            request,
            accepted_at_ms,
            seen: Mutex::new(seen),
            changed: watch::channel(0).0,
            orders: watch::channel(None).0,
        }
    }

    pub fn change(&self, change: impl FnOnce(&mut Seen)) {
        change(&mut locked(&self.seen));
        self.changed.send_modify(|n| *n += 1);
    }

    /// Everything from a line on; of the lines as many as are good to have in memory twice.
    pub fn look(&self, from: u64) -> Look {
        let seen = locked(&self.seen);
        let mut bytes = 0;
        let lines: Vec<LogLine> = seen
            .lines
            .iter()
            .filter(|l| l.number >= from)
            .take(LINES_AT_ONCE)
            .take_while(|l| {
                let first = bytes == 0;
                bytes += l.text.len();
                first || bytes <= BYTES_AT_ONCE
            })
            .cloned()
            .collect();
        Look {
            more: lines
                .last()
                .is_some_and(|last| last.number + 1 < seen.next_line),
            progress: seen.progress.clone(),
            lines,
            result: seen.result.clone(),
        }
    }

    /// Outputs whose secret values are to be read again.
    pub fn masked_outputs(&self) -> Option<BTreeMap<String, OutputValue>> {
        let seen = locked(&self.seen);
        seen.result
            .as_ref()
            .filter(|_| seen.masked)?
            .outputs
            .clone()
    }

    /// Wakes with every change.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.changed.subscribe()
    }

    pub fn state(&self) -> RunState {
        locked(&self.seen)
            .result
            .as_ref()
            .map_or(RunState::Running, |r| r.state)
    }
}
