//! Repositories over ssh, from a real `sshd`.
#![allow(clippy::unwrap_used)]

mod common;

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use common::{fetcher_with, git_tree, unpacked};
use windlass_e2e::git_repo::TestFile;
use windlass_e2e::ssh_server::{SshServer, make_key};
use windlass_e2e::world::skip;
use windlass_fetch::{Credential, FetchConfig, Fetcher, Probe, RefsRequest, SshConfig};

const FILES: &[TestFile<'static>] = &[
    ("Pulumi.yaml", "100644", b"name: app\nruntime: yaml\n"),
    ("lib/x", "100755", b"x"),
];

/// The server, or the reason why there is none.
fn server() -> Option<SshServer> {
    match SshServer::start() {
        Ok(server) => Some(server),
        Err(reason) => {
            skip(&reason);
            None
        }
    }
}

fn key(private_key: &str) -> Credential {
    Credential::SshKey {
        private_key: private_key.to_owned(),
        passphrase: None,
        known_hosts: None,
    }
}

/// Knows the hosts of these lines and no others.
fn knowing(lines: &str) -> (Fetcher, tempfile::TempDir) {
    let lines = lines.to_owned();
    fetcher_with(move |config: &mut FetchConfig| {
        let file = config.store_dir.join("known_hosts");
        std::fs::write(&file, &lines).unwrap();
        config.ssh = SshConfig {
            known_hosts: vec![file],
            ..SshConfig::default()
        };
    })
}

fn heads(url: &str, credential: Option<Credential>) -> RefsRequest {
    RefsRequest {
        url: url.to_owned(),
        prefixes: vec!["refs/heads/".to_owned()],
        credential,
    }
}

async fn refusal(fetcher: &Fetcher, url: &str, credential: Option<Credential>) -> String {
    let err = fetcher.refs(heads(url, credential)).await.unwrap_err();
    err.reason()
}

#[tokio::test]
async fn refs_and_trees() {
    let Some(server) = server() else { return };
    let repo = server.repo("it's a r.git").unwrap();
    let first = repo.commit("main", FILES).unwrap();
    let second = repo.commit("main", &FILES[..1]).unwrap();
    let url = server.url("it's a r.git");
    let (fetcher, store) = knowing(&server.known_hosts().unwrap());
    let credential = key(&server.authorize("ed25519", "", &[]).unwrap());

    let refs = fetcher.refs(heads(&url, Some(credential.clone()))).await;
    let refs = refs.unwrap_or_else(|err| panic!("{err}\n{}", server.log()));
    let listed: Vec<_> = refs
        .iter()
        .map(|one| (one.name.as_str(), one.oid.as_str()))
        .collect();
    assert_eq!(listed, [("refs/heads/main", second.as_str())]);

    // A commit that no branch points to is fetched too.
    for (commit, count) in [(&second, 1), (&first, 2)] {
        let request = git_tree(&url, commit, Some(credential.clone()));
        let info = fetcher.fetch(request).await.unwrap();
        assert_eq!(unpacked(&fetcher, &info.digest, None).await.len(), count);
    }
    // What is stored is not fetched again.
    let before = server.connections();
    fetcher
        .fetch(git_tree(&url, &first, Some(credential)))
        .await
        .unwrap();
    assert_eq!((before, server.connections()), (3, 3));

    // Another key that may not read gets nothing, though all of it is stored.
    let (other, _) = make_key("ed25519", "", &[]).unwrap();
    let err = fetcher
        .fetch(git_tree(&url, &first, Some(key(&other))))
        .await
        .unwrap_err();
    assert_eq!(err.reason(), "CredentialsRefused");
    assert_eq!(
        files_with(store.path(), "PRIVATE KEY"),
        Vec::<PathBuf>::new()
    );
}

#[tokio::test]
async fn a_server_that_hears_of_no_protocol() {
    let server = match SshServer::start_deaf() {
        Ok(server) => server,
        Err(reason) => return skip(&reason),
    };
    let repo = server.repo("r.git").unwrap();
    let first = repo.commit("main", FILES).unwrap();
    let second = repo.commit("main", &FILES[..1]).unwrap();
    let url = server.url("r.git");
    let (fetcher, _store) = knowing(&server.known_hosts().unwrap());
    let credential = key(&server.authorize("ed25519", "", &[]).unwrap());
    let refs = fetcher
        .refs(heads(&url, Some(credential.clone())))
        .await
        .unwrap();
    assert_eq!(refs[0].oid, second);
    for (commit, count) in [(&second, 1), (&first, 2)] {
        let request = git_tree(&url, commit, Some(credential.clone()));
        let info = fetcher.fetch(request).await.unwrap();
        assert_eq!(unpacked(&fetcher, &info.digest, None).await.len(), count);
    }
    let unknown = git_tree(&url, &"1".repeat(40), Some(credential));
    assert_eq!(
        fetcher.fetch(unknown).await.unwrap_err().reason(),
        "CommitNotFound"
    );
}

