//! `cargo xtask plugins`: the built-in components in `<target>/plugins`, with their digests.

use std::path::Path;

use serde_json::{Map, Value};
use sha2::{Digest, Sha256};

use crate::doctor::{WASM_TARGET, wasm_target};
use crate::error::{AtPath, Error, Result};
use crate::place::{Place, write_atomically};
use crate::process::{cargo, run};
use crate::reproducible;

/// The built-in components, in the order in which they are listed everywhere.
pub const BUILT_IN: [&str; 7] = [
    "source-git",
    "source-flux",
    "source-program",
    "backend-cloud",
    "backend-diy",
    "health-argocd",
    "health-lua",
];

/// Examples that are components of this workspace; the tests build them.
pub const EXAMPLES: [&str; 2] = ["source-s3", "source-oci"];

/// The profile of Cargo.toml that makes them small and deterministic.
const PROFILE: &str = "component";

/// Compiles the components and brings `<target>/plugins` up to date; files that would not change
/// are left alone. With `check`, nothing is written there.
///
/// # Errors
/// When a component does not compile; `OutOfDate` with `check` when a file differs.
pub fn make(place: &Place, check: bool) -> Result<()> {
    wasm_target(place)?;
    let mut build = cargo();
    build
        .current_dir(&place.root)
        .args(["build", "--profile", PROFILE, "--target", WASM_TARGET]);
    for name in BUILT_IN {
        build.args(["-p", name]);
    }
    reproducible::of_rust(&mut build, place);
    run(&mut build)?;

    let compiled = place.target.join(WASM_TARGET).join(PROFILE);
    let folder = place.plugins();
    std::fs::create_dir_all(&folder).at(&folder)?;
    let mut digests = Map::new();
    let mut changed = Vec::new();
    for name in BUILT_IN {
        let from = compiled.join(format!("{}.wasm", name.replace('-', "_")));
        let component = std::fs::read(&from).at(&from)?;
        require_component(&from, &component)?;
        reproducible::require_silent(place, &from)?;
        digests.insert(name.to_owned(), Value::String(digest(&component)));
        let file = format!("{name}.wasm");
        if bring(&folder.join(&file), &component, check)? {
            changed.push(file);
        }
    }
    let mut text = format!("{:#}", Value::Object(digests));
    text.push('\n');
    let list = "digests.json";
    if bring(&folder.join(list), text.as_bytes(), check)? {
        changed.push(list.to_owned());
    }
    report(place, &folder, &changed, check)
}

fn report(place: &Place, folder: &Path, changed: &[String], check: bool) -> Result<()> {
    let folder = place.shown(folder);
    if changed.is_empty() {
        println!("plugins: {} in {folder} are up to date", BUILT_IN.len());
        return Ok(());
    }
    let changed = changed.join(", ");
    if check {
        return Err(Error::OutOfDate {
            what: format!("{changed} in {folder}"),
            how: "cargo xtask plugins",
        });
    }
    println!("plugins: wrote {changed} in {folder}");
    Ok(())
}

/// True when `path` did not hold `content`; it does afterwards unless `check` is set.
fn bring(path: &Path, content: &[u8], check: bool) -> Result<bool> {
    if std::fs::read(path).is_ok_and(|old| old == content) {
        return Ok(false);
    }
    if !check {
        write_atomically(path, content)?;
    }
    Ok(true)
}

/// A module in a component's place would be found only when it is loaded.
fn require_component(path: &Path, bytes: &[u8]) -> Result<()> {
    // The preamble: magic, version, and the layer, which is 1 for a component and 0 for a module.
    if bytes.starts_with(b"\0asm\x0d\0\x01\0") {
        return Ok(());
    }
    Err(Error::BadFile {
        path: path.to_owned(),
        what: "not a WebAssembly component".to_owned(),
    })
}

fn digest(bytes: &[u8]) -> String {
    format!("sha256:{}", hex::encode(Sha256::digest(bytes)))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use pretty_assertions::assert_eq;

    #[test]
    fn a_digest_is_spelled_with_its_algorithm() {
        assert_eq!(
            digest(b""),
            "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
        );
    }

    #[test]
    fn a_check_tells_a_difference_and_writes_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.wasm");
        assert!(bring(&path, b"new", true).unwrap());
        assert!(!path.exists());
        assert!(bring(&path, b"new", false).unwrap());
        assert!(!bring(&path, b"new", false).unwrap());
        assert!(!bring(&path, b"new", true).unwrap());
    }

    #[test]
    fn a_core_module_is_no_component() {
        let path = Path::new("x.wasm");
        assert!(require_component(path, b"\0asm\x0d\0\x01\0rest").is_ok());
        assert!(require_component(path, b"\0asm\x01\0\0\0").is_err());
        assert!(require_component(path, b"").is_err());
    }
}
