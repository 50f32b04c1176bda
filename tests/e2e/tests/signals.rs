//! Ctrl-C: once lets go of the runs, twice leaves at once.
#![allow(clippy::unwrap_used)]

use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::Value;
use windlass_e2e::stored::{is_ready, is_true};
use windlass_e2e::world::{Running, World, eventually, eventually_or, provider};

const PATIENCE: Duration = Duration::from_secs(240);

/// A Stack whose run takes until somebody lets it end.
fn world() -> Option<World> {
    let world = World::new()?;
    provider(&world)?;
    let program = format!(
        "apiVersion: pulumi.com/v1\nkind: Program\nmetadata:\n  name: slow\nprogram:\n  resources:\n    thing:\n      type: \
         windlasstest:index:Thing\n      properties: {{value: kept, waitFile: {0}/go, logFile: {0}/ops.log}}\n  outputs:\n    \
         value: ${{thing.value}}\n",
        world.path().display()
    );
    world.write("program.yaml", &program);
    world.stack(
        "slow",
        "organization/slow/dev",
        "programRef: {name: slow}\n",
    );
    Some(world)
}

fn operations(world: &World) -> Vec<String> {
    let log = std::fs::read_to_string(world.path().join("ops.log")).unwrap_or_default();
    log.lines().map(str::to_owned).collect()
}

/// Waits until the resource is under work; returns the name of the Update.
fn under_way(world: &World, running: &Running) -> String {
    eventually_or(
        PATIENCE,
        || format!("the run under way\n{}", running.log()),
        || (!operations(world).is_empty()).then_some(()),
    );
    open_update(world)
}

fn open_update(world: &World) -> String {
    let updates = world.updates("slow");
    let open: Vec<&Value> = updates.iter().filter(|u| !is_true(u, "Complete")).collect();
    assert_eq!(open.len(), 1, "{updates:?}");
    open[0]["metadata"]["name"].as_str().unwrap().to_owned()
}

fn agent(world: &World, stack: &str) -> i32 {
    let place = format!("default.{stack}/");
    let found = world.processes();
    let agent = found
        .iter()
        .find(|(_, line)| line.contains("windlass-agent serve") && line.contains(&place));
    agent.unwrap_or_else(|| panic!("{found:?}")).0
}

/// The next start attaches to the same run, which does its work once.
fn attaches(world: &World, update: &str) {
    std::fs::write(world.path().join("go"), "").unwrap();
    let ended = world.once();
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    let stack = world.stored_stack("slow").unwrap();
    assert!(is_ready(&stack), "{stack}");
    assert_eq!(stack["status"]["lastUpdate"]["name"], update);
    assert_eq!(stack["status"]["outputs"]["value"], "kept");
    assert_eq!(operations(world), ["create-begun thing", "create thing"]);
    assert_eq!(world.updates("slow").len(), 1);
    assert!(world.locks().is_empty(), "{:?}", world.locks());
}

#[test]
fn one_signal_detaches_politely_and_the_next_start_attaches_to_the_same_run() {
    let cases: [(&[&str], &str); 3] = [(&["--once"], "INT"), (&[], "INT"), (&[], "TERM")];
    for (arguments, signal) in cases {
        let Some(world) = world() else { return };
        let running = world.start(arguments);
        let update = under_way(&world, &running);
        let agent_before = agent(&world, "slow");
        running.signal(signal);
        let log = world.path().join("windlass.log");
        // Not all is well yet, and nothing was broken off. It does not wait for the run, which nobody has let end.
        assert_eq!(running.wait(PATIENCE), Some(1), "{arguments:?} {signal}");
        let told = std::fs::read_to_string(log).unwrap();
        assert!(
            told.contains("detaching: 1 run goes on with its agent (default/slow)"),
            "{told}"
        );
        assert!(told.contains("windlass cancel STACK --data-dir"), "{told}");
        assert_eq!(operations(&world), ["create-begun thing"]);
        assert_eq!(agent(&world, "slow"), agent_before);
        assert_eq!(open_update(&world), update);
        attaches(&world, &update);
    }
}

#[test]
fn a_second_signal_leaves_at_once() {
    let Some(world) = world() else { return };
    // With `--once` an idle agent is asked to end, and its end awaited: one that cannot answer keeps the process.
    world.write(
        "idle-program.yaml",
        "apiVersion: pulumi.com/v1\nkind: Program\nmetadata: {name: idle}\nprogram: {outputs: {one: 1}}\n",
    );
    world.stack(
        "idle",
        "organization/idle/dev",
        "programRef: {name: idle}\n",
    );
    let running = world.start(&["--once"]);
    let update = under_way(&world, &running);
    eventually(PATIENCE, "the other Stack", || {
        world.stored_stack("idle").filter(is_ready)
    });
    let stuck = agent(&world, "idle");
    signal(stuck, "STOP");
    running.interrupt();
    eventually_or(
        PATIENCE,
        || running.log(),
        || running.log().contains("detaching: ").then_some(()),
    );
    // It is the agent's end that is awaited now; at the second signal nothing is.
    running.interrupt();
    assert_eq!(running.wait(PATIENCE), Some(130));
    signal(stuck, "CONT");
    attaches(&world, &update);
}

fn signal(pid: i32, name: &str) {
    let sent = Command::new("kill")
        .arg(format!("-{name}"))
        .arg(pid.to_string())
        .stderr(Stdio::null())
        .status();
    assert!(sent.unwrap().success(), "SIG{name} to {pid}");
}
