//! Another program in a container that runs: `kubectl exec` without the streams' server.

use std::fs::File;
use std::io::Read as _;
use std::process::{Command, Stdio};

use nix::sched::{CloneFlags, setns};

use crate::launch::Exec;
use crate::{Result, program};

/// Does what `main` says of `exec`: joins, runs, and ends with the program's exit code.
pub fn exec() -> Result<()> {
    let mut text = String::new();
    std::io::stdin()
        .read_to_string(&mut text)
        .map_err(|error| format!("stdin: {error}"))?;
    if std::env::args().nth(2).as_deref() == Some("inside") {
        let process = serde_json::from_str(&text).map_err(|error| error.to_string())?;
        return Err(program::become_it(&process));
    }
    let Exec { pid, process } = serde_json::from_str(&text).map_err(|error| error.to_string())?;
    // A child of the joined PID namespace has to run this program once more, which is nowhere in
    // the container's root: through the descriptor that is open on it.
    let ourselves = File::open("/proc/self/exe").map_err(|error| error.to_string())?;
    let open = |name: &str| {
        let path = format!("/proc/{pid}/ns/{name}");
        File::open(&path).map_err(|error| format!("{path}: {error}"))
    };
    let mut namespaces = vec![
        (open("uts")?, CloneFlags::CLONE_NEWUTS),
        (open("pid")?, CloneFlags::CLONE_NEWPID),
        (open("mnt")?, CloneFlags::CLONE_NEWNS),
    ];
    if !nix::unistd::getuid().is_root() {
        namespaces.insert(0, (open("user")?, CloneFlags::CLONE_NEWUSER));
    }
    for (file, kind) in &namespaces {
        setns(file, *kind).map_err(|errno| format!("cannot join the container: {errno}"))?;
    }
    drop(namespaces);
    rustix::io::fcntl_setfd(&ourselves, rustix::io::FdFlags::empty())
        .map_err(|errno| errno.to_string())?;
    let number = std::os::fd::AsRawFd::as_raw_fd(&ourselves);
    let mut child = Command::new(format!("/proc/self/fd/{number}"))
        .args(["exec", "inside"])
        .env_clear()
        .stdin(Stdio::piped())
        .spawn()
        .map_err(|error| format!("cannot start in the container: {error}"))?;
    if let Some(pipe) = child.stdin.take() {
        serde_json::to_writer(pipe, &process).map_err(|error| error.to_string())?;
    }
    let status = child.wait().map_err(|error| error.to_string())?;
    use std::os::unix::process::ExitStatusExt as _;
    let code = status.code().or(status.signal().map(|signal| 128 + signal));
    std::process::exit(code.unwrap_or(-1));
}
