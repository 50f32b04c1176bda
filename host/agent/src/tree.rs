//! Source trees in the workspace: unpacked below a directory handle, published under their digest by one rename.

use std::io::Read;
use std::path::{Component, Path, PathBuf};
use std::time::SystemTime;

use cap_std::ambient_authority;
use cap_std::fs::{Dir, OpenOptions, OpenOptionsExt, Permissions, PermissionsExt};
use tar::{Archive, EntryType};

/// Bounds of one tree. What sends it keeps narrower ones; these keep a broken sender from filling the disk.
const MOST_BYTES: u64 = 4 << 30;
const MOST_ENTRIES: u32 = 500_000;
/// Trees that are kept beside the one in use, for the way back to an earlier revision.
const KEPT: usize = 3;

#[derive(Debug, thiserror::Error)]
pub enum TreeError {
    #[error("{0:?} is no digest: lower case letters, digits, ':' and '-' only, at most 128")]
    DigestInvalid(String),
    #[error("the tree holds {0:?}, which leads out of it")]
    TreeEscapes(String),
    #[error("the tree holds {0:?}, which is neither a file nor a directory nor a symbolic link")]
    TreeEntryUnsupported(String),
    #[error("the tree is larger than {MOST_BYTES} bytes or has more than {MOST_ENTRIES} entries")]
    TreeTooLarge,
    #[error("the tree did not arrive whole: {0}")]
    TreeTorn(String),
    #[error("the tree cannot be written: {0}")]
    TreeUnwritable(#[from] std::io::Error),
}

/// What was unpacked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Unpacked {
    pub bytes: u64,
    pub entries: u32,
}

/// All trees of a workspace.
#[derive(Debug)]
pub struct Trees {
    dir: PathBuf,
}

fn folder(digest: &str) -> Result<String, TreeError> {
    let fine = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, ':' | '-');
    if digest.is_empty() || digest.len() > 128 || !digest.chars().all(fine) {
        return Err(TreeError::DigestInvalid(digest.chars().take(140).collect()));
    }
    Ok(digest.replace(':', "-"))
}

impl Trees {
    pub fn new(dir: PathBuf) -> Trees {
        Trees { dir }
    }

    /// Where a tree lies; none if it is not here.
    pub fn path(&self, digest: &str) -> Option<PathBuf> {
        let path = self.dir.join(folder(digest).ok()?);
        path.is_dir().then_some(path)
    }

    /// Unpacks a tar stream and publishes it. `check` is asked after the last byte, before anything is published.
    pub fn put(
        &self,
        digest: &str,
        tar: impl Read,
        check: impl FnOnce() -> Result<(), TreeError>,
    ) -> Result<Unpacked, TreeError> {
        let name = folder(digest)?;
        std::fs::create_dir_all(&self.dir)?;
        let aside = self.dir.join(format!(".new-{name}-{}", std::process::id()));
        if aside.exists() {
            std::fs::remove_dir_all(&aside)?;
        }
        std::fs::create_dir(&aside)?;
        let unpacked = unpack(&Dir::open_ambient_dir(&aside, ambient_authority())?, tar).and_then(
            |unpacked| {
                check()?;
                match std::fs::rename(&aside, self.dir.join(&name)) {
                    // Somebody else was as fast; the content is the same.
                    Err(_) if self.dir.join(&name).is_dir() => Ok(unpacked),
                    Err(e) => Err(e.into()),
                    Ok(()) => Ok(unpacked),
                }
            },
        );
        if aside.exists() {
            let _ = std::fs::remove_dir_all(&aside);
        }
        self.forget_oldest(&name);
        unpacked
    }

    fn forget_oldest(&self, newest: &str) {
        let Ok(entries) = std::fs::read_dir(&self.dir) else {
            return;
        };
        let mut trees: Vec<(SystemTime, PathBuf)> = entries
            .flatten()
            .filter(|e| {
                e.file_name() != newest && !e.file_name().to_string_lossy().starts_with('.')
            })
            .filter_map(|e| Some((e.metadata().ok()?.modified().ok()?, e.path())))
            .collect();
        trees.sort();
        let surplus = trees.len().saturating_sub(KEPT);
        for (_, path) in trees.into_iter().take(surplus) {
            let _ = std::fs::remove_dir_all(path);
        }
    }
}

/// The path of an entry, if it stays inside.
fn inside(path: &Path) -> Option<PathBuf> {
    let mut clean = PathBuf::new();
    for part in path.components() {
        match part {
            Component::Normal(name) => clean.push(name),
            Component::CurDir => {}
            Component::ParentDir | Component::RootDir | Component::Prefix(_) => return None,
        }
    }
    Some(clean)
}

/// Whether a symbolic link at `path` to `target` stays inside, read as text.
fn link_stays(path: &Path, target: &Path) -> bool {
    let mut depth = path.components().count().saturating_sub(1);
    for part in target.components() {
        match part {
            Component::Normal(_) => depth += 1,
            Component::CurDir => {}
            Component::ParentDir if depth > 0 => depth -= 1,
            Component::ParentDir | Component::RootDir | Component::Prefix(_) => return false,
        }
    }
    true
}

