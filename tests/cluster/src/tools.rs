//! Where the programs are that `cargo xtask tools` makes, and what to say when they are not.

use std::io::Write as _;
use std::path::PathBuf;
use std::process::Command;

use crate::error::{Error, Result};

/// The folder of the programs, as `cargo xtask test` names it; by default `target/tools`.
pub fn tools_folder() -> PathBuf {
    folder("WINDLASS_TOOLS_DIR", "target/tools")
}

/// The folder of our own binaries; by default `target/debug`.
#[cfg(target_os = "linux")]
pub(crate) fn binaries_folder() -> PathBuf {
    folder("WINDLASS_BIN_DIR", "target/debug")
}

fn folder(variable: &str, default: &str) -> PathBuf {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..");
    let path = std::env::var_os(variable).map_or_else(|| root.join(default), PathBuf::from);
    path.canonicalize().unwrap_or(path)
}

/// Finds one program.
///
/// # Errors
/// `MissingTool`.
pub(crate) fn tool(name: &'static str) -> Result<PathBuf> {
    let folder = tools_folder();
    let path = folder.join(name);
    if path.is_file() {
        return Ok(path);
    }
    Err(Error::MissingTool { name, folder })
}

/// kubectl: the one in the tools folder, else the one on PATH.
pub(crate) fn kubectl() -> Result<PathBuf> {
    tool("kubectl").or_else(|missing| on_path("kubectl").ok_or(missing))
}

/// A program on PATH.
pub(crate) fn on_path(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .map(|folder| folder.join(name))
        .find(|path| path.is_file())
}

/// The folder with the sources of a Go module in the version that is pinned in `tests/tools/GROUP`; none, after saying why,
/// without Go.
pub fn go_module(group: &str, module: &str) -> Option<PathBuf> {
    let pins = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../tools");
    let listed = Command::new("go")
        .args(["list", "-m", "-f", "{{.Dir}}", module])
        .current_dir(pins.join(group))
        .env("GOWORK", "off")
        .env_remove("GOFLAGS")
        .output();
    let folder = match listed {
        Ok(output) if output.status.success() => {
            String::from_utf8_lossy(&output.stdout).trim().to_owned()
        }
        _ => String::new(),
    };
    if folder.is_empty() {
        skip(&format!(
            "go does not tell where {module} is; `cargo xtask tools {group}` fetches it"
        ));
        return None;
    }
    Some(PathBuf::from(folder))
}

/// Says that a test is skipped and why: on stderr, and in the file that `cargo xtask test` counts,
/// because the harness hides what a passing test prints.
pub fn skip(reason: &str) {
    eprintln!("SKIP: {reason}");
    if let Some(path) = std::env::var_os("WINDLASS_SKIP_LOG")
        && let Ok(mut file) = std::fs::OpenOptions::new()
            .create(true)
            .append(true)
            .open(path)
    {
        let _ = writeln!(file, "{reason}");
    }
}
