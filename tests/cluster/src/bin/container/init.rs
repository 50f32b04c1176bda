//! The process inside: the first of its PID namespace. It makes itself a root and becomes the
//! program.

use std::fs::OpenOptions;
use std::io::{Read as _, Write as _};
use std::os::fd::AsFd as _;

use nix::sys::prctl;
use nix::unistd::{dup2_stderr, dup2_stdin, dup2_stdout, sethostname};

use crate::launch::{Launch, START_ERROR};
use crate::{Result, mounts, program, run};

/// Does what `main` says of `init`. It comes back only if it fails; then the reason has been
/// written to what was stdout.
pub fn init() -> Result<()> {
    // Closed when the program begins: the end of this file tells the other side that it has.
    let report = std::io::stdout()
        .as_fd()
        .try_clone_to_owned()
        .map_err(|error| format!("stdout: {error}"))?;
    let Err(failure) = become_the_program() else {
        return Ok(());
    };
    let _ = std::fs::File::from(report).write_all(failure.as_bytes());
    std::process::exit(START_ERROR);
}

fn become_the_program() -> Result<()> {
    run::end_with_parent()?;
    let mut text = String::new();
    std::io::stdin()
        .read_to_string(&mut text)
        .map_err(|error| format!("stdin: {error}"))?;
    let launch: Launch = serde_json::from_str(&text).map_err(|error| error.to_string())?;
    let log = OpenOptions::new()
        .create(true)
        .append(true)
        .open(&launch.log)
        .map_err(|error| format!("{}: {error}", launch.log.display()))?;
    sethostname(&launch.hostname).map_err(|errno| format!("host name: {errno}"))?;
    mounts::enter(&launch)?;
    let nothing = OpenOptions::new()
        .read(true)
        .open("/dev/null")
        .map_err(|error| format!("/dev/null: {error}"))?;
    if launch.no_new_privileges {
        prctl::set_no_new_privs().map_err(|errno| format!("no new privileges: {errno}"))?;
    }
    dup2_stdin(&nothing).map_err(|errno| format!("stdin: {errno}"))?;
    dup2_stderr(&log).map_err(|errno| format!("stderr: {errno}"))?;
    dup2_stdout(&log).map_err(|errno| format!("stdout: {errno}"))?;
    Err(program::become_it(&launch.process))
}
