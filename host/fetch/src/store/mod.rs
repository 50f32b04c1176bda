//! The content-addressed store of trees.
//!
//! ```text
//! trees/<hex>/content    contents of all files, in tree order
//!            /entries    one JSON line for the tree, then one per entry
//!            /subtrees/  digests of sub-directories, once they were asked for
//!            /lock       locked shared while in use; its time is the last use
//! index/<hex>            digest of the tree of a (repository, commit) or archive
//! tmp/                   trees in the making, each with a lock of its own
//! ```
//!
//! A tree appears by one rename, after its files are on disk: whoever dies at any
//! moment leaves whole trees and rubbish in `tmp`. Processes may share a store.

mod gc;
mod read;
mod write;

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use sha2::{Digest as _, Sha256};

pub use gc::GcReport;
pub use read::TreeReader;
pub(crate) use write::TreeWriter;

use crate::error::FetchError;

/// A stored tree. While a clone of this exists, garbage collection spares the tree.
#[derive(Debug, Clone)]
pub struct TreeInfo {
    /// `sha256:` and the hash of the tree's tar stream in hexadecimal.
    pub digest: String,
    /// Sum of the file sizes.
    pub bytes: u64,
    /// Number of files and symbolic links.
    pub files: u64,
    lease: Lease,
}

impl TreeInfo {
    /// What keeps the tree from being collected.
    pub fn lease(&self) -> &Lease {
        &self.lease
    }
}

impl PartialEq for TreeInfo {
    fn eq(&self, other: &Self) -> bool {
        self.digest == other.digest
    }
}

/// Keeps a tree from garbage collection, across processes, until dropped.
#[derive(Debug, Clone)]
pub struct Lease {
    _locked: Arc<File>,
}

impl Lease {
    /// From a tree's lock file, locked shared.
    fn of(locked: File) -> Self {
        Lease {
            _locked: Arc::new(locked),
        }
    }
}

/// A directory of trees.
#[derive(Debug, Clone)]
pub(crate) struct Store {
    root: PathBuf,
}

impl Store {
    /// Opens a store, making its directories if needed.
    pub fn open(root: &Path) -> Result<Self, FetchError> {
        for dir in ["trees", "index", "tmp"] {
            let path = root.join(dir);
            fs::create_dir_all(&path).map_err(|err| {
                FetchError::store(&format!("cannot make {}", path.display()), &err)
            })?;
        }
        Ok(Store {
            root: root.to_owned(),
        })
    }

    fn trees(&self) -> PathBuf {
        self.root.join("trees")
    }

    fn tmp(&self) -> PathBuf {
        self.root.join("tmp")
    }

    fn tree_dir(&self, digest: &str) -> Result<PathBuf, FetchError> {
        Ok(self.trees().join(hex_of(digest)?))
    }

    /// A tree that is stored, marked as used now; `None` if it is not.
    pub fn get(&self, digest: &str) -> Result<Option<TreeInfo>, FetchError> {
        let dir = self.tree_dir(digest)?;
        let Some(lease) = take_lease(&dir)? else {
            return Ok(None);
        };
        let Some(head) = read::head(&dir)? else {
            return Ok(None);
        };
        Ok(Some(TreeInfo {
            digest: digest.to_owned(),
            bytes: head.bytes,
            files: head.files,
            lease,
        }))
    }

    /// The tree that was stored under an index key.
    pub fn lookup(&self, key: &IndexKey) -> Result<Option<TreeInfo>, FetchError> {
        match fs::read_to_string(self.index_file(key)) {
            Ok(digest) if hex_of(digest.trim()).is_ok() => self.get(digest.trim()),
            Ok(_) => Ok(None),
            Err(err) if err.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(err) => Err(FetchError::store("cannot read the index", &err)),
        }
    }

    /// Remembers which tree a commit or archive has.
    pub fn remember(&self, key: &IndexKey, digest: &str) -> Result<(), FetchError> {
        let write = || -> io::Result<()> {
            let mut file = tempfile::NamedTempFile::new_in(self.tmp())?;
            io::Write::write_all(&mut file, digest.as_bytes())?;
            file.persist(self.index_file(key))?;
            Ok(())
        };
        write().map_err(|err| FetchError::store("cannot write the index", &err))
    }

    /// A directory for one child process.
    pub fn scratch(&self) -> Result<tempfile::TempDir, FetchError> {
        tempfile::Builder::new()
            .prefix("scratch-")
            .tempdir_in(self.tmp())
            .map_err(|err| FetchError::store("cannot make a scratch directory", &err))
    }

    fn index_file(&self, key: &IndexKey) -> PathBuf {
        self.root.join("index").join(&key.0)
    }
}

/// Names what a tree came from.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct IndexKey(String);

impl IndexKey {
    pub fn new(kind: &str, url: &str, revision: &str) -> Self {
        let mut hash = Sha256::new();
        for part in [kind, url, revision] {
            hash.update((part.len() as u64).to_le_bytes());
            hash.update(part.as_bytes());
        }
        IndexKey(hex::encode(hash.finalize()))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// The hexadecimal part of a digest.
pub(crate) fn hex_of(digest: &str) -> Result<&str, FetchError> {
    digest
        .strip_prefix("sha256:")
        .filter(|hex| {
            hex.len() == 64
                && hex
                    .bytes()
                    .all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b))
        })
        .ok_or_else(|| FetchError::DigestInvalid {
            digest: digest.chars().take(80).collect(),
        })
}

/// Locks a tree against collection; `None` if there is no such tree.
fn take_lease(dir: &Path) -> Result<Option<Lease>, FetchError> {
    let path = dir.join("lock");
    let lock = || -> io::Result<Option<Lease>> {
        let file = match File::options().write(true).open(&path) {
            Ok(file) => file,
            Err(err) if err.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(err) => return Err(err),
        };
        file.lock_shared()?;
        // A collector may have removed the tree between opening and locking, and
        // somebody else stored it anew.
        match fs::metadata(&path) {
            Ok(now) if now.ino() == file.metadata()?.ino() => {}
            Ok(_) => return Ok(None),
            Err(err) if err.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(err) => return Err(err),
        }
        file.set_modified(SystemTime::now())?;
        Ok(Some(Lease::of(file)))
    };
    lock().map_err(|err| FetchError::store("cannot lock a tree", &err))
}
