//! Writes the tree of a commit into the scratch directory for the parent.

use std::io::{self, BufWriter, Write};

use cap_std::ambient_authority;
use cap_std::fs::{Dir, File};
use gix::ObjectId;
use gix::objs::tree::EntryKind;

use crate::config::{Limits, Unsupported};
use crate::error::FetchError;
use crate::tree::{Kind, check};
use crate::wire::{CONTENT, ENTRIES, ExportedEntry, WorkerRequest};

/// The two files that the parent reads.
pub(super) struct Export {
    content: BufWriter<File>,
    entries: BufWriter<File>,
    offset: u64,
}

impl Export {
    pub fn new(request: &WorkerRequest) -> Result<Self, FetchError> {
        let open = || -> io::Result<Self> {
            let scratch = Dir::open_ambient_dir(&request.scratch, ambient_authority())?;
            Ok(Export {
                content: BufWriter::with_capacity(128 << 10, scratch.create(CONTENT)?),
                entries: BufWriter::new(scratch.create(ENTRIES)?),
                offset: 0,
            })
        };
        open().map_err(|err| FetchError::store("cannot write an export", &err))
    }

    /// Where the next content begins.
    pub fn content(&mut self) -> &mut impl Write {
        &mut self.content
    }

    /// Announces an entry whose content was just written.
    pub fn entry(&mut self, path: String, kind: Kind, size: u64) -> Result<(), FetchError> {
        let entry = ExportedEntry {
            path,
            kind,
            offset: self.offset,
            size,
        };
        self.offset += size;
        serde_json::to_writer(&mut self.entries, &entry)
            .map_err(io::Error::from)
            .and_then(|()| self.entries.write_all(b"\n"))
            .map_err(|err| FetchError::store("cannot write an export", &err))
    }

    pub fn finish(mut self) -> Result<(), FetchError> {
        self.content
            .flush()
            .and_then(|()| self.entries.flush())
            .map_err(|err| FetchError::store("cannot write an export", &err))
    }
}

/// A file or link that the walk found.
struct Found {
    path: String,
    kind: Kind,
    id: ObjectId,
    size: u64,
}

/// Exports the tree of `commit`, a commit or a tag of one.
pub(super) fn tree(
    request: &WorkerRequest,
    repo: &gix::Repository,
    commit: &str,
) -> Result<(), FetchError> {
    let not_a_commit = |kind: String| FetchError::NotACommit {
        commit: commit.to_owned(),
        kind,
    };
    let id = ObjectId::from_hex(commit.as_bytes()).map_err(|_| FetchError::CommitInvalid {
        commit: commit.to_owned(),
    })?;
    let object = repo
        .find_object(id)
        .map_err(|err| damaged(&request.limits, &err))?;
    let kind = object.kind.to_string();
    let peeled = object
        .peel_tags_to_end()
        .map_err(|err| damaged(&request.limits, &err))?;
    if peeled.kind != gix::objs::Kind::Commit {
        return Err(not_a_commit(kind));
    }
    let root = peeled
        .peel_to_tree()
        .map_err(|err| damaged(&request.limits, &err))?;
    // Everything is counted before anything is written: a small pack can stand for
    // a tree of a billion files.
    let found = walk(repo, root.id, request)?;
    let mut export = Export::new(request)?;
    for Found {
        path,
        kind,
        id,
        size,
    } in found
    {
        let blob = repo
            .find_object(id)
            .map_err(|err| damaged(&request.limits, &err))?;
        if blob.data.len() as u64 != size {
            return Err(damaged_text("an object has another size than announced"));
        }
        let refuse = request.unsupported == Unsupported::Refuse;
        if refuse && kind != Kind::Symlink && is_lfs_pointer(&blob.data) {
            return Err(FetchError::LfsUnsupported {
                path: check::shown(&path),
            });
        }
        export
            .content()
            .write_all(&blob.data)
            .map_err(|err| FetchError::store("cannot write an export", &err))?;
        export.entry(path, kind, size)?;
    }
    export.finish()
}

fn is_lfs_pointer(data: &[u8]) -> bool {
    data.len() < 1024 && data.starts_with(b"version https://git-lfs.github.com/spec/v1\n")
}

/// Lists files and links below a tree, in no particular order.
fn walk(
    repo: &gix::Repository,
    root: ObjectId,
    request: &WorkerRequest,
) -> Result<Vec<Found>, FetchError> {
    let limits = &request.limits;
    let mut todo = vec![(String::new(), root)];
    let mut found = Vec::new();
    let mut tally = check::Tally::default();
    while let Some((prefix, id)) = todo.pop() {
        let tree = repo.find_tree(id).map_err(|err| damaged(limits, &err))?;
        for entry in tree.iter() {
            let entry = entry.map_err(|_| damaged_text("a tree object is damaged"))?;
            let Ok(name) = std::str::from_utf8(entry.filename()) else {
                return Err(FetchError::NameForbidden {
                    path: check::shown(&format!("{prefix}{}", entry.filename())),
                    detail: "its name is not UTF-8".to_owned(),
                });
            };
            let path = format!("{prefix}{name}");
            // One name at a time: a name with a slash must not pass as two.
            if name.contains('/') {
                return Err(FetchError::NameForbidden {
                    path: check::shown(&path),
                    detail: "its name contains a slash".to_owned(),
                });
            }
            check::path(&path, limits)?;
            let kind = match entry.mode().kind() {
                EntryKind::Tree => {
                    tally.add(&path, 0, limits)?;
                    todo.push((format!("{path}/"), entry.object_id()));
                    continue;
                }
                EntryKind::Commit if request.unsupported == Unsupported::LeaveOut => continue,
                EntryKind::Commit => {
                    return Err(FetchError::SubmoduleUnsupported {
                        path: check::shown(&path),
                    });
                }
                EntryKind::Blob => Kind::File,
                EntryKind::BlobExecutable => Kind::Executable,
                EntryKind::Link => Kind::Symlink,
            };
            let id = entry.object_id();
            let size = repo
                .find_header(id)
                .map_err(|err| damaged(limits, &err))?
                .size();
            tally.add(&path, size, limits)?;
            found.push(Found {
                path,
                kind,
                id,
                size,
            });
        }
    }
    Ok(found)
}

/// An object that cannot be read: too big for the memory limit, or damaged.
fn damaged(limits: &Limits, err: &gix::Error) -> FetchError {
    if err.is_resource_exhausted() {
        return FetchError::MemoryExceeded {
            limit: limits.memory,
        };
    }
    damaged_text(&super::http::chain(err.probable_cause()))
}

fn damaged_text(detail: &str) -> FetchError {
    FetchError::BadAnswer {
        host: "the repository".to_owned(),
        detail: detail.to_owned(),
    }
}
