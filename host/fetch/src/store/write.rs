//! Puts a tree into the store. Nothing that is handed in is believed: names,
//! order, links and limits are checked here, whoever checked them before.

use std::fs::{self, File};
use std::io::{self, BufWriter, Read, Write};

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::{Lease, Store, TreeInfo};
use crate::config::Limits;
use crate::error::FetchError;
use crate::tree::{self, Entry, Kind, check, links};

/// First line of a tree's `entries` file.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(super) struct Head {
    pub bytes: u64,
    pub files: u64,
}

/// A tree in the making. Dropped before [`TreeWriter::finish`], it leaves nothing.
pub(crate) struct TreeWriter<'a> {
    store: &'a Store,
    limits: Limits,
    dir: tempfile::TempDir,
    /// Tells other processes' collectors that this is being written.
    lock: File,
    content: BufWriter<File>,
    hash: Sha256,
    entries: Vec<Entry>,
    tally: check::Tally,
}

impl<'a> TreeWriter<'a> {
    pub fn new(store: &'a Store, limits: &Limits) -> Result<Self, FetchError> {
        let make = || -> io::Result<_> {
            let dir = tempfile::Builder::new()
                .prefix("tree-")
                .tempdir_in(store.tmp())?;
            let lock = File::create(dir.path().join("lock"))?;
            lock.lock_shared()?;
            let content =
                BufWriter::with_capacity(128 << 10, File::create(dir.path().join("content"))?);
            Ok((dir, lock, content))
        };
        let (dir, lock, content) =
            make().map_err(|err| FetchError::store("cannot make a tree", &err))?;
        Ok(TreeWriter {
            store,
            limits: limits.clone(),
            dir,
            lock,
            content,
            hash: Sha256::new(),
            entries: Vec::new(),
            tally: check::Tally::default(),
        })
    }

    /// Adds the next entry; entries come in the order of [`tree::order`].
    /// The content must have exactly `size` bytes.
    pub fn add(
        &mut self,
        path: &str,
        kind: Kind,
        size: u64,
        content: &mut dyn Read,
    ) -> Result<(), FetchError> {
        check::path(path, &self.limits)?;
        self.tally.add(path, size, &self.limits)?;
        self.check_place(path)?;
        let target = match kind {
            Kind::Symlink => Some(read_target(path, size, content)?),
            Kind::File | Kind::Executable => None,
        };
        let entry = Entry {
            path: path.to_owned(),
            kind,
            size,
            target,
        };
        let failed = |err: io::Error| FetchError::store("cannot write a tree", &err);
        self.hash
            .update(tree::tar::header(path, &entry).map_err(failed)?);
        let body = tree::tar::body_len(&entry);
        if body > 0 {
            let mut rest = body;
            let mut buf = [0; 32 << 10];
            while rest > 0 {
                let want = buf.len().min(usize::try_from(rest).unwrap_or(usize::MAX));
                let n = content.read(&mut buf[..want]).map_err(failed)?;
                if n == 0 {
                    return Err(short(path));
                }
                self.hash.update(&buf[..n]);
                self.content.write_all(&buf[..n]).map_err(failed)?;
                rest -= n as u64;
            }
            self.hash.update(tree::tar::padding(body));
        }
        self.entries.push(entry);
        Ok(())
    }

    /// Refuses duplicates, wrong order, and entries below a file or link.
    fn check_place(&self, path: &str) -> Result<(), FetchError> {
        let Some(last) = self.entries.last() else {
            return Ok(());
        };
        let forbidden = |detail: &str| {
            Err(FetchError::NameForbidden {
                path: check::shown(path),
                detail: detail.to_owned(),
            })
        };
        if tree::order(&last.path, path) != std::cmp::Ordering::Less {
            return forbidden("it is there twice or out of order");
        }
        if path
            .strip_prefix(last.path.as_str())
            .is_some_and(|rest| rest.starts_with('/'))
        {
            return forbidden("it lies below something that is no directory");
        }
        Ok(())
    }

    /// Makes the tree visible, unless an equal one is there already.
    pub fn finish(mut self) -> Result<TreeInfo, FetchError> {
        links::check(&self.entries)?;
        self.hash.update(tree::tar::END);
        let hex = hex::encode(self.hash.clone().finalize());
        let digest = format!("sha256:{hex}");
        if let Some(info) = self.store.get(&digest)? {
            return Ok(info);
        }
        let target = self.store.trees().join(&hex);
        let head = Head {
            bytes: self.tally.bytes,
            files: self.tally.files,
        };
        let failed = |err: io::Error| FetchError::store("cannot store a tree", &err);
        self.complete(head).map_err(failed)?;
        loop {
            match fs::rename(self.dir.path(), &target) {
                Ok(()) => break,
                // Somebody else stored the same tree; if it was collected since, ours can go in.
                Err(_) if target.join("entries").exists() => {
                    if let Some(info) = self.store.get(&digest)? {
                        return Ok(info);
                    }
                }
                Err(err) => return Err(failed(err)),
            }
        }
        File::open(self.store.trees())
            .and_then(|trees| trees.sync_all())
            .map_err(failed)?;
        // The lock moved along with the tree, so there was no moment without it.
        let TreeWriter { dir, lock, .. } = self;
        let _moved = dir.keep();
        Ok(TreeInfo {
            digest,
            bytes: head.bytes,
            files: head.files,
            lease: Lease::of(lock),
        })
    }

    /// Brings everything to disk.
    fn complete(&mut self, head: Head) -> io::Result<()> {
        self.content.flush()?;
        self.content.get_ref().sync_data()?;
        let mut entries = BufWriter::new(File::create(self.dir.path().join("entries"))?);
        serde_json::to_writer(&mut entries, &head)?;
        entries.write_all(b"\n")?;
        for entry in &self.entries {
            serde_json::to_writer(&mut entries, entry)?;
            entries.write_all(b"\n")?;
        }
        entries.flush()?;
        entries.get_ref().sync_data()?;
        fs::create_dir(self.dir.path().join("subtrees"))?;
        File::open(self.dir.path())?.sync_all()
    }
}

fn short(path: &str) -> FetchError {
    FetchError::WorkerFailed {
        detail: format!("the content of {:?} is too short", check::shown(path)),
    }
}

fn read_target(path: &str, size: u64, content: &mut dyn Read) -> Result<String, FetchError> {
    if size > check::MAX_PATH as u64 {
        return Err(FetchError::NameTooLong {
            path: check::shown(path),
            limit: check::MAX_PATH as u64,
        });
    }
    let mut target = Vec::new();
    content
        .take(size)
        .read_to_end(&mut target)
        .map_err(|err| FetchError::store("cannot read a link", &err))?;
    if target.len() as u64 != size {
        return Err(short(path));
    }
    let forbidden = |detail: &str| FetchError::NameForbidden {
        path: check::shown(path),
        detail: detail.to_owned(),
    };
    let target = String::from_utf8(target).map_err(|_| forbidden("its target is not UTF-8"))?;
    if target.is_empty() || target.chars().any(char::is_control) {
        return Err(forbidden("its target is empty or has control characters"));
    }
    Ok(target)
}
