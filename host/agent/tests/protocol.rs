//! What holds whatever a run does: epochs, trees, logs, the slot that a person shares.
#![allow(clippy::unwrap_used)]

mod common;
#[path = "common/things.rs"]
mod things;

use std::process::{Command, Stdio};

use common::{Bench, STASH, ended, is_busy, provider, run, tools, until};
use futures::StreamExt;
use things::{count, things};
use windlass_agent::{AgentClient, ClientError, RunEvent, TreePut};
use windlass_api::run::{Operation, ProgramSource, RunState};

fn tar_of(yaml: &str) -> Vec<u8> {
    let mut builder = tar::Builder::new(Vec::new());
    let mut header = tar::Header::new_gnu();
    header.set_size(yaml.len() as u64);
    header.set_mode(0o644);
    builder
        .append_data(&mut header, "infra/Pulumi.yaml", yaml.as_bytes())
        .unwrap();
    builder.into_inner().unwrap()
}

#[tokio::test]
async fn a_tree_is_sent_once_and_run() {
    let Some(tools) = tools() else { return };
    let mut bench = Bench::new(&tools);
    let client = bench.start().await;
    let tar = tar_of(STASH);
    let put = client
        .put_tree("sha256:abc1", std::io::Cursor::new(tar.clone()))
        .await
        .unwrap();
    assert_eq!(
        put,
        TreePut::Sent {
            bytes: STASH.len() as u64,
            entries: 1
        }
    );
    assert_eq!(
        client
            .put_tree("sha256:abc1", std::io::Cursor::new(tar))
            .await
            .unwrap(),
        TreePut::Present
    );
    let torn = client
        .put_tree(
            "sha256:abc2",
            std::io::Cursor::new(tar_of(STASH)[..700].to_vec()),
        )
        .await;
    assert!(
        torn.is_err() && !client.has_tree("sha256:abc2").await.unwrap(),
        "{torn:?}"
    );
    let mut request = bench.request("t-1", Operation::Up, "stash");
    request.program = ProgramSource::Tree {
        digest: "sha256:abc1".into(),
        dir: "infra".into(),
    };
    let up = run(&client, &request).await;
    assert_eq!(up.state, RunState::Succeeded, "{up:?}");
}

#[tokio::test]
async fn an_old_leader_is_refused_even_after_a_restart() {
    let Some(tools) = tools() else { return };
    let mut bench = Bench::new(&tools);
    bench.program("stash", STASH);
    bench.start().await;
    bench.connect(7).await.hello().await.unwrap();
    for _ in 0..2 {
        let old = bench.connect(6).await;
        let refused = old
            .start_run(&bench.request("e-1", Operation::Up, "stash"))
            .await
            .unwrap_err();
        assert!(matches!(refused, ClientError::StaleEpoch(_)), "{refused}");
        assert!(matches!(
            old.cancel_run("e-1").await,
            Err(ClientError::StaleEpoch(_))
        ));
        bench.kill_agent();
        bench.start().await;
    }
    let unknown = bench
        .connect(7)
        .await
        .watch_run("e-1", 0)
        .await
        .err()
        .unwrap();
    assert!(matches!(unknown, ClientError::UnknownRun(_)), "{unknown}");
    let gone = AgentClient::connect(&bench.path("nowhere.sock"), 1)
        .await
        .unwrap_err();
    assert!(matches!(gone, ClientError::Unreachable { .. }), "{gone}");
}

#[tokio::test]
async fn a_watcher_sees_progress_and_every_line_once() {
    let (Some(tools), Some(provider)) = (tools(), provider()) else {
        return;
    };
    let mut bench = Bench::with_provider(&tools, &provider);
    bench.program(
        "w",
        &things(
            "w",
            &[("a", "sleepMs: 700\nbigKiB: 900"), ("b", "value: x")],
        ),
    );
    let client = bench.start().await;
    client
        .start_run(&bench.request("w-1", Operation::Up, "w"))
        .await
        .unwrap();
    let (mut lines, mut stages, mut most, mut result) = (Vec::new(), Vec::new(), 0, None);
    let mut events = client.watch_run("w-1", 0).await.unwrap();
    while let Some(event) = events.next().await {
        match event.unwrap() {
            RunEvent::Progress(p) => {
                most = most.max(p.done);
                if stages.last() != Some(&p.stage) {
                    stages.push(p.stage);
                }
            }
            RunEvent::Log(line) => {
                assert_eq!(line.number, lines.len() as u64);
                lines.push(line.text);
            }
            RunEvent::Result(r) => result = Some(r),
        }
    }
    assert_eq!(result.unwrap().state, RunState::Succeeded);
    assert_eq!(most, 2);
    assert!(stages.contains(&"running".to_owned()), "{stages:?}");
    assert!(
        lines.iter().any(|l| l.contains("windlasstest:index:Thing")),
        "{lines:?}"
    );
    // Somebody who comes later and has half of it.
    let half = lines.len() as u64 / 2;
    let mut rest = client.watch_run("w-1", half).await.unwrap();
    let mut first = None;
    while let Some(event) = rest.next().await {
        if let RunEvent::Log(line) = event.unwrap() {
            first.get_or_insert(line.number);
        }
    }
    assert_eq!(first, Some(half));
}

#[tokio::test]
async fn a_person_and_a_run_share_one_slot() {
    let (Some(tools), Some(provider)) = (tools(), provider()) else {
        return;
    };
    let mut bench = Bench::with_provider(&tools, &provider);
    let log = bench.path("log");
    bench.program(
        "s",
        &things(
            "s",
            &[("a", &format!("sleepMs: 2000\nlogFile: {}", log.display()))],
        ),
    );
    let client = bench.start().await;
    let exec = |args: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_windlass-agent"));
        command
            .arg("exec")
            .arg("--state-dir")
            .arg(bench.path("state"))
            .args(args);
        command.env_clear().envs(&bench.env);
        command
    };
    client
        .start_run(&bench.request("s-1", Operation::Up, "s"))
        .await
        .unwrap();
    until("the resource", || count(&log, "create-begun a") > 0).await;
    let refused = exec(&["--", "pulumi", "version"]).output().unwrap();
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(
        !refused.status.success() && said.contains("busy: the run \"s-1\" goes on"),
        "{said}"
    );
    // It waits for the run, and finds the run's own backend.
    let listed = exec(&["--wait", "--", "pulumi", "stack", "ls", "--all", "--json"])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&listed.stdout).into_owned();
    assert!(listed.status.success() && said.contains("dev"), "{said}");
    assert_eq!(ended(&client, "s-1").await.state, RunState::Succeeded);

    let mut person = exec(&["--", "cat"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let holder = bench.path("state/slot.holder");
    until("the person", || {
        std::fs::read_to_string(&holder).is_ok_and(|h| h.contains("cat"))
    })
    .await;
    let busy = client
        .start_run(&bench.request("s-2", Operation::Preview, "s"))
        .await
        .unwrap_err();
    assert!(is_busy(&busy) && busy.to_string().contains("cat"), "{busy}");
    drop(person.stdin.take());
    assert!(person.wait().unwrap().success());
    assert_eq!(
        run(&client, &bench.request("s-2", Operation::Preview, "s"))
            .await
            .state,
        RunState::Succeeded
    );
    assert_eq!(
        exec(&["--", "sh", "-c", "exit 7"]).status().unwrap().code(),
        Some(7)
    );
}
