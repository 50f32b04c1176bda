//! `windlass local --once` over a fleet of which nothing has changed, after a first run that really deployed it.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use serde_json::Value;
use tempfile::TempDir;

use crate::memory::{self, Watched};
use crate::samples::{Samples, Unit, seconds};
use crate::setup::{Setup, Trouble, failed};
use crate::table::Row;

/// Measures.
///
/// # Errors
/// `Skipped` where something it needs is missing; Stacks that are not Ready, or that run when nothing has changed.
pub fn measure(setup: &Setup) -> Result<Vec<Row>, Trouble> {
    let (stacks, rounds) = (setup.count(200, 10), setup.count(7, 3));
    let fleet = Fleet::new(setup, stacks)?;
    eprintln!("local: the first run of {stacks} Stacks ...");
    let first = fleet.once(stacks)?;
    let (mut times, mut peaks) = (Vec::new(), Vec::new());
    for _ in 0..rounds {
        let Watched {
            status: _,
            elapsed,
            peak,
        } = fleet.once(0)?;
        times.push(seconds(elapsed));
        peaks.push(peak as f64);
    }
    let each = seconds(first.elapsed) / stacks as f64;
    let row = |figure: &str, samples, how: &str| {
        Row::new(figure, samples, format!("{stacks} Stacks; {how}"))
    };
    Ok(vec![
        row(
            "local --once, nothing to do",
            Samples::spread(Unit::Seconds, times),
            "start to exit: plugins loaded, manifests read, every source and backend asked, no run",
        ),
        row(
            "local --once: memory",
            Samples::spread(Unit::Bytes, peaks),
            "VmHWM of that process",
        ),
        row(
            "local --once, first run, each",
            Samples::one(Unit::Seconds, each),
            "a Program with one pulumi:Stash, deployed; wall time by the number of Stacks",
        ),
        row(
            "local --once, first run: memory",
            Samples::one(Unit::Bytes, first.peak as f64),
            "VmHWM of windlass, without agents and CLIs",
        ),
    ])
}

/// Manifests, a backend and a data directory.
struct Fleet {
    dir: TempDir,
    windlass: PathBuf,
    path: std::ffi::OsString,
    plugins: PathBuf,
}

impl Fleet {
    fn new(setup: &Setup, stacks: usize) -> Result<Self, Trouble> {
        let (tools, plugins) = (setup.tools()?, setup.plugins()?);
        let binaries = setup.binaries(&["windlass", "windlass-agent"])?;
        let dir = tempfile::Builder::new()
            .prefix("windlass-bench-")
            .tempdir()?;
        for folder in ["manifests", "state"] {
            std::fs::create_dir(dir.path().join(folder))?;
        }
        let path = std::env::var_os("PATH").unwrap_or_default();
        let path = std::env::join_paths([tools].into_iter().chain(std::env::split_paths(&path)))?;
        let fleet = Fleet {
            windlass: binaries.join("windlass"),
            dir,
            path,
            plugins,
        };
        for number in 0..stacks {
            let file = fleet
                .dir
                .path()
                .join(format!("manifests/web{number:03}.yaml"));
            std::fs::write(file, fleet.manifest(&format!("web{number:03}"))?)?;
        }
        Ok(fleet)
    }

    fn manifest(&self, name: &str) -> Result<String, Trouble> {
        let state = self.dir.path().join("state");
        let mut text = String::new();
        write!(
            text,
            "apiVersion: pulumi.com/v1
kind: Stack
metadata: {{name: {name}}}
spec:
  stack: organization/{name}/dev
  programRef: {{name: {name}}}
  backend: file://{}
  envRefs:
    PULUMI_CONFIG_PASSPHRASE: {{type: Literal, literal: {{value: bench}}}}
---
apiVersion: pulumi.com/v1
kind: Program
metadata: {{name: {name}}}
program:
  resources:
    kept:
      type: pulumi:Stash
      properties: {{input: {name}}}
  outputs:
    word: ${{kept.output}}
",
            state.display()
        )?;
        Ok(text)
    }

    /// Reconciles once; so many runs must have been made, and every Stack be Ready.
    fn once(&self, runs: usize) -> Result<Watched, Trouble> {
        let (report, log) = (
            self.dir.path().join("report.json"),
            self.dir.path().join("log"),
        );
        let mut command = Command::new(&self.windlass);
        command
            .args([
                "local",
                "--once",
                "--no-progress",
                "--output",
                "json",
                "--data-dir",
            ])
            .arg(self.dir.path().join("data"))
            .arg("--plugin-dir")
            .arg(&self.plugins)
            .arg(self.dir.path().join("manifests"))
            .env("PATH", &self.path)
            .current_dir(self.dir.path())
            .stdin(Stdio::null())
            .stdout(std::fs::File::create(&report)?)
            .stderr(std::fs::File::create(&log)?);
        let begun = Instant::now();
        let mut child = command.spawn()?;
        let watched = memory::watch(&mut child, begun)?;
        let complaint = || std::fs::read_to_string(&log).unwrap_or_default();
        if !watched.status.success() {
            return failed(format!(
                "windlass local: {}: {}{}",
                watched.status,
                complaint(),
                unready(&report)
            ));
        }
        let document: Value = serde_json::from_slice(&std::fs::read(&report)?)?;
        if document["runs"] != runs {
            return failed(format!(
                "{} runs where {runs} were to be expected: {}",
                document["runs"],
                complaint()
            ));
        }
        Ok(watched)
    }
}

/// The first Stack that is not Ready, for a message.
fn unready(report: &Path) -> String {
    let document = std::fs::read(report)
        .ok()
        .and_then(|text| serde_json::from_slice::<Value>(&text).ok());
    let rows = document
        .as_ref()
        .and_then(|document| document["stacks"].as_array());
    let row = rows.and_then(|rows| rows.iter().find(|row| row["ready"] != true));
    row.map_or_else(String::new, Value::to_string)
}

impl Drop for Fleet {
    fn drop(&mut self) {
        // Agents outlive `windlass` where a benchmark was cut short. By pid, and only what names this directory.
        let mine = self.dir.path().display().to_string();
        for entry in std::fs::read_dir("/proc").into_iter().flatten().flatten() {
            let Some(pid) = entry
                .file_name()
                .to_str()
                .and_then(|name| name.parse::<u32>().ok())
            else {
                continue;
            };
            let line = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
            if pid != std::process::id() && String::from_utf8_lossy(&line).contains(&mine) {
                let _ = Command::new("kill")
                    .arg(pid.to_string())
                    .stderr(Stdio::null())
                    .status();
            }
        }
    }
}
