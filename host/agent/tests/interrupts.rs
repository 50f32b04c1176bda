//! Runs that are stopped: on request, by their deadline, with the agent, by a kill.
#![allow(clippy::unwrap_used)]

mod common;
#[path = "common/things.rs"]
mod things;

use std::path::Path;
use std::process::Command;

use common::{Bench, ended, is_busy, provider, run, tools, until};
use things::{count, things};
use windlass_agent::{AgentClient, Started};
use windlass_api::run::{InterruptCause, Operation, RunRequest, RunState};

/// A program whose second resource takes a while, and the log of its provider.
fn slow(bench: &Bench, ms: u32) -> std::path::PathBuf {
    let log = bench.path("log");
    let quick = format!("logFile: {}", log.display());
    let long = format!("logFile: {}\nsleepMs: {ms}", log.display());
    bench.program(
        "slow",
        &things("slow", &[("quick", &quick), ("long", &long)]),
    );
    log
}

async fn begun(client: &AgentClient, request: &RunRequest, log: &Path, line: &str) {
    assert_eq!(client.start_run(request).await.unwrap(), Started::New);
    until(line, || count(log, line) > 0).await;
}

fn kill(pid: &str, signal: &str) {
    assert!(
        Command::new("kill")
            .args([signal, pid])
            .status()
            .unwrap()
            .success()
    );
}

fn cli_pid(bench: &Bench, id: &str) -> String {
    let file = bench.path(&format!("state/runs/{id}/cli.json"));
    let cli: serde_json::Value = serde_json::from_slice(&std::fs::read(file).unwrap()).unwrap();
    cli["pid"].to_string()
}

fn alive(pid: &str) -> bool {
    std::fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|s| !s.contains(") Z "))
}

#[tokio::test]
async fn cancel_ends_a_run_and_leaves_the_stack_free() {
    let (Some(tools), Some(provider)) = (tools(), provider()) else {
        return;
    };
    let mut bench = Bench::with_provider(&tools, &provider);
    let log = slow(&bench, 60_000);
    let client = bench.start().await;
    begun(
        &client,
        &bench.request("s-1", Operation::Up, "slow"),
        &log,
        "create-begun long",
    )
    .await;

    let other = client
        .start_run(&bench.request("s-2", Operation::Up, "slow"))
        .await
        .unwrap_err();
    assert!(
        is_busy(&other) && other.to_string().contains("s-1"),
        "{other}"
    );
    assert_eq!(
        client.hello().await.unwrap().open_run.as_deref(),
        Some("s-1")
    );
    assert_eq!(
        client
            .start_run(&bench.request("s-1", Operation::Up, "slow"))
            .await
            .unwrap(),
        Started::Known
    );

    client.cancel_run("s-1").await.unwrap();
    let result = ended(&client, "s-1").await;
    assert_eq!(result.state, RunState::Cancelled, "{result:?}");
    assert_eq!(
        result.failure.unwrap().interrupted,
        Some(InterruptCause::Cancelled)
    );
    assert_eq!(
        (
            bench.locks("slow"),
            count(&log, "create quick"),
            count(&log, "create long")
        ),
        (0, 1, 0)
    );
    client.forget_run("s-1").await.unwrap();
    assert!(client.list_runs().await.unwrap().is_empty());
    assert!(!bench.path("state/runs/s-1").exists());
}

#[tokio::test]
async fn a_deadline_interrupts() {
    let (Some(tools), Some(provider)) = (tools(), provider()) else {
        return;
    };
    let mut bench = Bench::with_provider(&tools, &provider);
    let log = slow(&bench, 60_000);
    let client = bench.start().await;
    let mut request = bench.request("t-1", Operation::Up, "slow");
    request.timeout_seconds = Some(4);
    let result = run(&client, &request).await;
    assert_eq!(result.state, RunState::Cancelled, "{result:?}");
    assert_eq!(
        result.failure.unwrap().interrupted,
        Some(InterruptCause::DeadlineExceeded)
    );
    assert!(result.message.contains("4 s"), "{}", result.message);
    assert_eq!(count(&log, "create long"), 0);
}

