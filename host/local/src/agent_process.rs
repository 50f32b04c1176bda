//! Starting one agent process, and where its socket is.

use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use crate::process::Process;
use crate::workspaces::WorkspaceError;

/// Starts an agent for the workspace in `dir`, in a process group of its own.
pub fn start(
    program: &Path,
    dir: &Path,
    socket: &Path,
    environment: BTreeMap<String, String>,
) -> Result<Process, WorkspaceError> {
    let at = |path: &Path| {
        let path = path.to_owned();
        move |source| WorkspaceError::Io { path, source }
    };
    let private = |path: &Path| {
        std::fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(path)
            .map_err(at(path))
    };
    let (files, state) = (dir.join("files"), dir.join("state"));
    private(&files)?;
    private(&state)?;
    if let Some(sockets) = socket.parent() {
        private(sockets)?;
    }
    let log = dir.join("agent.log");
    let open = || {
        OpenOptions::new()
            .create(true)
            .append(true)
            .mode(0o600)
            .open(&log)
            .map_err(at(&log))
    };
    let mut command = std::process::Command::new(program);
    command
        .arg("serve")
        .arg("--socket")
        .arg(socket)
        .arg("--workspace")
        .arg(&files)
        .arg("--state-dir")
        .arg(&state)
        .env_clear()
        .envs(environment)
        .stdin(Stdio::null())
        .stdout(open()?)
        .stderr(open()?)
        // A group of its own: an interrupt at the terminal is not meant for it.
        .process_group(0);
    let child = command.spawn().map_err(at(program))?;
    let process = Process::of(child.id());
    // Reaped when it ends; it may well outlive this process, and then somebody else reaps it.
    std::thread::Builder::new()
        .name("reap".into())
        .spawn(move || {
            let mut child = child;
            let _ = child.wait();
        })
        .map_err(at(program))?;
    Ok(process)
}

/// A socket's path may have 107 bytes: deep data directories get theirs below the temporary directory.
pub fn socket_dir(data_dir: &Path) -> PathBuf {
    let near = data_dir.join("sockets");
    if near.as_os_str().len() + 30 < 107 {
        return near;
    }
    let id = windlass_core::digest::digest(&data_dir.to_string_lossy());
    std::env::temp_dir().join(format!("windlass-{}-{id}", nix::unistd::getuid()))
}
