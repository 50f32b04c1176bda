//! Many Stacks on one repository, on a real Git server that counts.
#![allow(clippy::unwrap_used)]

use std::time::Duration;

use windlass_e2e::git_server::{Access, GitServer};
use windlass_e2e::world::{World, eventually, files_with};

const PROGRAM: &[u8] = b"name: fleet\nruntime: yaml\noutputs: {one: 1}\n";

#[tokio::test(flavor = "multi_thread")]
async fn two_hundred_stacks_poll_once_and_fetch_once() {
    let Some(world) = World::new() else { return };
    let server = GitServer::start().await.unwrap();
    let repo = server.repo("fleet").unwrap();
    repo.commit("main", &[("Pulumi.yaml", "100644", PROGRAM)])
        .unwrap();
    let spec = format!("projectRepo: {}\nbranch: main\n", server.url("fleet"));
    // Eight run for real; the others wait for a Stack that does not exist, and still follow the branch.
    for index in 0..200 {
        let wait = if index < 8 {
            ""
        } else {
            "prerequisites: [{name: absent}]\n"
        };
        world.stack(
            &format!("s{index}"),
            &format!("organization/fleet/s{index}"),
            &format!("{spec}{wait}"),
        );
    }
    let (ended, world) = tokio::task::spawn_blocking(move || (world.once(), world))
        .await
        .unwrap();
    assert_eq!(ended.code, Some(1), "{}", ended.stderr);
    let rows = ended.json()["stacks"].as_array().unwrap().clone();
    assert_eq!(rows.len(), 200);
    assert_eq!(
        rows.iter().filter(|row| row["ready"] == true).count(),
        8,
        "{}",
        ended.stderr
    );
    assert_eq!(
        rows.iter().filter(|row| row["state"] == "Waiting").count(),
        192
    );
    // One conversation lists the refs, one fetches the commit.
    assert_eq!(
        server.conversations("fleet"),
        2,
        "{:?}",
        server.seen("fleet")
    );
    drop(world);
}

#[tokio::test(flavor = "multi_thread")]
async fn without_credentials_a_private_commit_gives_nothing() {
    let Some(world) = World::new() else { return };
    let server = GitServer::start().await.unwrap();
    let repo = server.repo("private").unwrap();
    let commit = repo
        .commit("main", &[("Pulumi.yaml", "100644", PROGRAM)])
        .unwrap();
    server.set_access(
        "private",
        Access::Basic {
            user: "git".into(),
            pass: "open-sesame".into(),
        },
    );
    world.write(
        "secret.yaml",
        "apiVersion: v1\nkind: Secret\nmetadata: {name: git}\nstringData: {username: git, password: open-sesame}\n",
    );
    let url = server.url("private");
    let with = format!("projectRepo: {url}\ncommit: {commit}\ngitAuthSecret: git\n");
    let without = format!("projectRepo: {url}\ncommit: {commit}\n");
    world.stack("owner", "organization/fleet/owner", &with);
    let (first, world) = tokio::task::spawn_blocking(move || (world.once(), world))
        .await
        .unwrap();
    assert_eq!(first.row("owner")["state"], "Ready", "{}", first.stderr);
    // The password is in the Secret's manifest and in the store, as it would be in etcd, and nowhere else.
    let found = files_with(
        world.path(),
        "open-sesame",
        &["/data/store.db", "/manifests/"],
    );
    assert!(found.is_empty(), "{found:?}");
    assert!(!first.stdout.contains("open-sesame") && !first.stderr.contains("open-sesame"));
    // The commit is stored by now; whoever cannot read the repository still gets nothing.
    world.stack("thief", "organization/fleet/thief", &without);
    let running = world.start(&[]);
    let row = eventually(Duration::from_secs(60), "the thief refused", || {
        let ended = world.windlass(&["status", "thief", "--output", "json"]);
        let document: serde_json::Value = serde_json::from_str(&ended.stdout).ok()?;
        let row = document["stacks"][0].clone();
        (row["reason"] == "SourceUnavailable").then_some(row)
    });
    assert!(
        row["message"].as_str().unwrap().contains("credentials"),
        "{row}"
    );
    assert!(world.resources("fleet", "thief").is_empty());
    drop(running);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_push_runs_only_what_it_concerns() {
    let Some(world) = World::new() else { return };
    let server = GitServer::start().await.unwrap();
    let repo = server.repo("fleet").unwrap();
    let other = repo
        .commit("other", &[("Pulumi.yaml", "100644", PROGRAM)])
        .unwrap();
    repo.commit("main", &[("Pulumi.yaml", "100644", PROGRAM)])
        .unwrap();
    for (name, branch) in [("a", "main"), ("b", "other")] {
        let spec = format!("projectRepo: {}\nbranch: {branch}\n", server.url("fleet"));
        world.stack(name, &format!("organization/fleet/{name}"), &spec);
    }
    let (first, world) = tokio::task::spawn_blocking(move || (world.once(), world))
        .await
        .unwrap();
    assert_eq!(
        (first.code, first.json()["runs"].as_u64()),
        (Some(0), Some(2)),
        "{}",
        first.stderr
    );
    let pushed = repo
        .commit(
            "main",
            &[("Pulumi.yaml", "100644", PROGRAM), ("new", "100644", b"x")],
        )
        .unwrap();
    let (second, world) = tokio::task::spawn_blocking(move || (world.once(), world))
        .await
        .unwrap();
    assert_eq!(
        (second.code, second.json()["runs"].as_u64()),
        (Some(0), Some(1)),
        "{}",
        second.stderr
    );
    assert_eq!(second.row("a")["revision"], pushed.as_str());
    assert_eq!(second.row("b")["revision"], other.as_str());
    drop(world);
}
