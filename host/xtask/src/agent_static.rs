//! `cargo xtask agent-static`: the agent for images that nobody knows beforehand.

use std::path::PathBuf;

use crate::doctor;
use crate::error::Result;
use crate::place::Place;
use crate::process::{cargo, run};

/// Runs beside whatever C library the user's image has, or none.
const TARGET: &str = "x86_64-unknown-linux-musl";

/// Builds the agent without any shared library; tells where it is and how large.
///
/// # Errors
/// When it does not compile: the Rust target or the C compiler for it (`musl-gcc`, Debian's
/// musl-tools) may be missing.
pub fn make(place: &Place) -> Result<()> {
    let why = "the agent in a pod is linked without the image's C library";
    doctor::rust_target(place, TARGET, why)?;
    let mut build = cargo();
    build.current_dir(&place.root).args([
        "build",
        "--release",
        "-p",
        "windlass-agent",
        "--target",
        TARGET,
    ]);
    run(&mut build)?;
    let built = binary(place);
    let bytes = built.metadata().map_or(0, |m| m.len());
    println!("{} ({:.1} MB)", built.display(), bytes as f64 / 1e6);
    Ok(())
}

fn binary(place: &Place) -> PathBuf {
    place
        .target
        .join(TARGET)
        .join("release")
        .join("windlass-agent")
}
