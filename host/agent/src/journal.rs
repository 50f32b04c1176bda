//! What the agent must know after it was killed: an append-only file of JSON lines.
//!
//! A record is on disk before what it tells is acknowledged. Values of secrets are not in it: requests and results are
//! masked by whoever appends them.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use windlass_api::run::{InterruptCause, RunRequest, RunResult};

/// One fact. Times are milliseconds since the epoch.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", tag = "record")]
pub enum Record {
    /// The highest leader epoch seen.
    #[serde(rename_all = "camelCase")]
    Epoch { epoch: u64 },
    #[serde(rename_all = "camelCase")]
    Accepted {
        at_ms: i64,
        request: Box<RunRequest>,
    },
    /// The supervisor is about to be started: from here on the engine may have been reached.
    #[serde(rename_all = "camelCase")]
    Started { at_ms: i64, id: String },
    /// A signal is about to be sent.
    #[serde(rename_all = "camelCase")]
    Interrupted {
        at_ms: i64,
        id: String,
        cause: InterruptCause,
    },
    #[serde(rename_all = "camelCase")]
    Finished { result: Box<RunResult> },
    #[serde(rename_all = "camelCase")]
    Forgotten { id: String },
}

/// One run as the journal tells it.
#[derive(Clone, Debug, PartialEq)]
pub struct Told {
    pub request: RunRequest,
    pub accepted_at_ms: i64,
    pub started_at_ms: Option<i64>,
    pub interrupted: Option<InterruptCause>,
    pub result: Option<RunResult>,
}

/// The sum of the records.
#[derive(Debug, Default)]
pub struct Memory {
    pub epoch: u64,
    /// In the order of acceptance.
    pub runs: Vec<Told>,
}

impl Memory {
    fn apply(&mut self, record: Record) {
        let find = |runs: &mut Vec<Told>, id: &str| runs.iter().position(|t| t.request.id == id);
        match record {
            Record::Epoch { epoch } => self.epoch = self.epoch.max(epoch),
            Record::Accepted { at_ms, request } => self.runs.push(Told {
                request: *request,
                accepted_at_ms: at_ms,
                started_at_ms: None,
                interrupted: None,
                result: None,
            }),
            Record::Started { at_ms, id } => {
                if let Some(i) = find(&mut self.runs, &id) {
                    self.runs[i].started_at_ms = Some(at_ms);
                }
            }
            Record::Interrupted {
                at_ms: _,
                id,
                cause,
            } => {
                if let Some(i) = find(&mut self.runs, &id) {
                    self.runs[i].interrupted.get_or_insert(cause);
                }
            }
            Record::Finished { result } => {
                if let Some(i) = find(&mut self.runs, &result.id) {
                    self.runs[i].result = Some(*result);
                }
            }
            Record::Forgotten { id } => self.runs.retain(|t| t.request.id != id),
        }
    }

    /// The records that say the same in fewer words.
    fn records(&self) -> Vec<Record> {
        let mut records = vec![Record::Epoch { epoch: self.epoch }];
        for told in &self.runs {
            let Told {
                request,
                accepted_at_ms,
                started_at_ms,
                interrupted,
                result,
            } = told.clone();
            let id = request.id.clone();
            records.push(Record::Accepted {
                at_ms: accepted_at_ms,
                request: Box::new(request),
            });
            if let Some(at_ms) = started_at_ms {
                records.push(Record::Started {
                    at_ms,
                    id: id.clone(),
                });
            }
            if let Some(cause) = interrupted {
                records.push(Record::Interrupted {
                    at_ms: accepted_at_ms,
                    id,
                    cause,
                });
            }
            if let Some(result) = result {
                records.push(Record::Finished {
                    result: Box::new(result),
                });
            }
        }
        records
    }
}

/// Why the journal cannot be used. The agent does not start without it.
#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    #[error("the journal {path} cannot be used: {source}")]
    Unusable { path: PathBuf, source: io::Error },
    /// A line in the middle does not parse: the file was changed by someone else.
    #[error("the journal {path} is damaged in line {line}: {source}")]
    Damaged {
        path: PathBuf,
        line: usize,
        source: serde_json::Error,
    },
}

/// The open journal.
#[derive(Debug)]
pub struct Journal {
    path: PathBuf,
    file: File,
}

fn append_to(path: &Path) -> io::Result<File> {
    OpenOptions::new()
        .append(true)
        .create(true)
        .mode(0o600)
        .open(path)
}

impl Journal {
    /// Reads what was there and rewrites it without what was forgotten. A torn last line is dropped: its fact was
    /// never acknowledged.
    pub fn open(path: &Path) -> Result<(Journal, Memory), JournalError> {
        let unusable = |source| JournalError::Unusable {
            path: path.to_owned(),
            source,
        };
        let mut memory = Memory::default();
        match File::open(path) {
            Ok(file) => {
                let mut reader = BufReader::new(file);
                let mut text = Vec::new();
                for line in 1.. {
                    text.clear();
                    let n = reader.read_until(b'\n', &mut text).map_err(unusable)?;
                    if n == 0 || text.last() != Some(&b'\n') {
                        break;
                    }
                    let record =
                        serde_json::from_slice(&text).map_err(|source| JournalError::Damaged {
                            path: path.to_owned(),
                            line,
                            source,
                        })?;
                    memory.apply(record);
                }
            }
            Err(e) if e.kind() == io::ErrorKind::NotFound => {}
            Err(e) => return Err(unusable(e)),
        }
        let aside = path.with_extension("new");
        let mut text = Vec::new();
        for record in memory.records() {
            serde_json::to_writer(&mut text, &record).map_err(|e| unusable(e.into()))?;
            text.push(b'\n');
        }
        crate::supervise::write_synced(&aside, &text).map_err(unusable)?;
        fs::rename(&aside, path).map_err(unusable)?;
        if let Some(parent) = path.parent() {
            File::open(parent)
                .and_then(|d| d.sync_all())
                .map_err(unusable)?;
        }
        let file = append_to(path).map_err(unusable)?;
        Ok((
            Journal {
                path: path.to_owned(),
                file,
            },
            memory,
        ))
    }

    /// Returns once the record is on disk.
    pub fn append(&mut self, record: &Record) -> Result<(), JournalError> {
        let write = |file: &mut File| {
            let mut text = serde_json::to_vec(record)?;
            text.push(b'\n');
            file.write_all(&text)?;
            file.sync_data()
        };
        write(&mut self.file).map_err(|source| JournalError::Unusable {
            path: self.path.clone(),
            source,
        })
    }
}
