//! Layers as images, images as an OCI archive.

use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::path::Path;

use flate2::{Compression, GzBuilder};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use tar::{Builder, EntryType, Header};

use super::layer::Root;
use crate::error::{AtPath, Result};

/// The media type of an index.
const INDEX: &str = "application/vnd.oci.image.index.v1+json";

/// What is said of an image.
#[derive(Debug, Clone)]
pub struct Image<'a> {
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

/// An image of one kind of machine, ready to be written.
#[derive(Debug)]
pub struct Packed {
    /// What refers to its manifest.
    descriptor: Value,
    blobs: Vec<Blob>,
    /// Of the manifest, SHA-256 in hex.
    pub digest: String,
}

/// What was written.
#[derive(Debug)]
pub struct Written {
    /// Of what the name stands for: the manifest of the one image, the index of several; SHA-256 in hex.
    pub digest: String,
    pub bytes: u64,
}

/// A blob and what refers to it.
#[derive(Debug)]
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

/// Makes an image of these layers, lowest first.
///
/// # Errors
/// Those of compressing.
pub fn pack(image: &Image, layers: &[Root]) -> std::io::Result<Packed> {
    let mut blobs = Vec::new();
    let (mut identities, mut descriptors) = (Vec::new(), Vec::new());
    for layer in layers {
        let tar = layer.tar(image.time)?;
        identities.push(format!("sha256:{}", hex::encode(Sha256::digest(&tar))));
        let layer = if image.compressed {
            // Its header has neither a time nor a name.
            let mut gzip = GzBuilder::new().write(Vec::new(), Compression::best());
            gzip.write_all(&tar)?;
            let packed = gzip.finish()?;
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
    let digest = manifest.digest.clone();
    blobs.extend([configuration, manifest]);
    Ok(Packed {
        descriptor,
        blobs,
        digest,
    })
}

/// Writes images of several kinds of machines under one name and tag; `time` is that of the archive's entries, in seconds since
/// the epoch.
///
/// # Errors
/// When the file cannot be written.
pub fn write(
    name: &str,
    tag: &str,
    time: u64,
    images: Vec<Packed>,
    path: &Path,
) -> Result<Written> {
    let mut manifests = Vec::new();
    let mut blobs = Vec::new();
    for image in images {
        manifests.push(image.descriptor);
        blobs.extend(image.blobs);
    }
    // Several are behind an index of their own: a name stands for one thing.
    let mut named = match <[Value; 1]>::try_from(manifests) {
        Ok([one]) => one,
        Err(several) => {
            let index = blob(index(&several), INDEX);
            let descriptor = index.descriptor.clone();
            blobs.push(index);
            descriptor
        }
    };
    let digest = named["digest"].as_str().unwrap_or_default();
    let digest = digest.trim_start_matches("sha256:").to_owned();
    named["annotations"] = json!({
        "org.opencontainers.image.ref.name": tag,
        "io.containerd.image.name": format!("{name}:{tag}"),
    });
    let index = index(&[named]);
    blobs.sort_by(|one, other| one.digest.cmp(&other.digest));
    // Layers that they share, in it once.
    blobs.dedup_by(|one, other| one.digest == other.digest);

    let new = path.with_extension("new");
    let mut tar = Builder::new(BufWriter::new(File::create(&new).at(&new)?));
    let mut put = |name: &str, content: &[u8]| {
        let mut header = Header::new_gnu();
        header.set_entry_type(EntryType::Regular);
        header.set_mode(0o644);
        header.set_uid(0);
        header.set_gid(0);
        header.set_mtime(time);
        header.set_size(content.len() as u64);
        tar.append_data(&mut header, name, content)
    };
    let layout = json!({"imageLayoutVersion": "1.0.0"}).to_string();
    put("oci-layout", layout.as_bytes()).at(&new)?;
    put("index.json", &index).at(&new)?;
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

/// An index of these.
fn index(manifests: &[Value]) -> Vec<u8> {
    let index = json!({"schemaVersion": 2, "mediaType": INDEX, "manifests": manifests});
    index.to_string().into_bytes()
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
    use super::super::layer::tests::root;
    use super::*;
    use pretty_assertions::assert_eq;
    use std::collections::BTreeMap;
    use std::io::Read as _;

    const NAME: &str = "example.org/a/b";

    fn image(compressed: bool) -> Image<'static> {
        Image {
            architecture: "amd64",
            version: "1",
            revision: "abc",
            time: 1_700_000_000,
            user: 65532,
            entrypoint: "/a",
            compressed,
        }
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
            let packed = pack(&image(true), &[root(backwards)]).unwrap();
            write(NAME, "1", 5, vec![packed], &path).unwrap();
            bytes.push(std::fs::read(&path).unwrap());
        }
        assert!(bytes[0] == bytes[1]);
    }

    #[test]
    fn every_digest_in_the_archive_is_that_of_what_it_names() {
        let folder = tempfile::tempdir().unwrap();
        for compressed in [true, false] {
            let path = folder.path().join("image.tar");
            let packed = pack(&image(compressed), &[root(false), root(true)]).unwrap();
            let written = write(NAME, "1", 5, vec![packed], &path).unwrap();
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
    fn images_of_several_kinds_of_machines_have_one_name() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("image.tar");
        let images = ["amd64", "arm64"].map(|architecture| {
            let image = Image {
                architecture,
                ..image(false)
            };
            pack(&image, &[root(false)]).unwrap()
        });
        let digests = images.each_ref().map(|image| image.digest.clone());
        let written = write(NAME, "1", 5, images.into(), &path).unwrap();
        let files = files(&path);
        let json = |name: &str| -> Value { serde_json::from_slice(&files[name]).unwrap() };
        let entries = json("index.json")["manifests"].clone();
        assert_eq!(entries.as_array().unwrap().len(), 1);
        assert_eq!(entries[0]["mediaType"], INDEX);
        assert_eq!(entries[0]["digest"], format!("sha256:{}", written.digest));
        assert_eq!(
            entries[0]["annotations"]["org.opencontainers.image.ref.name"],
            "1"
        );
        let inner = json(&format!("blobs/sha256/{}", written.digest));
        for (at, architecture) in ["amd64", "arm64"].into_iter().enumerate() {
            let manifest = &inner["manifests"][at];
            assert_eq!(manifest["platform"]["architecture"], architecture);
            assert_eq!(manifest["digest"], format!("sha256:{}", digests[at]));
            assert!(files.contains_key(&format!("blobs/sha256/{}", digests[at])));
        }
        // One layer, two configurations, two manifests, an index.
        let blobs = files.keys().filter(|name| name.starts_with("blobs/"));
        assert_eq!(blobs.count(), 6);
    }

    #[test]
    fn times_are_written_as_everybody_writes_them() {
        assert_eq!(rfc3339(0), "1970-01-01T00:00:00Z");
        assert_eq!(rfc3339(951_827_696), "2000-02-29T12:34:56Z");
        assert_eq!(rfc3339(1_767_225_599), "2025-12-31T23:59:59Z");
    }
}
