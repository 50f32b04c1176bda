//! Runs that are stopped: on request, by their deadline, with the agent, by a kill.
#![allow(clippy::unwrap_used)]

mod common;
#[path = "common/slow.rs"]
mod slow;
#[path = "common/things.rs"]
mod things;

use common::{Bench, ended, is_busy, provider, run, tools, until};
use slow::{begun, cli_pid, held, kill, slow};
use things::{count, things};
use windlass_agent::Started;
use windlass_api::run::{InterruptCause, Operation, RunState};

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
    let (log, go) = held(&bench);
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
    std::fs::write(&go, "").unwrap();
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
    let cli = cli_pid(&bench, "k-3").await;
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
async fn a_killed_supervisor_does_not_lose_the_outcome() {
    let (Some(tools), Some(provider)) = (tools(), provider()) else {
        return;
    };
    let mut bench = Bench::with_provider(&tools, &provider);
    let (log, go) = held(&bench);
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
    std::fs::write(&go, "").unwrap();
    let result = ended(&client, "v-1").await;
    assert_eq!(
        (result.state, result.resources),
        (RunState::Succeeded, Some(2)),
        "{result:?}"
    );
}
