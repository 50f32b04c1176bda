//! Machine code from earlier loads. Loading machine code is trusting it, so every file is authenticated by a key that
//! only this directory's owner can read; whatever does not fit is compiled again.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use hmac::{Hmac, Mac};
use sha2::{Digest, Sha256};
use wasmtime::Engine;
use wasmtime::component::Component;

type HmacSha256 = Hmac<Sha256>;

const TAG_BYTES: usize = 32;

/// Files that are kept; plugins and engines of the past make room.
const FILES: usize = 64;

/// A private directory of compiled components.
pub struct CodeCache {
    dir: PathBuf,
    key: [u8; 32],
    /// What the engine compiles for; other settings or versions give other files.
    compatibility: String,
}

impl CodeCache {
    /// Opens the directory, making it and its key if there is none. The directory is only for this user.
    ///
    /// # Errors
    /// The filesystem's, and a directory that others may enter.
    pub fn open(dir: &Path, engine: &Engine) -> io::Result<Self> {
        fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(dir)?;
        if fs::metadata(dir)?.permissions().mode() & 0o077 != 0 {
            return Err(io::Error::other(format!(
                "{} must be accessible to its owner only",
                dir.display()
            )));
        }
        let key = key(&dir.join("key"))?;
        let mut hasher = HashOf(Sha256::new());
        std::hash::Hash::hash(&engine.precompile_compatibility_hash(), &mut hasher);
        Ok(CodeCache {
            dir: dir.to_owned(),
            key,
            compatibility: hex::encode(&hasher.0.finalize()[..12]),
        })
    }

    /// The component of this digest, from the cache or compiled now.
    ///
    /// # Errors
    /// The compiler's. A cache that cannot be read or written is no error.
    pub fn component(
        &self,
        engine: &Engine,
        digest: &str,
        bytes: &[u8],
    ) -> wasmtime::Result<(Component, bool)> {
        let path = self.dir.join(format!(
            "{}-{}.code",
            digest.trim_start_matches("sha256:"),
            self.compatibility
        ));
        if let Some(component) = self.read(engine, &path) {
            return Ok((component, true));
        }
        let component = Component::from_binary(engine, bytes)?;
        if let Ok(code) = component.serialize()
            && let Err(error) = self.write(&path, &code)
        {
            tracing::warn!(%error, path = %path.display(), "cannot keep compiled code");
        }
        Ok((component, false))
    }

    fn read(&self, engine: &Engine, path: &Path) -> Option<Component> {
        let file = fs::read(path).ok()?;
        let (tag, code) = file.split_at_checked(TAG_BYTES)?;
        self.mac(path, code).verify_slice(tag).ok()?;
        // SAFETY: the bytes are what `Component::serialize` gave this user earlier: the tag was made with a key that
        // nobody else can read, over the code and the file's name, which holds the engine's compatibility hash.
        #[allow(unsafe_code)]
        let component = unsafe { Component::deserialize(engine, code) };
        component.ok()
    }

    fn write(&self, path: &Path, code: &[u8]) -> io::Result<()> {
        let tag = self.mac(path, code).finalize().into_bytes();
        // Written aside and renamed: a reader never sees half a file.
        let aside = path.with_extension(format!("{}.tmp", std::process::id()));
        let mut file = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o600)
            .open(&aside)?;
        file.write_all(&tag)?;
        file.write_all(code)?;
        fs::rename(&aside, path)?;
        self.make_room()
    }

    fn make_room(&self) -> io::Result<()> {
        let mut files = Vec::new();
        for entry in fs::read_dir(&self.dir)? {
            let path = entry?.path();
            if path
                .extension()
                .is_some_and(|extension| extension == "code" || extension == "tmp")
            {
                files.push((fs::metadata(&path)?.modified()?, path));
            }
        }
        files.sort();
        for (_, path) in files.iter().rev().skip(FILES) {
            fs::remove_file(path)?;
        }
        Ok(())
    }

    fn mac(&self, path: &Path, code: &[u8]) -> HmacSha256 {
        // HMAC takes keys of any length, so there is nothing that could fail; the fallback never authenticates.
        let mut mac = <HmacSha256 as Mac>::new_from_slice(&self.key)
            .unwrap_or_else(|_| <HmacSha256 as Mac>::new(&Default::default()));
        mac.update(path.file_name().unwrap_or_default().as_encoded_bytes());
        mac.update(code);
        mac
    }
}

fn key(path: &Path) -> io::Result<[u8; 32]> {
    let made = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path);
    match made {
        Ok(mut file) => {
            let mut key = [0; 32];
            io::Read::read_exact(&mut fs::File::open("/dev/urandom")?, &mut key)?;
            file.write_all(&key)?;
            file.sync_all()?;
            Ok(key)
        }
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            let key = fs::read(path)?;
            key.try_into().or_else(|_| {
                // Half written by a process that died: nothing can have been authenticated with it.
                fs::remove_file(path)?;
                self::key(path)
            })
        }
        Err(error) => Err(error),
    }
}

/// A stable hash of whatever can be hashed.
struct HashOf(Sha256);

impl std::hash::Hasher for HashOf {
    fn write(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    fn finish(&self) -> u64 {
        0
    }
}
