//! What the agent is asked, field by field, and that a saved snapshot decides the same again.

use pretty_assertions::assert_eq;
use serde_json::{Value, json};
use windlass_api::run::{ConfigValue, Operation, RunRequest};
use windlass_core::request::{Mounts, run_request, update_spec};
use windlass_core::snapshot::Snapshot;
use windlass_core::{decide, run};

use crate::support::{self, World, failed, ready, running};

fn request(world: &World) -> RunRequest {
    let mounts = Mounts {
        config_maps: "/m/c",
        secrets: "/m/s",
    };
    let update = run::ours(world.stack(), &world.s.objects.updates)
        .last()
        .unwrap();
    run_request(world.stack(), update, 7, &mounts)
}

fn existing(mut world: World, references: &[&str]) -> World {
    for name in references {
        world
            .s
            .objects
            .references
            .insert(name.parse().unwrap(), Some("1".into()));
    }
    world.settled()
}

#[test]
fn the_request_is_what_the_update_pinned() {
    let asked = request(&running(
        json!({"timeoutSeconds": 90, "secretsProvider": "awskms://k", "environment": ["a", "b"]}),
    ));
    assert_eq!(
        (asked.epoch, asked.operation, asked.stack.as_str()),
        (7, Operation::Up, "org/app/dev")
    );
    assert_eq!((asked.create, asked.timeout_seconds), (true, Some(90)));
    assert_eq!(asked.secrets_provider.as_deref(), Some("awskms://k"));
    assert_eq!(asked.environments, ["a", "b"]);
}

#[test]
fn a_deadline_is_asked_for_only_if_it_is_one() {
    for (written, asked) in [
        (json!(null), None),
        (json!(0), None),
        (json!(-3), None),
        (json!(1), Some(1)),
    ] {
        assert_eq!(
            request(&ready(json!({"timeoutSeconds": written}))).timeout_seconds,
            asked,
            "{written}"
        );
    }
}

#[test]
fn a_stack_is_created_unless_it_is_to_exist_or_to_go() {
    assert!(request(&ready(json!({}))).create);
    assert!(!request(&ready(json!({"useLocalStackOnly": true}))).create);
    let mut world = ready(json!({"destroyOnFinalize": true}));
    world.hold_run();
    world.delete().settle();
    let asked = request(&world);
    assert_eq!((asked.operation, asked.create), (Operation::Destroy, false));
}

#[test]
fn options_reach_the_operations_that_they_are_for() {
    let spec = json!({"targets": ["urn:a"], "targetDependents": true, "refresh": true, "runProgram": true});
    let stack = support::stack(spec);
    for (operation, deploys) in [
        (Operation::Up, true),
        (Operation::Preview, true),
        (Operation::Destroy, false),
    ] {
        let spec = update_spec(&stack, operation, "why".into());
        assert_eq!(spec.target.is_some(), deploys, "{operation}");
        assert_eq!(
            spec.target_dependents,
            deploys.then_some(true),
            "{operation}"
        );
        assert_eq!(spec.refresh, deploys.then_some(true), "{operation}");
        assert_eq!(spec.run_program, (!deploys).then_some(true), "{operation}");
        assert_eq!(spec.type_.as_deref(), Some(operation.as_str()));
        assert_eq!(
            (spec.message.as_deref(), spec.ttl_after_completed.as_deref()),
            (Some("why"), Some("24h"))
        );
    }
    let plain = update_spec(&support::stack(json!({})), Operation::Up, String::new());
    assert_eq!(
        (plain.target, plain.refresh, plain.target_dependents),
        (None, None, None)
    );
}

#[test]
fn configuration_names_files_and_the_secret_one_wins() {
    let world = support::fresh(json!({
        "config": {"app:plain": {"a": [1]}, "app:both": "open"},
        "configRef": {"app:file": {"name": "cm", "key": "k", "json": true}},
        "secrets": {"app:inline": "hush"},
        "secretsRef": {
            "app:both": {"type": "Secret", "secret": {"name": "s", "key": "p"}},
            "app:literal": {"type": "Literal", "literal": {"value": "hush too"}},
        },
    }));
    let world = existing(world, &["ConfigMap/cm/k", "Secret/s/p"]);
    let inline = |value: Value| ConfigValue::Inline { value };
    let file = |path: &str, json| ConfigValue::File {
        path: path.into(),
        json,
    };
    let found: Vec<(String, ConfigValue, bool)> = request(&world)
        .config
        .into_iter()
        .map(|c| (c.key, c.value, c.secret))
        .collect();
    assert_eq!(
        found,
        [
            ("app:both".into(), file("/m/s/s/p", false), true),
            ("app:file".into(), file("/m/c/cm/k", true), false),
            ("app:inline".into(), inline(json!("hush")), true),
            ("app:literal".into(), inline(json!("hush too")), true),
            ("app:plain".into(), inline(json!({"a": [1]})), false),
        ]
    );
}

#[test]
fn a_saved_snapshot_decides_the_same_again() {
    let mut blocked = support::fresh(json!({"prerequisites": [{"name": "db"}], "envs": ["e"]}));
    blocked
        .s
        .objects
        .references
        .insert("ConfigMap/e".parse().unwrap(), None);
    blocked
        .other("db", Some(5))
        .outputs
        .insert("o".into(), "d".into());
    let failed = support::after(
        json!({}),
        failed(windlass_core::failure::FailureClass::Program, "boom"),
    );
    let mut worlds = vec![
        support::fresh(json!({})),
        running(json!({})),
        ready(json!({"suspend": true})),
        failed,
        blocked,
    ];
    worlds.push({
        let mut world = ready(json!({"destroyOnFinalize": true}));
        world.delete();
        world
    });
    for mut world in worlds {
        for _ in 0..12 {
            let text = serde_json::to_string(&world.s).unwrap();
            let again: Snapshot = serde_json::from_str(&text).unwrap();
            assert_eq!(
                serde_json::to_string(&again).unwrap(),
                text,
                "nothing is lost"
            );
            assert_eq!(decide(&again), decide(&world.s));
            let decision = serde_json::to_string(&decide(&again)).unwrap();
            let read: windlass_core::Decision = serde_json::from_str(&decision).unwrap();
            assert_eq!(read, decide(&again), "a saved decision too");
            world.step();
        }
    }
}

#[test]
fn a_snapshot_of_an_older_version_can_be_read() {
    let world = running(json!({}));
    let mut saved = serde_json::to_value(&world.s).unwrap();
    saved["seen"]
        .as_object_mut()
        .unwrap()
        .shift_remove("cancel");
    let read: Snapshot = serde_json::from_value(saved).unwrap();
    assert_eq!(decide(&read), world.decide());
}
