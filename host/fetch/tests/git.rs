//! Real repositories from a real server.
#![allow(clippy::unwrap_used)]

mod common;

use common::{basic, fetch, fetcher, fetcher_with, git_tree, unpacked};
use windlass_e2e::git_repo::TestFile;
use windlass_e2e::git_server::{Access, Behaviour, GitServer};
use windlass_fetch::{Credential, RefsRequest};

const FILES: &[TestFile<'static>] = &[
    ("README.md", "100644", b"hello"),
    ("app/Pulumi.yaml", "100644", b"name: app\nruntime: yaml\n"),
    ("app/run.sh", "100755", b"#!/bin/sh\n"),
    ("app/shared", "120000", b"../lib"),
    ("lib/x", "100644", b""),
];

fn refs(url: &str, prefixes: &[&str], credential: Option<Credential>) -> RefsRequest {
    let prefixes = prefixes.iter().map(|prefix| (*prefix).to_owned()).collect();
    RefsRequest {
        url: url.to_owned(),
        prefixes,
        credential,
    }
}

#[tokio::test]
async fn a_commit_becomes_a_tree() {
    let server = GitServer::start().await.unwrap();
    let commit = server.repo("r.git").unwrap().commit("main", FILES).unwrap();
    let (fetcher, _dir) = fetcher();
    let info = fetch(&fetcher, &server.url("r.git"), &commit)
        .await
        .unwrap();
    assert_eq!((info.files, info.bytes), (5, 5 + 24 + 10 + 6));
    let seen = unpacked(&fetcher, &info.digest, None).await;
    let shown: Vec<(&str, u32, &[u8])> = seen
        .iter()
        .map(|(p, m, c)| (p.as_str(), *m, c.as_slice()))
        .collect();
    assert_eq!(
        shown,
        [
            ("README.md", 0o644, &b"hello"[..]),
            ("app/Pulumi.yaml", 0o644, b"name: app\nruntime: yaml\n"),
            ("app/run.sh", 0o755, b"#!/bin/sh\n"),
            ("app/shared", 0o777, b"../lib"),
            ("lib/x", 0o644, b""),
        ]
    );
    // Asked again, nothing is fetched: the proof of access is minutes old.
    let before = server.seen("r.git").len();
    let again = fetch(&fetcher, &server.url("r.git"), &commit)
        .await
        .unwrap();
    assert_eq!(again, info);
    assert_eq!(server.seen("r.git").len(), before);
}

#[tokio::test]
async fn refs_are_listed_by_prefix_and_tags_peeled() {
    let server = GitServer::start().await.unwrap();
    let repo = server.repo("r.git").unwrap();
    let commit = repo.commit("main", FILES).unwrap();
    repo.git(&["update-ref", "refs/heads/feature/a", &commit], b"")
        .unwrap();
    repo.git(&["tag", "light", &commit], b"").unwrap();
    repo.git(&["tag", "-a", "-m", "x", "v1", &commit], b"")
        .unwrap();
    let tag = repo.git(&["rev-parse", "refs/tags/v1"], b"").unwrap();
    let (fetcher, _dir) = fetcher();
    for url in [server.url("r.git"), repo.file_url()] {
        let all = fetcher.refs(refs(&url, &[], None)).await.unwrap();
        let names: Vec<&str> = all.iter().map(|one| one.name.as_str()).collect();
        assert_eq!(
            names,
            [
                "HEAD",
                "refs/heads/feature/a",
                "refs/heads/main",
                "refs/tags/light",
                "refs/tags/v1"
            ]
        );
        assert!(all.iter().all(|one| one.commit() == commit));
        let tags = fetcher
            .refs(refs(&url, &["refs/tags/v"], None))
            .await
            .unwrap();
        assert_eq!(
            (tags.len(), tags[0].oid.as_str(), tags[0].peeled.as_deref()),
            (1, tag.as_str(), Some(&*commit))
        );
        let none = fetcher
            .refs(refs(&url, &["refs/heads/gone"], None))
            .await
            .unwrap();
        assert!(none.is_empty());
        // The tag object itself can be pinned too.
        let by_tag = fetch(&fetcher, &url, &tag).await.unwrap();
        assert_eq!(by_tag, fetch(&fetcher, &url, &commit).await.unwrap());
    }
}

