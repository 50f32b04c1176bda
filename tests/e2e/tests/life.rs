//! The life of a Stack on the real CLI, from the first run to the destroy.
#![allow(clippy::unwrap_used)]

use std::time::Duration;

use windlass_e2e::git_repo::{TestFile, TestRepo};
use windlass_e2e::world::{World, eventually};

const PROGRAM: &str = "name: life\nruntime: yaml\nconfig:\n  greeting: {type: string, default: hello}\nresources:\n  \
                       one:\n    type: pulumi:Stash\n    properties: {input: \"${greeting}\"}\noutputs:\n  said: \
                       ${one.input}\n";

fn file(text: &str) -> [TestFile<'_>; 1] {
    [("Pulumi.yaml", "100644", text.as_bytes())]
}

#[test]
fn from_the_first_run_to_the_destroy() {
    let Some(world) = World::new() else { return };
    let repo = TestRepo::create(&world.path().join("repo")).unwrap();
    let first = repo.commit("main", &file(PROGRAM)).unwrap();
    let url = repo.file_url();
    let spec = |config: &str| {
        format!(
            "projectRepo: {url}\nbranch: main\ndestroyOnFinalize: true\nconfig: {{greeting: {config}}}\n"
        )
    };
    world.stack("life", "organization/life/dev", &spec("hello"));

    let ended = world.once();
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    let row = ended.row("life");
    assert_eq!(row["state"], "Ready");
    assert_eq!(row["health"], "Healthy");
    assert_eq!(row["revision"], first);
    assert_eq!(row["outputs"]["said"], "hello");
    assert_eq!(row["resources"], 1);
    assert_eq!(ended.json()["runs"], 1);
    assert!(world.resources("life", "dev").contains_key("one"));

    // Nothing changed: nothing runs.
    let ended = world.once();
    assert_eq!(
        (ended.code, ended.json()["runs"].as_u64()),
        (Some(0), Some(0)),
        "{}",
        ended.stderr
    );

    // An edit.
    world.stack("life", "organization/life/dev", &spec("welcome"));
    let ended = world.once();
    assert_eq!(ended.json()["runs"], 1, "{}", ended.stderr);
    assert_eq!(ended.row("life")["outputs"]["said"], "welcome");

    // A commit that fails: the failure is the answer, and the exit code says so.
    repo.commit(
        "main",
        &file(&PROGRAM.replace("${one.input}", "${nosuch.input}")),
    )
    .unwrap();
    let ended = world.once();
    assert_eq!(ended.code, Some(1), "{}", ended.stderr);
    let row = ended.row("life");
    assert_eq!(
        (row["state"].as_str(), row["reason"].as_str()),
        (Some("Failed"), Some("RetryingAfterFailure"))
    );
    assert!(row["message"].as_str().unwrap().contains("nosuch"), "{row}");

    // A commit that mends it runs at once.
    let mended = repo
        .commit("main", &file(&PROGRAM.replace("said:", "heard:")))
        .unwrap();
    let ended = world.once();
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    let row = ended.row("life");
    assert_eq!(row["revision"], mended);
    assert_eq!(row["outputs"]["heard"], "welcome");
    assert!(row["outputs"].get("said").is_none(), "{row}");

    // Its manifest goes: what it made goes, then the object.
    world.remove("life.yaml");
    let ended = world.once();
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert_eq!(ended.row("life")["state"], "Deleted");
    assert!(world.resources("life", "dev").is_empty());
    assert!(world.locks().is_empty());
    // Nothing is left of its workspace either.
    assert!(!world.data().join("workspaces/default.life").exists());
    assert!(world.processes().is_empty(), "{:?}", world.processes());
}

#[test]
fn watching_a_push_runs_only_what_it_concerns() {
    let Some(world) = World::new() else { return };
    let repo = TestRepo::create(&world.path().join("repo")).unwrap();
    repo.commit("main", &file(PROGRAM)).unwrap();
    repo.commit("other", &file(PROGRAM)).unwrap();
    for (name, branch) in [("a", "main"), ("b", "other")] {
        let spec = format!("projectRepo: {}\nbranch: {branch}\n", repo.file_url());
        world.stack(name, &format!("organization/life/{name}"), &spec);
    }
    let running = world.start(&[]);
    let rows = || {
        // Nothing is printed before there is a store.
        let ended = world.windlass(&["status", "--output", "json"]);
        let document: Option<serde_json::Value> = serde_json::from_str(&ended.stdout).ok();
        document.map(|document| document["stacks"].clone())
    };
    let ready = |rows: &serde_json::Value| {
        rows.as_array()
            .is_some_and(|rows| rows.len() == 2 && rows.iter().all(|row| row["ready"] == true))
    };
    let before = eventually(Duration::from_secs(240), "both Stacks ready", || {
        rows().filter(ready)
    });
    world.write(
        "a.yaml",
        &std::fs::read_to_string(world.manifests().join("a.yaml"))
            .unwrap()
            .replace("branch: main", "branch: next"),
    );
    let next = repo
        .commit(
            "next",
            &file(&PROGRAM.replace("default: hello", "default: again")),
        )
        .unwrap();
    let after = eventually(
        Duration::from_secs(240),
        "the new revision deployed",
        || {
            rows()
                .filter(ready)
                .filter(|rows| rows[0]["revision"] == next.as_str())
        },
    );
    assert_eq!(after[0]["outputs"]["said"], "again");
    assert_eq!(after[1]["revision"], before[1]["revision"]);
    running.interrupt();
    assert_eq!(running.wait(Duration::from_secs(20)), Some(0));
}
