//! What a killed CLI leaves in the backend: its lock, and files half made.
#![allow(clippy::unwrap_used)]

mod common;
#[path = "common/slow.rs"]
mod slow;
#[path = "common/things.rs"]
mod things;

use std::process::Command;

use common::{Bench, ended, provider, run, tools, until};
use slow::{begun, cli_pid, kill, slow};
use things::count;
use windlass_api::run::{Operation, RunState};

/// Whether the state has all that is known while the second resource is being made.
fn is_saved(bench: &Bench) -> bool {
    let state = bench.state("slow");
    let names = |list: &str| -> Vec<String> {
        let list = state.pointer(&format!("/checkpoint/latest/{list}"));
        let urns = list.and_then(|list| list.as_array()).into_iter().flatten();
        urns.filter_map(|it| it.pointer("/resource/urn").or(it.get("urn"))?.as_str())
            .map(|urn| urn.rsplit("::").next().unwrap_or_default().to_owned())
            .collect()
    };
    names("resources").contains(&"quick".to_owned()) && names("pending_operations") == ["long"]
}

#[tokio::test]
async fn a_killed_cli_is_lost_and_its_lock_goes_once() {
    let (Some(tools), Some(provider)) = (tools(), provider()) else {
        return;
    };
    let mut bench = Bench::with_provider(&tools, &provider);
    let log = slow(&bench, 8_000);
    let client = bench.start().await;
    begun(
        &client,
        &bench.request("l-1", Operation::Up, "slow"),
        &log,
        "create-begun long",
    )
    .await;
    let cli = cli_pid(&bench, "l-1").await;
    kill(&cli, "-KILL");
    let lost = ended(&client, "l-1").await;
    let failure = lost.failure.unwrap();
    assert_eq!(
        (lost.state, failure.signal),
        (RunState::Lost, Some(9)),
        "{}",
        lost.message
    );
    assert_eq!(failure.locks.len(), 1);
    assert_eq!(failure.locks[0].pid.to_string(), cli);
    // The plugin that was left is gone before the result is told.
    assert_eq!(count(&log, "create long"), 0);

    slow(&bench, 0);
    let locked = run(&client, &bench.request("l-2", Operation::Up, "slow")).await;
    assert_eq!(
        (locked.state, locked.reached_engine),
        (RunState::Failed, false)
    );
    let seen = locked.failure.unwrap().locks;
    assert_eq!(
        (seen.len(), &seen[0].id),
        (1, &failure.locks[0].id),
        "{}",
        locked.message
    );

    let mut freed = bench.request("l-3", Operation::Up, "slow");
    freed.release_locks = vec![seen[0].id.clone(), "another.json".into()];
    let freed = run(&client, &freed).await;
    assert_eq!(freed.state, RunState::Succeeded, "{freed:?}");
    assert_eq!((bench.locks("slow"), count(&log, "create long")), (0, 1));
}

#[tokio::test]
async fn a_backend_that_is_not_read_is_asked_by_the_cli() {
    let (Some(tools), Some(provider)) = (tools(), provider()) else {
        return;
    };
    let mut bench = Bench::with_provider(&tools, &provider);
    let log = slow(&bench, 8_000);
    let client = bench.start().await;
    // A relative URL: the agent does not read such a backend, as it does not read a bucket. The link is for the one
    // command that runs elsewhere.
    std::os::unix::fs::symlink(bench.path("backend"), bench.path("state/runs/backend")).unwrap();
    let request = |id: &str, operation| {
        let mut request = bench.request(id, operation, "slow");
        request
            .env
            .insert("PULUMI_BACKEND_URL".into(), "file://./../../backend".into());
        request
    };
    begun(
        &client,
        &request("r-1", Operation::Up),
        &log,
        "create-begun long",
    )
    .await;
    // What a kill leaves half made can only be taken away where the agent reads the backend.
    until("the last write before the end", || is_saved(&bench)).await;
    kill(&cli_pid(&bench, "r-1").await, "-KILL");
    let lost = ended(&client, "r-1").await;
    assert_eq!(
        (lost.state, bench.locks("slow")),
        (RunState::Lost, 1),
        "{lost:?}"
    );
    slow(&bench, 0);
    let locked = run(&client, &request("r-2", Operation::Up)).await;
    let locks = locked.failure.unwrap().locks;
    assert_eq!(
        (locked.state, locks.len()),
        (RunState::Failed, 1),
        "{}",
        locked.message
    );
    let mut other = request("r-3", Operation::Up);
    other.release_locks = vec!["another.json".into()];
    assert_eq!(
        (run(&client, &other).await.state, bench.locks("slow")),
        (RunState::Failed, 1)
    );
    let mut freed = request("r-4", Operation::Up);
    freed.release_locks = vec![locks[0].id.clone()];
    let freed = run(&client, &freed).await;
    assert_eq!(
        (freed.state, bench.locks("slow"), freed.resources),
        (RunState::Succeeded, 0, Some(2)),
        "{freed:?}"
    );
}

/// What the CLI itself says to a command, where it fails.
fn refusal(bench: &Bench, args: &[&str]) -> String {
    let folder = bench.path("workspace/slow");
    let mut cli = Command::new("pulumi");
    cli.args(args).args(["--stack", "organization/slow/dev"]);
    cli.env_clear().envs(&bench.env).current_dir(folder);
    // With it every command of the CLI panics; the agent leaves it out.
    cli.env_remove("PULUMI_OPTION_PARALLEL");
    cli.env("PULUMI_BACKEND_URL", bench.backend());
    let output = cli.output().unwrap();
    assert!(!output.status.success(), "{output:?}");
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[tokio::test]
async fn what_a_killed_cli_left_half_made_stops_nobody() {
    let (Some(tools), Some(provider)) = (tools(), provider()) else {
        return;
    };
    let mut bench = Bench::with_provider(&tools, &provider);
    slow(&bench, 0);
    let client = bench.start().await;
    let up = run(&client, &bench.request("m-1", Operation::Up, "slow")).await;
    assert_eq!(up.state, RunState::Succeeded, "{up:?}");

    // A lock that was not renamed.
    let locks = bench.path("backend/.pulumi/locks/organization/slow/dev");
    let lock = locks.join("0b.json.18a.tmp");
    std::fs::create_dir_all(&locks).unwrap();
    let file = std::fs::File::create(&lock).unwrap();
    let before = std::time::SystemTime::now() - std::time::Duration::from_secs(60);
    file.set_modified(before).unwrap();
    let said = refusal(&bench, &["refresh", "--yes", "--skip-preview"]);
    assert!(said.contains("unexpected end of JSON input"), "{said}");
    // Attributes that were created and not written.
    let attributes = bench.path("backend/.pulumi/stacks/slow/dev.json.attrs");
    assert!(attributes.is_file());
    std::fs::write(&attributes, "").unwrap();
    let said = refusal(&bench, &["stack", "export"]);
    assert!(said.contains("EOF"), "{said}");

    let again = run(&client, &bench.request("m-2", Operation::Up, "slow")).await;
    assert_eq!(again.state, RunState::Succeeded, "{again:?}");
    assert!(!lock.exists());
    let told = "took away what a killed CLI left half made";
    assert_eq!(bench.logs().matches(told).count(), 2, "{}", bench.logs());

    // One of a moment ago: a run that comes right after the kill waits until it is plain that nobody is at it.
    std::fs::write(&lock, "").unwrap();
    let again = run(&client, &bench.request("m-3", Operation::Up, "slow")).await;
    assert_eq!(again.state, RunState::Succeeded, "{again:?}");
    assert!(!lock.exists());
}
