//! `local` and what looks at its data, as far as no run is needed. Runs are tested with the real CLI elsewhere.

#![allow(clippy::unwrap_used)]

mod common;

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

use common::{plugins, run, windlass};
use serde_json::{Value, json};

const SUSPENDED: &str = "apiVersion: pulumi.com/v1
kind: Stack
metadata:
  name: idle
spec:
  stack: organization/idle/dev
  backend: file:///tmp/nowhere
  programRef: {name: idle}
  suspend: true
";

/// `local --once` on a directory, with plugins and agent that are never needed.
fn local(dir: &Path) -> Command {
    let nothing = dir.join("no-plugins");
    std::fs::create_dir_all(&nothing).unwrap();
    let mut command = windlass();
    command
        .args(["local", "--once", "--plugin-dir"])
        .arg(&nothing)
        .env("WINDLASS_AGENT", "/bin/true");
    command
}

#[test]
fn bad_manifests_are_told_with_their_place() {
    let dir = tempfile::tempdir().unwrap();
    let manifest = dir.path().join("stack.yaml");
    std::fs::write(
        &manifest,
        "apiVersion: pulumi.com/v1\nkind: Stack\nmetadata: {name: a}\nspec:\n  stack: a\n  refresh: \"yes\"\n",
    )
    .unwrap();
    let ran = run(local(dir.path()).arg(&manifest));
    assert_eq!(ran.code, 2, "{}", ran.stderr);
    assert!(
        ran.stderr
            .contains("stack.yaml:6:12: spec.refresh: expected a boolean, found a string"),
        "{}",
        ran.stderr
    );
    assert!(ran.stdout.is_empty());
}

#[test]
fn directories_and_helpers_that_are_missing_are_bad_input() {
    let dir = tempfile::tempdir().unwrap();
    let ran = run(local(dir.path()).arg(dir.path().join("nowhere")));
    assert_eq!(ran.code, 2);
    assert!(ran.stderr.contains("nowhere"), "{}", ran.stderr);

    let ran = run(local(dir.path())
        .arg(dir.path())
        .env("WINDLASS_AGENT", "/nowhere/agent"));
    assert_eq!(ran.code, 2);
    assert!(ran.stderr.contains("/nowhere/agent"), "{}", ran.stderr);
    assert!(ran.stderr.contains("WINDLASS_AGENT"), "{}", ran.stderr);

    let ran = run(local(dir.path())
        .arg(dir.path())
        .args(["--plugin-dir", "/nowhere/plugins"]));
    assert_eq!(ran.code, 2);
    assert!(ran.stderr.contains("/nowhere/plugins"), "{}", ran.stderr);
}

#[test]
fn the_result_is_one_document_and_stays_to_be_looked_at() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("idle.yaml"), SUSPENDED).unwrap();
    let ran = run(local(dir.path()).arg(dir.path()).args(["--output", "json"]));
    assert_eq!(ran.code, 1, "{}", ran.stderr);
    let result: Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!(result["ready"], json!(false));
    assert_eq!(result["runs"], json!(0));
    assert!(result["elapsedSeconds"].is_number());
    let stack = &result["stacks"][0];
    assert_eq!(
        (&stack["namespace"], &stack["name"]),
        (&json!("default"), &json!("idle"))
    );
    assert_eq!(stack["state"], json!("Suspended"));
    assert!(ran.stderr.contains(".windlass"), "{}", ran.stderr);

    // Found from a directory below.
    let below = dir.path().join("below");
    std::fs::create_dir(&below).unwrap();
    let here = |arguments: &[&str]| run(windlass().args(arguments).current_dir(&below));
    let status = here(&["status", "--output", "json"]);
    let shown: Value = serde_json::from_str(&status.stdout).unwrap();
    // Verdicts on health depend on the plugins that are found.
    let plain = |document: &Value| {
        let mut stack = document["stacks"][0].clone();
        for field in ["health", "healthMessage"] {
            stack[field] = Value::Null;
        }
        stack
    };
    assert_eq!(plain(&shown), plain(&result));
    assert_eq!(status.code, 1);

    let table = here(&["status", "idle"]);
    assert!(
        table.stdout.contains("1 Stack: 1 suspended"),
        "{}",
        table.stdout
    );
    assert!(table.stdout.contains("no runs yet"), "{}", table.stdout);

    let explained = here(&["explain", "idle", "--snapshot", "idle.json"]);
    assert_eq!(explained.code, 0, "{}", explained.stderr);
    assert!(
        explained.stdout.starts_with("default/idle is suspended"),
        "{}",
        explained.stdout
    );
    assert!(
        explained.stdout.contains("spec.suspend: false"),
        "{}",
        explained.stdout
    );
    let replayed = here(&["replay", "idle.json"]);
    assert!(
        replayed.stdout.starts_with("default/idle is suspended"),
        "{}",
        replayed.stdout
    );

    for (arguments, code, wanted) in [
        (&["logs", "idle"][..], 1, "has not run yet"),
        (&["cancel", "idle"], 1, "nothing to cancel"),
        (&["logs", "idle", "--update", "x"], 1, "no Update x"),
        (&["explain", "other"], 2, "no Stack default/other"),
        (&["status", "prod/idle"], 2, "did you mean default/idle?"),
    ] {
        let ran = here(arguments);
        assert_eq!(
            ran.code, code,
            "{arguments:?}: {}{}",
            ran.stdout, ran.stderr
        );
        assert!(ran.stderr.contains(wanted), "{arguments:?}: {}", ran.stderr);
    }
}

