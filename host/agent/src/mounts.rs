//! Files that are mounted for the runs: values of configuration, tokens.
//!
//! A request names them; it may lead nowhere else. The kubelet's own links (`KEY -> ..data/KEY`, `..data -> ..2026_01_01`) stay
//! inside a mount and are followed at each reading, so that a rotated value is seen.

use std::io::{self, Read};
use std::path::{Component, Path, PathBuf};

use cap_std::ambient_authority;
use cap_std::fs::{Dir, OpenOptions, OpenOptionsExt};

/// Why a file is not read. The texts name places, never contents.
#[derive(Debug, thiserror::Error)]
pub enum MountError {
    #[error("{path:?} leads out of what is mounted for the runs ({allowed})")]
    Outside { path: String, allowed: String },
    #[error("{object:?} has no key {key:?} (there is no file {path:?})")]
    NoKey {
        object: String,
        key: String,
        path: String,
    },
    #[error(
        "{object:?} does not exist or is not mounted, so that its key {key:?} cannot be read (there is no file {path:?})"
    )]
    NoObject {
        object: String,
        key: String,
        path: String,
    },
    #[error("{path:?} is no file")]
    NoFile { path: String },
    #[error("the file {path:?} is larger than {most} bytes")]
    TooLarge { path: String, most: u64 },
    #[error("{path:?}: {source}")]
    Unreadable { path: String, source: io::Error },
}

/// Reads a file. An absolute name is below one of the mounts, a relative one below the workspace directory.
pub fn read(
    name: &str,
    workspace: &Path,
    mounts: &[PathBuf],
    most: u64,
) -> Result<Vec<u8>, MountError> {
    let path = name.to_owned();
    let outside = || MountError::Outside {
        path: name.to_owned(),
        allowed: allowed(mounts),
    };
    let asked = Path::new(name);
    let (root, inside) = if asked.is_absolute() {
        mounts
            .iter()
            .find_map(|root| Some((root.as_path(), asked.strip_prefix(root).ok()?)))
            .ok_or_else(outside)?
    } else {
        (workspace, asked)
    };
    let plain = |c: Component<'_>| matches!(c, Component::Normal(_) | Component::CurDir);
    if inside.as_os_str().is_empty() || !inside.components().all(plain) {
        return Err(outside());
    }
    let read = || -> io::Result<Option<Vec<u8>>> {
        let dir = Dir::open_ambient_dir(root, ambient_authority())?;
        let mut options = OpenOptions::new();
        // A pipe in a file's place must not hold up the run.
        let flags = rustix::fs::OFlags::NONBLOCK.bits();
        options.read(true).custom_flags(flags.cast_signed());
        let file = dir.open_with(inside, &options)?;
        if !file.metadata()?.is_file() {
            return Ok(None);
        }
        let mut bytes = Vec::new();
        file.take(most + 1).read_to_end(&mut bytes)?;
        Ok(Some(bytes))
    };
    match read() {
        Ok(Some(bytes)) if bytes.len() as u64 > most => Err(MountError::TooLarge { path, most }),
        Ok(Some(bytes)) => Ok(bytes),
        Ok(None) => Err(MountError::NoFile { path }),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Err(missing(path, root, inside)),
        // The directory handle's own refusal, not the system's.
        Err(e) if e.kind() == io::ErrorKind::PermissionDenied && e.raw_os_error().is_none() => {
            Err(outside())
        }
        Err(source) => Err(MountError::Unreadable { path, source }),
    }
}

fn allowed(mounts: &[PathBuf]) -> String {
    if mounts.is_empty() {
        return "nothing is".to_owned();
    }
    let mounts: Vec<String> = mounts.iter().map(|m| m.display().to_string()).collect();
    mounts.join(", ")
}

