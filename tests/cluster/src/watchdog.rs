//! Ends processes when the process that started them is gone, even if it was killed.
//!
//! A shell reads a pipe whose other end only this process holds. When it closes, whatever the
//! reason, the shell kills what was entered and not removed again. This needs no unsafe code, and
//! unlike the kernel's parent-death signal it does not follow the *thread* that started the child.

use std::io::Write as _;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::{Mutex, PoisonError};

use crate::error::{Error, Result};

/// What the shell does. `$1` is the folder to remove at the end.
const SCRIPT: &str = r#"
pids=
while read -r what pid; do
  others=
  for known in $pids; do [ "$known" = "$pid" ] || others="$others $known"; done
  pids=$others
  if [ "$what" = add ]; then pids="$pids $pid"; fi
done
for pid in $pids; do kill -KILL "$pid" 2>/dev/null; done
tries=0
while [ -e "$1" ] && [ $tries -lt 50 ]; do
  rm -rf "$1" 2>/dev/null
  [ ! -e "$1" ] || sleep 0.1
  tries=$((tries + 1))
done
"#;

/// The shell and the pipe to it.
pub struct Watchdog {
    shell: Child,
    pipe: Mutex<Option<ChildStdin>>,
}

impl Watchdog {
    /// Starts one that also removes `folder`.
    ///
    /// # Errors
    /// When there is no shell.
    pub fn new(folder: &Path) -> Result<Self> {
        let mut shell = Command::new("sh")
            .args(["-c", SCRIPT, "watchdog"])
            .arg(folder)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            // An interrupt from the terminal must not end it before it has done its work.
            .process_group(0)
            .current_dir("/")
            .spawn()
            .map_err(|source| Error::Process {
                what: "cannot start the watchdog's sh".to_owned(),
                source,
            })?;
        let pipe = Mutex::new(shell.stdin.take());
        Ok(Self { shell, pipe })
    }

    /// From now on `pid` ends with us.
    pub fn add(&self, pid: u32) {
        self.tell("add", pid);
    }

    /// `pid` has ended and was waited for; its number may be another's soon.
    pub fn remove(&self, pid: u32) {
        self.tell("drop", pid);
    }

    fn tell(&self, what: &str, pid: u32) {
        let mut pipe = self.pipe.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(pipe) = pipe.as_mut() {
            // A watchdog that somebody killed cannot be told; what it watched is still ended in
            // the ordinary way.
            let _ = writeln!(pipe, "{what} {pid}");
        }
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        *self.pipe.lock().unwrap_or_else(PoisonError::into_inner) = None;
        let _ = self.shell.wait();
    }
}