const NEEDS_MORE: &str = "apiVersion: pulumi.com/v1
kind: Stack
metadata: {name: cloudy}
spec:
  stack: acme/cloudy/dev
  programRef: {name: cloudy}
---
apiVersion: pulumi.com/v1
kind: Program
metadata: {name: cloudy}
program:
  outputs: {one: 1}
---
apiVersion: pulumi.com/v1
kind: Stack
metadata: {name: fluxy}
spec:
  stack: organization/fluxy/dev
  backend: file:///tmp/nowhere
  fluxSource:
    sourceRef: {apiVersion: source.toolkit.fluxcd.io/v1, kind: GitRepository, name: apps}
";

#[test]
fn what_a_stack_lacks_on_one_machine_is_said_before_any_run() {
    let Some(plugins) = plugins() else { return };
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("stacks.yaml"), NEEDS_MORE).unwrap();
    let ran = run(windlass()
        .args(["local", "--once", "--output", "json", "--plugin-dir"])
        .arg(&plugins)
        .arg(dir.path())
        .env("WINDLASS_AGENT", "/bin/true"));
    assert_eq!(ran.code, 1, "{}", ran.stderr);
    let result: Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!(result["runs"], json!(0));
    for (name, words) in [
        (
            "cloudy",
            "the Stack names no backend, so its state is kept by Pulumi Cloud (https://api.pulumi.com), which needs an access token: ",
        ),
        (
            "fluxy",
            "could not resolve sourceRef: objects of kind source.toolkit.fluxcd.io/GitRepository exist only on a cluster; ",
        ),
    ] {
        let stacks = result["stacks"].as_array().unwrap();
        let stack = stacks.iter().find(|it| it["name"] == name).unwrap();
        let text = stack.to_string();
        assert!(text.contains(words), "{name}: {text}");
        assert_eq!(stack["state"], json!("Failed"), "{text}");
    }
}

#[test]
fn a_directory_without_stacks_is_fine() {
    let dir = tempfile::tempdir().unwrap();
    let ran = run(local(dir.path()).arg(dir.path()));
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    assert!(
        ran.stdout.contains("no Stacks in the manifests"),
        "{}",
        ran.stdout
    );
}

#[test]
fn an_interrupt_lets_go_and_shows_how_things_stand() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("idle.yaml"), SUSPENDED).unwrap();
    let mut command = windlass();
    let mut child = command
        .args(["local", "--plugin-dir"])
        .arg(dir.path())
        .arg(dir.path())
        .env("WINDLASS_AGENT", "/bin/true")
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut news = BufReader::new(child.stderr.take().unwrap()).lines();
    // Its state is told: it has been looked at, and signals are heard.
    assert!(news.any(|line| line.unwrap().contains("is suspended")));
    let interrupted = Command::new("kill")
        .args(["-INT", &child.id().to_string()])
        .status()
        .unwrap();
    assert!(interrupted.success());
    assert!(news.any(|line| line.unwrap().contains("stopping")));
    let ended = child.wait_with_output().unwrap();
    let table = String::from_utf8(ended.stdout).unwrap();
    assert_eq!(ended.status.code(), Some(1), "{table}");
    assert!(table.contains("1 Stack: 1 suspended"), "{table}");
}
