//! Twenty runs each in which the agent, or the CLI, is killed at some moment: nothing is lost, repeated or left locked.
#![allow(clippy::unwrap_used)]

mod common;
#[path = "common/things.rs"]
mod things;

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use common::{Bench, ended, provider, run, tools};
use serde_json::json;
use things::{count, things};
use windlass_agent::Started;
use windlass_api::run::{Operation, RunResult, RunState};

/// Moments between 0 and 1.5 s, the same in every execution.
fn moments() -> impl Iterator<Item = (u64, Duration)> {
    (1..=20u64).map(|i| {
        (
            i,
            Duration::from_millis((i.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 33) % 1500),
        )
    })
}

fn program(bench: &Bench, log: &Path, i: u64) {
    let thing = format!("value: v{i}\nsleepMs: 300\nlogFile: {}", log.display());
    bench.program(
        "k",
        &(things("k", &[("a", &thing)]) + "outputs:\n  v: ${a.value}\n"),
    );
}

fn assert_right(result: &RunResult, i: u64) {
    assert_eq!(result.state, RunState::Succeeded, "{result:?}");
    assert_eq!(
        result.outputs.as_ref().unwrap()["v"].value,
        json!(format!("v{i}"))
    );
}

#[tokio::test]
async fn killed_agents_lose_and_repeat_nothing() {
    let (Some(tools), Some(provider)) = (tools(), provider()) else {
        return;
    };
    let mut bench = Bench::with_provider(&tools, &provider);
    let log = bench.path("log");
    program(&bench, &log, 0);
    let mut client = bench.start().await;
    assert_right(
        &run(&client, &bench.request("k-0", Operation::Up, "k")).await,
        0,
    );
    for (i, moment) in moments() {
        program(&bench, &log, i);
        let request = bench.request(&format!("k-{i}"), Operation::Up, "k");
        client.start_run(&request).await.unwrap();
        tokio::time::sleep(moment).await;
        bench.kill_agent();
        client = bench.start().await;
        assert_eq!(client.start_run(&request).await.unwrap(), Started::Known);
        let result = ended(&client, &request.id).await;
        let before = result
            .failure
            .as_ref()
            .is_some_and(|f| f.reason.as_deref() == Some("AgentRestarted"));
        if before {
            // Nothing had begun: the run is asked for anew.
            assert_eq!(
                (result.state, result.reached_engine),
                (RunState::Failed, false)
            );
            let again = bench.request(&format!("k-{i}-again"), Operation::Up, "k");
            assert_right(&run(&client, &again).await, i);
        } else {
            assert_right(&result, i);
        }
        assert_eq!((bench.locks("k"), count(&log, "update a")), (0, i as usize));
    }
}

#[tokio::test]
async fn killed_clis_leave_nothing_that_the_next_run_does_not_settle() {
    let (Some(tools), Some(provider)) = (tools(), provider()) else {
        return;
    };
    let mut bench = Bench::with_provider(&tools, &provider);
    let log = bench.path("log");
    program(&bench, &log, 0);
    let client = bench.start().await;
    assert_right(
        &run(&client, &bench.request("k-0", Operation::Up, "k")).await,
        0,
    );
    for (i, moment) in moments() {
        program(&bench, &log, i);
        let id = format!("k-{i}");
        client
            .start_run(&bench.request(&id, Operation::Up, "k"))
            .await
            .unwrap();
        tokio::time::sleep(moment).await;
        if let Ok(cli) = std::fs::read(bench.path(&format!("state/runs/{id}/cli.json"))) {
            let cli: serde_json::Value = serde_json::from_slice(&cli).unwrap();
            // It may have ended by itself.
            let _ = Command::new("kill")
                .args(["-KILL", &cli["pid"].to_string()])
                .output()
                .unwrap();
        }
        let result = ended(&client, &id).await;
        if result.state == RunState::Lost {
            let mut next = bench.request(&format!("{id}-next"), Operation::Up, "k");
            next.release_locks = result
                .failure
                .unwrap()
                .locks
                .into_iter()
                .map(|l| l.id)
                .collect();
            assert_right(&run(&client, &next).await, i);
        } else {
            assert_right(&result, i);
        }
        assert_eq!(bench.locks("k"), 0);
    }
}
