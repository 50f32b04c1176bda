//! Images made from files of this machine, since no registry is asked.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::json;
use sha2::{Digest as _, Sha256};
use tar::{Builder, EntryType, Header};

use crate::error::{At as _, Error, Result};
use crate::tools;

use super::programs::find;

/// The user of images that are not root's.
pub const USER: u32 = 1000;

/// Files that images share.
#[derive(Debug, Clone, Default)]
pub struct Layer {
    entries: Vec<Entry>,
}

#[derive(Debug, Clone)]
enum Entry {
    Folder { path: String, mode: u32, owner: u32 },
    Text { path: String, text: String },
    Copy { path: String, source: PathBuf },
}

impl Layer {
    /// What every image here has: a user, a home, a shell and some programs for scripts.
    ///
    /// # Errors
    /// `Unable` when this machine lacks one of them.
    pub fn base() -> Result<Self> {
        let mut layer = Self::default()
            .folder("/tmp", 0o1777, 0)
            .folder("/home/pulumi", 0o755, USER)
            .text(
                "/etc/passwd",
                "root:x:0:0:root:/root:/bin/sh\npulumi:x:1000:1000::/home/pulumi:/bin/sh\n",
            )
            .text("/etc/group", "root:x:0:\npulumi:x:1000:\n");
        for program in [
            "sh", "cat", "cp", "sleep", "id", "ls", "env", "dd", "tail", "touch", "true",
        ] {
            let path = std::env::var("PATH").unwrap_or_default() + ":/usr/bin:/bin";
            let source = find(&path, program)
                .ok_or_else(|| Error::Unable(format!("there is no {program} for images")))?;
            layer = layer.program(&format!("/bin/{program}"), &source)?;
        }
        Ok(layer)
    }

    /// Adds an empty folder.
    #[must_use]
    pub fn folder(mut self, path: &str, mode: u32, owner: u32) -> Self {
        self.entries.push(Entry::Folder {
            path: path.to_owned(),
            mode,
            owner,
        });
        self
    }

    /// Adds a file with this text.
    #[must_use]
    pub fn text(mut self, path: &str, text: &str) -> Self {
        self.entries.push(Entry::Text {
            path: path.to_owned(),
            text: text.to_owned(),
        });
        self
    }

    /// Adds a program of this machine, and the libraries that it needs where it looks for them.
    ///
    /// # Errors
    /// When there is no such file.
    pub fn program(mut self, path: &str, source: &Path) -> Result<Self> {
        let source = source.canonicalize().at(source)?;
        for library in libraries(&source) {
            self.copy(&library.display().to_string(), &library);
        }
        self.copy(path, &source);
        Ok(self)
    }

    fn copy(&mut self, path: &str, source: &Path) {
        self.entries.push(Entry::Copy {
            path: path.to_owned(),
            source: source.to_owned(),
        });
    }

    /// Writes the layer as a tar file and gives its digest.
    fn write(&self, path: &Path, scratch: &Path) -> Result<String> {
        let file = Hashing {
            file: BufWriter::with_capacity(1 << 20, File::create(path).at(path)?),
            hash: Sha256::new(),
        };
        let mut tar = Builder::new(file);
        let mut seen = BTreeSet::new();
        for entry in &self.entries {
            let name = match entry {
                Entry::Folder { path, .. }
                | Entry::Text { path, .. }
                | Entry::Copy { path, .. } => path.trim_start_matches('/'),
            };
            if !seen.insert(name) {
                continue;
            }
            match entry {
                Entry::Folder { mode, owner, .. } => {
                    let mut header = header(EntryType::Directory, 0, *mode, *owner);
                    tar.append_data(&mut header, name, io::empty()).at(path)?;
                }
                Entry::Text { text, .. } => {
                    let mut header = header(EntryType::Regular, text.len() as u64, 0o644, 0);
                    tar.append_data(&mut header, name, text.as_bytes())
                        .at(path)?;
                }
                Entry::Copy { source, .. } => {
                    let source = stripped(source, scratch);
                    let file = File::open(&source).at(&source)?;
                    let length = file.metadata().at(&source)?.len();
                    let mut header = header(EntryType::Regular, length, 0o755, 0);
                    tar.append_data(&mut header, name, file).at(path)?;
                }
            }
        }
        let mut written = tar.into_inner().at(path)?;
        written.file.flush().at(path)?;
        Ok(hex::encode(written.hash.finalize()))
    }
}

/// An image to be.
#[derive(Debug, Clone)]
pub struct NodeImage {
    name: String,
    layers: Vec<Layer>,
    user: String,
    command: Vec<String>,
}

impl NodeImage {
    /// One with these layers, lowest first, under the name that pods have.
    pub fn new(name: &str, layers: &[Layer]) -> Self {
        Self {
            name: name.to_owned(),
            layers: layers.to_vec(),
            user: String::new(),
            command: Vec::new(),
        }
    }

    /// Sets the user that it runs as if the pod does not say.
    #[must_use]
    pub fn with_user(mut self, user: u32) -> Self {
        self.user = format!("{user}:{user}");
        self
    }

    /// Sets what runs if the pod does not say.
    #[must_use]
    pub fn with_command(mut self, argv: &[&str]) -> Self {
        self.command = argv.iter().map(|part| (*part).to_owned()).collect();
        self
    }

