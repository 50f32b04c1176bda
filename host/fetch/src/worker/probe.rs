//! For tests: tries what the sandbox must refuse, from inside.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// What is tried.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Probe {
    /// Files to read.
    pub read: Vec<PathBuf>,
    /// Files to make.
    pub write: Vec<PathBuf>,
    /// Programs to start.
    pub execute: Vec<PathBuf>,
    /// Memory to fill, in bytes.
    pub allocate: usize,
    /// In the sandbox of an ssh address.
    pub ssh: bool,
    /// Never answer.
    pub hang: bool,
}

/// Outcome per attempt: `ok ...` or the error.
pub(super) fn run(probe: &Probe) -> BTreeMap<String, String> {
    let mut out = BTreeMap::new();
    let names: Vec<String> = std::env::vars().map(|(name, _)| name).collect();
    out.insert("environment".to_owned(), names.join(" "));
    for path in &probe.read {
        let text = match std::fs::read(path) {
            Ok(bytes) => format!("ok {} bytes", bytes.len()),
            Err(err) => err.to_string(),
        };
        out.insert(format!("read {}", path.display()), text);
    }
    for path in &probe.write {
        let text = match std::fs::write(path, b"x") {
            Ok(()) => "ok".to_owned(),
            Err(err) => err.to_string(),
        };
        out.insert(format!("write {}", path.display()), text);
    }
    for path in &probe.execute {
        let text = match std::process::Command::new(path).output() {
            Ok(done) => format!("ok {}", done.status),
            Err(err) => err.to_string(),
        };
        out.insert(format!("execute {}", path.display()), text);
    }
    if probe.allocate > 0 {
        let filled = std::hint::black_box(vec![1u8; probe.allocate]);
        out.insert("allocate".to_owned(), format!("ok {}", filled.len()));
    }
    if probe.hang {
        loop {
            std::thread::park();
        }
    }
    out
}
