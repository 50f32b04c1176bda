//! Files as layers, layers as an OCI archive.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::path::Path;

use flate2::{Compression, GzBuilder};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use tar::{Builder, EntryType, Header};

use crate::error::{AtPath, Result};

/// What is in a layer, by path without a slash in front: sorted, each once, with the folders above.
#[derive(Debug, Default)]
pub struct Root {
    entries: BTreeMap<String, Entry>,
}

#[derive(Debug)]
enum Entry {
    Folder { mode: u32, owner: u32 },
    File { mode: u32, content: Vec<u8> },
    Link { target: String },
}

impl Root {
    /// Adds a file of root's.
    pub fn file(&mut self, path: &str, mode: u32, content: Vec<u8>) {
        self.add(path, Entry::File { mode, content });
    }

    /// Adds a symbolic link.
    pub fn link(&mut self, path: &str, target: &str) {
        let target = target.to_owned();
        self.add(path, Entry::Link { target });
    }

    /// Adds an empty folder.
    pub fn folder(&mut self, path: &str, mode: u32, owner: u32) {
        self.add(path, Entry::Folder { mode, owner });
    }

    fn add(&mut self, path: &str, entry: Entry) {
        for (at, _) in path.match_indices('/') {
            let above = Entry::Folder {
                mode: 0o755,
                owner: 0,
            };
            self.entries.entry(path[..at].to_owned()).or_insert(above);
        }
        self.entries.insert(path.to_owned(), entry);
    }

    /// All of it as a tar file, every time this one.
    fn tar(&self, time: u64) -> std::io::Result<Vec<u8>> {
        let mut tar = Builder::new(Vec::new());
        for (path, entry) in &self.entries {
            let mut header = Header::new_gnu();
            header.set_mtime(time);
            header.set_uid(0);
            header.set_gid(0);
            header.set_size(0);
            match entry {
                Entry::Folder { mode, owner } => {
                    header.set_entry_type(EntryType::Directory);
                    header.set_mode(*mode);
                    header.set_uid((*owner).into());
                    header.set_gid((*owner).into());
                    tar.append_data(&mut header, format!("{path}/"), std::io::empty())?;
                }
                Entry::File { mode, content } => {
                    header.set_entry_type(EntryType::Regular);
                    header.set_mode(*mode);
                    header.set_size(content.len() as u64);
                    tar.append_data(&mut header, path, content.as_slice())?;
                }
                Entry::Link { target } => {
                    header.set_entry_type(EntryType::Symlink);
                    header.set_mode(0o777);
                    tar.append_link(&mut header, path, target)?;
                }
            }
        }
        tar.into_inner()
    }
}

/// What is said of an image.
#[derive(Debug, Clone)]
pub struct Image<'a> {
    /// With registry, without tag.
    pub name: &'a str,
    pub tag: &'a str,
    /// As OCI names it.
    pub architecture: &'a str,
    pub version: &'a str,
    /// The commit.
    pub revision: &'a str,
    /// Of everything in it, in seconds since the epoch.
    pub time: u64,
    /// Number of the user and of his group.
    pub user: u32,
    pub entrypoint: &'a str,
    /// Whether layers are compressed.
    pub compressed: bool,
}

/// What was written.
#[derive(Debug)]
pub struct Written {
    /// Of the manifest, SHA-256 in hex.
    pub digest: String,
    pub bytes: u64,
}

/// A blob and what refers to it.
struct Blob {
    content: Vec<u8>,
    descriptor: Value,
    digest: String,
}

fn blob(content: Vec<u8>, media_type: &str) -> Blob {
    let digest = hex::encode(Sha256::digest(&content));
    let descriptor = json!({
        "mediaType": media_type, "digest": format!("sha256:{digest}"), "size": content.len(),
    });
    Blob {
        content,
        descriptor,
        digest,
    }
}