#[tokio::test]
async fn only_one_commit_of_a_long_history_is_fetched() {
    let server = GitServer::start().await.unwrap();
    let repo = server.repo("r.git").unwrap();
    let first = repo.commit("main", &[("old", "100644", b"1")]).unwrap();
    for i in 0..5 {
        repo.commit("main", &[("f", "100644", format!("{i}").as_bytes())])
            .unwrap();
    }
    let (fetcher, _dir) = fetcher();
    // Not the tip of anything.
    let info = fetch(&fetcher, &server.url("r.git"), &first).await.unwrap();
    assert_eq!(unpacked(&fetcher, &info.digest, None).await[0].0, "old");
}

#[tokio::test]
async fn equal_directories_have_equal_digests() {
    let server = GitServer::start().await.unwrap();
    let repo = server.repo("r.git").unwrap();
    let one = repo
        .commit("main", &[("a/x", "100644", b"1"), ("b", "100644", b"2")])
        .unwrap();
    let two = repo
        .commit("main", &[("c/d/x", "100644", b"1"), ("b", "100644", b"3")])
        .unwrap();
    let alone = repo.commit("main", &[("x", "100644", b"1")]).unwrap();
    let (fetcher, _dir) = fetcher();
    let url = server.url("r.git");
    let one = fetch(&fetcher, &url, &one).await.unwrap();
    let two = fetch(&fetcher, &url, &two).await.unwrap();
    let alone = fetch(&fetcher, &url, &alone).await.unwrap();
    assert_ne!(one.digest, two.digest);
    for (digest, dir) in [
        (&one.digest, "a"),
        (&one.digest, "./a/"),
        (&two.digest, "c/d"),
        (&alone.digest, ""),
    ] {
        assert_eq!(
            fetcher.subtree_digest(digest, dir).await.unwrap(),
            alone.digest
        );
    }
    assert_eq!(
        unpacked(&fetcher, &two.digest, Some("c/d")).await,
        unpacked(&fetcher, &alone.digest, None).await
    );
    for missing in ["nope", "b", "../x"] {
        let err = fetcher
            .open(&one.digest, Some(missing))
            .await
            .err()
            .unwrap();
        assert_eq!(err.reason(), "DirectoryNotFound");
    }
}

#[tokio::test]
async fn what_is_not_there_is_said_so() {
    let server = GitServer::start().await.unwrap();
    let repo = server.repo("r.git").unwrap();
    repo.commit("main", FILES).unwrap();
    let blob = repo.object("blob", b"x").unwrap();
    let (fetcher, _dir) = fetcher();
    let unknown = "1".repeat(40);
    for (url, commit, reason) in [
        (server.url("r.git"), unknown.as_str(), "CommitNotFound"),
        (repo.file_url(), &unknown, "CommitNotFound"),
        (server.url("none.git"), &unknown, "RepositoryNotFound"),
        (
            "file:///nonexistent/repo".to_owned(),
            &unknown,
            "RepositoryNotFound",
        ),
        (server.url("r.git"), "main", "CommitInvalid"),
        (repo.file_url(), &blob, "NotACommit"),
        (
            "http://127.0.0.1:1/x.git".to_owned(),
            &unknown,
            "Unreachable",
        ),
    ] {
        let err = fetch(&fetcher, &url, commit).await.unwrap_err();
        assert_eq!(err.reason(), reason, "{url}: {err}");
    }
    server.set_behaviour("r.git", Behaviour::Fail(503));
    let err = fetch(&fetcher, &server.url("r.git"), &unknown)
        .await
        .unwrap_err();
    assert_eq!(err.reason(), "ServerError", "{err}");
}

