//! What the tests of fetching share.
#![allow(clippy::unwrap_used, dead_code)]

use std::io::Read as _;
use std::path::Path;
use std::time::Duration;

use windlass_fetch::{
    Artifact, Credential, FetchConfig, FetchError, Fetcher, Limits, TreeInfo, TreeRequest,
    WorkerCommand,
};

pub fn config(store: &Path) -> FetchConfig {
    let program = env!("CARGO_BIN_EXE_windlass-fetch-worker").into();
    let worker = WorkerCommand {
        program,
        args: Vec::new(),
    };
    FetchConfig {
        allow_file_urls: true,
        allow_loopback: true,
        ..FetchConfig::new(store, worker)
    }
}

/// A fetcher with a store of its own, which lives as long as the second value.
pub fn fetcher() -> (Fetcher, tempfile::TempDir) {
    fetcher_with(|_| {})
}

pub fn fetcher_with(change: impl FnOnce(&mut FetchConfig)) -> (Fetcher, tempfile::TempDir) {
    let dir = tempfile::tempdir().unwrap();
    let mut config = config(dir.path());
    change(&mut config);
    (Fetcher::new(config).unwrap(), dir)
}

pub fn git_tree(url: &str, commit: &str, credential: Option<Credential>) -> TreeRequest {
    TreeRequest {
        artifact: Artifact::GitTree {
            url: url.to_owned(),
            commit: commit.to_owned(),
        },
        credential,
    }
}

pub async fn fetch(fetcher: &Fetcher, url: &str, commit: &str) -> Result<TreeInfo, FetchError> {
    fetcher.fetch(git_tree(url, commit, None)).await
}

pub fn basic(user: &str, pass: &str) -> Option<Credential> {
    Some(Credential::Basic {
        user: user.to_owned(),
        pass: pass.to_owned(),
    })
}

/// Path, mode and content of each entry of a stored tree, as a tar reader sees them.
pub async fn unpacked(
    fetcher: &Fetcher,
    digest: &str,
    dir: Option<&str>,
) -> Vec<(String, u32, Vec<u8>)> {
    let reader = fetcher.open(digest, dir).await.unwrap();
    let mut archive = tar::Archive::new(reader);
    let entries = archive.entries().unwrap();
    entries
        .map(|entry| {
            let mut entry = entry.unwrap();
            let path = entry.path().unwrap().to_str().unwrap().to_owned();
            let mode = entry.header().mode().unwrap();
            let mut content = Vec::new();
            match entry.link_name_bytes() {
                Some(target) => content = target.into_owned(),
                None => drop(entry.read_to_end(&mut content).unwrap()),
            }
            (path, mode, content)
        })
        .collect()
}

/// The error of hostile input: of this reason, within the time and memory allowed.
pub async fn refused(fetcher: &Fetcher, request: TreeRequest, reason: &str) {
    let limits = Limits::default();
    let asked =
        tokio::time::timeout(limits.wall + Duration::from_secs(2), fetcher.fetch(request)).await;
    let err = asked
        .expect("no answer in time")
        .expect_err("hostile input was accepted");
    assert_eq!(err.reason(), reason, "{err}");
    let peak = fetcher.stats().peak_child_rss;
    println!("{reason}: child's peak {} MiB", peak >> 20);
    assert!(peak > 0 && peak < limits.memory, "{peak} bytes of memory");
}
