//! Finding secrets where they do not belong: a shim that records what every `pulumi` was given, and searches.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use crate::world::World;

/// Records arguments and environment of every `pulumi` of a world, in a place apart from it.
pub struct Recorder {
    dir: TempDir,
    path: String,
}

/// One `pulumi` that was started.
#[derive(Debug)]
pub struct Started {
    pub arguments: Vec<String>,
    pub environment: Vec<(String, String)>,
}

impl Recorder {
    /// Puts the recording `pulumi` in front of the real one.
    pub fn new(world: &World) -> Recorder {
        let dir = tempfile::Builder::new()
            .prefix("recorded")
            .tempdir()
            .expect("a temporary directory");
        let shims = world.path().join("shims");
        std::fs::create_dir(&shims).expect("a directory");
        let file = shims.join("pulumi");
        // One file for each process and each kind of news: what two write at a time does not mix.
        let script = format!(
            "#!/bin/sh\nprintf '%s\\0' \"$@\" > {dir}/$$.arguments\nenv -0 > {dir}/$$.environment\nexec \
             {tools}/pulumi \"$@\"\n",
            dir = dir.path().display(),
            tools = world.tools().display(),
        );
        std::fs::write(&file, script).expect("a file");
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o755)).expect("a file");
        let path = [
            shims.display().to_string(),
            world.tools().display().to_string(),
            world.binaries().display().to_string(),
            "/usr/bin".into(),
            "/bin".into(),
        ]
        .join(":");
        Recorder { dir, path }
    }

    /// The PATH that `windlass` is to have.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Every `pulumi` so far.
    pub fn started(&self) -> Vec<Started> {
        let files: Vec<PathBuf> = std::fs::read_dir(self.dir.path())
            .expect("the records")
            .flatten()
            .map(|entry| entry.path())
            .filter(|path| path.extension().is_some_and(|end| end == "arguments"))
            .collect();
        let split = |path: PathBuf| -> Vec<String> {
            let bytes = std::fs::read(path).unwrap_or_default();
            String::from_utf8_lossy(&bytes)
                .split_terminator('\0')
                .map(str::to_owned)
                .collect()
        };
        let pair = |line: String| {
            let (name, value) = line.split_once('=').unwrap_or((&line, ""));
            (name.to_owned(), value.to_owned())
        };
        files
            .into_iter()
            .map(|file| Started {
                environment: split(file.with_extension("environment"))
                    .into_iter()
                    .map(pair)
                    .collect(),
                arguments: split(file),
            })
            .collect()
    }
}

/// Files below a directory that hold a text, without those whose path has one of the parts in `may`.
pub fn files_with(dir: &Path, text: &str, may: &[&str]) -> Vec<PathBuf> {
    let mut all = Vec::new();
    walk(dir, &mut all);
    all.retain(|path| {
        let shown = path.to_string_lossy();
        !may.iter().any(|part| shown.contains(part))
            && std::fs::read(path).is_ok_and(|bytes| {
                bytes
                    .windows(text.len())
                    .any(|window| window == text.as_bytes())
            })
    });
    all
}

/// All files below a directory.
pub(crate) fn walk(dir: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
        let path = entry.path();
        match entry.file_type() {
            Ok(kind) if kind.is_dir() => walk(&path, found),
            Ok(kind) if kind.is_file() => found.push(path),
            _ => {}
        }
    }
}
