//! Processes that this one may not be the parent of: identity, life, signals, sessions.

use std::fs;
use std::io;
use std::time::{Duration, Instant};

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use serde::{Deserialize, Serialize};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// One process, told apart from a later one under the same number.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessId {
    pub pid: i32,
    /// Start time in clock ticks since the kernel booted.
    pub start: u64,
    /// The kernel's boot id: start times of two boots do not compare.
    pub boot: String,
}

/// What `/proc/PID/stat` says.
struct Stat {
    state: char,
    parent: i32,
    session: i32,
    start: u64,
}

fn read_stat(pid: i32) -> Option<Stat> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The command name is in parentheses and may hold anything: fields begin after the last one.
    let rest = &text[text.rfind(')')? + 1..];
    let mut fields = rest.split_ascii_whitespace();
    let state = fields.next()?.chars().next()?;
    let parent = fields.next()?.parse().ok()?;
    let session = fields.nth(1)?.parse().ok()?;
    let start = fields.nth(15)?.parse().ok()?;
    Some(Stat {
        state,
        parent,
        session,
        start,
    })
}

fn kernel_boot_id() -> String {
    fs::read_to_string("/proc/sys/kernel/random/boot_id")
        .map(|s| s.trim().to_owned())
        .unwrap_or_default()
}

impl ProcessId {
    /// The process that has this number now; none if there is none.
    pub fn of(pid: i32) -> Option<ProcessId> {
        let stat = read_stat(pid)?;
        Some(ProcessId {
            pid,
            start: stat.start,
            boot: kernel_boot_id(),
        })
    }

    /// Whether it still runs. A process that ended and was not reaped is dead.
    pub fn alive(&self) -> bool {
        read_stat(self.pid).is_some_and(|s| s.start == self.start && s.state != 'Z')
            && kernel_boot_id() == self.boot
    }

    fn open(&self) -> io::Result<std::os::fd::OwnedFd> {
        let pid =
            Pid::from_raw(self.pid).ok_or_else(|| io::Error::from(io::ErrorKind::NotFound))?;
        let fd = pidfd_open(pid, PidfdFlags::empty())?;
        // Only after the descriptor is held can the number not be given to another process.
        if self.alive() {
            Ok(fd)
        } else {
            Err(io::ErrorKind::NotFound.into())
        }
    }

    /// Sends a signal to exactly this process. `NotFound` if it is gone.
    pub fn signal(&self, signal: Signal) -> io::Result<()> {
        Ok(pidfd_send_signal(self.open()?, signal)?)
    }

    /// Returns once the process has ended.
    pub async fn ended(&self) -> io::Result<()> {
        match self.open() {
            Ok(fd) => {
                // Deprecated for types that do not own their descriptor; this one does.
                #[allow(deprecated)]
                let fd = AsyncFd::with_interest(fd, Interest::READABLE)?;
                let _ = fd.readable().await?;
                Ok(())
            }
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(e) if e.raw_os_error() == Some(rustix::io::Errno::SRCH.raw_os_error()) => Ok(()),
            Err(e) => Err(e),
        }
    }
}

fn all() -> impl Iterator<Item = (i32, Stat)> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries
        .filter_map(|e| e.file_name().to_str()?.parse::<i32>().ok())
        .filter_map(|pid| Some((pid, read_stat(pid)?)))
}

/// Processes of a session that still run, without the one asking.
pub fn session_members(session: i32) -> Vec<ProcessId> {
    let own = rustix::process::getpid().as_raw_nonzero().get();
    all()
        .filter(|(pid, stat)| *pid != own && stat.session == session && stat.state != 'Z')
        .filter_map(|(pid, _)| ProcessId::of(pid))
        .collect()
}

/// Children of a process that ended and were not reaped.
pub fn zombies_of(parent: i32) -> Vec<i32> {
    all()
        .filter(|(_, stat)| stat.parent == parent && stat.state == 'Z')
        .map(|(pid, _)| pid)
        .collect()
}

/// Ends what is left of a session: asks first, insists after two seconds. Returns how many there were.
///
/// Plugins live in process groups of their own, so a group signal would miss them; the session does not.
pub fn end_session(session: i32) -> usize {
    let members = session_members(session);
    for member in &members {
        let _ = member.signal(Signal::TERM);
    }
    let patience = Instant::now() + Duration::from_secs(2);
    while members.iter().any(ProcessId::alive) {
        if Instant::now() > patience {
            for member in session_members(session) {
                let _ = member.signal(Signal::KILL);
            }
            break;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    members.len()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[tokio::test]
    async fn a_process_is_known_until_it_ends() {
        let mut child = std::process::Command::new("sleep")
            .arg("60")
            .spawn()
            .unwrap();
        let id = ProcessId::of(child.id() as i32).unwrap();
        assert!(id.alive());
        let other = ProcessId {
            start: id.start + 1,
            ..id.clone()
        };
        assert!(!other.alive(), "another process under the same number");
        assert_eq!(
            other.signal(Signal::KILL).unwrap_err().kind(),
            io::ErrorKind::NotFound
        );
        id.signal(Signal::KILL).unwrap();
        id.ended().await.unwrap();
        assert!(zombies_of(std::process::id() as i32).contains(&id.pid));
        child.wait().unwrap();
        assert!(!id.alive());
        id.ended().await.unwrap();
    }
}
