//! Takes over what a child exported. The child has met hostile data, so nothing
//! in its directory is believed: names, sizes and the kind of its files are checked.

use std::io::{self, BufRead as _, BufReader, Read as _, Seek as _, SeekFrom};
use std::path::Path;

use cap_std::ambient_authority;
use cap_std::fs::{Dir, OpenOptions, OpenOptionsExt as _};

use crate::config::Limits;
use crate::error::FetchError;
use crate::store::{Store, TreeInfo, TreeWriter};
use crate::tree;
use crate::wire::{CONTENT, ENTRIES, ExportedEntry};

/// Longest listing, in bytes.
const MAX_LISTING: u64 = 64 << 20;

/// Stores the tree that a child left in its scratch directory.
pub(crate) fn exported(
    store: &Store,
    limits: &Limits,
    scratch: &Path,
) -> Result<TreeInfo, FetchError> {
    let failed = |err: io::Error| FetchError::WorkerFailed {
        detail: format!("its export cannot be read: {err}"),
    };
    let dir = Dir::open_ambient_dir(scratch, ambient_authority()).map_err(failed)?;
    let mut entries = listing(&dir, limits).map_err(failed)?;
    entries.sort_by(|a, b| tree::order(&a.path, &b.path));
    let mut content = open(&dir, CONTENT).map_err(failed)?;
    let mut writer = TreeWriter::new(store, limits)?;
    for ExportedEntry {
        path,
        kind,
        offset,
        size,
    } in entries
    {
        content.seek(SeekFrom::Start(offset)).map_err(failed)?;
        writer.add(&path, kind, size, &mut content)?;
    }
    writer.finish()
}

fn listing(dir: &Dir, limits: &Limits) -> io::Result<Vec<ExportedEntry>> {
    let lines = BufReader::new(open(dir, ENTRIES)?.take(MAX_LISTING)).lines();
    let mut entries = Vec::new();
    for line in lines {
        entries.push(serde_json::from_str(&line?)?);
        if entries.len() as u64 > limits.files {
            return Err(io::Error::other("it lists more files than allowed"));
        }
    }
    Ok(entries)
}

/// Opens a regular file; neither a link nor a pipe that would block.
fn open(dir: &Dir, name: &str) -> io::Result<std::fs::File> {
    let flags = rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::NONBLOCK;
    let mut options = OpenOptions::new();
    options.read(true).custom_flags(flags.bits().cast_signed());
    let file = dir.open_with(name, &options)?.into_std();
    if !file.metadata()?.is_file() {
        return Err(io::Error::other("it is no regular file"));
    }
    Ok(file)
}
