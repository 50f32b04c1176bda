//! Repositories and servers that mean harm: each is an error on one request.
#![allow(clippy::unwrap_used)]

#[path = "common/bomb.rs"]
mod bomb;
mod common;

use std::time::Duration;

use common::{fetch, fetcher, fetcher_with, git_tree, refused, unpacked};
use windlass_e2e::git_repo::TestRepo;
use windlass_e2e::git_server::{Behaviour, GitServer};
use windlass_fetch::{ErrorClass, RefsRequest};

/// Serves a repository whose tip has the tree that `make` builds; the request must
/// fail for this reason.
async fn tree_is_refused(reason: &str, make: impl FnOnce(&TestRepo) -> String) {
    let server = GitServer::start().await.unwrap();
    let repo = server.repo("evil.git").unwrap();
    let tree = make(&repo);
    let commit = repo.commit_tree("main", &tree).unwrap();
    let (fetcher, dir) = fetcher();
    refused(
        &fetcher,
        git_tree(&server.url("evil.git"), &commit, None),
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
    let names: &[&[u8]] = &[
        b"..",
        b".",
        b"../../etc/cron.d/x",
        b"/etc/passwd",
        b"a/b",
        b".git",
        b".GIT",
        b".git ",
        b".git.",
        b"GIT~1",
        b".git::$INDEX_ALLOCATION",
        "\u{200c}.git".as_bytes(),
        b"a\\..\\b",
        b"line\nbreak",
        b"\xff\xfe",
    ];
    let server = GitServer::start().await.unwrap();
    let (fetcher, _dir) = fetcher();
    for (i, name) in names.iter().enumerate() {
        let repo_name = format!("{i}.git");
        let repo = server.repo(&repo_name).unwrap();
        let blob = repo.object("blob", b"x").unwrap();
        let tree = repo.raw_tree(&[("100644", name, &blob)]).unwrap();
        let commit = repo.commit_tree("main", &tree).unwrap();
        refused(
            &fetcher,
            git_tree(&server.url(&repo_name), &commit, None),
            "NameForbidden",
        )
        .await;
        // A directory of that name is no better.
        let outer = repo.raw_tree(&[("40000", name, &tree)]).unwrap();
        let commit = repo.commit_tree("main", &outer).unwrap();
        refused(
            &fetcher,
            git_tree(&server.url(&repo_name), &commit, None),
            "NameForbidden",
        )
        .await;
    }
}

#[tokio::test]
async fn links_that_lead_out() {
    for (path, target) in [
        ("a", "/etc/passwd"),
        ("a", "../x"),
        ("d/a", "../../x"),
        ("d/a", "..//../x"),
    ] {
        let server = GitServer::start().await.unwrap();
        let commit = server
            .repo("r.git")
            .unwrap()
            .commit("main", &[(path, "120000", target.as_bytes())])
            .unwrap();
        let (fetcher, _dir) = fetcher();
        refused(
            &fetcher,
            git_tree(&server.url("r.git"), &commit, None),
            "SymlinkEscapes",
        )
        .await;
    }
    // By way of another link, which alone is harmless.
    let server = GitServer::start().await.unwrap();
    let repo = server.repo("r.git").unwrap();
    let chain: [(&str, &str, &[u8]); 2] = [
        ("here", "120000", b"."),
        ("out", "120000", b"here/here/../../x"),
    ];
    let commit = repo.commit("main", &chain).unwrap();
    let (fetcher, _dir) = fetcher();
    refused(
        &fetcher,
        git_tree(&server.url("r.git"), &commit, None),
        "SymlinkEscapes",
    )
    .await;
    let commit = repo.commit("main", &chain[..1]).unwrap();
    let info = fetch(&fetcher, &server.url("r.git"), &commit)
        .await
        .unwrap();
    assert_eq!(
        unpacked(&fetcher, &info.digest, None).await,
        [("here".to_owned(), 0o777, b".".to_vec())]
    );
}

#[tokio::test]
async fn a_link_and_a_directory_of_one_name() {
    tree_is_refused("NameForbidden", |repo| {
        let link = repo.object("blob", b"/tmp").unwrap();
        let file = repo.object("blob", b"x").unwrap();
        let inner = repo.raw_tree(&[("100644", b"f", &file)]).unwrap();
        repo.raw_tree(&[("120000", b"a", &link), ("40000", b"a", &inner)])
            .unwrap()
    })
    .await;
}

#[tokio::test]
async fn submodules_and_lfs_are_named() {
    tree_is_refused("SubmoduleUnsupported", |repo| {
        repo.raw_tree(&[("160000", b"sub", &"1".repeat(40))])
            .unwrap()
    })
    .await;
    tree_is_refused("LfsUnsupported", |repo| {
        let pointer = b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n";
        let blob = repo.object("blob", pointer).unwrap();
        repo.raw_tree(&[("100644", b"big.bin", &blob)]).unwrap()
    })
    .await;
}

#[tokio::test]
async fn a_hundred_thousand_files() {
    tree_is_refused("TooManyFiles", |repo| {
        let blob = repo.object("blob", b"x").unwrap();
        let names: Vec<String> = (0..100_000).map(|i| format!("f{i:06}")).collect();
        let entries: Vec<_> = names
            .iter()
            .map(|name| ("100644", name.as_bytes(), blob.as_str()))
            .collect();
        repo.raw_tree(&entries).unwrap()
    })
    .await;
}

#[tokio::test]
async fn a_tree_of_ten_billion_files_in_two_kilobytes() {
    tree_is_refused("TooManyFiles", |repo| {
        let blob = repo.object("blob", b"x").unwrap();
        let names: Vec<String> = (0..10).map(|i| format!("n{i}")).collect();
        let level = |mode: &str, id: &str| {
            let entries: Vec<_> = names
                .iter()
                .map(|name| (mode, name.as_bytes(), id))
                .collect();
            repo.raw_tree(&entries).unwrap()
        };
        (0..9).fold(level("100644", &blob), |below, _| level("40000", &below))
    })
    .await;
}

#[tokio::test]
async fn too_deep_and_too_long() {
    tree_is_refused("TooDeep", |repo| {
        let blob = repo.object("blob", b"x").unwrap();
        let bottom = repo.raw_tree(&[("100644", b"f", &blob)]).unwrap();
        (0..70).fold(bottom, |below, _| {
            repo.raw_tree(&[("40000", b"d", &below)]).unwrap()
        })
    })
    .await;
    tree_is_refused("NameTooLong", |repo| {
        let blob = repo.object("blob", b"x").unwrap();
        repo.raw_tree(&[("100644", "n".repeat(300).as_bytes(), &blob)])
            .unwrap()
    })
    .await;
}

#[tokio::test]
async fn one_blob_a_hundred_times() {
    tree_is_refused("TooManyBytes", |repo| {
        let blob = repo.object("blob", &vec![0; 16 << 20]).unwrap();
        let names: Vec<String> = (0..100).map(|i| format!("f{i:03}")).collect();
        let entries: Vec<_> = names
            .iter()
            .map(|name| ("100644", name.as_bytes(), blob.as_str()))
            .collect();
        repo.raw_tree(&entries).unwrap()
    })
    .await;
}

#[tokio::test]
async fn a_sparse_blob_of_two_gibibytes() {
    let server = GitServer::start().await.unwrap();
    let repo = server.repo("evil.git").unwrap();
    bomb::put_blob(repo.path());
    assert_eq!(
        repo.git(&["cat-file", "-s", bomb::BLOB], b"").unwrap(),
        bomb::BLOB_SIZE.to_string()
    );
    let tree = repo.raw_tree(&[("100644", b"zeros", bomb::BLOB)]).unwrap();
    let commit = repo.commit_tree("main", &tree).unwrap();
    // Over http the object is refused while the pack comes in; in place, by its size.
    for (url, reason) in [
        (server.url("evil.git"), "MemoryExceeded"),
        (repo.file_url(), "TooManyBytes"),
    ] {
        let (fetcher, _dir) = fetcher();
        refused(&fetcher, git_tree(&url, &commit, None), reason).await;
    }
}

#[tokio::test]
async fn a_server_that_falls_silent_after_the_headers() {
    let server = GitServer::start().await.unwrap();
    let repo = server.repo("r.git").unwrap();
    let commit = repo.commit("main", &[("a", "100644", b"1")]).unwrap();
    server.repo("good.git").unwrap();
    server.set_behaviour("r.git", Behaviour::HangAfterHeaders);
    let (fetcher, dir) = fetcher_with(|config| config.limits.wall = Duration::from_secs(8));
    let url = server.url("r.git");
    let refs = RefsRequest {
        url: url.clone(),
        prefixes: Vec::new(),
        credential: None,
    };
    // Meanwhile, others are served.
    let (tree, refs, good) = tokio::join!(
        fetch(&fetcher, &url, &commit),
        fetcher.refs(refs),
        fetcher.refs(RefsRequest {
            url: server.url("good.git"),
            prefixes: Vec::new(),
            credential: None
        }),
    );
    for err in [tree.unwrap_err(), refs.unwrap_err()] {
        assert_eq!(
            (err.reason(), err.class()),
            ("TimedOut".to_owned(), ErrorClass::Unavailable)
        );
    }
    assert!(good.is_ok());
    assert_eq!(
        std::fs::read_dir(dir.path().join("tmp")).unwrap().count(),
        0
    );
}
