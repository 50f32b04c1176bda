//! The container's root: an own folder with parts of the host bound into it.

use std::fs::{File, create_dir_all};
use std::os::unix::fs::symlink;
use std::path::{Component, Path, PathBuf};

use nix::errno::Errno;
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::unistd::{chdir, pivot_root};

use crate::launch::{Launch, Mount};
use crate::{Result, program};

const NONE: Option<&str> = None;

/// Devices that every container has.
const DEVICES: [&str; 6] = ["null", "zero", "full", "random", "urandom", "tty"];

/// Builds the root and enters it. Nothing of this is seen outside of the mount namespace.
pub fn enter(launch: &Launch) -> Result<()> {
    let root = &launch.root;
    let failed = |what: &str| {
        let what = what.to_owned();
        move |errno: Errno| format!("{what}: {errno}")
    };
    mount(NONE, "/", NONE, MsFlags::MS_REC | MsFlags::MS_PRIVATE, NONE)
        .map_err(failed("a private mount tree"))?;
    bind(root, root)?;
    devices(root)?;
    for (link, target) in &launch.links {
        let link = below(root, link)?;
        if let Some(parent) = link.parent() {
            create_dir_all(parent).map_err(|error| format!("{}: {error}", parent.display()))?;
        }
        if link.symlink_metadata().is_err() {
            symlink(target, &link).map_err(|error| format!("{}: {error}", link.display()))?;
        }
    }
    let proc = root.join("proc");
    make_folder(&proc)?;
    mount(Some("proc"), &proc, Some("proc"), MsFlags::empty(), NONE).map_err(failed("/proc"))?;
    for wanted in &launch.mounts {
        attach(root, wanted)?;
    }
    let cwd = below(root, &launch.process.cwd)?;
    // A working directory may be a symbolic link into a volume; then it must not be made.
    if cwd.symlink_metadata().is_err() {
        make_folder(&cwd)?;
    }
    if launch.read_only_root {
        read_only(root)?;
    }
    chdir(root).map_err(failed("the root"))?;
    // The old root ends on top of the new one, and goes.
    pivot_root(".", ".").map_err(failed("the root"))?;
    umount2(".", MntFlags::MNT_DETACH).map_err(failed("the old root"))?;
    chdir("/").map_err(failed("/"))
}

fn devices(root: &Path) -> Result<()> {
    let folder = root.join("dev");
    make_folder(&folder.join("shm"))?;
    for name in DEVICES {
        let (source, target) = (Path::new("/dev").join(name), folder.join(name));
        if source.exists() {
            make_file(&target)?;
            bind(&source, &target)?;
        }
    }
    for (name, target) in [
        ("fd", "/proc/self/fd"),
        ("stdin", "/proc/self/fd/0"),
        ("stdout", "/proc/self/fd/1"),
        ("stderr", "/proc/self/fd/2"),
    ] {
        let link = folder.join(name);
        if link.symlink_metadata().is_err() {
            symlink(target, &link).map_err(|error| format!("/dev/{name}: {error}"))?;
        }
    }
    Ok(())
}

fn attach(root: &Path, wanted: &Mount) -> Result<()> {
    let Mount {
        source,
        target,
        read_only: no_writes,
    } = wanted;
    let inside = below(root, target)?;
    if source.is_dir() {
        make_folder(&inside)?;
    } else {
        make_file(&inside)?;
    }
    bind(source, &inside)?;
    if *no_writes {
        read_only(&inside)?;
    }
    Ok(())
}

/// A path of the container as the host sees it, as long as there are no links below `root`.
fn below(root: &Path, path: &Path) -> Result<PathBuf> {
    let mut inside = root.to_owned();
    for part in path.components() {
        match part {
            Component::RootDir | Component::CurDir => {}
            Component::Normal(name) => inside.push(name),
            Component::ParentDir | Component::Prefix(_) => {
                return Err(format!("{}: not a plain path", path.display()));
            }
        }
    }
    Ok(inside)
}

fn make_folder(path: &Path) -> Result<()> {
    create_dir_all(path).map_err(|error| format!("mkdir {}: {error}", path.display()))
}

fn make_file(path: &Path) -> Result<()> {
    if path.symlink_metadata().is_ok() {
        return Ok(());
    }
    if let Some(parent) = path.parent() {
        make_folder(parent)?;
    }
    File::create(path)
        .map(drop)
        .map_err(|error| format!("create {}: {error}", path.display()))
}

fn bind(source: &Path, target: &Path) -> Result<()> {
    let flags = MsFlags::MS_BIND | MsFlags::MS_REC;
    mount(Some(source), target, NONE, flags, NONE).map_err(|errno| {
        format!(
            "mount {} at {}: {errno}",
            source.display(),
            target.display()
        )
    })
}

fn read_only(target: &Path) -> Result<()> {
    let flags = MsFlags::MS_BIND | MsFlags::MS_REMOUNT | MsFlags::MS_RDONLY;
    match mount(NONE, target, NONE, flags, NONE) {
        Ok(()) => Ok(()),
        // In a user namespace the flags of the host's mount may not be dropped; who runs there
        // cannot write to the host's files anyhow.
        Err(Errno::EPERM) if program::is_only_user() => Ok(()),
        Err(errno) => Err(format!("{} read-only: {errno}", target.display())),
    }
}