/// Files below a directory that contain a text.
fn files_with(dir: &Path, needle: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(dir).unwrap().flatten() {
        let path = entry.path();
        if entry.file_type().unwrap().is_dir() {
            found.extend(files_with(&path, needle));
        } else if String::from_utf8_lossy(&std::fs::read(&path).unwrap_or_default())
            .contains(needle)
        {
            found.push(path);
        }
    }
    found
}

#[tokio::test]
async fn keys_of_many_kinds() {
    let Some(server) = server() else { return };
    server.repo("r.git").unwrap().commit("main", FILES).unwrap();
    let (url, known) = (server.url("r.git"), server.known_hosts().unwrap());
    let (fetcher, _store) = knowing(&known);
    for (kind, passphrase, more) in [
        ("ecdsa", "", &[][..]),
        ("rsa", "", &["-b", "2048", "-m", "PEM"]),
        ("rsa", "", &["-b", "2048", "-m", "PKCS8"]),
        ("ed25519", "open sesame", &["-a", "4"]),
        ("rsa", "open sesame", &["-b", "2048", "-a", "4"]),
    ] {
        let private_key = server.authorize(kind, passphrase, more).unwrap();
        let with = |passphrase: Option<&str>| Credential::SshKey {
            // As it arrives when it was pasted: without its last line break.
            private_key: private_key.trim_end().to_owned(),
            passphrase: passphrase.map(ToOwned::to_owned),
            known_hosts: None,
        };
        let right = Some(passphrase).filter(|it| !it.is_empty());
        let refs = fetcher.refs(heads(&url, Some(with(right)))).await;
        assert!(refs.is_ok(), "{kind} {more:?}: {refs:?}\n{}", server.log());
        if right.is_some() {
            for wrong in [None, Some("hunter2")] {
                let err = fetcher
                    .refs(heads(&url, Some(with(wrong))))
                    .await
                    .unwrap_err();
                assert_eq!(err.reason(), "CredentialInvalid", "{err}");
                assert!(!err.to_string().contains("hunter2"));
            }
        }
    }
    // The old encryption is refused with a sentence, and so is what is no key.
    let old = server
        .authorize("rsa", "open sesame", &["-b", "2048", "-m", "PEM"])
        .unwrap();
    for (text, words) in [
        (old.as_str(), "ssh-keygen -p"),
        ("canary", "no private key"),
    ] {
        let err = fetcher
            .refs(heads(&url, Some(key(text))))
            .await
            .unwrap_err();
        assert_eq!(err.reason(), "CredentialInvalid");
        assert!(err.to_string().contains(words), "{err}");
        assert!(!err.to_string().contains("canary"), "{err}");
    }
}

#[tokio::test]
async fn only_known_hosts_are_believed() {
    let Some(server) = server() else { return };
    server.repo("r.git").unwrap().commit("main", FILES).unwrap();
    let (url, known) = (server.url("r.git"), server.known_hosts().unwrap());
    let private_key = server.authorize("ed25519", "", &[]).unwrap();
    let with = |known_hosts: Option<&str>| Credential::SshKey {
        private_key: private_key.clone(),
        passphrase: None,
        known_hosts: known_hosts.map(ToOwned::to_owned),
    };
    let (nobody, _store) = knowing("");
    assert_eq!(
        refusal(&nobody, &url, Some(with(None))).await,
        "HostKeyUnknown"
    );
    let (_, public) = make_key("ed25519", "", &[]).unwrap();
    let (host, _) = known.split_once(' ').unwrap();
    let changed = format!("{host} {public}");
    let (deceived, _store) = knowing(&changed);
    assert_eq!(
        refusal(&deceived, &url, Some(with(None))).await,
        "HostKeyChanged"
    );
    // The Stack's own line holds beside the administrator's, unless that one revokes it.
    nobody
        .refs(heads(&url, Some(with(Some(&known)))))
        .await
        .unwrap();
    let (revoking, _store) = knowing(&format!("@revoked {known}"));
    let reason = refusal(&revoking, &url, Some(with(Some(&known)))).await;
    assert_eq!(reason, "HostKeyChanged");
}

