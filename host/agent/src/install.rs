//! `windlass-agent install DEST`: brings the agent into a pod whose image does not have it.
//!
//! It runs in an image with nothing but this binary: no shell, no `cp`.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

#[derive(Debug, thiserror::Error)]
pub enum InstallError {
    #[error("the agent cannot be copied to {path}: {source}")]
    NotCopied { path: PathBuf, source: io::Error },
    #[error("the workspace directory {path} cannot be made: {source}")]
    NoWorkspace { path: PathBuf, source: io::Error },
}

/// Copies this program to `dest`, so that nobody sees half of it, and makes the workspace directory unless something is
/// there. A directory as `dest` gets a file `agent`.
pub fn install(dest: &Path, workspace: Option<&Path>) -> Result<PathBuf, InstallError> {
    let dest = if dest.is_dir() {
        dest.join("agent")
    } else {
        dest.to_owned()
    };
    let not_copied = |source| InstallError::NotCopied {
        path: dest.clone(),
        source,
    };
    let aside = dest.with_extension(format!("new-{}", std::process::id()));
    let copied = copy(&aside).and_then(|()| fs::rename(&aside, &dest));
    if copied.is_err() {
        let _ = fs::remove_file(&aside);
    }
    copied.map_err(not_copied)?;
    if let Some(dir) = workspace {
        make_workspace(dir).map_err(|source| InstallError::NoWorkspace {
            path: dir.to_owned(),
            source,
        })?;
    }
    Ok(dest)
}

fn copy(aside: &Path) -> io::Result<()> {
    let mut own = File::open("/proc/self/exe")?;
    let mut file = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o700)
        .open(aside)?;
    io::copy(&mut own, &mut file)?;
    // Other containers of the pod may run as somebody else. Explicitly: the mask may be narrow.
    file.set_permissions(fs::Permissions::from_mode(0o755))?;
    file.sync_all()
}

fn make_workspace(dir: &Path) -> io::Result<()> {
    // A link to what is not there yet (a directory of the main container's image) is somebody's decision.
    if fs::symlink_metadata(dir).is_ok() {
        return Ok(());
    }
    fs::create_dir_all(dir)?;
    // Init containers of the pod fill it, as whoever they are.
    fs::set_permissions(dir, fs::Permissions::from_mode(0o777))
}
