//! The packages of a Linux distribution that a real node is made of.
//!
//! They change the machine for everybody, so they are installed aloud, only where somebody asked for the node's tools or
//! runs everything that CI runs, and only as root where apt-get is.

use std::path::Path;
use std::process::Command;

use crate::error::{Error, Result};
use crate::process::{find_on_path, run};

/// A program, and Debian's package of it.
const PROGRAMS: [(&str, &str); 6] = [
    ("containerd", "containerd"),
    ("ctr", "containerd"),
    ("runc", "runc"),
    ("ip", "iproute2"),
    ("nsenter", "util-linux"),
    ("strip", "binutils"),
];
/// Folders that are root's, and not on everybody's PATH.
const MORE: [&str; 2] = ["/usr/sbin", "/sbin"];
const NETWORK: &str = "containernetworking-plugins";
/// Where packages put the network plugins: Debian's, everybody else's.
const NETWORK_FOLDERS: [&str; 2] = ["/usr/lib/cni", "/opt/cni/bin"];

/// The packages that are missing here.
pub fn missing() -> Vec<&'static str> {
    let network = |folder: &str| Path::new(folder).join("bridge").is_file();
    let mut missing: Vec<_> = PROGRAMS
        .iter()
        .filter(|(program, _)| !is_there(program))
        .map(|(_, package)| *package)
        .collect();
    if !NETWORK_FOLDERS.iter().any(|folder| network(folder)) {
        missing.push(NETWORK);
    }
    missing.dedup();
    missing
}

/// Whether a program is on PATH, or where root would find it.
pub fn is_there(program: &str) -> bool {
    find_on_path(program, None).is_some()
        || MORE
            .iter()
            .any(|folder| Path::new(folder).join(program).is_file())
}

/// Why a real node cannot run here as things are, as one sentence; none if nothing speaks against it.
pub fn obstacle() -> Option<String> {
    if cfg!(not(target_os = "linux")) {
        return Some("a real node runs on Linux".to_owned());
    }
    if !is_root() {
        return Some(
            "a real node needs root: it mounts, and makes network interfaces and cgroups"
                .to_owned(),
        );
    }
    let missing = missing();
    (!missing.is_empty()).then(|| {
        format!(
            "a real node needs the packages {}; as root on Debian `cargo xtask tools node` installs them",
            missing.join(", ")
        )
    })
}

/// Installs the packages that are missing.
///
/// # Errors
/// Where they cannot be installed: what to install oneself.
pub fn install() -> Result<()> {
    let missing = missing();
    if missing.is_empty() {
        return Ok(());
    }
    install_these(&missing, "a real node is made of them")
}

/// Installs these packages; `why` says what for.
///
/// # Errors
/// Where they cannot be installed: what to install oneself.
pub fn install_these(packages: &[&str], why: &'static str) -> Result<()> {
    let names = packages.join(", ");
    if !is_root() || find_on_path("apt-get", None).is_none() {
        return Err(Error::MissingProgram {
            program: format!("the packages {names}"),
            why,
            how: "as root on Debian this command installs them; elsewhere install what has these programs",
        });
    }
    println!("the packages {names} are installed now: {why}");
    if apt(packages).is_ok() {
        return Ok(());
    }
    // The lists of a new machine are empty, those of an old one name what is gone.
    run(Command::new("apt-get").args(["-q", "update"]))?;
    apt(packages)
}

fn apt(packages: &[&str]) -> Result<()> {
    let mut command = Command::new("apt-get");
    command
        .env("DEBIAN_FRONTEND", "noninteractive")
        .args(["-q", "install", "--yes", "--no-install-recommends"])
        .args(packages);
    run(&mut command)
}

#[cfg(unix)]
fn is_root() -> bool {
    // What it owns is ours.
    use std::os::unix::fs::MetadataExt as _;
    std::fs::metadata("/proc/self").is_ok_and(|itself| itself.uid() == 0)
}

#[cfg(not(unix))]
fn is_root() -> bool {
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_is_named_once_and_said() {
        let missing = missing();
        let mut once = missing.clone();
        once.dedup();
        assert_eq!(missing, once);
        if let Some(why) = obstacle() {
            assert!(why.starts_with("a real node "), "{why}");
            assert!(!is_root() || missing.iter().all(|package| why.contains(package)));
        }
    }
}
