//! Many Stacks on one repository, on a real Git server that counts.
#![allow(clippy::unwrap_used)]

use std::time::Duration;

use windlass_e2e::canaries::files_with;
use windlass_e2e::git_server::{Access, GitServer};
use windlass_e2e::world::{World, eventually};

const PROGRAM: &[u8] = b"name: fleet\nruntime: yaml\noutputs: {one: 1}\n";

/// As many as the poller, the fetcher and the store must bear, and every one of them a real run.
const FLEET: usize = 200;
/// Those whose directory the second commit changes.
const CONCERNED: std::ops::Range<usize> = 195..200;

/// The empty Pulumi stacks of the fleet: made once, by the real CLI, and copied. Making each of them takes as long as
/// running it, and none of it is what is tested here.
fn make_stacks(world: &World) {
    let init = ["stack", "init", "organization/fleet/seed", "--no-select"];
    world.pulumi(PROGRAM, &init);
    let dir = world.path().join("state/.pulumi/stacks/fleet");
    let seed = std::fs::read_to_string(dir.join("seed.json")).unwrap();
    assert!(seed.contains("organization/fleet/seed"), "{seed}");
    for index in 0..FLEET {
        let made = seed.replace(
            "organization/fleet/seed",
            &format!("organization/fleet/s{index}"),
        );
        std::fs::write(dir.join(format!("s{index}.json")), made).unwrap();
    }
    std::fs::remove_file(dir.join("seed.json")).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn two_hundred_stacks_run_on_one_listing_and_one_fetch_for_each_commit() {
    let Some(world) = World::new() else { return };
    let server = GitServer::start().await.unwrap();
    let repo = server.repo("fleet").unwrap();
    let commit = |few: &[u8]| {
        repo.commit(
            "main",
            &[
                ("many/Pulumi.yaml", "100644", PROGRAM),
                ("few/Pulumi.yaml", "100644", few),
            ],
        )
        .unwrap()
    };
    let first_commit = commit(PROGRAM);
    // However long the runs take, the interval in which a repository is asked once is longer.
    for index in 0..FLEET {
        let dir = if CONCERNED.contains(&index) {
            "few"
        } else {
            "many"
        };
        world.stack(
            &format!("s{index}"),
            &format!("organization/fleet/s{index}"),
            &format!(
                "projectRepo: {}\nbranch: main\nrepoDir: {dir}\nonlyWhenChanged: \
                 true\nresyncFrequencySeconds: 3600\n",
                server.url("fleet")
            ),
        );
    }
    make_stacks(&world);
    let once = |world: World| async move {
        let begun = std::time::Instant::now();
        let done = tokio::task::spawn_blocking(move || (world.once(), world));
        let (ended, world) = done.await.unwrap();
        eprintln!("{FLEET} Stacks: {:?}", begun.elapsed());
        assert_eq!(ended.code, Some(0), "{}", ended.stderr);
        (ended.json(), world)
    };
    let (report, world) = once(world).await;
    assert_eq!(report["runs"], FLEET);
    let rows = report["stacks"].as_array().unwrap();
    assert_eq!(rows.len(), FLEET);
    for row in rows {
        assert_eq!(row["outputs"]["one"], 1, "{row}");
        assert_eq!(row["revision"], first_commit.as_str(), "{row}");
    }
    // The real CLI has written the state of each.
    for index in 0..FLEET {
        let file = format!("state/.pulumi/stacks/fleet/s{index}.json");
        let state = std::fs::read_to_string(world.path().join(file)).unwrap();
        assert!(state.contains("pulumi:pulumi:Stack"), "s{index}: {state}");
    }
    // One conversation lists the refs, one fetches the commit.
    assert_eq!(
        server.conversations("fleet"),
        2,
        "{:?}",
        server.seen("fleet")
    );

    // A push: again one listing and one fetch, and only those run whose directory it changes.
    let second_commit = commit(b"name: fleet\nruntime: yaml\noutputs: {one: 2}\n");
    let (report, world) = once(world).await;
    assert_eq!(report["runs"], CONCERNED.len());
    let again: Vec<String> = report["stacks"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|row| row["outputs"]["one"] == 2 && row["revision"] == second_commit.as_str())
        .map(|row| row["name"].as_str().unwrap().to_owned())
        .collect();
    let concerned: Vec<String> = CONCERNED.map(|index| format!("s{index}")).collect();
    assert_eq!(again, concerned);
    assert_eq!(
        server.conversations("fleet"),
        4,
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
    let row = eventually(Duration::from_secs(240), "the thief refused", || {
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
    // Nothing of the repository has come near its workspace, and nothing ran.
    let files = files_with(
        &world.data().join("workspaces/default.thief"),
        "name: fleet",
        &[],
    );
    assert!(files.is_empty(), "{files:?}");
    assert!(world.updates("thief").is_empty());
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