/// By convention a mounted object is a directory and its keys are files.
fn missing(path: String, root: &Path, inside: &Path) -> MountError {
    let text = |p: Option<&std::ffi::OsStr>| p.unwrap_or_default().to_string_lossy().into_owned();
    let key = text(inside.file_name());
    let parent = inside.parent().unwrap_or(Path::new(""));
    let object = text(root.join(parent).file_name());
    if root.join(parent).is_dir() {
        MountError::NoKey { object, key, path }
    } else {
        MountError::NoObject { object, key, path }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use std::os::unix::fs::symlink;

    /// As the kubelet lays out a Secret, and turns it.
    fn publish(object: &Path, version: &str, content: &[u8]) {
        let data = object.join(version);
        std::fs::create_dir_all(&data).unwrap();
        std::fs::write(data.join("password"), content).unwrap();
        symlink(version, object.join("..data_tmp")).unwrap();
        std::fs::rename(object.join("..data_tmp"), object.join("..data")).unwrap();
        if !object.join("password").exists() {
            symlink("..data/password", object.join("password")).unwrap();
        }
    }

    struct Place {
        home: tempfile::TempDir,
        mount: PathBuf,
    }

    impl Place {
        fn new() -> Place {
            let home = tempfile::tempdir().unwrap();
            let mount = home.path().join("secrets");
            std::fs::create_dir_all(home.path().join("workspace")).unwrap();
            publish(&mount.join("db"), "..2026_01", b"first");
            std::fs::write(home.path().join("elsewhere"), "not for runs").unwrap();
            Place { home, mount }
        }

        fn read(&self, name: &str) -> Result<Vec<u8>, MountError> {
            let workspace = self.home.path().join("workspace");
            read(name, &workspace, std::slice::from_ref(&self.mount), 100)
        }

        fn absolute(&self, name: &str) -> String {
            self.mount.join(name).display().to_string()
        }
    }

    #[test]
    fn a_turned_mount_is_seen_at_the_next_reading() {
        let place = Place::new();
        let name = place.absolute("db/password");
        assert_eq!(place.read(&name).unwrap(), b"first");
        publish(&place.mount.join("db"), "..2026_02", &[0xff, 0, 0xfe]);
        assert_eq!(place.read(&name).unwrap(), [0xff, 0, 0xfe]);
    }

    #[test]
    fn nothing_leads_out() {
        let place = Place::new();
        let object = place.mount.join("db");
        symlink(place.home.path().join("elsewhere"), object.join("absolute")).unwrap();
        symlink("../../elsewhere", object.join("relative")).unwrap();
        symlink("../elsewhere", place.home.path().join("workspace/link")).unwrap();
        for name in [
            place.absolute("db/../../elsewhere"),
            place.absolute("db/absolute"),
            place.absolute("db/relative"),
            place.absolute(""),
            format!("{}x/db/password", place.mount.display()),
            "/etc/hostname".to_owned(),
            "../elsewhere".to_owned(),
            "link".to_owned(),
        ] {
            let read = place.read(&name);
            assert!(
                matches!(read, Err(MountError::Outside { .. })),
                "{name}: {read:?}"
            );
        }
    }

    #[test]
    fn what_is_missing_is_named() {
        let place = Place::new();
        let no_key = place.read(&place.absolute("db/user")).unwrap_err();
        assert!(
            no_key.to_string().starts_with("\"db\" has no key \"user\""),
            "{no_key}"
        );
        let no_object = place.read(&place.absolute("cache/password")).unwrap_err();
        assert!(
            no_object
                .to_string()
                .starts_with("\"cache\" does not exist"),
            "{no_object}"
        );
    }

    #[test]
    fn only_files_of_a_sane_size_are_read() {
        let place = Place::new();
        let object = place.mount.join("db");
        std::fs::write(object.join("big"), vec![b'x'; 101]).unwrap();
        rustix::fs::mknodat(
            rustix::fs::CWD,
            object.join("pipe"),
            rustix::fs::FileType::Fifo,
            rustix::fs::Mode::RUSR,
            0,
        )
        .unwrap();
        let read = |name| place.read(&place.absolute(name)).unwrap_err();
        assert!(matches!(read("db/big"), MountError::TooLarge { .. }));
        assert!(matches!(read("db/pipe"), MountError::NoFile { .. }));
        assert!(matches!(read("db"), MountError::NoFile { .. }));
    }
}
