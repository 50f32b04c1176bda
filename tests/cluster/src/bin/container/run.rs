//! The process outside: starts the container's first process, watches it, reports.

use std::io::{BufRead as _, Read as _, Write as _};
use std::os::fd::AsFd as _;
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Child, Command, Stdio};

use nix::sched::{CloneFlags, unshare};
use nix::sys::prctl;
use nix::sys::signal::Signal;
use nix::unistd::{getgid, getuid};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use crate::Result;

/// Enters new mount, host name and PID namespaces (the last for children); a new user namespace
/// too where that is what it takes.
pub fn namespaces() -> Result<()> {
    let mut flags = CloneFlags::CLONE_NEWNS | CloneFlags::CLONE_NEWUTS | CloneFlags::CLONE_NEWPID;
    if getuid().is_root() {
        return unshare(flags).map_err(|errno| format!("no new namespaces: {errno}"));
    }
    let (uid, gid) = (getuid(), getgid());
    flags |= CloneFlags::CLONE_NEWUSER;
    unshare(flags)
        .map_err(|errno| format!("no user namespace for those who are not root: {errno}"))?;
    for (file, content) in [
        ("setgroups", "deny".to_owned()),
        ("uid_map", format!("0 {uid} 1")),
        ("gid_map", format!("0 {gid} 1")),
    ] {
        std::fs::write(format!("/proc/self/{file}"), content)
            .map_err(|error| format!("/proc/self/{file}: {error}"))?;
    }
    Ok(())
}

/// Does what `main` says of `run`.
pub fn run() -> Result<()> {
    // The kubelet's process may be killed; so may this one, and the container with it.
    let mut stdin = std::io::BufReader::with_capacity(64, std::io::stdin());
    let mut launch = String::new();
    stdin
        .read_line(&mut launch)
        .map_err(|error| format!("stdin: {error}"))?;
    namespaces()?;
    let mut child = Command::new("/proc/self/exe")
        .arg("init")
        .env_clear()
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|error| format!("cannot start the first process: {error}"))?;
    if let Some(mut pipe) = child.stdin.take() {
        // If it ended at once, its exit says so.
        let _ = pipe.write_all(launch.as_bytes());
    }
    let mut failure = String::new();
    if let Some(mut pipe) = child.stdout.take() {
        // Closed by the kernel when the program begins.
        let _ = pipe.read_to_string(&mut failure);
    }
    if failure.is_empty() {
        say(&format!("running {}", child.id()));
    } else {
        say(&format!("failed {}", failure.replace('\n', " ")));
    }
    let status = wait(&mut child)?;
    match status.signal() {
        Some(signal) => say(&format!("signaled {signal}")),
        None => say(&format!("exited {}", status.code().unwrap_or(-1))),
    }
    Ok(())
}

/// Waits for the child's end, and kills it when stdin closes.
fn wait(child: &mut Child) -> Result<std::process::ExitStatus> {
    let unusable = |error: std::io::Error| format!("cannot watch the container: {error}");
    let pid = Pid::from_raw(child.id().cast_signed()).ok_or("no process id")?;
    let end = pidfd_open(pid, PidfdFlags::empty()).map_err(|errno| unusable(errno.into()))?;
    let stdin = std::io::stdin();
    loop {
        let mut watched = [
            PollFd::new(&end, PollFlags::IN),
            PollFd::from_borrowed_fd(stdin.as_fd(), PollFlags::IN),
        ];
        match poll(&mut watched, None) {
            Err(rustix::io::Errno::INTR) => continue,
            other => other.map_err(|errno| unusable(errno.into()))?,
        };
        if !watched[0].revents().is_empty() {
            return child.wait().map_err(unusable);
        }
        if !watched[1].revents().is_empty() {
            child.kill().map_err(unusable)?;
            return child.wait().map_err(unusable);
        }
    }
}

fn say(line: &str) {
    // Nobody may be listening any more.
    let _ = writeln!(std::io::stdout(), "{line}");
    let _ = std::io::stdout().flush();
}

/// Has the kernel kill this process when the one that started it ends.
pub fn end_with_parent() -> Result<()> {
    prctl::set_pdeathsig(Signal::SIGKILL).map_err(|errno| format!("no death signal: {errno}"))
}
