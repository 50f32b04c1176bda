//! One component as a child process, with its output in a file.

use std::fs::{File, OpenOptions};
use std::io::{Read as _, Seek as _, SeekFrom};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::error::{At as _, Error, Result};
use crate::watchdog::Watchdog;

/// A child process that ends with this one, and with this value.
pub struct Program {
    name: String,
    child: Child,
    watchdog: Arc<Watchdog>,
}

impl Program {
    /// Starts `program` in a process group of its own, its output appended to `log`.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn start(
        name: &str,
        mut command: Command,
        log: &Path,
        watchdog: &Arc<Watchdog>,
    ) -> Result<Self> {
        let open = || {
            let file: File = OpenOptions::new()
                .create(true)
                .append(true)
                .open(log)
                .at(log)?;
            Ok::<_, Error>(file)
        };
        let child = command
            .stdin(Stdio::null())
            .stdout(open()?)
            .stderr(open()?)
            .process_group(0)
            .spawn()
            .map_err(|source| Error::Process {
                what: format!("cannot start {name}"),
                source,
            })?;
        watchdog.add(child.id());
        Ok(Self {
            name: name.to_owned(),
            child,
            watchdog: Arc::clone(watchdog),
        })
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// How it ended, if it did.
    pub fn ended(&mut self) -> Option<std::process::ExitStatus> {
        self.child.try_wait().ok().flatten()
    }

    /// Sends a signal, unless it has ended.
    ///
    /// # Errors
    /// When it cannot be signalled.
    pub fn signal(&mut self, signal: Signal) -> Result<()> {
        if self.ended().is_some() {
            return Ok(());
        }
        let pid = Pid::from_raw(self.child.id().cast_signed());
        kill(pid, signal).map_err(|errno| Error::Process {
            what: format!("cannot send {signal} to {}", self.name),
            source: errno.into(),
        })
    }

    /// Asks it to end; kills it after `grace`.
    pub fn stop(&mut self, grace: Duration) {
        // A stopped process does not hear the request.
        let _ = self.signal(Signal::SIGTERM);
        let _ = self.signal(Signal::SIGCONT);
        let deadline = Instant::now() + grace;
        while self.ended().is_none() && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(10));
        }
        self.kill();
    }

    /// Kills it and waits for its end.
    pub fn kill(&mut self) {
        if self.ended().is_none() {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
        self.watchdog.remove(self.child.id());
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        self.kill();
    }
}

/// The last `lines` lines of a file, for people.
pub fn tail(path: &Path, lines: usize) -> String {
    /// Enough for some hundred lines; logs may be large.
    const BYTES: u64 = 64 * 1024;
    let read = || -> std::io::Result<Vec<u8>> {
        let mut file = File::open(path)?;
        let length = file.metadata()?.len();
        file.seek(SeekFrom::Start(length.saturating_sub(BYTES)))?;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes)?;
        Ok(bytes)
    };
    match read() {
        Ok(bytes) => {
            let text = String::from_utf8_lossy(&bytes);
            let all: Vec<_> = text.lines().collect();
            all[all.len().saturating_sub(lines)..].join("\n")
        }
        Err(error) => format!("({}: {error})", path.display()),
    }
}
