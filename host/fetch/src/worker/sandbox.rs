//! Takes everything from this process that it does not need: files, execution of
//! programs, memory, and a way back.

use std::io;
use std::path::{Path, PathBuf};

use landlock::{
    ABI, Access, AccessFs, AccessNet, BitFlags, CompatLevel, Compatible, PathBeneath, PathFd,
    Ruleset, RulesetAttr, RulesetCreatedAttr, RulesetStatus, Scope,
};
use rustix::process::{DumpableBehavior, Resource, Rlimit, setrlimit};

use crate::wire::WorkerRequest;

/// What name resolution, TLS roots and shared libraries need to read.
const READABLE: &[&str] = &[
    "/etc/resolv.conf",
    "/etc/hosts",
    "/etc/host.conf",
    "/etc/nsswitch.conf",
    "/etc/gai.conf",
    "/etc/services",
    "/etc/localtime",
    "/etc/ld.so.cache",
    "/etc/ssl",
    "/etc/pki",
    "/etc/ca-certificates",
    "/usr/share/ca-certificates",
    "/usr/local/share/ca-certificates",
    "/run/systemd/resolve",
    "/lib",
    "/lib64",
    "/usr/lib",
    "/usr/lib64",
    "/dev/urandom",
    "/dev/null",
];

/// Restricts this process. Says what the kernel could not enforce, if anything.
pub(super) fn enter(request: &WorkerRequest) -> io::Result<Option<String>> {
    limits(request)?;
    rustix::thread::set_no_new_privs(true)?;
    // No other process of this user may look into this one, which holds a credential.
    rustix::process::set_dumpable_behavior(DumpableBehavior::NotDumpable)?;
    landlock(request).map_err(|err| io::Error::other(format!("cannot enter the sandbox: {err}")))
}

fn limits(request: &WorkerRequest) -> io::Result<()> {
    let limits = &request.limits;
    let set = |resource, value: u64| {
        let capped = match rustix::process::getrlimit(resource).maximum {
            Some(hard) => hard.min(value),
            None => value,
        };
        setrlimit(
            resource,
            Rlimit {
                current: Some(capped),
                maximum: Some(capped),
            },
        )
    };
    // What is allocated counts; program text and mapped packs do not, so the
    // address space gets more.
    set(Resource::Data, limits.memory)?;
    set(
        Resource::As,
        limits
            .memory
            .saturating_add(limits.bytes)
            .saturating_add(4 << 30),
    )?;
    set(Resource::Fsize, limits.bytes.saturating_add(64 << 20))?;
    // Of all threads together; the parent keeps the wall clock.
    set(Resource::Cpu, limits.wall.as_secs().max(1) * 4)?;
    set(Resource::Nofile, 256)?;
    set(Resource::Core, 0)?;
    // Processes are not limited by number: that limit counts the user's other
    // processes too. Executing anything is refused below.
    Ok(())
}

fn landlock(request: &WorkerRequest) -> Result<Option<String>, landlock::RulesetError> {
    let abi = ABI::V6;
    let read = AccessFs::ReadFile | AccessFs::ReadDir;
    // Everything but running programs.
    let own: BitFlags<AccessFs> = AccessFs::from_all(abi) & !BitFlags::from(AccessFs::Execute);
    let mut ruleset = Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(AccessFs::from_all(abi))?
        .handle_access(AccessNet::BindTcp)?
        .scope(Scope::from_all(abi))?
        .create()?;
    ruleset = allow(ruleset, &request.scratch, own)?;
    for path in READABLE {
        ruleset = allow(ruleset, Path::new(path), read)?;
    }
    if let Some(path) = local_repository(request) {
        ruleset = allow(ruleset, &path, read)?;
    }
    if let Some(ssh) = &request.ssh {
        ruleset = allow_ssh(ruleset, &ssh.program)?;
    }
    let status = ruleset.restrict_self()?;
    Ok(match status.ruleset {
        RulesetStatus::FullyEnforced => None,
        RulesetStatus::PartiallyEnforced => {
            Some("the kernel enforces Landlock only in part; newer kernels enforce more".to_owned())
        }
        RulesetStatus::NotEnforced => Some(
            "the kernel has no Landlock: file access of fetching processes is not restricted"
                .to_owned(),
        ),
    })
}

/// The one program that may be executed, with the loader that the kernel starts it by, and what it insists on: who
/// its user is, and a null device that it can write to. It runs under the same restrictions.
fn allow_ssh(
    mut ruleset: landlock::RulesetCreated,
    program: &Path,
) -> Result<landlock::RulesetCreated, landlock::RulesetError> {
    let run = AccessFs::ReadFile | AccessFs::Execute;
    ruleset = allow(ruleset, program, run)?;
    for loader in loaders() {
        ruleset = allow(ruleset, &loader, run)?;
    }
    let device = AccessFs::ReadFile | AccessFs::WriteFile;
    ruleset = allow(ruleset, Path::new("/dev/null"), device)?;
    for path in [
        "/etc/passwd",
        "/etc/crypto-policies",
        "/usr/share/crypto-policies",
    ] {
        ruleset = allow(
            ruleset,
            Path::new(path),
            AccessFs::ReadFile | AccessFs::ReadDir,
        )?;
    }
    Ok(ruleset)
}

/// Dynamic loaders by the names that C libraries give them.
fn loaders() -> impl Iterator<Item = PathBuf> {
    ["/lib", "/lib64"]
        .into_iter()
        .filter_map(|dir| std::fs::read_dir(dir).ok())
        .flatten()
        .flatten()
        .filter(|entry| {
            let name = entry.file_name();
            let name = name.to_string_lossy();
            name.starts_with("ld-") && name.contains(".so")
        })
        .map(|entry| entry.path())
}

/// Adds a path that exists; others are no loss.
fn allow(
    ruleset: landlock::RulesetCreated,
    path: &Path,
    access: BitFlags<AccessFs>,
) -> Result<landlock::RulesetCreated, landlock::RulesetError> {
    let Ok(meta) = std::fs::metadata(path) else {
        return Ok(ruleset);
    };
    let access = if meta.is_dir() {
        access
    } else {
        access & AccessFs::from_file(ABI::V6)
    };
    match PathFd::new(path) {
        Ok(fd) => ruleset.add_rule(PathBeneath::new(fd, access)),
        Err(_) => Ok(ruleset),
    }
}

/// The directory of a `file:` repository or archive, where those are allowed.
fn local_repository(request: &WorkerRequest) -> Option<PathBuf> {
    let url = request.operation.url()?;
    let address = super::http::address(request, url).ok()?;
    if address.is_file() {
        address.local_path().ok()
    } else {
        None
    }
}
