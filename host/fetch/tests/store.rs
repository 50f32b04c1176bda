//! The store: collection, leases, crashes, several users.
#![allow(clippy::unwrap_used)]

mod common;

use std::collections::{BTreeMap, HashSet};
use std::io::Read as _;
use std::time::Duration;

use common::{config, fetcher};
use sha2::{Digest as _, Sha256};
use windlass_fetch::{Artifact, FetchError, Fetcher, TreeInfo, TreeRequest};

async fn store(fetcher: &Fetcher, files: &[(&str, &str)]) -> Result<TreeInfo, FetchError> {
    let files: BTreeMap<_, _> = files
        .iter()
        .map(|(path, text)| ((*path).to_owned(), text.as_bytes().to_vec()))
        .collect();
    fetcher
        .fetch(TreeRequest {
            artifact: Artifact::Files(files),
            credential: None,
        })
        .await
}

fn nothing() -> HashSet<String> {
    HashSet::new()
}

#[tokio::test]
async fn the_digest_is_the_hash_of_the_stream() {
    let (fetcher, _dir) = fetcher();
    let info = store(&fetcher, &[("a", "1"), ("b/c", "22"), ("b/d/e", "333")])
        .await
        .unwrap();
    for (dir, expected) in [
        (None, info.digest.clone()),
        (
            Some("b"),
            fetcher.subtree_digest(&info.digest, "b").await.unwrap(),
        ),
    ] {
        let mut bytes = Vec::new();
        fetcher
            .open(&info.digest, dir)
            .await
            .unwrap()
            .read_to_end(&mut bytes)
            .unwrap();
        assert_eq!(
            format!("sha256:{}", hex::encode(Sha256::digest(&bytes))),
            expected
        );
    }
}

#[tokio::test]
async fn what_is_kept_leased_or_young_survives_collection() {
    let (fetcher, dir) = fetcher();
    let kept = store(&fetcher, &[("a", "kept")]).await.unwrap().digest;
    let leased = store(&fetcher, &[("a", "leased")]).await.unwrap();
    let doomed = store(&fetcher, &[("a", "doomed")]).await.unwrap().digest;
    let keep = HashSet::from([kept.clone()]);
    let young = fetcher
        .gc(keep.clone(), Duration::from_secs(3600))
        .await
        .unwrap();
    assert_eq!((young.kept, young.removed), (3, 0));
    // Another user of the same store respects the lease too.
    let second = Fetcher::new(config(dir.path())).unwrap();
    let report = second.gc(keep, Duration::ZERO).await.unwrap();
    assert_eq!((report.kept, report.removed, report.freed), (2, 1, 6));
    assert!(second.stored(&leased.digest).await.unwrap().is_some());
    assert!(second.stored(&doomed).await.unwrap().is_none());
    assert_eq!(
        second.open(&doomed, None).await.err().unwrap().reason(),
        "TreeNotStored"
    );
    // A reader holds its tree as well.
    let digest = leased.digest.clone();
    drop(leased);
    let mut reader = fetcher.open(&digest, None).await.unwrap();
    assert_eq!(
        second.gc(nothing(), Duration::ZERO).await.unwrap().removed,
        1
    );
    reader.read_to_end(&mut Vec::new()).unwrap();
    drop(reader);
    assert_eq!(
        second.gc(nothing(), Duration::ZERO).await.unwrap().removed,
        1
    );
    // Collected is not lost: it is stored again when asked for.
    assert_eq!(
        store(&fetcher, &[("a", "doomed")]).await.unwrap().digest,
        doomed
    );
}

#[tokio::test]
async fn a_crash_in_the_middle_leaves_no_half_tree() {
    let (fetcher, dir) = fetcher();
    // As a process leaves it that was killed while writing.
    let half = dir.path().join("tmp/tree-half");
    std::fs::create_dir(&half).unwrap();
    std::fs::write(half.join("content"), b"half").unwrap();
    std::fs::write(half.join("lock"), b"").unwrap();
    let old = std::time::SystemTime::now() - Duration::from_secs(7200);
    let handle = std::fs::File::open(&half).unwrap();
    handle.set_modified(old).unwrap();
    std::fs::File::options()
        .write(true)
        .open(half.join("lock"))
        .unwrap()
        .set_modified(old)
        .unwrap();
    let report = fetcher.gc(nothing(), Duration::ZERO).await.unwrap();
    assert_eq!((report.kept, report.removed), (0, 0));
    assert!(!half.exists());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn users_of_one_store_do_not_disturb_each_other() {
    let (first, dir) = fetcher();
    let second = Fetcher::new(config(dir.path())).unwrap();
    let tasks: Vec<_> = (0..40)
        .map(|i| {
            let fetcher = if i % 2 == 0 {
                first.clone()
            } else {
                second.clone()
            };
            tokio::spawn(async move {
                let text = (i / 4).to_string();
                let info = store(&fetcher, &[("a", &text)]).await.unwrap();
                fetcher.gc(nothing(), Duration::ZERO).await.unwrap();
                let mut bytes = Vec::new();
                // Held by the lease in `info`, whatever others collect.
                fetcher
                    .open(&info.digest, None)
                    .await
                    .unwrap()
                    .read_to_end(&mut bytes)
                    .unwrap();
                assert_eq!(
                    format!("sha256:{}", hex::encode(Sha256::digest(&bytes))),
                    info.digest
                );
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
}

#[tokio::test]
async fn files_with_bad_names_are_refused() {
    let (fetcher, _dir) = fetcher();
    for bad in ["/etc/passwd", "../x", "a/.git/config"] {
        assert_eq!(
            store(&fetcher, &[(bad, "x")]).await.unwrap_err().reason(),
            "NameForbidden"
        );
    }
    let err = store(&fetcher, &[("a", "1"), ("a/b", "2")])
        .await
        .unwrap_err();
    assert_eq!(err.reason(), "NameForbidden");
}
