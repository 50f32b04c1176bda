//! A program that takes a while, and what befalls it.
#![allow(clippy::unwrap_used, dead_code)]

use std::path::Path;
use std::process::Command;

use windlass_agent::{AgentClient, Started};
use windlass_api::run::RunRequest;

use super::common::{Bench, until};
use super::things::{count, things};

/// A program whose second resource takes a while, and the log of its provider.
pub fn slow(bench: &Bench, ms: u32) -> std::path::PathBuf {
    let log = bench.path("log");
    let quick = format!("logFile: {}", log.display());
    let long = format!("logFile: {}\nsleepMs: {ms}", log.display());
    bench.program(
        "slow",
        &things("slow", &[("quick", &quick), ("long", &long)]),
    );
    log
}

/// A program whose second resource takes until a file is there; the log of its provider, and that file.
pub fn held(bench: &Bench) -> (std::path::PathBuf, std::path::PathBuf) {
    let (log, go) = (bench.path("log"), bench.path("go"));
    let quick = format!("logFile: {}", log.display());
    let long = format!("logFile: {}\nwaitFile: {}", log.display(), go.display());
    bench.program(
        "slow",
        &things("slow", &[("quick", &quick), ("long", &long)]),
    );
    (log, go)
}

pub async fn begun(client: &AgentClient, request: &RunRequest, log: &Path, line: &str) {
    assert_eq!(client.start_run(request).await.unwrap(), Started::New);
    until(line, || count(log, line) > 0).await;
}

pub fn kill(pid: &str, signal: &str) {
    assert!(
        Command::new("kill")
            .args([signal, pid])
            .status()
            .unwrap()
            .success()
    );
}

/// Waits until the run's command is noted: it may be at work before.
pub async fn cli_pid(bench: &Bench, id: &str) -> String {
    let file = bench.path(&format!("state/runs/{id}/cli.json"));
    until("the command to be noted", || file.exists()).await;
    let cli: serde_json::Value = serde_json::from_slice(&std::fs::read(file).unwrap()).unwrap();
    cli["pid"].to_string()
}
