//! Archives that mean harm.
#![allow(clippy::unwrap_used)]

#[path = "common/bomb.rs"]
mod bomb;
mod common;

use std::io::Write as _;

use common::{fetcher, refused};
use sha2::{Digest as _, Sha256};
use windlass_e2e::git_server::GitServer;
use windlass_fetch::{Artifact, TreeRequest};

/// One raw tar header; the name is not checked by anybody.
fn header(name: &str, kind: tar::EntryType, size: u64, link: &str) -> Vec<u8> {
    let mut header = tar::Header::new_gnu();
    header.as_old_mut().name[..name.len()].copy_from_slice(name.as_bytes());
    header.as_old_mut().linkname[..link.len()].copy_from_slice(link.as_bytes());
    header.set_entry_type(kind);
    header.set_size(size);
    header.set_mode(0o644);
    header.set_cksum();
    header.as_bytes().to_vec()
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

/// Serves these bytes as an archive with the right digest; the request must fail.
async fn archive_is_refused(reason: &str, bytes: Vec<u8>) {
    let server = GitServer::start().await.unwrap();
    let digest = format!("sha256:{}", hex::encode(Sha256::digest(&bytes)));
    server.put_file("evil.tar.gz", bytes);
    let (fetcher, dir) = fetcher();
    let artifact = Artifact::Archive {
        url: server.url("evil.tar.gz"),
        digest,
    };
    refused(
        &fetcher,
        TreeRequest {
            artifact,
            credential: None,
        },
        reason,
    )
    .await;
    assert_eq!(
        std::fs::read_dir(dir.path().join("trees")).unwrap().count(),
        0
    );
    assert_eq!(
        std::fs::read_dir(dir.path().join("tmp")).unwrap().count(),
        0
    );
}

#[tokio::test]
async fn names_that_lead_elsewhere() {
    use tar::EntryType::{Directory, Regular};
    for name in [
        "../x",
        "a/../../x",
        "/etc/passwd",
        ".git/config",
        "a/.GIT/hooks/x",
        ".git./x",
    ] {
        archive_is_refused("NameForbidden", gzip(&header(name, Regular, 0, ""))).await;
    }
    archive_is_refused("NameForbidden", gzip(&header("../d/", Directory, 0, ""))).await;
}

#[tokio::test]
async fn entries_that_are_no_files() {
    use tar::EntryType::{Block, Char, Fifo, Link};
    for kind in [Link, Char, Block, Fifo] {
        archive_is_refused(
            "EntryUnsupported",
            gzip(&header("a", kind, 0, "/etc/passwd")),
        )
        .await;
    }
}

#[tokio::test]
async fn links_that_lead_out_and_files_behind_links() {
    use tar::EntryType::{Regular, Symlink};
    archive_is_refused("SymlinkEscapes", gzip(&header("a", Symlink, 0, "/etc"))).await;
    archive_is_refused(
        "SymlinkEscapes",
        gzip(&header("a/b", Symlink, 0, "../../x")),
    )
    .await;
    let through = [
        header("a", Symlink, 0, "b"),
        header("a/passwd", Regular, 0, ""),
    ]
    .concat();
    archive_is_refused("NameForbidden", gzip(&through)).await;
    let twice = [header("a", Regular, 0, ""), header("a", Regular, 0, "")].concat();
    archive_is_refused("NameForbidden", gzip(&twice)).await;
}

#[tokio::test]
async fn a_hundred_thousand_files() {
    let mut bytes = Vec::new();
    for i in 0..100_000 {
        bytes.extend_from_slice(&header(&format!("f{i}"), tar::EntryType::Regular, 0, ""));
    }
    archive_is_refused("TooManyFiles", gzip(&bytes)).await;
}

#[tokio::test]
async fn two_gibibytes_in_two_megabytes() {
    let file = header("zeros", tar::EntryType::Regular, 2 << 30, "");
    archive_is_refused("TooManyBytes", bomb::gzipped(&file, 2048)).await;
    // The same in many small files.
    let mut small = Vec::new();
    for i in 0..40 {
        small.extend_from_slice(&header(&format!("f{i}"), tar::EntryType::Regular, 0, ""));
    }
    small.extend_from_slice(&header("last", tar::EntryType::Regular, 8 << 30, ""));
    archive_is_refused("TooManyBytes", bomb::gzipped(&small, 1)).await;
}

#[tokio::test]
async fn a_name_of_half_a_gibibyte() {
    // The reader collects a long name in memory: the child's limit ends it, nobody else.
    let long = header("././@LongLink", tar::EntryType::GNULongName, 512 << 20, "");
    archive_is_refused("MemoryExceeded", bomb::gzipped(&long, 512)).await;
}

#[tokio::test]
async fn broken_archives() {
    let cut = header("a", tar::EntryType::Regular, 4096, "");
    archive_is_refused("ArchiveInvalid", gzip(&cut)).await;
    archive_is_refused("ArchiveInvalid", b"\x1f\x8b\x08 and then nonsense".to_vec()).await;
    let whole = gzip(&vec![0; 4096]);
    archive_is_refused("ArchiveInvalid", whole[..whole.len() - 9].to_vec()).await;
}
