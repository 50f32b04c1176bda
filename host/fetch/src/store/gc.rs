//! Removes trees that nobody wants any more.

use std::collections::HashSet;
use std::fs::{self, File};
use std::io;
use std::path::Path;
use std::time::{Duration, SystemTime};

use super::{Store, hex_of};
use crate::error::FetchError;

/// What a collection did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct GcReport {
    /// Trees that stay.
    pub kept: u64,
    /// Trees that were removed.
    pub removed: u64,
    /// Bytes of content that were removed.
    pub freed: u64,
}

/// Whether a lock file was touched within the grace, or is held by anybody.
fn in_use(lock: &Path, grace: Duration) -> io::Result<Option<File>> {
    let file = match File::options().write(true).open(lock) {
        Ok(file) => file,
        Err(err) if err.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(err) => return Err(err),
    };
    let age = SystemTime::now()
        .duration_since(file.metadata()?.modified()?)
        .unwrap_or_default();
    if age < grace || file.try_lock().is_err() {
        return Ok(None);
    }
    Ok(Some(file))
}

impl Store {
    /// Removes the trees that are not in `keep`, not leased, and unused for `grace`.
    pub fn gc(&self, keep: &HashSet<String>, grace: Duration) -> Result<GcReport, FetchError> {
        self.collect(keep, grace)
            .map_err(|err| FetchError::store("cannot collect garbage", &err))
    }

    fn collect(&self, keep: &HashSet<String>, grace: Duration) -> io::Result<GcReport> {
        let keep: HashSet<&str> = keep
            .iter()
            .filter_map(|digest| hex_of(digest).ok())
            .collect();
        let mut report = GcReport::default();
        for dir in fs::read_dir(self.trees())? {
            let dir = dir?;
            let kept = dir
                .file_name()
                .to_str()
                .is_some_and(|name| keep.contains(name));
            let lock = if kept {
                None
            } else {
                in_use(&dir.path().join("lock"), grace)?
            };
            let Some(_lock) = lock else {
                report.kept += 1;
                continue;
            };
            let freed = fs::metadata(dir.path().join("content"))
                .map(|meta| meta.len())
                .unwrap_or_default();
            // First out of sight in one step, so that nobody sees half a tree.
            let doomed = tempfile::Builder::new()
                .prefix("gone-")
                .tempdir_in(self.tmp())?;
            fs::rename(dir.path(), doomed.path().join("tree"))?;
            doomed.close()?;
            report.removed += 1;
            report.freed += freed;
        }
        self.sweep_tmp(grace)?;
        self.sweep_index()?;
        Ok(report)
    }

    /// Removes what crashed processes left behind.
    fn sweep_tmp(&self, grace: Duration) -> io::Result<()> {
        for item in fs::read_dir(self.tmp())? {
            let item = item?;
            let Ok(meta) = item.metadata() else { continue };
            let age = SystemTime::now()
                .duration_since(meta.modified()?)
                .unwrap_or_default();
            // Shorter than any fetch would be too eager, whatever the grace for trees is.
            if age < grace.max(Duration::from_secs(600)) {
                continue;
            }
            let lock = item.path().join("lock");
            if meta.is_file() {
                fs::remove_file(item.path()).ok();
            } else if !lock.exists() || in_use(&lock, grace)?.is_some() {
                fs::remove_dir_all(item.path()).ok();
            }
        }
        Ok(())
    }

    /// Removes index lines that point to removed trees.
    fn sweep_index(&self) -> io::Result<()> {
        for item in fs::read_dir(self.root.join("index"))? {
            let item = item?;
            let Ok(digest) = fs::read_to_string(item.path()) else {
                continue;
            };
            let stored = self.tree_dir(digest.trim()).is_ok_and(|dir| dir.exists());
            if !stored {
                fs::remove_file(item.path()).ok();
            }
        }
        Ok(())
    }
}
