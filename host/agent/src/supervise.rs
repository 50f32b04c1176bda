//! The process between the agent and the CLI.
//!
//! It is small, starts a session of its own, starts the CLI in it, waits, writes down how the CLI ended, and ends what
//! the CLI left behind. Thus a run goes on when the agent dies, and its exit code is not lost with the CLI's parent.
//!
//! Its standard input is the locked run slot: the lock lasts as long as this process or the CLI.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde::{Deserialize, Serialize};

use crate::procs::{ProcessId, end_session};

/// Names of the files in a run's folder that agent and supervisor share.
pub const COMMAND: &str = "command.json";
pub const CLAIM: &str = "claim.json";
pub const CLI: &str = "cli.json";
pub const EXIT: &str = "exit.json";
/// What the CLI prints, as it is. Only there while the run goes on: what is kept is [`LOG`].
pub const STDOUT: &str = "stdout";
pub const STDERR: &str = "stderr";
/// The engine's events. Only there while the run goes on.
pub const EVENTS: &str = "events";
/// What the CLI printed on both streams, redacted, in the order in which it was heard.
pub const LOG: &str = "log";

/// What to start. The environment is the supervisor's own: it never touches the disk.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct CommandLine {
    pub program: PathBuf,
    pub args: Vec<String>,
    pub cwd: PathBuf,
}

/// How the CLI ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Exit {
    pub code: Option<i32>,
    pub signal: Option<i32>,
    /// Processes of the CLI that had to be ended.
    pub leftovers: usize,
}

/// Who may start the CLI of a run: the supervisor, or an agent that came back and decided that nobody will.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Claim {
    Supervisor(ProcessId),
    Barred,
}

/// Makes a claim; false if another was first.
pub fn claim(dir: &Path, claim: &Claim) -> io::Result<bool> {
    // Written aside and linked into place: whoever sees the claim sees all of it.
    let aside = dir.join(format!("{CLAIM}.{}", std::process::id()));
    write_synced(&aside, &serde_json::to_vec(claim)?)?;
    let made = fs::hard_link(&aside, dir.join(CLAIM));
    fs::remove_file(&aside)?;
    match made {
        Ok(()) => Ok(true),
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists => Ok(false),
        Err(e) => Err(e),
    }
}

/// Reads a small JSON file of a run's folder; none if it is not there (yet).
pub fn read_json<T: serde::de::DeserializeOwned>(path: &Path) -> Option<T> {
    serde_json::from_slice(&fs::read(path).ok()?).ok()
}

pub fn write_synced(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(path)?;
    file.write_all(bytes)?;
    file.sync_data()
}

/// Replaces a file as a whole.
pub fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let aside = path.with_extension("new");
    write_synced(&aside, bytes)?;
    fs::rename(aside, path)
}

fn output(path: PathBuf) -> io::Result<File> {
    OpenOptions::new()
        .append(true)
        .create(true)
        .mode(0o600)
        .open(path)
}

/// Runs the command of a run's folder to its end.
pub fn supervise(dir: &Path) -> io::Result<()> {
    let session = rustix::process::setsid()?;
    rustix::process::set_child_subreaper(Some(session))?;
    let command: CommandLine = serde_json::from_slice(&fs::read(dir.join(COMMAND))?)?;
    let own = session.as_raw_nonzero().get();
    let me = ProcessId::of(own).ok_or_else(|| io::Error::other("no /proc"))?;
    if !claim(dir, &Claim::Supervisor(me))? {
        return Ok(());
    }
    let started = Command::new(&command.program)
        .args(&command.args)
        .current_dir(&command.cwd)
        .stdin(Stdio::inherit())
        .stdout(output(dir.join(STDOUT))?)
        .stderr(output(dir.join(STDERR))?)
        .spawn();
    let mut child = match started {
        Ok(child) => child,
        Err(e) => {
            writeln!(
                output(dir.join(STDERR))?,
                "error: cannot start {}: {e}",
                command.program.display()
            )?;
            return replace(
                &dir.join(EXIT),
                &serde_json::to_vec(&Exit {
                    code: Some(127),
                    signal: None,
                    leftovers: 0,
                })?,
            );
        }
    };
    if let Some(cli) = ProcessId::of(child.id() as i32) {
        replace(&dir.join(CLI), &serde_json::to_vec(&cli)?)?;
    }
    let status = child.wait()?;
    // 8: a second signal ended the CLI without waiting for its plugins.
    let abnormal = status.signal().is_some() || status.code() == Some(8);
    let leftovers = if abnormal { end_session(own) } else { 0 };
    let exit = Exit {
        code: status.code(),
        signal: status.signal(),
        leftovers,
    };
    replace(&dir.join(EXIT), &serde_json::to_vec(&exit)?)
}