/// Writes an image with these layers, lowest first.
///
/// # Errors
/// When the file cannot be written.
pub fn write(image: &Image, layers: &[Root], path: &Path) -> Result<Written> {
    let mut blobs = Vec::new();
    let (mut identities, mut descriptors) = (Vec::new(), Vec::new());
    for layer in layers {
        let tar = layer.tar(image.time).at(path)?;
        identities.push(format!("sha256:{}", hex::encode(Sha256::digest(&tar))));
        let layer = if image.compressed {
            // Its header has neither a time nor a name.
            let mut gzip = GzBuilder::new().write(Vec::new(), Compression::best());
            gzip.write_all(&tar).at(path)?;
            let packed = gzip.finish().at(path)?;
            blob(packed, "application/vnd.oci.image.layer.v1.tar+gzip")
        } else {
            blob(tar, "application/vnd.oci.image.layer.v1.tar")
        };
        descriptors.push(layer.descriptor.clone());
        blobs.push(layer);
    }
    let created = rfc3339(image.time);
    let labels = json!({
        "org.opencontainers.image.title": "Windlass",
        "org.opencontainers.image.version": image.version,
        "org.opencontainers.image.revision": image.revision,
        "org.opencontainers.image.created": created,
        "org.opencontainers.image.licenses": "Apache-2.0",
    });
    let configuration = json!({
        "architecture": image.architecture,
        "os": "linux",
        "created": created,
        "config": {
            "User": format!("{0}:{0}", image.user),
            "Entrypoint": [image.entrypoint],
            "Cmd": ["run"],
            "WorkingDir": "/",
            "Env": ["PATH=/opt/windlass/bin:/usr/bin:/bin", "HOME=/tmp"],
            "Labels": labels,
        },
        "rootfs": {"type": "layers", "diff_ids": identities},
    });
    let configuration = blob(
        configuration.to_string().into_bytes(),
        "application/vnd.oci.image.config.v1+json",
    );
    let manifest = json!({
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.manifest.v1+json",
        "config": configuration.descriptor,
        "layers": descriptors,
        "annotations": labels,
    });
    let manifest = blob(
        manifest.to_string().into_bytes(),
        "application/vnd.oci.image.manifest.v1+json",
    );
    let mut descriptor = manifest.descriptor.clone();
    descriptor["platform"] = json!({"architecture": image.architecture, "os": "linux"});
    descriptor["annotations"] = json!({
        "org.opencontainers.image.ref.name": image.tag,
        "io.containerd.image.name": format!("{}:{}", image.name, image.tag),
    });
    let index = json!({
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.index.v1+json",
        "manifests": [descriptor],
    });
    let digest = manifest.digest.clone();
    blobs.extend([configuration, manifest]);
    blobs.sort_by(|one, other| one.digest.cmp(&other.digest));

    let new = path.with_extension("new");
    let mut tar = Builder::new(BufWriter::new(File::create(&new).at(&new)?));
    let mut put = |name: &str, content: &[u8]| {
        let mut header = Header::new_gnu();
        header.set_entry_type(EntryType::Regular);
        header.set_mode(0o644);
        header.set_uid(0);
        header.set_gid(0);
        header.set_mtime(image.time);
        header.set_size(content.len() as u64);
        tar.append_data(&mut header, name, content)
    };
    let layout = json!({"imageLayoutVersion": "1.0.0"}).to_string();
    put("oci-layout", layout.as_bytes()).at(&new)?;
    put("index.json", index.to_string().as_bytes()).at(&new)?;
    for blob in &blobs {
        put(&format!("blobs/sha256/{}", blob.digest), &blob.content).at(&new)?;
    }
    tar.into_inner()
        .and_then(|mut file| file.flush())
        .at(&new)?;
    std::fs::rename(&new, path).at(path)?;
    let bytes = path.metadata().at(path)?.len();
    Ok(Written { digest, bytes })
}