#[tokio::test]
async fn credentials_open_repositories() {
    let server = GitServer::start().await.unwrap();
    let basic_access = Access::Basic {
        user: "u".into(),
        pass: "canary-pass".into(),
    };
    for (name, access, good) in [
        ("basic.git", basic_access, basic("u", "canary-pass")),
        (
            "bearer.git",
            Access::Bearer {
                token: "tok".into(),
            },
            Some(Credential::Bearer {
                token: "tok".into(),
            }),
        ),
        (
            "header.git",
            Access::Header {
                name: "private-token".into(),
                value: "v".into(),
            },
            Some(Credential::Header {
                name: "PRIVATE-TOKEN".into(),
                value: "v".into(),
            }),
        ),
    ] {
        let commit = server.repo(name).unwrap().commit("main", FILES).unwrap();
        server.set_access(name, access);
        let (fetcher, _dir) = fetcher();
        let url = server.url(name);
        let err = fetch(&fetcher, &url, &commit).await.unwrap_err();
        assert_eq!(err.reason(), "CredentialsRequired", "{err}");
        let err = fetcher
            .fetch(git_tree(&url, &commit, basic("u", "canary-wrong")))
            .await
            .unwrap_err();
        assert_eq!(err.reason(), "CredentialsRefused", "{err}");
        assert!(!format!("{err} {err:?}").contains("canary"));
        fetcher
            .fetch(git_tree(&url, &commit, good.clone()))
            .await
            .unwrap();
        assert_eq!(
            fetcher
                .refs(refs(&url, &["refs/heads/"], good))
                .await
                .unwrap()
                .len(),
            1
        );
    }
}

#[tokio::test]
async fn a_stored_private_tree_is_served_only_to_who_can_read_it() {
    let server = GitServer::start().await.unwrap();
    let commit = server.repo("p.git").unwrap().commit("main", FILES).unwrap();
    server.set_access(
        "p.git",
        Access::Basic {
            user: "u".into(),
            pass: "s".into(),
        },
    );
    let (fetcher, _dir) = fetcher();
    let url = server.url("p.git");
    fetcher
        .fetch(git_tree(&url, &commit, basic("u", "s")))
        .await
        .unwrap();
    // It is in the store now; whoever cannot read the repository gets nothing.
    let err = fetch(&fetcher, &url, &commit).await.unwrap_err();
    assert_eq!(err.reason(), "CredentialsRequired");
    let err = fetcher
        .fetch(git_tree(&url, &commit, basic("u", "wrong")))
        .await
        .unwrap_err();
    assert_eq!(err.reason(), "CredentialsRefused");
    // Another spelling of the address does not help.
    let err = fetch(&fetcher, &format!("{url}#x"), &commit)
        .await
        .unwrap_err();
    assert_eq!(err.reason(), "CredentialsRequired");
    assert_eq!(fetcher.stats().fetches, 1);
}

#[tokio::test]
async fn https_needs_a_trusted_authority() {
    let server = GitServer::start_tls().await.unwrap();
    let commit = server.repo("r.git").unwrap().commit("main", FILES).unwrap();
    server.set_access("r.git", Access::Bearer { token: "t".into() });
    let credential = Some(Credential::Bearer { token: "t".into() });
    let request = git_tree(&server.url("r.git"), &commit, credential);
    let (untrusting, _dir) = fetcher();
    let err = untrusting.fetch(request.clone()).await.unwrap_err();
    assert_eq!(err.reason(), "Unreachable");
    assert!(
        err.to_string().to_lowercase().contains("certificate"),
        "{err}"
    );
    let (trusting, _dir) =
        fetcher_with(|config| config.extra_ca_pem = server.ca_pem().map(ToOwned::to_owned));
    assert_eq!(trusting.fetch(request.clone()).await.unwrap().files, 5);
    let (broken, _dir) = fetcher_with(|config| config.extra_ca_pem = Some("no PEM".into()));
    assert_eq!(
        broken.fetch(request).await.unwrap_err().reason(),
        "CaInvalid"
    );
}

