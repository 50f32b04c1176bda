//! The child process that meets foreign servers and foreign data. It serves one
//! request under a sandbox and ends.

mod archive;
mod export;
mod git;
mod http;
mod local;
#[cfg(feature = "test-probe")]
pub(crate) mod probe;
mod redirect;
mod sandbox;
mod ssh;

use std::io::{self, BufRead, Read, Seek, Write};
use std::process::ExitCode;

use crate::error::FetchError;
use crate::wire::{Answer, MAX_MESSAGE, Operation, WorkerRequest, WorkerResponse};

/// Exit code of a child whose parent went away or whose time was over.
const ABANDONED: i32 = 3;

/// Serves one request from stdin, answers on stdout. The process must be started
/// by a [`crate::Fetcher`] and do nothing else.
pub fn main() -> ExitCode {
    match serve() {
        Ok(()) => ExitCode::SUCCESS,
        Err(err) => {
            eprintln!("windlass fetch worker: {err}");
            ExitCode::FAILURE
        }
    }
}

fn serve() -> io::Result<()> {
    let mut line = String::new();
    io::stdin().lock().take(MAX_MESSAGE).read_line(&mut line)?;
    let request: WorkerRequest = serde_json::from_str(&line)
        .map_err(|_| io::Error::new(io::ErrorKind::InvalidInput, "the request cannot be read"))?;
    drop(line);
    // Opened before the sandbox closes /proc.
    let status = std::fs::File::open("/proc/self/status").ok();
    let sandbox_gap = sandbox::enter(&request)?;
    watch_parent()?;
    let result = perform(&request);
    let response = WorkerResponse {
        result,
        peak_rss: peak_rss(status),
        sandbox_gap,
    };
    let mut out = io::stdout().lock();
    serde_json::to_writer(&mut out, &response)?;
    out.flush()
}

fn perform(request: &WorkerRequest) -> Result<Answer, FetchError> {
    match &request.operation {
        Operation::Refs { url, prefixes } => git::refs(request, url, prefixes).map(Answer::Refs),
        Operation::Tree { url, commit } => {
            git::tree(request, url, commit).map(|()| Answer::Exported)
        }
        Operation::Archive { url, digest } => {
            archive::tree(request, url, digest).map(|()| Answer::Exported)
        }
        Operation::ArchiveReadable { url } => {
            archive::readable(request, url).map(|()| Answer::Readable)
        }
        #[cfg(feature = "test-probe")]
        Operation::Probe(probe) => Ok(Answer::Probed(probe::run(probe))),
    }
}

/// Ends this process when the parent is gone: it keeps our stdin open while it
/// waits. (A parent-death signal would follow the parent's thread, not the process.)
fn watch_parent() -> io::Result<()> {
    std::thread::Builder::new()
        .name("watch-parent".into())
        .stack_size(64 << 10)
        .spawn(|| {
            let mut byte = [0];
            loop {
                match io::stdin().lock().read(&mut byte) {
                    Ok(0) => break,
                    Ok(_) => {}
                    Err(err) if err.kind() == io::ErrorKind::Interrupted => {}
                    Err(_) => break,
                }
            }
            std::process::exit(ABANDONED);
        })?;
    Ok(())
}

/// The kernel's high-water mark of resident memory; unlike `getrusage`, it does
/// not include what the parent had at the fork.
fn peak_rss(status: Option<std::fs::File>) -> u64 {
    let mut text = String::new();
    let Some(mut status) = status else { return 0 };
    if status.rewind().is_err() || status.read_to_string(&mut text).is_err() {
        return 0;
    }
    crate::child::peak_of(&text).unwrap_or(0)
}
