//! Starts the real binary.

#![allow(clippy::unwrap_used, dead_code)]

use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

pub struct Ran {
    pub code: i32,
    pub stdout: String,
    pub stderr: String,
}

/// The binary in an environment where nothing is configured.
pub fn windlass() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_windlass"));
    for name in [
        "WINDLASS_PLUGIN_DIR",
        "WINDLASS_DATA_DIR",
        "WINDLASS_AGENT",
        "RUST_LOG",
    ] {
        command.env_remove(name);
    }
    command.env("NO_COLOR", "1").stdin(Stdio::null());
    command
}

pub fn run(command: &mut Command) -> Ran {
    let Output {
        status,
        stdout,
        stderr,
    } = command.output().unwrap();
    Ran {
        code: status.code().unwrap_or(-1),
        stdout: String::from_utf8(stdout).unwrap(),
        stderr: String::from_utf8(stderr).unwrap(),
    }
}

pub fn fixture(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("tests/fixtures")
        .join(name)
}

/// The built-in plugins, or a visible reason why the test cannot run.
pub fn plugins() -> Option<PathBuf> {
    let dir = match std::env::var_os("WINDLASS_PLUGIN_DIR") {
        Some(dir) => PathBuf::from(dir),
        None => beside_target("plugins"),
    };
    if dir.join("digests.json").is_file() {
        return Some(dir);
    }
    println!(
        "SKIP: the built-in plugins are not in {}: cargo xtask plugins",
        dir.display()
    );
    None
}

/// `<target>/NAME`, of the target directory that the binary is in.
fn beside_target(name: &str) -> PathBuf {
    let binary = PathBuf::from(env!("CARGO_BIN_EXE_windlass"));
    binary.ancestors().nth(2).unwrap().join(name)
}