fn unpack(dir: &Dir, tar: impl Read) -> Result<Unpacked, TreeError> {
    let torn = |e: std::io::Error| TreeError::TreeTorn(e.to_string());
    let mut unpacked = Unpacked::default();
    let mut archive = Archive::new(tar);
    for entry in archive.entries().map_err(torn)? {
        let mut entry = entry.map_err(torn)?;
        let shown = String::from_utf8_lossy(&entry.path_bytes()).into_owned();
        let path = entry
            .path()
            .ok()
            .and_then(|p| inside(&p))
            .ok_or_else(|| TreeError::TreeEscapes(shown.clone()))?;
        unpacked.entries += 1;
        unpacked.bytes = unpacked
            .bytes
            .saturating_add(entry.header().size().unwrap_or(u64::MAX));
        if unpacked.bytes > MOST_BYTES || unpacked.entries > MOST_ENTRIES {
            return Err(TreeError::TreeTooLarge);
        }
        if let Some(parent) = path.parent().filter(|p| !p.as_os_str().is_empty()) {
            dir.create_dir_all(parent)?;
        }
        match entry.header().entry_type() {
            EntryType::Directory if path.as_os_str().is_empty() => {}
            EntryType::Directory => dir.create_dir_all(&path)?,
            EntryType::Regular | EntryType::Continuous => {
                let executable = entry.header().mode().unwrap_or(0) & 0o111 != 0;
                let mut options = OpenOptions::new();
                options
                    .write(true)
                    .create_new(true)
                    .mode(if executable { 0o755 } else { 0o644 });
                let mut file = dir.open_with(&path, &options)?;
                std::io::copy(&mut entry, &mut file)?;
                if executable {
                    file.set_permissions(Permissions::from_mode(0o755))?;
                }
            }
            EntryType::Symlink => {
                let target = entry
                    .link_name()
                    .map_err(torn)?
                    .ok_or_else(|| TreeError::TreeEscapes(shown.clone()))?;
                if !link_stays(&path, &target) {
                    return Err(TreeError::TreeEscapes(shown));
                }
                dir.symlink(target, &path)?;
            }
            EntryType::XGlobalHeader => {}
            _ => return Err(TreeError::TreeEntryUnsupported(shown)),
        }
    }
    Ok(unpacked)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use tar::{Builder, Header};

    fn header(kind: EntryType, size: u64, mode: u32) -> Header {
        let mut header = Header::new_gnu();
        header.set_entry_type(kind);
        header.set_size(size);
        header.set_mode(mode);
        header
    }

    /// Writes a name as it is: the builder itself would refuse the evil ones.
    fn raw_entry(name: &str, kind: EntryType, link: &str) -> Vec<u8> {
        let mut header = header(kind, 0, 0o644);
        header.as_gnu_mut().unwrap().name[..name.len()].copy_from_slice(name.as_bytes());
        header.as_gnu_mut().unwrap().linkname[..link.len()].copy_from_slice(link.as_bytes());
        header.set_cksum();
        let mut bytes = header.as_bytes().to_vec();
        bytes.extend([0; 1024]);
        bytes
    }

    #[test]
    fn trees_are_published_whole_or_not_at_all() {
        let home = tempfile::tempdir().unwrap();
        let trees = Trees::new(home.path().join("trees"));
        let mut builder = Builder::new(Vec::new());
        builder
            .append_data(
                &mut header(EntryType::Regular, 3, 0o755),
                "bin/run",
                &b"abc"[..],
            )
            .unwrap();
        builder
            .append_link(
                &mut header(EntryType::Symlink, 0, 0o777),
                "bin/same",
                "../bin/run",
            )
            .unwrap();
        let tar = builder.into_inner().unwrap();
        let torn = trees.put("sha256:aa", &tar[..], || {
            Err(TreeError::TreeTorn("digest".into()))
        });
        assert!(matches!(torn, Err(TreeError::TreeTorn(_))));
        assert!(matches!(
            trees.put("sha256:aa", &tar[..300], || Ok(())),
            Err(TreeError::TreeTorn(_))
        ));
        assert_eq!(trees.path("sha256:aa"), None);
        let unpacked = trees.put("sha256:aa", &tar[..], || Ok(())).unwrap();
        assert_eq!(
            unpacked,
            Unpacked {
                bytes: 3,
                entries: 2
            }
        );
        let path = trees.path("sha256:aa").unwrap();
        assert_eq!(
            std::fs::read_to_string(path.join("bin/same")).unwrap(),
            "abc"
        );
        use std::os::unix::fs::PermissionsExt;
        assert_eq!(
            std::fs::metadata(path.join("bin/run"))
                .unwrap()
                .permissions()
                .mode()
                & 0o777,
            0o755
        );
    }

    #[test]
    fn nothing_leads_out() {
        let home = tempfile::tempdir().unwrap();
        let trees = Trees::new(home.path().join("trees"));
        for (name, kind, link) in [
            ("../evil", EntryType::Regular, ""),
            ("/evil", EntryType::Regular, ""),
            ("a/../../evil", EntryType::Regular, ""),
            ("l", EntryType::Symlink, "/etc/passwd"),
            ("a/l", EntryType::Symlink, "../../x"),
        ] {
            let put = trees.put("d", &raw_entry(name, kind, link)[..], || Ok(()));
            assert!(
                matches!(put, Err(TreeError::TreeEscapes(_))),
                "{name} {put:?}"
            );
        }
        for kind in [EntryType::Link, EntryType::Fifo, EntryType::Char] {
            let put = trees.put("d", &raw_entry("x", kind, "y")[..], || Ok(()));
            assert!(
                matches!(put, Err(TreeError::TreeEntryUnsupported(_))),
                "{kind:?}"
            );
        }
        assert!(!home.path().join("evil").exists());
        assert!(matches!(
            trees.put("../x", &[][..], || Ok(())),
            Err(TreeError::DigestInvalid(_))
        ));
    }
}
