//! Processes by pid and start time: a pid alone may be somebody else's by now.

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde::{Deserialize, Serialize};

/// One process of this machine, in this boot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Process {
    pub pid: u32,
    /// Clock ticks between the machine's boot and the start of the process; none if it was gone already.
    pub started: Option<u64>,
    /// The machine's boot.
    pub boot: String,
}

impl Process {
    pub fn of(pid: u32) -> Process {
        Process {
            pid,
            started: stat(pid).map(|stat| stat.started),
            boot: boot(),
        }
    }

    /// Whether it still runs. A zombie does not.
    pub fn is_alive(&self) -> bool {
        self.boot == boot()
            && stat(self.pid).is_some_and(|stat| Some(stat.started) == self.started && !stat.over)
    }

    pub fn signal(&self, signal: Signal) {
        if self.is_alive()
            && let Ok(pid) = i32::try_from(self.pid)
        {
            let _ = kill(Pid::from_raw(pid), signal);
        }
    }
}

struct Stat {
    started: u64,
    over: bool,
}

/// Reads `/proc/PID/stat`; see proc(5). The name in the second field may hold anything, so fields are counted from its end.
fn stat(pid: u32) -> Option<Stat> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let fields: Vec<&str> = text.rsplit_once(')')?.1.split_whitespace().collect();
    Some(Stat {
        started: fields.get(19)?.parse().ok()?,
        over: matches!(*fields.first()?, "Z" | "X"),
    })
}

fn boot() -> String {
    std::fs::read_to_string("/proc/sys/kernel/random/boot_id")
        .map(|text| text.trim().to_owned())
        .unwrap_or_default()
}

/// Whether a process of this machine that is said to have made something at `ms` (since the epoch) can still live.
pub fn may_live_since(pid: i64, ms: i64) -> bool {
    let Ok(pid) = u32::try_from(pid) else {
        return true;
    };
    let Some(stat) = stat(pid) else { return false };
    let Some(boot_ms) = boot_time_ms() else {
        return true;
    };
    // Clock ticks are hundredths of a second on every Linux that reports to user space.
    let started_ms = boot_ms
        + i64::try_from(stat.started)
            .unwrap_or(i64::MAX / 20)
            .saturating_mul(10);
    // The pid may have been given to another process since; two seconds for the roundings of both clocks.
    !stat.over && started_ms <= ms.saturating_add(2000)
}

fn boot_time_ms() -> Option<i64> {
    let text = std::fs::read_to_string("/proc/stat").ok()?;
    let seconds: i64 = text
        .lines()
        .find_map(|line| line.strip_prefix("btime "))?
        .trim()
        .parse()
        .ok()?;
    Some(seconds * 1000)
}

pub fn hostname() -> String {
    rustix::system::uname()
        .nodename()
        .to_str()
        .map(str::to_owned)
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_lives_and_another_boot_does_not() {
        let own = Process::of(std::process::id());
        assert!(own.is_alive());
        assert!(
            !Process {
                boot: "another".into(),
                ..own.clone()
            }
            .is_alive()
        );
        assert!(
            !Process {
                started: own.started.map(|ticks| ticks + 1),
                ..own
            }
            .is_alive()
        );
    }

    #[test]
    fn a_pid_that_was_given_away_again_is_no_holder() {
        let pid = i64::from(std::process::id());
        assert!(!may_live_since(pid, 1_000));
        assert!(may_live_since(pid, i64::MAX / 4));
    }
}
