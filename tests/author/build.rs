//! Compares `wit/` with the last released contract, for `tests/contract.rs` to judge.
//!
//! Here and not in the test, because what a build script depends on is built apart: the checker would otherwise change the features
//! of what wasmtime is built with, for every crate.

use std::path::{Path, PathBuf};

use wit_parser::Resolve;

include!("tests/contract/cases.rs");

const WORLDS: [&str; 4] = [
    "imports",
    "source-plugin",
    "backend-plugin",
    "health-plugin",
];

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

fn main() -> Result<()> {
    for input in ["../../wit", "tests/contract/cases.rs"] {
        println!("cargo::rerun-if-changed={input}");
    }
    let wit = PathBuf::from(std::env::var("CARGO_MANIFEST_DIR")?).join("../../wit");
    let out = PathBuf::from(std::env::var("OUT_DIR")?);
    // A contract that cannot be read fails the test, not the build of everything else.
    let report = report(&wit, &out).unwrap_or_else(|error| lines("now", &[error.to_string()]));
    std::fs::write(out.join("contract.txt"), report)?;
    Ok(())
}

/// What is broken now, and what each of the cases would break.
fn report(wit: &Path, out: &Path) -> Result<String> {
    let mut released: Vec<PathBuf> = std::fs::read_dir(wit.join("released"))?
        .map(|entry| entry.map(|entry| entry.path()))
        .collect::<std::io::Result<_>>()?;
    released.sort();
    let last = released.last().ok_or("wit/released is empty")?;
    let mut report = lines("now", &broken(last, wit, out)?);
    for (name, file, old, new) in CASES {
        let changed = out.join("changed");
        copy(wit, &changed, |path, text| match path.ends_with(file) {
            true => text.replacen(old, new, 1),
            false => text,
        })?;
        report.push_str(&lines(name, &broken(wit, &changed, out)?));
    }
    Ok(report)
}

/// One line for each thing that is broken.
fn lines(case: &str, broken: &[String]) -> String {
    broken
        .iter()
        .map(|what| format!("{case}\t{}\n", what.replace('\n', " ")))
        .collect()
}

/// What breaks a component of the old contract, world by world; empty if nothing does.
fn broken(old: &Path, new: &Path, out: &Path) -> Result<Vec<String>> {
    let mut resolve = Resolve::default();
    let (old_package, _) = resolve.push_dir(old)?;
    let version = resolve.packages[old_package].name.version.clone();
    let version = version.ok_or("the contract has no version")?;
    // Both stand in one resolve and need different names; the check looks beyond versions.
    let renamed = out.join("renamed");
    let (from, to) = (
        format!("windlass:plugin@{version};"),
        "windlass:plugin@0.1.999;",
    );
    copy(new, &renamed, |_, text| text.replace(&from, to))?;
    let (new_package, _) = resolve.push_dir(&renamed)?;
    let renamed = resolve.packages[new_package].name.version.clone();
    if renamed.is_none_or(|version| version.patch != 999) {
        // Another version is another contract: its host refuses components of this one, with the remedy.
        return Ok(Vec::new());
    }
    let mut broken = Vec::new();
    for world in WORLDS {
        let old_world = resolve.select_world(&[old_package], Some(world))?;
        let Ok(new_world) = resolve.select_world(&[new_package], Some(world)) else {
            broken.push(format!("world {world} is gone"));
            continue;
        };
        if let Err(error) = wit_component::semver_check(resolve.clone(), old_world, new_world) {
            broken.push(format!("world {world}: {error:#}"));
        }
    }
    Ok(broken)
}

/// The `.wit` files of a folder in another, each through `change`.
fn copy(from: &Path, to: &Path, change: impl Fn(&Path, String) -> String) -> Result<()> {
    if to.exists() {
        std::fs::remove_dir_all(to)?;
    }
    std::fs::create_dir_all(to)?;
    for entry in std::fs::read_dir(from)? {
        let path = entry?.path();
        if let (Some(name), true) = (
            path.file_name(),
            path.extension().is_some_and(|it| it == "wit"),
        ) {
            std::fs::write(
                to.join(name),
                change(&path, std::fs::read_to_string(&path)?),
            )?;
        }
    }
    Ok(())
}
