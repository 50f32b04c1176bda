//! Files that change all at once: the kubelet's scheme for Secrets, ConfigMaps and the like.
//!
//! The names that a container sees are links into `..data`, which is a link to a folder with a
//! timestamp. An update writes another folder and then moves one link.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::{PermissionsExt as _, chown, symlink};
use std::path::{Component, Path};

/// What the files hold and how they may be used, by path below the folder.
pub type Content = BTreeMap<String, File>;

/// One file.
#[derive(Clone, PartialEq, Eq)]
pub struct File {
    pub bytes: Vec<u8>,
    /// Permission bits.
    pub mode: u32,
}

const DATA: &str = "..data";

/// Makes the folder hold exactly `content`. It answers whether anything changed.
///
/// # Errors
/// When the folder cannot be written, or a path would lead out of it.
pub fn write(folder: &Path, content: &Content, group: Option<u32>) -> io::Result<bool> {
    fs::create_dir_all(folder)?;
    let data = folder.join(DATA);
    let old = fs::read_link(&data).ok();
    if old.is_some() && read(&data, content)? {
        return Ok(false);
    }
    let stamp = jiff::Timestamp::now().strftime("..%Y_%m_%d_%H_%M_%S.%f");
    let new = folder.join(stamp.to_string());
    fs::create_dir(&new)?;
    for (name, file) in content {
        let plain = Path::new(name)
            .components()
            .all(|part| matches!(part, Component::Normal(_)));
        if !plain || name.starts_with("..") {
            return Err(io::Error::other(format!("invalid path {name:?}")));
        }
        let path = new.join(name);
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent)?;
        }
        fs::write(&path, &file.bytes)?;
        let mut mode = file.mode;
        if group.is_some() {
            // The group that owns the volume can read it.
            mode |= 0o440;
        }
        fs::set_permissions(&path, Permissions::from_mode(mode))?;
        own(&path, group)?;
    }
    let temporary = folder.join("..data_tmp");
    let _ = fs::remove_file(&temporary);
    symlink(new.file_name().unwrap_or_default(), &temporary)?;
    fs::rename(&temporary, &data)?;
    links(folder, content)?;
    if let Some(old) = old {
        fs::remove_dir_all(folder.join(old))?;
    }
    Ok(true)
}

/// Gives a file or folder to the volume's group, as far as we may.
pub fn own(path: &Path, group: Option<u32>) -> io::Result<()> {
    match group.map(|group| chown(path, None, Some(group))) {
        Some(Err(error)) if error.kind() != io::ErrorKind::PermissionDenied => Err(error),
        _ => Ok(()),
    }
}

/// Whether the folder holds exactly `content`.
fn read(data: &Path, content: &Content) -> io::Result<bool> {
    let mut known = BTreeMap::new();
    let mut folders = vec![data.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder)? {
            let path = entry?.path();
            if path.is_dir() {
                folders.push(path);
            } else {
                let name = path.strip_prefix(data).unwrap_or(&path);
                known.insert(name.to_string_lossy().into_owned(), fs::read(&path)?);
            }
        }
    }
    let same = |(name, file): (&String, &File)| known.get(name) == Some(&file.bytes);
    Ok(known.len() == content.len() && content.iter().all(same))
}

/// The links at the top: those that are missing are made, those to nothing removed.
fn links(folder: &Path, content: &Content) -> io::Result<()> {
    let tops: BTreeSet<_> = content
        .keys()
        .filter_map(|name| name.split('/').next())
        .collect();
    for top in &tops {
        let link = folder.join(top);
        if link.symlink_metadata().is_err() {
            symlink(Path::new(DATA).join(top), link)?;
        }
    }
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let name = entry.file_name();
        let name = name.to_string_lossy();
        if !name.starts_with("..") && !tops.contains(name.as_ref()) {
            fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use pretty_assertions::assert_eq;

    fn content(files: &[(&str, &str)]) -> Content {
        let file = |text: &str| File {
            bytes: text.into(),
            mode: 0o644,
        };
        let files = files.iter();
        files
            .map(|(name, text)| ((*name).to_owned(), file(text)))
            .collect()
    }

    #[test]
    fn an_update_changes_all_files_by_moving_one_link() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        assert!(write(folder, &content(&[("a", "1"), ("b/c", "2")]), None).unwrap());
        assert_eq!(
            fs::read_link(folder.join("a")).unwrap(),
            Path::new("..data/a")
        );
        assert_eq!(fs::read_to_string(folder.join("b/c")).unwrap(), "2");
        let before = fs::read_link(folder.join(DATA)).unwrap();
        assert!(!write(folder, &content(&[("a", "1"), ("b/c", "2")]), None).unwrap());
        assert_eq!(fs::read_link(folder.join(DATA)).unwrap(), before);

        assert!(write(folder, &content(&[("a", "3"), ("d", "4")]), None).unwrap());
        assert_eq!(fs::read_to_string(folder.join("a")).unwrap(), "3");
        assert_eq!(fs::read_to_string(folder.join("d")).unwrap(), "4");
        assert!(folder.join("b").symlink_metadata().is_err());
        assert!(!folder.join(before).exists());
    }

    #[test]
    fn nothing_is_written_elsewhere() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["../x", "/x", "..x"] {
            let refused = write(&folder.path().join("v"), &content(&[(name, "1")]), None);
            assert!(refused.is_err(), "{name}");
        }
    }
}
