//! The programs that a test starts: `windlass`, and `cargo` for the component.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

/// The host's program.
///
/// # Panics
/// If there is none, saying where it was looked for.
pub fn program() -> PathBuf {
    if let Some(named) = std::env::var_os("WINDLASS").filter(|it| !it.is_empty()) {
        return named.into();
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let on_path = std::env::split_paths(&path).map(|folder| folder.join("windlass"));
    let clone = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target");
    let built = ["release", "debug"].map(|profile| clone.join(profile).join("windlass"));
    on_path
        .chain(built)
        .find(|file| file.is_file())
        .unwrap_or_else(|| {
            panic!(
                "there is no windlass: put it on the PATH, name it in WINDLASS, or build it in its clone \
                 (`cargo xtask build`)"
            )
        })
}

/// Builds the package in `folder` and finds its component.
///
/// # Panics
/// If it does not build, with cargo's words on stderr, or makes no component.
pub fn build(folder: &Path) -> PathBuf {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo
        .current_dir(folder)
        .args(["build", "--release", "--lib", "--target", "wasm32-wasip2"])
        .args(["--message-format", "json-render-diagnostics", "--quiet"]);
    // What the outer cargo set for its own build is not for this one.
    for name in [
        "RUSTFLAGS",
        "CARGO_ENCODED_RUSTFLAGS",
        "RUSTC_WRAPPER",
        "RUSTC_WORKSPACE_WRAPPER",
    ] {
        cargo.env_remove(name);
    }
    let output = cargo
        .stderr(std::process::Stdio::inherit())
        .output()
        .unwrap_or_else(|error| panic!("cargo does not start: {error}"));
    assert!(
        output.status.success(),
        "the component does not build; is its target there? `rustup target add wasm32-wasip2`"
    );
    let text = String::from_utf8_lossy(&output.stdout);
    let component = |line: &str| {
        let message: Value = serde_json::from_str(line).ok()?;
        let files = message["filenames"].as_array()?.clone();
        let wasm = files
            .iter()
            .filter_map(Value::as_str)
            .find(|file| file.ends_with(".wasm"));
        wasm.map(PathBuf::from)
    };
    // Its own comes after those of its dependencies.
    text.lines().filter_map(component).next_back().unwrap_or_else(|| {
        panic!("cargo made no component: Cargo.toml needs `crate-type = [\"cdylib\", \"rlib\"]` under [lib]")
    })
}
