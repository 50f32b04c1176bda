//! Whether a lock is held by a CLI that ran beside this agent and has ended.
//!
//! The number of a process says little: another container of the pod has the pod's host name and numbers of its own. So a
//! lock is only known to be left behind if it names a CLI of a run of this agent, was made while that CLI ran, and that
//! CLI is gone.

use std::path::Path;
use std::time::SystemTime;

use windlass_api::run::LockInfo;

use super::context::Workspace;
use crate::procs::ProcessId;
use crate::supervise::{self, read_json};

/// A lock states whole seconds, and files are written a moment after what they tell.
const SLACK_MS: i64 = 2_000;

/// Says of each lock whether its holder is known to have ended.
pub fn note(workspace: &Workspace, locks: &mut [LockInfo]) {
    if locks.is_empty() {
        return;
    }
    let own = rustix::system::uname();
    let own = own.nodename().to_string_lossy();
    let runs = workspace.state_dir.join("runs");
    for lock in locks.iter_mut().filter(|lock| lock.hostname == own) {
        lock.gone = left_behind(&runs, lock);
    }
}

fn left_behind(runs: &Path, lock: &LockInfo) -> bool {
    let Some(made) = millis(&lock.created) else {
        return false;
    };
    let Ok(entries) = std::fs::read_dir(runs) else {
        return false;
    };
    entries.flatten().any(|run| {
        let dir = run.path();
        let record = dir.join(supervise::CLI);
        let Some(cli) = read_json::<ProcessId>(&record) else {
            return false;
        };
        if i64::from(cli.pid) != lock.pid || cli.alive() {
            return false;
        }
        let Some(begun) = modified(&record) else {
            return false;
        };
        // Whatever was written last in the folder of the run.
        let last = std::fs::read_dir(&dir)
            .into_iter()
            .flatten()
            .flatten()
            .filter_map(|file| modified(&file.path()))
            .max()
            .unwrap_or(begun);
        (begun - SLACK_MS..=last + SLACK_MS).contains(&made)
    })
}

fn modified(path: &Path) -> Option<i64> {
    let since = path
        .metadata()
        .ok()?
        .modified()
        .ok()?
        .duration_since(SystemTime::UNIX_EPOCH)
        .ok()?;
    i64::try_from(since.as_millis()).ok()
}

/// Milliseconds since the epoch of an RFC 3339 time.
fn millis(text: &str) -> Option<i64> {
    serde_json::from_value::<windlass_api::Time>(text.into())
        .ok()
        .map(|time| time.0.as_millisecond())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn lock(pid: i64, created: &str) -> LockInfo {
        LockInfo {
            id: "one.json".into(),
            user: "pulumi".into(),
            hostname: "here".into(),
            pid,
            created: created.into(),
            gone: false,
        }
    }

    fn at(offset_s: i64) -> String {
        let now = jiff::Timestamp::now() + jiff::SignedDuration::from_secs(offset_s);
        now.to_string()
    }

    #[test]
    fn only_a_cli_of_its_own_that_ended_has_left_a_lock() {
        let dir = tempfile::tempdir().unwrap();
        let run = dir.path().join("run-1");
        std::fs::create_dir(&run).unwrap();
        let mut child = std::process::Command::new("sleep")
            .arg("600")
            .spawn()
            .unwrap();
        let pid = i64::from(child.id());
        let cli = ProcessId::of(child.id() as i32).unwrap();
        std::fs::write(run.join(supervise::CLI), serde_json::to_vec(&cli).unwrap()).unwrap();

        assert!(!left_behind(dir.path(), &lock(pid, &at(0))), "it lives");
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(left_behind(dir.path(), &lock(pid, &at(0))));
        assert!(!left_behind(dir.path(), &lock(pid + 1, &at(0))), "another");
        assert!(!left_behind(dir.path(), &lock(pid, &at(-60))), "before it");
        assert!(!left_behind(dir.path(), &lock(pid, &at(60))), "after it");
        assert!(!left_behind(dir.path(), &lock(pid, "once")), "no time");
        assert!(!left_behind(Path::new("/none"), &lock(pid, &at(0))));
    }
}
