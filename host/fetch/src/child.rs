//! Starts the child process for one request, and ends it when it takes more than
//! it may.

use std::io;
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::{Child, Command};
use tokio::time::Instant;

use crate::config::{Limits, WorkerCommand};
use crate::error::FetchError;
use crate::wire::{Answer, MAX_MESSAGE, WorkerRequest, WorkerResponse};

/// How often the child's memory and files are looked at.
const WATCH_EVERY: Duration = Duration::from_millis(25);
/// Files in a scratch directory that are counted before it is too many.
const MAX_SCRATCH_FILES: usize = 10_000;

/// What a child came back with.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub result: Result<Answer, FetchError>,
    /// Most memory that it has had resident, in bytes, as far as was seen.
    pub peak_rss: u64,
    pub sandbox_gap: Option<String>,
}

/// Why a child was ended from outside.
enum Verdict {
    Wall,
    Memory,
    Scratch,
}

/// Runs one request in a child process. `host` is for texts only.
pub(crate) async fn run(worker: &WorkerCommand, request: &WorkerRequest, host: &str) -> Outcome {
    let mut peak_rss = 0;
    let (result, sandbox_gap) = match attempt(worker, request, host, &mut peak_rss).await {
        Ok(response) => {
            peak_rss = peak_rss.max(response.peak_rss);
            (response.result, response.sandbox_gap)
        }
        Err(err) => (Err(err), None),
    };
    Outcome {
        result,
        peak_rss,
        sandbox_gap,
    }
}

async fn attempt(
    worker: &WorkerCommand,
    request: &WorkerRequest,
    host: &str,
    peak_rss: &mut u64,
) -> Result<WorkerResponse, FetchError> {
    let failed = |what: &str, err: io::Error| FetchError::WorkerFailed {
        detail: format!("{what}: {err}"),
    };
    let mut line = serde_json::to_vec(request).map_err(|err| failed("request", err.into()))?;
    line.push(b'\n');
    let mut child = Command::new(&worker.program)
        .args(&worker.args)
        .env_clear()
        .current_dir(&request.scratch)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .kill_on_drop(true)
        .spawn()
        .map_err(|err| failed("it cannot be started", err))?;
    let group = child
        .id()
        .and_then(|id| i32::try_from(id).ok())
        .and_then(Pid::from_raw);
    let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    let (Some(mut stdin), Some(stdout), Some(stderr)) = (stdin, stdout, stderr) else {
        return Err(failed("it has no pipes", io::ErrorKind::BrokenPipe.into()));
    };
    let talk = async move {
        // A child that dies early does not read; its end says more than this error.
        stdin.write_all(&line).await.ok();
        drop(line);
        let mut answer = Vec::new();
        stdout.take(MAX_MESSAGE).read_to_end(&mut answer).await.ok();
        // Kept open until the answer is there: its end tells the child to give up.
        drop(stdin);
        answer
    };
    let complain = async move {
        let mut text = Vec::new();
        stderr.take(16 << 10).read_to_end(&mut text).await.ok();
        text
    };
    let deadline = Instant::now() + request.limits.wall;
    let work = async { tokio::join!(talk, complain) };
    let (done, verdict) = tokio::select! {
        out = work => (Some(out), None),
        verdict = watch(&child, request, deadline, peak_rss) => (None, Some(verdict)),
    };
    if verdict.is_some() {
        end(&mut child, group);
    }
    let status =
        match tokio::time::timeout_at(deadline + Duration::from_secs(1), child.wait()).await {
            Ok(status) => status.map_err(|err| failed("its end was not seen", err))?,
            Err(_) => {
                end(&mut child, group);
                child
                    .wait()
                    .await
                    .map_err(|err| failed("its end was not seen", err))?
            }
        };
    // Whatever it may have started goes with it.
    if let Some(group) = group {
        kill_process_group(group, Signal::KILL).ok();
    }
    let limits = &request.limits;
    match verdict {
        Some(Verdict::Wall) => return Err(timed_out(host, limits)),
        Some(Verdict::Memory) => {
            return Err(FetchError::MemoryExceeded {
                limit: limits.memory,
            });
        }
        Some(Verdict::Scratch) => {
            return Err(FetchError::TooManyBytes {
                limit: limits.bytes,
            });
        }
        None => {}
    }
    let (answer, complaint) = done.unwrap_or_default();
    if !status.success() {
        return Err(died(status, &complaint, host, limits));
    }
    serde_json::from_slice(&answer).map_err(|_| FetchError::WorkerFailed {
        detail: "its answer cannot be read".to_owned(),
    })
}