#[tokio::test]
async fn a_cancelled_destroy_is_no_success() {
    let (Some(tools), Some(provider)) = (tools(), provider()) else {
        return;
    };
    let mut bench = Bench::with_provider(&tools, &provider);
    let log = bench.path("log");
    let quick = format!("logFile: {}", log.display());
    let slow = format!(
        "logFile: {}\nsleepMs: 2500\nvalue: ${{quick.value}}",
        log.display()
    );
    bench.program(
        "slow",
        &things(
            "slow",
            &[("quick", &format!("{quick}\nvalue: v")), ("long", &slow)],
        ),
    );
    let client = bench.start().await;
    assert_eq!(
        run(&client, &bench.request("x-1", Operation::Up, "slow"))
            .await
            .state,
        RunState::Succeeded
    );
    begun(
        &client,
        &bench.request("x-2", Operation::Destroy, "slow"),
        &log,
        "delete-begun long",
    )
    .await;
    client.cancel_run("x-2").await.unwrap();
    let result = ended(&client, "x-2").await;
    assert_eq!(result.state, RunState::Cancelled, "{result:?}");
    assert!(result.resources.unwrap() >= 1);
    let again = run(&client, &bench.request("x-3", Operation::Destroy, "slow")).await;
    assert_eq!(
        (again.state, again.resources),
        (RunState::Succeeded, Some(0)),
        "{again:?}"
    );
}

#[tokio::test]
async fn sigterm_lets_the_run_finish_and_tells() {
    let (Some(tools), Some(provider)) = (tools(), provider()) else {
        return;
    };
    let mut bench = Bench::with_provider(&tools, &provider);
    let log = slow(&bench, 60_000);
    let client = bench.start().await;
    begun(
        &client,
        &bench.request("g-1", Operation::Up, "slow"),
        &log,
        "create-begun long",
    )
    .await;
    let mut agent = bench.agent.take().unwrap();
    kill(&agent.id().to_string(), "-TERM");
    let result = ended(&client, "g-1").await;
    assert_eq!(
        result.failure.unwrap().interrupted,
        Some(InterruptCause::AgentStopping)
    );
    drop(client);
    assert!(agent.wait().unwrap().success());
    assert_eq!(bench.locks("slow"), 0);
}

#[tokio::test]
async fn a_run_outlives_its_agent() {
    let (Some(tools), Some(provider)) = (tools(), provider()) else {
        return;
    };
    let mut bench = Bench::with_provider(&tools, &provider);
    let log = slow(&bench, 3_000);
    let client = bench.start().await;
    let request = bench.request("k-1", Operation::Up, "slow");
    begun(&client, &request, &log, "create-begun long").await;
    bench.kill_agent();
    let client = bench.start().await;
    assert_eq!(client.start_run(&request).await.unwrap(), Started::Known);
    assert_eq!(
        client.hello().await.unwrap().open_run.as_deref(),
        Some("k-1")
    );
    let other = client
        .start_run(&bench.request("k-2", Operation::Up, "slow"))
        .await
        .unwrap_err();
    assert!(is_busy(&other), "{other}");
    let result = ended(&client, "k-1").await;
    assert_eq!(
        (result.state, result.resources),
        (RunState::Succeeded, Some(2)),
        "{result:?}"
    );
    assert_eq!(count(&log, "create long"), 1);

    // And one that ended while nobody was there.
    bench.program(
        "slow",
        &things(
            "slow",
            &[(
                "third",
                &format!("logFile: {}\nsleepMs: 500", log.display()),
            )],
        ),
    );
    begun(
        &client,
        &bench.request("k-3", Operation::Up, "slow"),
        &log,
        "create-begun third",
    )
    .await;
    let cli = cli_pid(&bench, "k-3");
    bench.kill_agent();
    until("the CLI to end", || !alive(&cli)).await;
    let client = bench.start().await;
    let result = ended(&client, "k-3").await;
    assert_eq!(
        (result.state, result.resources),
        (RunState::Succeeded, Some(1)),
        "{result:?}"
    );
    assert_eq!(count(&log, "create third"), 1);
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
    let cli = cli_pid(&bench, "l-1");
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
async fn a_killed_supervisor_does_not_lose_the_outcome() {
    let (Some(tools), Some(provider)) = (tools(), provider()) else {
        return;
    };
    let mut bench = Bench::with_provider(&tools, &provider);
    let log = slow(&bench, 1_500);
    let client = bench.start().await;
    begun(
        &client,
        &bench.request("v-1", Operation::Up, "slow"),
        &log,
        "create-begun long",
    )
    .await;
    let claim = std::fs::read(bench.path("state/runs/v-1/claim.json")).unwrap();
    let claim: serde_json::Value = serde_json::from_slice(&claim).unwrap();
    kill(&claim["Supervisor"]["pid"].to_string(), "-KILL");
    let result = ended(&client, "v-1").await;
    assert_eq!(
        (result.state, result.resources),
        (RunState::Succeeded, Some(2)),
        "{result:?}"
    );
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
    kill(&cli_pid(&bench, "r-1"), "-KILL");
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
