//! Runs that fail, each told by its cause.
#![allow(clippy::unwrap_used)]

mod common;
#[path = "common/things.rs"]
mod things;

use common::{Bench, STASH, env_var, file, inline, provider, run, tools};
use serde_json::json;
use things::{count, things};
use windlass_api::run::{Operation, ProgramSource, RunState};

#[tokio::test]
async fn a_failing_program_and_a_failing_resource() {
    let (Some(tools), Some(provider)) = (tools(), provider()) else {
        return;
    };
    let mut bench = Bench::with_provider(&tools, &provider);
    bench.program(
        "broken",
        "name: broken\nruntime: yaml\noutputs:\n  x: ${nosuch}\n",
    );
    let log = bench.path("log");
    let shown = log.display();
    bench.program(
        "bad",
        &things(
            "bad",
            &[
                ("good", &format!("logFile: {shown}")),
                ("ill", "fail: the disk is full"),
            ],
        ),
    );
    let client = bench.start().await;

    let broken = run(&client, &bench.request("b-1", Operation::Up, "broken")).await;
    assert_eq!(broken.state, RunState::Failed);
    assert!(broken.message.contains("nosuch"), "{}", broken.message);
    assert_eq!(broken.failure.unwrap().exit_code, Some(1));
    assert_eq!(broken.outputs, None);

    let bad = run(&client, &bench.request("b-2", Operation::Up, "bad")).await;
    assert_eq!(
        (bad.state, bad.reached_engine),
        (RunState::Failed, true),
        "{bad:?}"
    );
    assert!(
        bad.message.starts_with("ill: ") && bad.message.contains("the disk is full"),
        "{}",
        bad.message
    );
    let failure = bad.failure.unwrap();
    assert!(
        failure
            .diagnostics
            .iter()
            .any(|d| d.urn.as_deref().is_some_and(|u| u.ends_with("::ill")))
    );
    assert_eq!(count(&log, "create good"), 1);
    assert_eq!(bench.locks("bad"), 0);
}

#[tokio::test]
async fn drift_is_seen_and_taken_over() {
    let (Some(tools), Some(provider)) = (tools(), provider()) else {
        return;
    };
    let mut bench = Bench::with_provider(&tools, &provider);
    bench.program(
        "drift",
        &things("drift", &[("a", "value: one\ndrift: two")]),
    );
    let client = bench.start().await;
    assert_eq!(
        run(&client, &bench.request("d-1", Operation::Up, "drift"))
            .await
            .state,
        RunState::Succeeded
    );
    let refresh = run(&client, &bench.request("d-2", Operation::Refresh, "drift")).await;
    assert_eq!(refresh.state, RunState::Succeeded, "{refresh:?}");
    assert_eq!(refresh.changes.get("update"), Some(&1), "{refresh:?}");
    let mut strict = bench.request("d-3", Operation::Preview, "drift");
    strict.options.expect_no_changes = true;
    let strict = run(&client, &strict).await;
    assert_eq!(
        (strict.state, strict.failure.unwrap().exit_code),
        (RunState::Failed, Some(7))
    );
    assert!(
        strict.message.contains("no changes were expected"),
        "{}",
        strict.message
    );
}

#[tokio::test]
async fn what_is_missing_is_named() {
    let Some(tools) = tools() else { return };
    let mut bench = Bench::new(&tools);
    bench.program("stash", STASH);
    std::fs::create_dir(bench.path("workspace/empty")).unwrap();
    let client = bench.start().await;
    let request = |id: &str| bench.request(id, Operation::Up, "stash");

    let mut cases = Vec::new();
    let mut gone = request("m-1");
    gone.config = vec![file("k", "no/such/file", false, true)];
    cases.push((gone, "ConfigFileMissing"));
    let mut unset = request("m-2");
    unset.config = vec![env_var("k", "NO_SUCH", false)];
    cases.push((unset, "ConfigEnvMissing"));
    let mut tree = request("m-3");
    tree.program = ProgramSource::Tree {
        digest: "sha256:00".into(),
        dir: ".".into(),
    };
    cases.push((tree, "TreeMissing"));
    let mut empty = request("m-4");
    empty.program = ProgramSource::WorkspacePath {
        dir: "empty".into(),
    };
    cases.push((empty, "ProjectMissing"));
    let mut outside = request("m-5");
    outside.program = ProgramSource::WorkspacePath {
        dir: "../..".into(),
    };
    cases.push((outside, "DirOutside"));
    for (request, reason) in cases {
        let result = run(&client, &request).await;
        let failure = result.failure.unwrap();
        assert_eq!(
            (result.state, failure.before_cli),
            (RunState::Failed, true),
            "{reason}"
        );
        assert_eq!(
            failure.reason.as_deref(),
            Some(reason),
            "{}",
            result.message
        );
    }

    let mut absent = bench.request("m-6", Operation::Up, "stash");
    absent.create = false;
    let absent = run(&client, &absent).await;
    assert_eq!(
        (absent.state, absent.failure.unwrap().exit_code),
        (RunState::Failed, Some(6)),
        "{}",
        absent.message
    );

    let mut esc = bench.request("m-7", Operation::Up, "stash");
    esc.environments = vec!["org/env".into()];
    let esc = run(&client, &esc).await;
    assert!(
        esc.message.contains("does not support environments"),
        "{}",
        esc.message
    );
}

#[tokio::test]
async fn a_wrong_passphrase_is_told_in_the_clis_words() {
    let Some(tools) = tools() else { return };
    let mut bench = Bench::new(&tools);
    bench.program("stash", STASH);
    let client = bench.start().await;
    let mut request = bench.request("p-1", Operation::Up, "stash");
    request.config = vec![inline("k", json!("v-canary"), true)];
    assert_eq!(run(&client, &request).await.state, RunState::Succeeded);
    bench.kill_agent();
    bench
        .env
        .insert("PULUMI_CONFIG_PASSPHRASE".into(), "another".into());
    let client = bench.start().await;
    request.id = "p-2".into();
    let wrong = run(&client, &request).await;
    assert_eq!(
        (wrong.state, wrong.reached_engine),
        (RunState::Failed, false)
    );
    assert!(
        wrong.message.contains("incorrect passphrase"),
        "{}",
        wrong.message
    );
    bench.env.remove("PULUMI_CONFIG_PASSPHRASE");
    bench.kill_agent();
    let client = bench.start().await;
    request.id = "p-3".into();
    let none = run(&client, &request).await;
    assert!(
        none.message.contains("passphrase must be set"),
        "{}",
        none.message
    );
}

#[tokio::test]
async fn a_cli_that_is_missing_or_too_old() {
    let Some(tools) = tools() else { return };
    let mut bench = Bench::new(&tools);
    bench.program("stash", STASH);
    bench
        .env
        .insert("PATH".into(), bench.path("bin").display().to_string());
    let client = bench.start().await;
    let problem = client.hello().await.unwrap().pulumi.unwrap_err();
    assert!(problem.contains("no `pulumi` on the PATH"), "{problem}");
    let missing = run(&client, &bench.request("o-1", Operation::Up, "stash")).await;
    assert_eq!(
        missing.failure.unwrap().reason.as_deref(),
        Some("PulumiMissing")
    );
    bench.shim("#!/bin/sh\necho v3.200.1\n");
    let old = run(&client, &bench.request("o-2", Operation::Up, "stash")).await;
    let failure = old.failure.unwrap();
    assert_eq!(
        (failure.reason.as_deref(), failure.before_cli),
        (Some("PulumiVersionTooLow"), true)
    );
    assert!(old.message.contains("3.200.1"), "{}", old.message);
}
