//! `cargo xtask agent-static`: the agent for images that nobody knows beforehand.

use std::path::PathBuf;

use crate::error::Result;
use crate::place::Place;
use crate::process::{cargo, run};
use crate::{cross, doctor, reproducible};

/// Builds the agent without any shared library; tells where it is and how large.
///
/// # Errors
/// When it does not compile: the Rust target or the C compiler for it (`musl-gcc`, Debian's
/// musl-tools) may be missing.
pub fn make(place: &Place) -> Result<()> {
    let built = make_for(place, "x86_64")?;
    let bytes = built.metadata().map_or(0, |m| m.len());
    println!("{} ({:.1} MB)", built.display(), bytes as f64 / 1e6);
    Ok(())
}

/// Builds it for a kind of machine, as Rust names it, and gives where it is. It runs beside whatever C library the user's
/// image has, or none.
///
/// # Errors
/// As `make`.
pub fn make_for(place: &Place, machine: &str) -> Result<PathBuf> {
    let target = format!("{machine}-unknown-linux-musl");
    let why = "the agent in a pod is linked without the image's C library";
    doctor::rust_target(place, &target, why)?;
    let mut build = cargo();
    build.current_dir(&place.root).args([
        "build",
        "--release",
        "--locked",
        "-p",
        "windlass-agent",
        "--target",
        &target,
    ]);
    let mut flags = reproducible::of_c(place);
    if machine != std::env::consts::ARCH {
        flags = format!("{flags} {}", cross::with_musl(&mut build, machine)?);
    }
    reproducible::of_rust(&mut build, place);
    build.env(cross::flags_variable(&target), flags);
    run(&mut build)?;
    let agent = place.target.join(target).join("release/windlass-agent");
    reproducible::require_silent(place, &agent)?;
    Ok(agent)
}