/// Seconds since the epoch as OCI and SPDX want them.
pub fn rfc3339(time: u64) -> String {
    let (days, seconds) = ((time / 86_400) as i64, time % 86_400);
    // Years that begin with March, in cycles of 400: February's last day is the last of all.
    let shifted = days + 719_468;
    let cycle = shifted / 146_097;
    let day = shifted % 146_097;
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let date = day - (153 * month + 2) / 5 + 1;
    let (year, month) = match month {
        0..=9 => (year + cycle * 400, month + 3),
        _ => (year + cycle * 400 + 1, month - 9),
    };
    let (hours, minutes, seconds) = (seconds / 3_600, seconds / 60 % 60, seconds % 60);
    format!("{year:04}-{month:02}-{date:02}T{hours:02}:{minutes:02}:{seconds:02}Z")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use pretty_assertions::assert_eq;
    use std::io::Read as _;

    fn image(compressed: bool) -> Image<'static> {
        Image {
            name: "example.org/a/b",
            tag: "1",
            architecture: "amd64",
            version: "1",
            revision: "abc",
            time: 1_700_000_000,
            user: 65532,
            entrypoint: "/a",
            compressed,
        }
    }

    fn root(backwards: bool) -> Root {
        let mut root = Root::default();
        let mut steps: [fn(&mut Root); 3] = [
            |root| root.file("usr/bin/a", 0o755, b"a".to_vec()),
            |root| root.link("bin", "usr/bin"),
            |root| root.folder("tmp", 0o1777, 7),
        ];
        if backwards {
            steps.reverse();
        }
        steps.iter().for_each(|step| step(&mut root));
        root
    }

    fn files(archive: &Path) -> BTreeMap<String, Vec<u8>> {
        let mut tar = tar::Archive::new(File::open(archive).unwrap());
        tar.entries()
            .unwrap()
            .map(|entry| {
                let mut entry = entry.unwrap();
                let mut content = Vec::new();
                entry.read_to_end(&mut content).unwrap();
                (entry.path().unwrap().display().to_string(), content)
            })
            .collect()
    }

    #[test]
    fn the_same_files_are_the_same_bytes_in_whichever_order_they_came() {
        let folder = tempfile::tempdir().unwrap();
        let mut bytes = Vec::new();
        for (name, backwards) in [("one", false), ("two", true)] {
            let path = folder.path().join(name);
            write(&image(true), &[root(backwards)], &path).unwrap();
            bytes.push(std::fs::read(&path).unwrap());
        }
        assert!(bytes[0] == bytes[1]);
    }

    #[test]
    fn every_digest_in_the_archive_is_that_of_what_it_names() {
        let folder = tempfile::tempdir().unwrap();
        for compressed in [true, false] {
            let path = folder.path().join("image.tar");
            let written = write(&image(compressed), &[root(false), root(true)], &path).unwrap();
            let files = files(&path);
            let json = |name: &str| -> Value { serde_json::from_slice(&files[name]).unwrap() };
            let named = |descriptor: &Value| {
                let digest = descriptor["digest"].as_str().unwrap();
                let name = format!("blobs/{}", digest.replace(':', "/"));
                assert_eq!(descriptor["size"], files[&name].len());
                assert_eq!(
                    digest,
                    format!("sha256:{}", hex::encode(Sha256::digest(&files[&name])))
                );
                name
            };
            assert_eq!(json("oci-layout")["imageLayoutVersion"], "1.0.0");
            let entry = &json("index.json")["manifests"][0];
            assert_eq!(entry["digest"], format!("sha256:{}", written.digest));
            assert_eq!(
                entry["annotations"]["io.containerd.image.name"],
                "example.org/a/b:1"
            );
            let manifest = json(&named(entry));
            let configuration = json(&named(&manifest["config"]));
            assert_eq!(configuration["config"]["User"], "65532:65532");
            assert_eq!(configuration["created"], "2023-11-14T22:13:20Z");
            let layers = manifest["layers"].as_array().unwrap();
            for (layer, identity) in layers
                .iter()
                .zip(configuration["rootfs"]["diff_ids"].as_array().unwrap())
            {
                let mut tar = files[&named(layer)].clone();
                if compressed {
                    let mut inner = Vec::new();
                    flate2::read::GzDecoder::new(tar.as_slice())
                        .read_to_end(&mut inner)
                        .unwrap();
                    tar = inner;
                }
                assert_eq!(
                    *identity,
                    format!("sha256:{}", hex::encode(Sha256::digest(&tar)))
                );
            }
        }
    }

    #[test]
    fn folders_come_before_what_is_in_them_and_times_and_owners_are_fixed() {
        let tar = root(true).tar(5).unwrap();
        let mut archive = tar::Archive::new(tar.as_slice());
        let entries: Vec<_> = archive
            .entries()
            .unwrap()
            .map(|entry| {
                let entry = entry.unwrap();
                assert_eq!(entry.header().mtime().unwrap(), 5);
                let path = entry.path().unwrap().display().to_string();
                (
                    path,
                    entry.header().mode().unwrap(),
                    entry.header().uid().unwrap(),
                )
            })
            .collect();
        let wanted = [
            ("bin", 0o777, 0),
            ("tmp/", 0o1777, 7),
            ("usr/", 0o755, 0),
            ("usr/bin/", 0o755, 0),
            ("usr/bin/a", 0o755, 0),
        ];
        assert_eq!(
            entries,
            wanted.map(|(path, mode, owner)| (path.to_owned(), mode, owner))
        );
    }

    #[test]
    fn times_are_written_as_everybody_writes_them() {
        assert_eq!(rfc3339(0), "1970-01-01T00:00:00Z");
        assert_eq!(rfc3339(951_827_696), "2000-02-29T12:34:56Z");
        assert_eq!(rfc3339(1_767_225_599), "2025-12-31T23:59:59Z");
    }
}
