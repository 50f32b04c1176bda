//! A repository of 10 000 files over http from a real Git server, beside `git clone --depth 1` of the same.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use windlass_e2e::git_repo::TestFile;
use windlass_e2e::git_server::GitServer;
use windlass_fetch::{Artifact, FetchConfig, Fetcher, TreeRequest, WorkerCommand};

use crate::FETCH_WORKER;
use crate::samples::{Samples, Unit, seconds, timed};
use crate::setup::{Setup, Trouble, failed};
use crate::table::Row;

const FILES: usize = 10_000;
const NAME: &str = "large";

/// Measures.
///
/// # Errors
/// `Skipped` without git; a fetch or clone that fails.
pub fn measure(setup: &Setup) -> Result<Vec<Row>, Trouble> {
    if git(Path::new("/")).arg("version").output().is_err() {
        return Err(Trouble::Skipped("there is no git on PATH".to_owned()));
    }
    // The server answers from this process, the same way to both.
    let server = setup.runtime.block_on(GitServer::start())?;
    let commit = fill(&server)?;
    let (mut ours, mut theirs, mut peaks) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..setup.count(5, 2) {
        // In turns, so that neither always finds a warm cache.
        for turn in 0..2 {
            if (round + turn).is_multiple_of(2) {
                let (took, peak) = setup.runtime.block_on(fetch(&server, &commit))?;
                ours.push(took);
                peaks.push(peak as f64);
            } else {
                theirs.push(clone(&server)?);
            }
        }
    }
    let how = format!(
        "http, {FILES} files of 200 bytes, into an empty store: sandboxed child, checked, stored by digest; peer: git clone \
         --depth 1, with its work tree"
    );
    Ok(vec![
        Row::new("fetch", Samples::spread(Unit::Seconds, ours), how)
            .beside(Samples::spread(Unit::Seconds, theirs)),
        Row::new(
            "fetch: memory of the child",
            Samples::spread(Unit::Bytes, peaks),
            "largest resident size in that fetch",
        ),
    ])
}

fn fill(server: &GitServer) -> Result<String, Trouble> {
    let repo = server.repo(NAME)?;
    let files: Vec<(String, String)> = (0..FILES)
        .map(|number| {
            let path = format!("folder{:03}/file{number:05}.txt", number / 100);
            // No two alike, and nothing that compresses to nothing.
            let line = format!(
                "{number} {:016x}\n",
                (number as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15)
            );
            let text: String = line.chars().cycle().take(200).collect();
            (path, text)
        })
        .collect();
    let files: Vec<TestFile<'_>> = files
        .iter()
        .map(|(path, text)| (path.as_str(), "100644", text.as_bytes()))
        .collect();
    Ok(repo.commit("main", &files)?)
}

async fn fetch(server: &GitServer, commit: &str) -> Result<(f64, u64), Trouble> {
    let store = tempfile::tempdir()?;
    let worker = WorkerCommand {
        program: std::env::current_exe()?,
        args: vec![FETCH_WORKER.to_owned()],
    };
    let config = FetchConfig {
        allow_loopback: true,
        ..FetchConfig::new(store.path(), worker)
    };
    let fetcher = Fetcher::new(config)?;
    let artifact = Artifact::GitTree {
        url: server.url(NAME),
        commit: commit.to_owned(),
    };
    let begun = Instant::now();
    let tree = fetcher
        .fetch(TreeRequest {
            artifact,
            credential: None,
        })
        .await?;
    let took = seconds(begun.elapsed());
    if tree.files != FILES as u64 {
        return failed(format!("{} files arrived", tree.files));
    }
    Ok((took, fetcher.stats().peak_child_rss))
}

fn clone(server: &GitServer) -> Result<f64, Trouble> {
    let dir = tempfile::tempdir()?;
    let mut command = git(dir.path());
    command.args([
        "clone",
        "--quiet",
        "--depth",
        "1",
        &server.url(NAME),
        "clone",
    ]);
    let (took, done) = timed(|| command.output());
    let done = done?;
    if !done.status.success() || !dir.path().join("clone/folder099/file09999.txt").is_file() {
        return failed(format!(
            "git clone: {}",
            String::from_utf8_lossy(&done.stderr)
        ));
    }
    Ok(took)
}

/// git without anybody's configuration.
fn git(dir: &Path) -> Command {
    let mut command = Command::new("git");
    command
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap_or_default())
        .env("HOME", "/nonexistent")
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .env("GIT_TERMINAL_PROMPT", "0")
        .current_dir(dir)
        .stdin(Stdio::null());
    command
}
