//! Programs that do not tell where they were compiled: a path of the builder's in a message of a panic would make other bytes of
//! the same sources.

use std::path::{Path, PathBuf};
use std::process::Command;

use memchr::memmem;

use crate::error::{AtPath, Error, Result};
use crate::place::Place;

/// What separates the flags in CARGO_ENCODED_RUSTFLAGS.
const UNIT_SEPARATOR: &str = "\u{1f}";

/// Adds to a `cargo build` with `--target` what it takes to leave the builder's folders out of Rust code. A user's own RUSTFLAGS
/// do not reach these programs, for they would make other bytes as well.
///
/// Cargo gives the flags to what is built for the target alone, so build scripts are not compiled again.
pub fn of_rust(build: &mut Command, place: &Place) {
    let flags: Vec<String> = folders(place)
        .iter()
        .map(|(from, to)| format!("--remap-path-prefix={}={to}", from.display()))
        .collect();
    build
        .env("CARGO_ENCODED_RUSTFLAGS", flags.join(UNIT_SEPARATOR))
        .env_remove("RUSTFLAGS");
}

/// The same for what a crate compiles of C: flags of GCC and Clang.
pub fn of_c(place: &Place) -> String {
    let flags: Vec<String> = folders(place)
        .iter()
        .map(|(from, to)| format!("-ffile-prefix-map={}={to}", from.display()))
        .collect();
    flags.join(" ")
}

/// Refuses a program or component that tells a folder of the builder's.
///
/// # Errors
/// `BadFile` with what is told; when the file cannot be read.
pub fn require_silent(place: &Place, file: &Path) -> Result<()> {
    let bytes = std::fs::read(file).at(file)?;
    folders(place)
        .iter()
        .filter(|(folder, _)| is_telling(folder))
        .try_for_each(|(folder, _)| require_without(&bytes, folder, file))
}

/// Whether a folder can be told from the end of another path: `/src`, where a container has the sources, cannot.
fn is_telling(folder: &Path) -> bool {
    folder.components().count() > 2
}

fn require_without(bytes: &[u8], folder: &Path, file: &Path) -> Result<()> {
    let within = folder.join("");
    let Some(at) = memmem::find(bytes, within.as_os_str().as_encoded_bytes()) else {
        return Ok(());
    };
    let told = bytes[at..]
        .iter()
        .take_while(|byte| byte.is_ascii_graphic());
    let told: Vec<u8> = told.take(200).copied().collect();
    let told = String::from_utf8_lossy(&told);
    Err(Error::BadFile {
        path: file.to_owned(),
        what: format!(
            "it tells where it was compiled ({told}), so the same sources make other bytes elsewhere; \
             see what reproducible.rs gives to the compiler that made this part"
        ),
    })
}

/// The folders with sources, and what to call each. Where one lies in another, the last that fits counts for both compilers.
fn folders(place: &Place) -> [(PathBuf, &'static str); 3] {
    [
        (cargo_home(), "/cargo"),
        (place.root.clone(), "/windlass"),
        (place.target.clone(), "/windlass/target"),
    ]
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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_path_of_the_builder_is_found_and_shown() {
        let file = Path::new("a.wasm");
        let folder = Path::new("/home/me/windlass");
        let clean = b"\0asm panicked at /windlass/src/lib.rs:1:2";
        require_without(clean, folder, file).unwrap();
        let beside = b"\0asm panicked at /home/me/windlass-sdk/lib.rs";
        require_without(beside, folder, file).unwrap();
        let told = b"\0asm\x01/home/me/windlass/src/lib.rs\0more";
        let error = require_without(told, folder, file).unwrap_err();
        let text = error.to_string();
        assert!(
            text.contains("a.wasm") && text.contains("(/home/me/windlass/src/lib.rs)"),
            "{text}"
        );
    }

    #[test]
    fn a_folder_that_many_paths_end_in_tells_nothing() {
        for (folder, telling) in [("/src", false), ("/", false), ("/work/windlass", true)] {
            assert_eq!(is_telling(Path::new(folder)), telling, "{folder}");
        }
    }
}
