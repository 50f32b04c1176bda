//! `cargo xtask bench`: the benchmarks, in the release profile, with release binaries.

use std::ffi::OsString;

use crate::binaries::{self, with_folders};
use crate::error::Result;
use crate::place::Place;
use crate::process::{cargo, run};
use crate::tools::Group;
use crate::{plugins, tools};

/// The packages of what the operator is measured on: the stand-in for a kubelet, the provider of slow resources.
const STAGE: [&str; 2] = ["windlass-cluster", "windlass-test-provider"];

/// Builds what the benchmarks measure and runs them with `arguments`.
///
/// # Errors
/// When something does not compile, or a benchmark fails.
pub fn run_all(place: &Place, arguments: &[OsString]) -> Result<()> {
    tools::make(place, &[Group::Pulumi, Group::K8s], false)?;
    plugins::make(place, false)?;
    let binaries = place.target.join("release");
    let mut build = cargo();
    build.current_dir(&place.root).args(["build", "--release"]);
    for package in binaries::PACKAGES.iter().chain(&STAGE) {
        build.args(["-p", package]);
    }
    with_folders(place, &mut build, binaries.clone());
    run(&mut build)?;

    let mut bench = cargo();
    bench
        .current_dir(&place.root)
        .args(["run", "--release", "-p", "windlass-bench", "--"])
        .args(arguments);
    with_folders(place, &mut bench, binaries);
    run(&mut bench)
}
