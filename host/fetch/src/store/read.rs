//! Reading trees from the store.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom};
use std::path::Path;

use sha2::{Digest as _, Sha256};

use super::write::Head;
use super::{Lease, Store, hex_of, take_lease};
use crate::error::FetchError;
use crate::tree::tar::{TarStream, body_len};
use crate::tree::{Entry, check};

/// The tar stream of a tree or of one of its directories; blocking. Holds the
/// tree while it lives.
pub struct TreeReader {
    stream: TarStream<BufReader<File>>,
    _lease: Lease,
}

impl Read for TreeReader {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        self.stream.read(buf)
    }
}

/// The first line of a tree's listing; `None` if there is no such tree.
pub(super) fn head(dir: &Path) -> Result<Option<Head>, FetchError> {
    let file = match File::open(dir.join("entries")) {
        Ok(file) => file,
        Err(err) if err.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(err) => return Err(FetchError::store("cannot read a tree", &err)),
    };
    let mut line = String::new();
    let read = BufReader::new(file).read_line(&mut line);
    read.map_err(|err| FetchError::store("cannot read a tree", &err))?;
    serde_json::from_str(&line)
        .map(Some)
        .map_err(|err| damaged(&err))
}

fn damaged(err: &serde_json::Error) -> FetchError {
    FetchError::StoreFailed {
        detail: format!("a tree's listing is damaged: {err}"),
    }
}

impl Store {
    /// The entries of a tree, in order.
    pub fn entries(&self, digest: &str) -> Result<Vec<Entry>, FetchError> {
        let dir = self.tree_dir(digest)?;
        let file = match File::open(dir.join("entries")) {
            Ok(file) => file,
            Err(err) if err.kind() == io::ErrorKind::NotFound => {
                return Err(FetchError::TreeNotStored {
                    digest: digest.to_owned(),
                });
            }
            Err(err) => return Err(FetchError::store("cannot read a tree", &err)),
        };
        let lines = BufReader::new(file).lines().skip(1);
        lines
            .map(|line| {
                let line = line.map_err(|err| FetchError::store("cannot read a tree", &err))?;
                serde_json::from_str(&line).map_err(|err| damaged(&err))
            })
            .collect()
    }

    /// The tar stream of a tree, or of a directory in it with that directory as root.
    pub fn read(&self, digest: &str, dir: Option<&str>) -> Result<TreeReader, FetchError> {
        let not_stored = || FetchError::TreeNotStored {
            digest: digest.to_owned(),
        };
        let tree_dir = self.tree_dir(digest)?;
        let lease = take_lease(&tree_dir)?.ok_or_else(not_stored)?;
        let entries = self.entries(digest)?;
        let (start, below, prefix) = below(entries, dir)?;
        let open = || -> io::Result<BufReader<File>> {
            let mut content = File::open(tree_dir.join("content"))?;
            content.seek(SeekFrom::Start(start))?;
            Ok(BufReader::with_capacity(128 << 10, content))
        };
        let content = open().map_err(|err| FetchError::store("cannot read a tree", &err))?;
        Ok(TreeReader {
            stream: TarStream::new(below, prefix, content),
            _lease: lease,
        })
    }

    /// The digest that a directory would have as a tree of its own.
    pub fn subtree_digest(&self, digest: &str, dir: &str) -> Result<String, FetchError> {
        let Some(dir) = normal_dir(Some(dir))? else {
            return Ok(digest.to_owned());
        };
        let known = self
            .tree_dir(digest)?
            .join("subtrees")
            .join(hex::encode(Sha256::digest(&dir)));
        if let Ok(found) = std::fs::read_to_string(&known)
            && hex_of(&found).is_ok()
        {
            return Ok(found);
        }
        let mut reader = self.read(digest, Some(&dir))?;
        let mut hash = Sha256::new();
        io::copy(&mut reader, &mut hash)
            .map_err(|err| FetchError::store("cannot read a tree", &err))?;
        let found = format!("sha256:{}", hex::encode(hash.finalize()));
        // Only saves time later, so failing to keep it is no failure.
        if let Ok(mut file) = tempfile::NamedTempFile::new_in(self.tmp())
            && io::Write::write_all(&mut file, found.as_bytes()).is_ok()
        {
            file.persist(&known).ok();
        }
        Ok(found)
    }
}

/// The entries below a directory, the offset of their contents, and the prefix to strip.
fn below(entries: Vec<Entry>, dir: Option<&str>) -> Result<(u64, Vec<Entry>, String), FetchError> {
    let Some(dir) = normal_dir(dir)? else {
        return Ok((0, entries, String::new()));
    };
    let prefix = format!("{dir}/");
    let mut start = 0;
    let mut found = Vec::new();
    for entry in entries {
        if entry.path.starts_with(&prefix) {
            found.push(entry);
        } else if found.is_empty() {
            start += body_len(&entry);
        }
    }
    if found.is_empty() {
        return Err(FetchError::DirectoryNotFound {
            dir: check::shown(&dir),
        });
    }
    Ok((start, found, prefix))
}

/// A directory without leading `./`, doubled or trailing slashes; `None` is the root.
fn normal_dir(dir: Option<&str>) -> Result<Option<String>, FetchError> {
    let dir = dir.unwrap_or_default();
    let parts: Vec<&str> = dir
        .split('/')
        .filter(|part| !part.is_empty() && *part != ".")
        .collect();
    if parts.contains(&"..") {
        return Err(FetchError::DirectoryNotFound {
            dir: check::shown(dir),
        });
    }
    Ok(if parts.is_empty() {
        None
    } else {
        Some(parts.join("/"))
    })
}