fn end(child: &mut Child, group: Option<Pid>) {
    if let Some(group) = group {
        kill_process_group(group, Signal::KILL).ok();
    }
    child.start_kill().ok();
}

fn timed_out(host: &str, limits: &Limits) -> FetchError {
    FetchError::TimedOut {
        host: host.to_owned(),
        seconds: limits.wall.as_secs(),
    }
}

/// Why a child ended by itself without an answer.
fn died(status: ExitStatus, complaint: &[u8], host: &str, limits: &Limits) -> FetchError {
    let complaint = String::from_utf8_lossy(complaint);
    let is = |signal: Signal| status.signal() == Some(signal.as_raw());
    if is(Signal::XCPU) {
        return timed_out(host, limits);
    }
    if is(Signal::XFSZ) {
        return FetchError::TooManyBytes {
            limit: limits.bytes,
        };
    }
    if is(Signal::ABORT) && complaint.contains("memory allocation of") {
        return FetchError::MemoryExceeded {
            limit: limits.memory,
        };
    }
    // Its complaint may quote foreign data, so it goes to the log only at debug level.
    tracing::debug!(%status, complaint = %complaint.escape_debug(), "a fetching process failed");
    FetchError::WorkerFailed {
        detail: status.to_string(),
    }
}

/// Returns when the child has exceeded something.
async fn watch(
    child: &Child,
    request: &WorkerRequest,
    deadline: Instant,
    peak_rss: &mut u64,
) -> Verdict {
    let mut tick = tokio::time::interval(WATCH_EVERY);
    let mut ticks = 0u32;
    loop {
        tokio::select! {
            () = tokio::time::sleep_until(deadline) => return Verdict::Wall,
            _ = tick.tick() => {}
        }
        let status = child
            .id()
            .and_then(|id| std::fs::read_to_string(format!("/proc/{id}/status")).ok());
        if let Some(status) = status {
            *peak_rss = (*peak_rss).max(peak_of(&status).unwrap_or(0));
            if field_kib(&status, "RssAnon:").is_some_and(|kib| kib * 1024 > request.limits.memory)
            {
                return Verdict::Memory;
            }
        }
        ticks += 1;
        // A pack, its index and the export may be there at the same time.
        let most = request
            .limits
            .bytes
            .saturating_mul(2)
            .saturating_add(64 << 20);
        if ticks.is_multiple_of(8) && scratch_size(&request.scratch).is_none_or(|size| size > most)
        {
            return Verdict::Scratch;
        }
    }
}

/// Bytes of all files below a directory; `None` if there are too many files.
fn scratch_size(dir: &Path) -> Option<u64> {
    let (mut size, mut files) = (0u64, 0);
    let mut todo = vec![dir.to_owned()];
    while let Some(dir) = todo.pop() {
        let Ok(items) = std::fs::read_dir(dir) else {
            continue;
        };
        for item in items.flatten() {
            files += 1;
            if files > MAX_SCRATCH_FILES {
                return None;
            }
            // Of the link itself, if it is one.
            let Ok(meta) = item.metadata() else { continue };
            if meta.is_dir() {
                todo.push(item.path());
            }
            size = size.saturating_add(meta.len());
        }
    }
    Some(size)
}

/// The high-water mark of resident memory in `/proc/<pid>/status`, in bytes.
pub(crate) fn peak_of(status: &str) -> Option<u64> {
    field_kib(status, "VmHWM:").map(|kib| kib * 1024)
}

fn field_kib(status: &str, name: &str) -> Option<u64> {
    status
        .lines()
        .find_map(|line| line.strip_prefix(name))?
        .split_whitespace()
        .next()?
        .parse()
        .ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_read_from_the_kernels_text() {
        let text = "Name:\tx\nVmHWM:\t   1024 kB\nRssAnon:\t  7 kB\n";
        assert_eq!(peak_of(text), Some(1 << 20));
        assert_eq!(field_kib(text, "RssAnon:"), Some(7));
    }
}