    fn configuration(&self, digests: &[String]) -> Vec<u8> {
        let digests: Vec<_> = digests.iter().map(|d| format!("sha256:{d}")).collect();
        let architecture = match std::env::consts::ARCH {
            "x86_64" => "amd64",
            "aarch64" => "arm64",
            other => other,
        };
        json!({
            "architecture": architecture,
            "os": "linux",
            "config": {
                "User": self.user,
                "Cmd": self.command,
                "Env": ["PATH=/usr/local/bin:/usr/bin:/bin"],
            },
            "rootfs": {"type": "layers", "diff_ids": digests},
        })
        .to_string()
        .into_bytes()
    }
}

/// Writes images into one archive, as `docker save` does. A layer that several images have is in it
/// once; `folder` takes what is needed on the way.
///
/// # Errors
/// When a file cannot be read or written.
pub fn archive(images: &[NodeImage], path: &Path, folder: &Path) -> Result<()> {
    let mut tar = Builder::new(BufWriter::with_capacity(
        1 << 20,
        File::create(path).at(path)?,
    ));
    let mut known: Vec<(Layer, String)> = Vec::new();
    let mut manifest = Vec::new();
    for image in images {
        let mut digests = Vec::new();
        for layer in &image.layers {
            let same = |(other, _): &&(Layer, String)| other.paths() == layer.paths();
            if let Some((_, digest)) = known.iter().find(same) {
                digests.push(digest.clone());
                continue;
            }
            let file = folder.join(format!("layer-{}.tar", known.len()));
            let digest = layer.write(&file, folder)?;
            tar.append_path_with_name(&file, format!("{digest}/layer.tar"))
                .at(path)?;
            std::fs::remove_file(&file).at(&file)?;
            known.push((layer.clone(), digest.clone()));
            digests.push(digest);
        }
        let configuration = image.configuration(&digests);
        let name = format!("{}.json", hex::encode(Sha256::digest(&configuration)));
        add(&mut tar, &name, &configuration).at(path)?;
        let layers: Vec<_> = digests.iter().map(|d| format!("{d}/layer.tar")).collect();
        manifest.push(json!({"Config": name, "RepoTags": [image.name], "Layers": layers}));
    }
    let manifest = serde_json::Value::from(manifest).to_string();
    add(&mut tar, "manifest.json", manifest.as_bytes()).at(path)?;
    tar.into_inner().and_then(|mut file| file.flush()).at(path)
}

impl Layer {
    /// What tells layers apart: where everything in them is.
    fn paths(&self) -> Vec<String> {
        self.entries
            .iter()
            .map(|entry| format!("{entry:?}"))
            .collect()
    }
}

/// The image of pods' sandboxes and the images of a workspace, under these names: the agent's, and a user's with the CLI,
/// its YAML language host and `more` programs in `/usr/local/bin`.
///
/// # Errors
/// When a program has not been built.
pub fn usual(agent: &str, workspace: &str, more: &[PathBuf]) -> Result<Vec<NodeImage>> {
    let base = Layer::base()?;
    let binary = tools::binaries_folder().join("windlass-agent");
    let agents = Layer::default().program("/windlass-agent", &binary)?;
    let mut programs = Layer::default();
    let built = ["pulumi", "pulumi-language-yaml"].map(|name| tools::tools_folder().join(name));
    for source in built.iter().chain(more) {
        let name = source.file_name().unwrap_or_default().to_string_lossy();
        programs = programs.program(&format!("/usr/local/bin/{name}"), source)?;
    }
    Ok(vec![
        NodeImage::new(super::config::PAUSE_IMAGE, std::slice::from_ref(&base))
            .with_command(&["/bin/sleep", "infinity"]),
        NodeImage::new(agent, &[base.clone(), agents]),
        NodeImage::new(workspace, &[base, programs]).with_user(USER),
    ])
}

/// The libraries that the dynamic loader finds for a program, and the loader. None for one that is
/// linked statically.
fn libraries(program: &Path) -> Vec<PathBuf> {
    let Ok(output) = Command::new("ldd").arg(program).output() else {
        return Vec::new();
    };
    let text = String::from_utf8_lossy(&output.stdout);
    let path = |line: &str| {
        let found = line.split_once("=> ").map_or(line, |(_, found)| found);
        let found = found.trim().split(" (").next().unwrap_or_default();
        found.starts_with('/').then(|| PathBuf::from(found))
    };
    text.lines().filter_map(path).collect()
}

/// The program without its symbols, which are most of what a debug build holds; as it is where they
/// cannot be removed.
fn stripped(program: &Path, scratch: &Path) -> PathBuf {
    const LARGE: u64 = 8 << 20;
    let large = program.metadata().is_ok_and(|m| m.len() > LARGE);
    let name = program.file_name().unwrap_or_default();
    let smaller = scratch.join(name);
    let done = large
        && Command::new("strip")
            .arg("-o")
            .args([smaller.as_path(), program])
            .output()
            .is_ok_and(|output| output.status.success());
    if done { smaller } else { program.to_owned() }
}

fn header(kind: EntryType, length: u64, mode: u32, owner: u32) -> Header {
    let mut header = Header::new_gnu();
    header.set_entry_type(kind);
    header.set_size(length);
    header.set_mode(mode);
    header.set_uid(u64::from(owner));
    header.set_gid(u64::from(owner));
    header.set_mtime(0);
    header
}

fn add(tar: &mut Builder<impl Write>, name: &str, content: &[u8]) -> io::Result<()> {
    let mut header = header(EntryType::Regular, content.len() as u64, 0o644, 0);
    tar.append_data(&mut header, name, content)
}

/// A file, and the digest of what was written to it.
struct Hashing {
    file: BufWriter<File>,
    hash: Sha256,
}

impl Write for Hashing {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.file.write(bytes)?;
        self.hash.update(&bytes[..written]);
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}
