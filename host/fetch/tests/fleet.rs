//! Many Stacks on one repository: counted at the server.
#![allow(clippy::unwrap_used)]

mod common;

use std::time::Duration;

use common::{basic, fetcher, fetcher_with, git_tree};
use windlass_e2e::git_server::{Access, Behaviour, GitServer};
use windlass_fetch::{PollRequest, Poller, Subscription};

fn watch(url: &str, prefix: &str, interval: Duration) -> PollRequest {
    PollRequest {
        url: url.to_owned(),
        prefixes: vec![prefix.to_owned()],
        credential: None,
        interval,
    }
}

async fn news(subscription: &mut Subscription) -> windlass_fetch::PollState {
    tokio::time::timeout(Duration::from_secs(30), subscription.changed())
        .await
        .expect("no news in time")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_hundred_requests_for_a_commit_are_one_fetch() {
    let server = GitServer::start().await.unwrap();
    let repo = server.repo("r.git").unwrap();
    let commit = repo.commit("main", &[("a", "100644", b"1")]).unwrap();
    server.set_access(
        "r.git",
        Access::Basic {
            user: "u".into(),
            pass: "p".into(),
        },
    );
    let (fetcher, _dir) = fetcher();
    let asked: Vec<_> = (0..200)
        .map(|_| {
            let (fetcher, request) = (
                fetcher.clone(),
                git_tree(&server.url("r.git"), &commit, basic("u", "p")),
            );
            tokio::spawn(async move { fetcher.fetch(request).await.unwrap().digest })
        })
        .collect();
    let mut digests = Vec::new();
    for one in asked {
        digests.push(one.await.unwrap());
    }
    digests.dedup();
    assert_eq!(digests.len(), 1);
    assert_eq!(server.conversations("r.git"), 1);
    assert_eq!(fetcher.stats().fetches, 1);
}

#[tokio::test]
async fn a_fetch_goes_on_when_its_first_asker_leaves() {
    let server = GitServer::start().await.unwrap();
    let commit = server
        .repo("r.git")
        .unwrap()
        .commit("main", &[("a", "100644", b"1")])
        .unwrap();
    let (fetcher, _dir) = fetcher();
    let url = server.url("r.git");
    let first = fetcher.fetch(git_tree(&url, &commit, None));
    assert!(futures::FutureExt::now_or_never(first).is_none());
    fetcher.fetch(git_tree(&url, &commit, None)).await.unwrap();
    assert_eq!(server.conversations("r.git"), 1);
}

#[tokio::test]
async fn two_hundred_subscribers_are_one_poll() {
    let server = GitServer::start().await.unwrap();
    let repo = server.repo("r.git").unwrap();
    repo.commit("main", &[("a", "100644", b"1")]).unwrap();
    let (fetcher, _dir) = fetcher();
    let poller = Poller::new(fetcher.clone());
    let url = server.url("r.git");
    let hour = Duration::from_secs(3600);
    let mut all: Vec<_> = (0..200)
        .map(|_| {
            poller
                .subscribe(watch(&url, "refs/heads/main", hour))
                .unwrap()
        })
        .collect();
    for one in &mut all {
        assert_eq!(news(one).await.refs.unwrap().unwrap().len(), 1);
    }
    assert_eq!(server.conversations("r.git"), 1);
    // A webhook: one more look, and all hear of the new commit.
    let second = repo.commit("main", &[("a", "100644", b"2")]).unwrap();
    poller.poll_now(&url);
    for one in &mut all {
        assert_eq!(news(one).await.refs.unwrap().unwrap()[0].commit(), second);
    }
    assert_eq!(server.conversations("r.git"), 2);
    // A late one hears at once what is known; another branch needs another look.
    let mut late = poller
        .subscribe(watch(&url, "refs/heads/main", hour))
        .unwrap();
    assert_eq!(news(&mut late).await.polls, 2);
    repo.git(&["branch", "next", "main"], b"").unwrap();
    let mut other = poller
        .subscribe(watch(&url, "refs/heads/next", hour))
        .unwrap();
    while news(&mut other).await.refs.unwrap().unwrap().len() < 2 {}
    assert_eq!(server.conversations("r.git"), 3);
}

#[tokio::test]
async fn the_smallest_interval_counts_and_nobody_listening_means_no_polls() {
    let server = GitServer::start().await.unwrap();
    let repo = server.repo("r.git").unwrap();
    repo.commit("main", &[("a", "100644", b"1")]).unwrap();
    let (fetcher, _dir) = fetcher();
    let poller = Poller::new(fetcher);
    let url = server.url("r.git");
    let mut slow = poller
        .subscribe(watch(&url, "refs/heads/", Duration::from_secs(3600)))
        .unwrap();
    let fast = poller
        .subscribe(watch(&url, "refs/heads/", Duration::from_secs(1)))
        .unwrap();
    news(&mut slow).await;
    let second = repo.commit("main", &[("a", "100644", b"2")]).unwrap();
    assert_eq!(
        news(&mut slow).await.refs.unwrap().unwrap()[0].commit(),
        second
    );
    drop((slow, fast));
    // A new subscriber starts anew: the old watch is over.
    let again = poller
        .subscribe(watch(&url, "refs/heads/", Duration::from_secs(3600)))
        .unwrap();
    assert!(again.current().refs.is_none());
}

#[tokio::test]
async fn failures_are_told_and_recovered_from() {
    let server = GitServer::start().await.unwrap();
    server
        .repo("r.git")
        .unwrap()
        .commit("main", &[("a", "100644", b"1")])
        .unwrap();
    server.set_behaviour("r.git", Behaviour::Fail(503));
    let (fetcher, _dir) = fetcher_with(|config| config.parallel = 1);
    let poller = Poller::new(fetcher);
    let second = Duration::from_secs(1);
    let mut one = poller
        .subscribe(watch(&server.url("r.git"), "refs/heads/", second))
        .unwrap();
    assert_eq!(
        news(&mut one).await.refs.unwrap().unwrap_err().reason(),
        "ServerError"
    );
    server.set_behaviour("r.git", Behaviour::Serve);
    assert!(news(&mut one).await.refs.unwrap().is_ok());
}

#[tokio::test]
async fn whoever_asks_again_hears_the_same_failure_again_and_then_that_it_is_over() {
    let server = GitServer::start().await.unwrap();
    let repo = server.repo("r.git").unwrap();
    repo.commit("main", &[("a", "100644", b"1")]).unwrap();
    let closed = Access::Basic {
        user: "u".into(),
        pass: "p".into(),
    };
    server.set_access("r.git", closed);
    let (fetcher, _dir) = fetcher();
    let poller = Poller::new(fetcher);
    let hour = Duration::from_secs(3600);
    let mut subscription = poller
        .subscribe(watch(&server.url("r.git"), "refs/heads/", hour))
        .unwrap();
    assert!(news(&mut subscription).await.refs.unwrap().is_err());
    let again = tokio::time::timeout(Duration::from_secs(30), subscription.look_again());
    let state = again
        .await
        .expect("the same failure is no news, but an answer");
    assert!(state.refs.unwrap().is_err());
    assert_eq!(state.polls, 2);
    server.set_access("r.git", Access::Public);
    let state = subscription.look_again().await;
    assert!(state.refs.unwrap().is_ok());

    // From now on it is looked at often.
    let polls = state.polls;
    subscription.pace().set(Duration::from_secs(1));
    repo.commit("main", &[("a", "100644", b"2")]).unwrap();
    assert!(news(&mut subscription).await.polls > polls);
}
