//! `cargo xtask build`: the components, then the two binaries, in the dev profile.

use std::path::PathBuf;
use std::process::Command;

use crate::error::Result;
use crate::place::Place;
use crate::plugins;
use crate::process::{cargo, run};

/// The packages whose binaries the main job consists of.
pub const PACKAGES: [&str; 2] = ["windlass", "windlass-agent"];

/// Builds the components and both binaries.
///
/// # Errors
/// When something does not compile.
pub fn make(place: &Place) -> Result<()> {
    plugins::make(place, false)?;
    let mut build = cargo();
    build.current_dir(&place.root).arg("build");
    for package in PACKAGES {
        build.args(["-p", package]);
    }
    with_folders(place, &mut build, place.binaries());
    run(&mut build)
}

/// Tells a program that we start where the things are that these commands make. Tests and
/// benchmarks read the same three names; `windlass` is built with the digests of the plugins.
pub fn with_folders(place: &Place, command: &mut Command, binaries: PathBuf) {
    command
        .env("WINDLASS_TOOLS_DIR", place.tools())
        .env("WINDLASS_PLUGIN_DIR", place.plugins())
        .env("WINDLASS_BIN_DIR", binaries);
}