#[tokio::test]
async fn failures_by_their_names() {
    let Some(server) = server() else { return };
    let repo = server.repo("r.git").unwrap();
    repo.commit("main", FILES).unwrap();
    let (fetcher, _store) = knowing(&server.known_hosts().unwrap());
    let credential = || Some(key(&server.authorize("ed25519", "", &[]).unwrap()));
    let url = server.url("r.git");
    assert_eq!(
        refusal(&fetcher, &server.url("none.git"), credential()).await,
        "RepositoryNotFound"
    );
    let err = fetcher
        .fetch(git_tree(&url, &"1".repeat(40), credential()))
        .await
        .unwrap_err();
    assert_eq!(err.reason(), "CommitNotFound", "{err}");
    assert_eq!(refusal(&fetcher, &url, None).await, "CredentialsRequired");
    assert_eq!(
        refusal(&fetcher, &url, common::basic("git", "hunter2")).await,
        "CredentialInvalid"
    );
    assert_eq!(
        refusal(&fetcher, "https://git.invalid/a", credential()).await,
        "CredentialInvalid"
    );
    let free = TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    let nobody = format!("ssh://git@{free}/a");
    assert_eq!(
        refusal(&fetcher, &nobody, credential()).await,
        "Unreachable"
    );

    let (closed, _store) = fetcher_with(|config| config.allow_loopback = false);
    assert_eq!(refusal(&closed, &url, credential()).await, "AddressDenied");
    let by_name = url.replace("127.0.0.1", "localhost");
    assert_eq!(
        refusal(&closed, &by_name, credential()).await,
        "AddressDenied"
    );
    let (without, _store) = fetcher_with(|config| config.ssh.program = "/nowhere/ssh".into());
    let err = without.refs(heads(&url, credential())).await.unwrap_err();
    assert!(err.to_string().contains("OpenSSH's client"), "{err}");
}

#[tokio::test]
async fn a_server_that_says_nothing_ends_with_everything_it_was_asked_by() {
    let Some(server) = server() else { return };
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("ssh://git@{}/a", silent.local_addr().unwrap());
    let (fetcher, store) = fetcher_with(|config| config.limits.wall = Duration::from_secs(5));
    let private_key = server
        .authorize("ed25519", "canary-phrase", &["-a", "4"])
        .unwrap();
    let credential = Credential::SshKey {
        private_key,
        passphrase: Some("canary-phrase".to_owned()),
        known_hosts: Some("canary-host ssh-ed25519 AAAA".to_owned()),
    };
    let asked = tokio::spawn(async move { fetcher.refs(heads(&url, Some(credential))).await });
    // While it hangs: nothing secret stands in any process's arguments or environment.
    let marker = store.path().display().to_string();
    let deadline = Instant::now() + Duration::from_secs(20);
    let seen = loop {
        let running = processes(&marker);
        if running.iter().any(|text| text.contains("HostKeyAlias")) || asked.is_finished() {
            break running;
        }
        assert!(Instant::now() < deadline, "ssh was never started");
        tokio::time::sleep(Duration::from_millis(5)).await;
    };
    assert!(
        seen.iter().any(|text| text.contains("HostKeyAlias")),
        "{seen:?}"
    );
    for text in &seen {
        assert!(
            !text.contains("canary") && !text.contains("PRIVATE KEY"),
            "{text}"
        );
    }
    let err = asked.await.unwrap().unwrap_err();
    assert_eq!(err.reason(), "TimedOut");
    let deadline = Instant::now() + Duration::from_secs(20);
    while !processes(&marker).is_empty() {
        assert!(Instant::now() < deadline, "{:?}", processes(&marker));
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert_eq!(files_with(store.path(), "canary"), Vec::<PathBuf>::new());
}

/// Arguments and environments of processes that run in a directory below the marker.
fn processes(marker: &str) -> Vec<String> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir("/proc").unwrap().flatten() {
        let at = |name: &str| entry.path().join(name);
        let inside = std::fs::read_link(at("cwd"))
            .is_ok_and(|cwd| cwd.to_string_lossy().starts_with(marker));
        if inside {
            let text = |name: &str| {
                String::from_utf8_lossy(&std::fs::read(at(name)).unwrap_or_default())
                    .replace('\0', " ")
            };
            found.push(format!("{} | {}", text("cmdline"), text("environ")));
        }
    }
    found
}

#[tokio::test]
async fn the_sandbox_lets_ssh_through_and_nothing_else() {
    let Some(_server) = server() else { return };
    let (fetcher, store) = fetcher_with(|_| {});
    let ssh = SshConfig::default().program;
    let outside = tempfile::tempdir().unwrap();
    let probe = Probe {
        ssh: true,
        read: vec![
            "/etc/shadow".into(),
            "/etc/ssh".into(),
            store.path().join("index"),
        ],
        write: vec![outside.path().join("new")],
        execute: vec![
            "/bin/true".into(),
            "/bin/sh".into(),
            "/usr/bin/git".into(),
            ssh.clone(),
        ],
        ..Probe::default()
    };
    let mut found = fetcher.probe(probe).await.unwrap();
    assert_eq!(found.remove("environment").unwrap(), "");
    let ran = found.remove(&format!("execute {}", ssh.display())).unwrap();
    assert!(ran.starts_with("ok "), "{ran}");
    if let Some(gap) = fetcher.sandbox_gap() {
        skip(gap);
        return;
    }
    assert_eq!(found.len(), 7);
    for (what, outcome) in found {
        assert!(outcome.contains("Permission denied"), "{what}: {outcome}");
    }
}
