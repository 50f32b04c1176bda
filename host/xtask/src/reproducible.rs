//! Programs that do not tell where they were compiled: a path of the builder's in a message of a panic would make other bytes of
//! the same sources.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::place::Place;

/// What separates the flags in CARGO_ENCODED_RUSTFLAGS.
const UNIT_SEPARATOR: &str = "\u{1f}";

/// Adds to a `cargo build` with `--target` what it takes to leave the builder's folders out of Rust code. A user's own RUSTFLAGS
/// do not reach these programs, for they would make other bytes as well.
///
/// Cargo gives the flags to what is built for the target alone, so build scripts are not compiled again.
pub fn of_rust(build: &mut Command, place: &Place) {
    let flags: Vec<String> = folders(place)
        .map(|(from, to)| format!("--remap-path-prefix={}={to}", from.display()))
        .collect();
    build
        .env("CARGO_ENCODED_RUSTFLAGS", flags.join(UNIT_SEPARATOR))
        .env_remove("RUSTFLAGS");
}

/// The same for what a crate compiles of C: flags of GCC and Clang.
pub fn of_c(place: &Place) -> String {
    let flags: Vec<String> = folders(place)
        .map(|(from, to)| format!("-ffile-prefix-map={}={to}", from.display()))
        .collect();
    flags.join(" ")
}

/// The folders with sources, and what to call each. Where one lies in another, the last that fits counts for both compilers.
fn folders(place: &Place) -> impl Iterator<Item = (PathBuf, &'static str)> {
    [
        (cargo_home(), "/cargo"),
        (place.root.clone(), "/windlass"),
        (place.target.clone(), "/windlass/target"),
    ]
    .into_iter()
}

/// Where cargo keeps the sources of dependencies.
fn cargo_home() -> PathBuf {
    std::env::var_os("CARGO_HOME").map_or_else(
        || {
            let home = std::env::var_os("HOME").unwrap_or_default();
            Path::new(&home).join(".cargo")
        },
        PathBuf::from,
    )
}
