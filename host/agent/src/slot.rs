//! One CLI at a time: a lock on a file that a run and a person's `exec` share.
//!
//! The kernel drops the lock with the last process that holds the descriptor. A run hands it to its supervisor and the
//! CLI as their standard input, so that it outlasts an agent that was killed.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};

/// The slot of one workspace.
#[derive(Clone, Debug)]
pub struct Slot {
    path: PathBuf,
}

/// The slot is taken.
#[derive(Debug)]
pub struct Taken(pub File);

impl Slot {
    pub fn new(state_dir: &Path) -> Slot {
        Slot {
            path: state_dir.join("slot"),
        }
    }

    fn open(&self) -> io::Result<File> {
        OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(&self.path)
    }

    /// Takes the slot; none if somebody has it.
    pub fn take(&self, by: &str) -> io::Result<Option<Taken>> {
        let file = self.open()?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => self.note(by).map(|()| Some(Taken(file))),
            Err(rustix::io::Errno::WOULDBLOCK) => Ok(None),
            Err(e) => Err(e.into()),
        }
    }

    /// Waits for the slot. Blocks the thread.
    pub fn wait(&self, by: &str) -> io::Result<Taken> {
        let file = self.open()?;
        flock(&file, FlockOperation::LockExclusive)?;
        self.note(by)?;
        Ok(Taken(file))
    }

    /// Beside the lock, not in it: the lock file is somebody's standard input and stays empty.
    fn note(&self, by: &str) -> io::Result<()> {
        std::fs::write(self.path.with_extension("holder"), by)
    }

    /// Who took the slot last, for a person.
    pub fn holder(&self) -> String {
        std::fs::read_to_string(self.path.with_extension("holder")).unwrap_or_default()
    }
}
