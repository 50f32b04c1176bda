//! How far a run is, written to its Update once it takes its time.
#![allow(clippy::unwrap_used)]

use std::time::Duration;

use windlass_e2e::stored::{is_ready, is_true};
use windlass_e2e::world::{World, eventually, eventually_or, provider};

const PATIENCE: Duration = Duration::from_secs(240);

fn program(world: &World, value: &str, takes: &str) {
    world.write(
        "program.yaml",
        &format!(
            "apiVersion: pulumi.com/v1\nkind: Program\nmetadata: {{name: long}}\nprogram:\n  resources:\n    quick:\n      \
             type: pulumi:Stash\n      properties: {{input: {value}}}\n    slow:\n      type: windlasstest:index:Thing\n      \
             properties: {{value: {value}, {takes}}}\n  outputs: {{value: \"${{slow.value}}\"}}\n"
        ),
    );
}

#[test]
fn a_run_that_takes_its_time_says_how_far_it_is() {
    let Some(world) = World::new() else { return };
    if provider(&world).is_none() {
        return;
    }
    let go = world.path().join("go");
    program(&world, "one", &format!("waitFile: {}", go.display()));
    world.stack(
        "long",
        "organization/long/dev",
        "programRef: {name: long}\n",
    );
    let running = world.start(&["--progress-after", "1", "--progress-every", "1"]);
    let update = eventually_or(
        PATIENCE,
        || running.log(),
        || {
            let updates = world.updates("long");
            let going_on = updates.into_iter().find(|one| !is_true(one, "Complete"))?;
            // The slow one may not be known yet when the quick one is done.
            let progress = &going_on["status"]["progress"];
            (progress["done"] == 1 && progress["total"] == 2).then_some(going_on)
        },
    );
    let progress = &update["status"]["progress"];
    assert_eq!(progress["stage"], "running", "{progress}");
    assert!(
        progress["current"]
            .as_str()
            .unwrap()
            .ends_with("Thing::slow"),
        "{progress}"
    );
    let run = update["status"]["run"]["atMs"].as_i64().unwrap();
    assert!(progress["atMs"].as_i64().unwrap() >= run, "{update}");
    // Whoever asks meanwhile is told.
    let shown = world.windlass(&["status", "long"]);
    assert!(
        shown.stdout.contains("going on, 1 of 2 resources"),
        "{}",
        shown.stdout
    );
    let json = world.windlass(&["status", "long", "--output", "json"]);
    assert_eq!(json.row("long")["progress"]["done"], 1, "{}", json.stdout);

    // The end says it all.
    std::fs::write(&go, "").unwrap();
    eventually(PATIENCE, "the end", || {
        world.stored_stack("long").filter(is_ready)
    });
    let update = &world.updates("long")[0];
    assert!(
        is_true(update, "Complete") && update["status"]["progress"].is_null(),
        "{update}"
    );
    assert_eq!(update["status"]["summary"]["state"], "succeeded");
    running.kill();

    // A run that is shorter than what is asked for writes nothing on its way.
    let running = world.start(&[]);
    program(&world, "two", "sleepMs: 1000");
    eventually_or(
        PATIENCE,
        || running.log(),
        || {
            for update in world.updates("long") {
                assert!(update["status"]["progress"].is_null(), "{update}");
            }
            let stack = world.stored_stack("long").filter(is_ready)?;
            (stack["status"]["outputs"]["value"] == "two").then_some(())
        },
    );
}
