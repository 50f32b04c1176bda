//! tar.gz archives from a real server.
#![allow(clippy::unwrap_used)]

mod common;

use common::{basic, fetcher, unpacked};
use sha2::{Digest as _, Sha256};
use windlass_e2e::git_server::{Access, Behaviour, GitServer};
use windlass_fetch::{Artifact, Credential, TreeRequest};

fn tar_gz(files: &[(&str, &[u8])]) -> Vec<u8> {
    let encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    let mut builder = tar::Builder::new(encoder);
    for (path, content) in files {
        let mut header = tar::Header::new_gnu();
        header.set_size(content.len() as u64);
        header.set_mode(0o644);
        builder.append_data(&mut header, path, *content).unwrap();
    }
    builder.into_inner().unwrap().finish().unwrap()
}

fn digest(bytes: &[u8]) -> String {
    format!("sha256:{}", hex::encode(Sha256::digest(bytes)))
}

fn archive(url: String, digest: &str, credential: Option<Credential>) -> TreeRequest {
    TreeRequest {
        artifact: Artifact::Archive {
            url,
            digest: digest.to_owned(),
        },
        credential,
    }
}

#[tokio::test]
async fn an_archive_becomes_the_tree_that_its_files_make() {
    let server = GitServer::start().await.unwrap();
    // Not in order, and with the leading dot that tar writes.
    let bytes = tar_gz(&[("./b/y", b"2"), ("./a", b"1"), ("./b-c", b"3")]);
    server.put_file("x.tar.gz", bytes.clone());
    let (fetcher, _dir) = fetcher();
    let request = archive(server.url("x.tar.gz"), &digest(&bytes), None);
    let info = fetcher.fetch(request.clone()).await.unwrap();
    let paths: Vec<_> = unpacked(&fetcher, &info.digest, None)
        .await
        .into_iter()
        .map(|e| e.0)
        .collect();
    assert_eq!(paths, ["a", "b/y", "b-c"]);
    // The same files given directly are the same tree.
    let files = [("a", "1"), ("b/y", "2"), ("b-c", "3")];
    let files = files
        .map(|(path, text)| (path.to_owned(), text.as_bytes().to_vec()))
        .into();
    let given = TreeRequest {
        artifact: Artifact::Files(files),
        credential: None,
    };
    assert_eq!(fetcher.fetch(given).await.unwrap().digest, info.digest);
    // Redirects without credentials are followed; once stored, nothing is fetched.
    let other = GitServer::start().await.unwrap();
    let to = server.url("").trim_end_matches('/').to_owned();
    other.set_behaviour("x.tar.gz", Behaviour::RedirectTo(to));
    let moved = archive(other.url("x.tar.gz"), &digest(&bytes), None);
    assert_eq!(fetcher.fetch(moved).await.unwrap().digest, info.digest);
    let before = server.seen("x.tar.gz").len();
    fetcher.fetch(request).await.unwrap();
    assert_eq!(server.seen("x.tar.gz").len(), before);
}

#[tokio::test]
async fn another_archive_than_promised_is_refused() {
    let server = GitServer::start().await.unwrap();
    server.put_file("x.tar.gz", tar_gz(&[("a", b"1")]));
    server.put_file("junk.tar.gz", b"junk".to_vec());
    let (fetcher, _dir) = fetcher();
    let other = digest(b"other");
    for (name, digest, reason) in [
        ("x.tar.gz", other.as_str(), "DigestMismatch"),
        ("x.tar.gz", "sha256:12", "DigestInvalid"),
        ("junk.tar.gz", &digest(b"junk"), "ArchiveInvalid"),
        ("none.tar.gz", &other, "ArchiveNotFound"),
    ] {
        let err = fetcher
            .fetch(archive(server.url(name), digest, None))
            .await
            .unwrap_err();
        assert_eq!(err.reason(), reason, "{err}");
    }
}

#[tokio::test]
async fn a_stored_private_archive_is_served_only_to_who_can_read_it() {
    let server = GitServer::start().await.unwrap();
    let bytes = tar_gz(&[("a", b"1")]);
    server.put_file("p.tar.gz", bytes.clone());
    server.set_access(
        "p.tar.gz",
        Access::Basic {
            user: "u".into(),
            pass: "s".into(),
        },
    );
    let (fetcher, _dir) = fetcher();
    let ask = |credential| archive(server.url("p.tar.gz"), &digest(&bytes), credential);
    fetcher.fetch(ask(basic("u", "s"))).await.unwrap();
    let err = fetcher.fetch(ask(None)).await.unwrap_err();
    assert_eq!(err.reason(), "CredentialsRequired");
    let err = fetcher.fetch(ask(basic("u", "no"))).await.unwrap_err();
    assert_eq!(err.reason(), "CredentialsRefused");
}
