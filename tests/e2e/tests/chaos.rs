//! kill -9 of each of the three processes, at moments spread over a run: no run lost or repeated, no lock left, outputs
//! right.
#![allow(clippy::unwrap_used)]

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use windlass_e2e::world::{Running, World, eventually_or, provider};

const ROUNDS: u32 = 20;

/// A program whose one resource takes its time and notes what is done to it.
fn program(world: &World, round: u32) -> String {
    format!(
        "apiVersion: pulumi.com/v1\nkind: Program\nmetadata:\n  name: slow\nprogram:\n  resources:\n    thing:\n      type: \
         windlasstest:index:Thing\n      properties: {{value: \"v{round}\", sleepMs: 700, logFile: \
         {}/ops.log}}\n  outputs:\n    value: ${{thing.value}}\n",
        world.path().display()
    )
}

fn world() -> Option<World> {
    let world = World::new()?;
    provider(&world)?;
    Some(world)
}

fn stack(world: &World) {
    world.stack(
        "slow",
        "organization/slow/dev",
        "programRef: {name: slow}\n",
    );
}

fn kill(pid: i32) {
    let _ = Command::new("kill")
        .arg("-9")
        .arg(pid.to_string())
        .stderr(Stdio::null())
        .status();
}

/// Moments from before the run to after it, the same every time, in no order.
fn moment(round: u32) -> Duration {
    Duration::from_millis(u64::from(round * 7 % ROUNDS) * 120)
}

/// What the resource was asked to do with this value, as its provider saw it.
fn operations(world: &World) -> Vec<String> {
    let log = std::fs::read_to_string(world.path().join("ops.log")).unwrap_or_default();
    log.lines().map(str::to_owned).collect()
}

fn status(world: &World) -> Option<serde_json::Value> {
    let ended = world.windlass(&["status", "--output", "json"]);
    serde_json::from_str::<serde_json::Value>(&ended.stdout)
        .ok()
        .map(|document| document["stacks"][0].clone())
}

fn ready_with(world: &World, running: &Running, value: &str) {
    let wrong = || {
        let log = running.log();
        let end: Vec<&str> = log.lines().rev().take(15).collect();
        format!(
            "output {value}; {:?}; last messages, newest first:\n{}",
            status(world),
            end.join("\n")
        )
    };
    eventually_or(Duration::from_secs(60), wrong, || {
        status(world).filter(|row| row["ready"] == true && row["outputs"]["value"] == value)
    });
}

/// Lines of finished changes of the resource: exactly one for each round.
fn finished(world: &World) -> usize {
    operations(world)
        .iter()
        .filter(|line| line.starts_with("create ") || line.starts_with("update "))
        .count()
}

#[test]
fn killing_windlass_local_leaves_the_run_alone() {
    let Some(world) = world() else { return };
    stack(&world);
    world.write("program.yaml", &program(&world, 0));
    let mut running = world.start(&[]);
    ready_with(&world, &running, "v0");
    for round in 1..=ROUNDS {
        world.write("program.yaml", &program(&world, round));
        std::thread::sleep(moment(round));
        running.kill();
        running = world.start(&[]);
        ready_with(&world, &running, &format!("v{round}"));
        // Once for each round and once at first: nothing was lost, nothing was done twice.
        assert_eq!(
            finished(&world),
            round as usize + 1,
            "round {round}: {:?}",
            operations(&world)
        );
        assert!(world.locks().is_empty(), "round {round}");
    }
}

#[test]
fn killing_an_agent_loses_nothing() {
    let Some(world) = world() else { return };
    stack(&world);
    world.write("program.yaml", &program(&world, 0));
    let running = world.start(&[]);
    ready_with(&world, &running, "v0");
    for round in 1..=ROUNDS {
        world.write("program.yaml", &program(&world, round));
        std::thread::sleep(moment(round));
        if let Some((pid, _)) = world
            .processes()
            .into_iter()
            .find(|(_, line)| line.contains("windlass-agent serve"))
        {
            kill(pid);
        }
        ready_with(&world, &running, &format!("v{round}"));
        assert_eq!(
            finished(&world),
            round as usize + 1,
            "round {round}: {:?}",
            operations(&world)
        );
        assert!(world.locks().is_empty(), "round {round}");
    }
}

#[test]
fn killing_the_cli_is_mended_by_the_next_run() {
    let Some(world) = world() else { return };
    stack(&world);
    world.write("program.yaml", &program(&world, 0));
    let running = world.start(&[]);
    ready_with(&world, &running, "v0");
    for round in 1..=ROUNDS {
        world.write("program.yaml", &program(&world, round));
        let begun = Instant::now();
        // The CLI is there for a part of the round only: wait for it, then for the moment.
        while begun.elapsed() < moment(round) {
            std::thread::sleep(Duration::from_millis(10));
        }
        let cli = |line: &str| line.contains("/pulumi ") && line.contains(" up ");
        if let Some((pid, _)) = world.processes().into_iter().find(|(_, line)| cli(line)) {
            kill(pid);
        }
        ready_with(&world, &running, &format!("v{round}"));
        assert!(
            world.locks().is_empty(),
            "round {round}: {:?}",
            world.locks()
        );
    }
    let changed = finished(&world);
    // A cut-off update may have been done by the provider and is done again: at most once more a round.
    assert!(
        (ROUNDS as usize + 1..=2 * ROUNDS as usize + 1).contains(&changed),
        "{changed}"
    );
}
