//! Running one test binary: its output in a file, its end within a limit, its tests counted.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use crate::error::{AtPath, Error, Result};
use crate::process::spelled;
use crate::tally::Tally;

/// Far beyond what any test binary needs: only a hang reaches it.
const LIMIT: Duration = Duration::from_secs(20 * 60);

/// How much of a failed binary's output is shown; all of it is in its file.
const SHOWN_LINES: usize = 120;

/// How a test binary ended.
#[derive(Debug)]
pub struct Outcome {
    pub tally: Tally,
    pub took: Duration,
    /// Where its output is.
    pub log: PathBuf,
    /// What a person needs of a bad end; empty after a good one.
    pub said: String,
}

/// Runs `command` with its output going to `log`.
///
/// # Errors
/// When it cannot be started, or the log cannot be written. That a test fails is no error here.
pub fn run(command: &mut Command, log: &Path) -> Result<Outcome> {
    let file = File::create(log).at(log)?;
    let errors = file.try_clone().at(log)?;
    command.stdin(Stdio::null()).stdout(file).stderr(errors);
    let started = Instant::now();
    let mut child = command.spawn().map_err(|source| Error::CommandUnusable {
        command: spelled(command),
        source,
    })?;
    let status = wait(&mut child, started, LIMIT).at(log)?;
    let took = started.elapsed();
    let output = String::from_utf8_lossy(&std::fs::read(log).at(log)?).into_owned();
    let ended_well = status.is_some_and(|status| status.success());
    let tally = Tally::of_output(&output, ended_well);
    let mut said = String::new();
    if !ended_well {
        match status {
            Some(status) if !output.contains("test result: ") => {
                said = format!("  ended by {status}\n");
            }
            Some(_) => {}
            None => said = format!("  hung, and was ended after {} min\n", LIMIT.as_secs() / 60),
        }
        said.push_str(&tail(&output, SHOWN_LINES));
    }
    Ok(Outcome {
        tally,
        took,
        log: log.to_owned(),
        said,
    })
}

/// Waits for the end; after `limit` kills this one process, and answers `None`.
fn wait(
    child: &mut Child,
    started: Instant,
    limit: Duration,
) -> std::io::Result<Option<ExitStatus>> {
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        if started.elapsed() >= limit {
            child.kill()?;
            child.wait()?;
            return Ok(None);
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// What a person needs of a failed binary's output: from the `failures:` heading on, at most the
/// last `lines` lines of it.
fn tail(output: &str, lines: usize) -> String {
    let from = output.find("\nfailures:\n").map_or(0, |at| at + 1);
    let all: Vec<_> = output[from..].lines().collect();
    let kept = &all[all.len().saturating_sub(lines)..];
    let mut text = String::new();
    if kept.len() < all.len() {
        text.push_str("  (the beginning is in the log)\n");
    }
    for line in kept {
        text.push_str("  | ");
        text.push_str(line);
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use pretty_assertions::assert_eq;

    fn shell(script: &str) -> (Outcome, String) {
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("log");
        let outcome = run(Command::new("sh").args(["-c", script]), &log).unwrap();
        let text = std::fs::read_to_string(&log).unwrap();
        (outcome, text)
    }

    #[test]
    fn both_streams_are_kept_and_the_result_is_counted() {
        let (outcome, log) = shell(
            "echo noise >&2; echo 'test result: ok. 2 passed; 0 failed; 0 ignored; 0 measured'",
        );
        assert!(log.starts_with("noise\ntest result"));
        assert_eq!(outcome.tally.to_string(), "2 passed, 0 failed, 0 skipped");
    }

    #[test]
    fn a_signal_is_a_failure() {
        let (outcome, _) = shell("kill -9 $$");
        assert_eq!(outcome.tally.failed, 1);
    }

    #[test]
    fn what_hangs_is_ended() {
        let mut child = Command::new("sleep").arg("600").spawn().unwrap();
        let status = wait(&mut child, Instant::now(), Duration::from_millis(20)).unwrap();
        assert_eq!(status, None);
    }

    #[test]
    fn a_failure_is_shown_from_its_heading_on() {
        let output = "running 2 tests\n..F\n\nfailures:\n\n---- a stdout ----\nboom\n";
        assert_eq!(
            tail(output, 10),
            "  | failures:\n  | \n  | ---- a stdout ----\n  | boom\n"
        );
        assert_eq!(
            tail(output, 1),
            "  (the beginning is in the log)\n  | boom\n"
        );
    }
}
