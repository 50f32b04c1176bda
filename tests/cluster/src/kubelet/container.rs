//! One run of one container: the process beside it, its signals, its end.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tokio::sync::{oneshot, watch};

use crate::launch::{Exec, Launch, Process};

/// How a container's first process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// By itself, with this code.
    Exited(i32),
    /// By this signal.
    Signaled(i32),
    /// Nobody knows: the process beside it was killed, and took it along.
    Lost,
}

impl End {
    /// As container runtimes report it: signals are 128 and more.
    pub fn exit_code(self) -> i32 {
        match self {
            Self::Exited(code) => code,
            Self::Signaled(signal) => 128 + signal,
            Self::Lost => 255,
        }
    }
}

/// A container that runs, or has run.
pub struct Running {
    /// Of its first process, as the host sees it.
    pub pid: i32,
    /// What the runtime calls it.
    pub id: String,
    pub started: Timestamp,
    /// For further programs in it.
    pub process: Process,
    /// While this is open, it lives.
    life: Mutex<Option<ChildStdin>>,
    end: watch::Receiver<Option<End>>,
}

/// Starts a container.
///
/// # Errors
/// Why it could not be started, in the words of a runtime.
pub async fn start(helper: &Path, id: String, launch: Launch) -> Result<Running, String> {
    let text = serde_json::to_string(&launch).map_err(|error| error.to_string())?;
    let mut child = Command::new(helper)
        .arg("run")
        .env_clear()
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::inherit())
        .spawn()
        .map_err(|error| format!("{}: {error}", helper.display()))?;
    let (Some(mut life), Some(reports)) = (child.stdin.take(), child.stdout.take()) else {
        return Err("no pipes to the container".to_owned());
    };
    writeln!(life, "{text}").map_err(|error| error.to_string())?;
    let (tell_end, end) = watch::channel(None);
    let (tell_start, started) = oneshot::channel();
    std::thread::Builder::new()
        .name("container".to_owned())
        .spawn(move || supervise(child, reports, tell_start, &tell_end))
        .map_err(|error| error.to_string())?;
    let pid = started
        .await
        .unwrap_or_else(|_| Err("the container ended before it began".to_owned()))?;
    Ok(Running {
        pid,
        id,
        started: Timestamp::now(),
        process: launch.process,
        life: Mutex::new(Some(life)),
        end,
    })
}

/// Reads what the process beside the container reports, until it ends.
fn supervise(
    mut child: Child,
    reports: ChildStdout,
    tell_start: oneshot::Sender<Result<i32, String>>,
    tell_end: &watch::Sender<Option<End>>,
) {
    let mut tell_start = Some(tell_start);
    let mut ended = End::Lost;
    for line in BufReader::new(reports).lines().map_while(Result::ok) {
        let (what, rest) = line.split_once(' ').unwrap_or((&line, ""));
        match what {
            "running" | "failed" => {
                if let Some(tell) = tell_start.take() {
                    let pid = rest.parse().map_err(|_| rest.to_owned());
                    let failed = what == "failed";
                    let _ = tell.send(if failed { Err(rest.to_owned()) } else { pid });
                }
            }
            "exited" => ended = End::Exited(rest.parse().unwrap_or(255)),
            "signaled" => ended = End::Signaled(rest.parse().unwrap_or(9)),
            _ => {}
        }
    }
    let _ = child.wait();
    tell_end.send_replace(Some(ended));
}

impl Running {
    /// Waits for its end.
    pub async fn wait(&self) -> End {
        let mut end = self.end.clone();
        match end.wait_for(Option::is_some).await {
            Ok(end) => end.unwrap_or(End::Lost),
            Err(_) => End::Lost,
        }
    }

    /// Whether it has ended.
    pub fn ended(&self) -> Option<End> {
        *self.end.borrow()
    }

    /// Sends its first process a signal, unless it has ended.
    pub fn signal(&self, signal: Signal) {
        if self.ended().is_none() {
            let _ = kill(Pid::from_raw(self.pid), signal);
        }
    }

    /// Kills everything in it.
    pub fn kill(&self) {
        self.signal(Signal::SIGKILL);
        *self.life.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// Asks it to end; kills it after `grace`.
    pub async fn stop(&self, grace: Duration) -> End {
        self.signal(Signal::SIGTERM);
        if tokio::time::timeout(grace, self.wait()).await.is_err() {
            self.kill();
        }
        self.wait().await
    }

    /// Its process ids on the host: everything in its PID namespace.
    pub fn processes(&self) -> Vec<i32> {
        let namespace = |pid: i32| std::fs::read_link(format!("/proc/{pid}/ns/pid")).ok();
        let Some(own) = namespace(self.pid) else {
            return Vec::new();
        };
        let all = std::fs::read_dir("/proc").into_iter().flatten().flatten();
        all.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
            .filter(|pid| namespace(*pid).as_ref() == Some(&own))
            .collect()
    }

    /// Runs another program in it.
    ///
    /// # Errors
    /// When that cannot be tried, or takes longer than `limit`.
    pub async fn exec(
        &self,
        helper: &Path,
        argv: &[String],
        limit: Duration,
    ) -> Result<std::process::Output, String> {
        let exec = Exec {
            pid: self.pid,
            process: Process {
                argv: argv.to_vec(),
                ..self.process.clone()
            },
        };
        let text = serde_json::to_vec(&exec).map_err(|error| error.to_string())?;
        let mut child = tokio::process::Command::new(helper)
            .arg("exec")
            .env_clear()
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .map_err(|error| format!("{}: {error}", helper.display()))?;
        if let Some(mut stdin) = child.stdin.take() {
            use tokio::io::AsyncWriteExt as _;
            stdin
                .write_all(&text)
                .await
                .map_err(|error| error.to_string())?;
        }
        match tokio::time::timeout(limit, child.wait_with_output()).await {
            Ok(output) => output.map_err(|error| error.to_string()),
            Err(_) => Err(format!("command {argv:?} timed out")),
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.kill();
    }
}