#[tokio::test]
async fn redirects_are_followed_with_care() {
    let server = GitServer::start().await.unwrap();
    let other = GitServer::start().await.unwrap();
    let commit = server.repo("r.git").unwrap().commit("main", FILES).unwrap();
    other.set_behaviour(
        "r.git",
        Behaviour::RedirectTo(server.url("").trim_end_matches('/').to_owned()),
    );
    let (fetcher, _dir) = fetcher();
    let url = other.url("r.git");
    assert_eq!(fetch(&fetcher, &url, &commit).await.unwrap().files, 5);
    // With credentials, another port is another server.
    let before = server.seen("r.git").len();
    let err = fetcher
        .fetch(git_tree(&url, &commit, basic("u", "p")))
        .await
        .unwrap_err();
    assert_eq!(err.reason(), "RedirectRefused", "{err}");
    assert_eq!(server.seen("r.git").len(), before);
    other.set_behaviour(
        "r.git",
        Behaviour::RedirectTo("http://169.254.169.254".into()),
    );
    let err = fetcher
        .refs(refs(&url, &["refs/heads/"], None))
        .await
        .unwrap_err();
    assert_eq!(err.reason(), "AddressDenied", "{err}");
    // And one that leads to the API server, wherever that is.
    let (closed, _dir) = fetcher_with(|config| {
        config.denied = vec![[127, 0, 0, 1].into(), std::net::Ipv6Addr::LOCALHOST.into()];
        config.extra_ca_pem = server.ca_pem().map(ToOwned::to_owned);
    });
    let err = fetch(&closed, &server.url("r.git"), &commit)
        .await
        .unwrap_err();
    assert_eq!(err.reason(), "AddressDenied", "{err}");
    assert!(err.to_string().contains("API server"), "{err}");
}

#[tokio::test]
async fn a_file_address_is_served_only_where_allowed() {
    let dir = tempfile::tempdir().unwrap();
    let repo = windlass_e2e::git_repo::TestRepo::create(&dir.path().join("r")).unwrap();
    let commit = repo.commit("main", FILES).unwrap();
    let (open, _dir) = fetcher();
    assert_eq!(
        fetch(&open, &repo.file_url(), &commit).await.unwrap().files,
        5
    );
    let (closed, _dir) = fetcher_with(|config| config.allow_file_urls = false);
    let err = fetch(&closed, &repo.file_url(), &commit).await.unwrap_err();
    assert_eq!(err.reason(), "SchemeNotAllowed");
    // A name that resolves to this machine is refused where loopback is not allowed.
    let server = GitServer::start_tls().await.unwrap();
    let (closed, _dir) = fetcher_with(|config| {
        config.allow_loopback = false;
        config.extra_ca_pem = server.ca_pem().map(ToOwned::to_owned);
    });
    let err = fetch(&closed, &server.url("r.git"), &commit)
        .await
        .unwrap_err();
    assert_eq!(err.reason(), "AddressDenied", "{err}");
}

#[tokio::test]
async fn what_is_not_supported_can_be_left_out() {
    let server = GitServer::start().await.unwrap();
    let repo = server.repo("r.git").unwrap();
    let pointer = b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n";
    let blob = repo.object("blob", pointer).unwrap();
    let sub = "1".repeat(40);
    let entries: [(&str, &[u8], &str); 2] = [("100644", b"big", &blob), ("160000", b"sub", &sub)];
    let commit = repo
        .commit_tree("main", &repo.raw_tree(&entries).unwrap())
        .unwrap();
    let (fetcher, _dir) =
        fetcher_with(|config| config.unsupported = windlass_fetch::Unsupported::LeaveOut);
    let info = fetch(&fetcher, &server.url("r.git"), &commit)
        .await
        .unwrap();
    let seen = unpacked(&fetcher, &info.digest, None).await;
    assert_eq!(seen, [("big".to_owned(), 0o644, pointer.to_vec())]);
}

#[tokio::test]
async fn servers_are_reached_through_a_proxy() {
    // Asked for another host's address, the server answers as a proxy to it would.
    let server = GitServer::start().await.unwrap();
    let commit = server.repo("r.git").unwrap().commit("main", FILES).unwrap();
    let proxy = |url: String, except: Option<&str>| {
        let except = except.map(ToOwned::to_owned);
        fetcher_with(|config| config.proxy = Some(windlass_fetch::Proxy { url, except }))
    };
    let url = "http://git.windlass.invalid/r.git";
    let (through, _dir) = proxy(server.url(""), None);
    assert_eq!(fetch(&through, url, &commit).await.unwrap().files, 5);
    let (around, _dir) = proxy(server.url(""), Some("windlass.invalid"));
    assert_eq!(
        fetch(&around, url, &commit).await.unwrap_err().reason(),
        "Unreachable"
    );
    let (broken, _dir) = proxy("http://u:canary@:x".into(), None);
    let err = fetch(&broken, url, &commit).await.unwrap_err();
    assert_eq!(err.reason(), "ProxyInvalid");
}
