//! Workspaces and Updates that somebody made by hand.

use pretty_assertions::assert_eq;
use serde_json::{Value, json};
use windlass_api::conditions::{COMPLETE, PROGRESSING, get};
use windlass_api::intent::Cause;
use windlass_api::run::{Operation, ProgramSource, RunState};
use windlass_api::{Update, Workspace};
use windlass_core::by_hand;
use windlass_core::decision::{Slot, Write};
use windlass_core::request::Mounts;

use crate::support::{World, fresh, ready, running};

fn push(world: &mut World, name: &str, spec: Value) {
    let version = world.s.objects.updates.len() + 1000;
    let update: Update = serde_json::from_value(json!({
        "metadata": {"name": name, "namespace": "apps", "resourceVersion": version.to_string()},
        "spec": spec,
    }))
    .unwrap();
    world.s.objects.updates.push(update);
}

/// A world without a Stack.
fn alone(workspace: Value) -> World {
    let mut world = fresh(json!({}));
    world.s.objects.stack = None;
    let workspace: Workspace = serde_json::from_value(json!({
        "metadata": {"name": "web", "namespace": "apps", "uid": "w-1"},
        "spec": workspace,
    }))
    .unwrap();
    world.s.objects.by_hand = Some(workspace);
    world
}

fn reason(world: &World, update: &str, type_: &str) -> (String, String) {
    let status = world.update(update).status.clone().unwrap_or_default();
    let condition = get(&status.conditions, type_).cloned().unwrap();
    (condition.status, condition.reason)
}

fn ended(world: &World, update: &str) -> RunState {
    assert!(complete(world, update));
    let status = world.update(update).status.clone().unwrap_or_default();
    status.summary.unwrap().state
}

fn complete(world: &World, update: &str) -> bool {
    let status = world.update(update).status.clone().unwrap_or_default();
    get(&status.conditions, COMPLETE).is_some_and(|condition| condition.status == "True")
}

#[test]
fn beside_a_stack_it_runs_what_the_stack_ran_and_leaves_its_status_alone() {
    let mut world = ready(json!({}));
    let before = world.status().clone();
    push(
        &mut world,
        "look",
        json!({"workspaceName": "web", "type": "preview"}),
    );
    world.settle();
    assert!(complete(&world, "look"));
    assert_eq!(world.runs.len(), 2);
    let run = &world.runs[1];
    assert_eq!(
        (run.operation, &run.cause, run.revision.as_str()),
        (Operation::Preview, &Cause::ByHand, "r1")
    );
    let after = world.status();
    assert_eq!(
        (&after.last_update, &after.conditions),
        (&before.last_update, &before.conditions)
    );
    // Once.
    world.settle();
    assert_eq!(world.runs.len(), 2);
}

#[test]
fn while_the_stack_runs_it_waits_and_the_other_way_round() {
    let mut world = running(json!({}));
    push(
        &mut world,
        "look",
        json!({"workspaceName": "web", "type": "preview"}),
    );
    world.settle();
    assert_eq!(
        reason(&world, "look", PROGRESSING),
        ("False".into(), "WorkspaceNotReady".into())
    );
    assert_eq!(world.runs.len(), 1);
    world.held.clear();
    world.settle();
    assert!(complete(&world, "look"));
    assert_eq!(world.runs.len(), 2);

    push(
        &mut world,
        "again",
        json!({"workspaceName": "web", "type": "refresh"}),
    );
    world.hold_run();
    world.settle();
    assert_eq!(world.runs.len(), 3);
    world.revision = "r2".into();
    world.s.source_signal += 1;
    world.settle();
    assert_eq!(world.runs.len(), 3, "one run at a time");
    world.held.clear();
    world.settle();
    assert_eq!(world.runs.len(), 4);
    assert_eq!(world.runs[3].revision, "r2");
}

#[test]
fn a_stacks_workspace_that_is_not_kept_comes_back_for_them_and_stays_until_all_are_over() {
    let init = json!([{"name": "prepare", "image": "tools"}]);
    let template = json!({"spec": {"podTemplate": {"spec": {"initContainers": init}}}});
    for more in [json!(null), template] {
        let mut world = ready(json!({
            "workspaceReclaimPolicy": "Delete",
            "workspaceTemplate": more,
        }));
        assert_eq!(world.s.objects.workspace.current, None);
        for name in ["first", "second"] {
            let look = json!({"workspaceName": "web", "type": "preview"});
            push(&mut world, name, look);
        }
        world.settle();
        assert!(complete(&world, "first") && complete(&world, "second"));
        assert_eq!(world.runs.len(), 3);
        assert_eq!(world.s.objects.workspace.current, None);
    }
}

#[test]
fn a_workspace_of_its_own_is_made_and_runs_updates_in_order() {
    let mut world = alone(json!({"projectInfo": {"name": "p", "runtime": "yaml"}}));
    world.settle();
    assert!(world.s.objects.workspace.current.is_some());
    push(
        &mut world,
        "b",
        json!({"workspaceName": "web", "stackName": "dev", "type": "up"}),
    );
    push(
        &mut world,
        "a",
        json!({"workspaceName": "web", "stackName": "dev", "type": "refresh"}),
    );
    world.settle();
    let order: Vec<&str> = world.runs.iter().map(|run| run.update.as_str()).collect();
    assert_eq!(order, ["a", "b"]);
    assert!(complete(&world, "a") && complete(&world, "b"));
    // Gone, and its pod with it; what people made stays.
    world.s.objects.by_hand = None;
    world.settle();
    assert!(world.s.objects.workspace.current.is_none());
    assert_eq!(world.s.objects.updates.len(), 2);
}

#[test]
fn what_is_missing_is_said_once() {
    let mut world = alone(json!({"flux": {"url": "https://flux.example/x.tar.gz"}}));
    push(
        &mut world,
        "a",
        json!({"workspaceName": "web", "stackName": "dev", "type": "up"}),
    );
    world.settle();
    let status = world.update("a").status.clone().unwrap();
    let message = &get(&status.conditions, PROGRESSING).unwrap().message;
    assert!(
        message.contains("spec.flux needs url and digest"),
        "{message}"
    );
    let said = world
        .log
        .iter()
        .filter(|write| matches!(write, Write::UpdateWaits { .. }))
        .count();
    assert_eq!(said, 1);

    let mut world = fresh(json!({}));
    world.s.objects.stack = None;
    push(
        &mut world,
        "a",
        json!({"workspaceName": "none", "stackName": "dev", "type": "up"}),
    );
    world.settle();
    assert_eq!(
        reason(&world, "a", PROGRESSING),
        ("False".into(), "WorkspaceNotFound".into())
    );
}

#[test]
fn its_source_is_resolved_and_fetched() {
    let mut world =
        alone(json!({"git": {"url": "https://example.com/x", "ref": "main", "dir": "d"}}));
    world.held.insert(Slot::Run);
    push(
        &mut world,
        "a",
        json!({"workspaceName": "web", "stackName": "dev", "type": "up"}),
    );
    world.settle();
    assert_eq!(world.runs.len(), 1);
    let started = by_hand::started(&world.s.objects).next().unwrap();
    assert!(matches!(started.intent.program, ProgramSource::Tree { .. }));
    assert_eq!(started.intent.revision, "r1");
    let stack = by_hand::stack(&world.s.objects).unwrap();
    assert_eq!(
        (stack.spec.branch.as_deref(), stack.spec.repo_dir.as_deref()),
        (Some("main"), Some("d"))
    );
}

#[test]
fn cancelled_expired_and_lost_ones_end() {
    let mut world = alone(json!({}));
    push(
        &mut world,
        "a",
        json!({"workspaceName": "web", "stackName": "dev", "type": "nonsense"}),
    );
    push(
        &mut world,
        "b",
        json!({"workspaceName": "web", "stackName": "dev", "type": "up", "ttlAfterCompleted": "1m"}),
    );
    world.hold_run();
    world.settle();
    assert_eq!(ended(&world, "a"), RunState::Cancelled);
    assert_eq!(world.runs.len(), 1);
    world.kill_workspace(true);
    world.held.clear();
    world.settle();
    assert_eq!(ended(&world, "b"), RunState::Lost);
    assert_eq!(
        world.runs.len(),
        1,
        "a lost run is not repeated: nobody wants it again"
    );
    world.pass(61);
    world.settle();
    let left: Vec<_> = world.s.objects.updates.iter().collect();
    assert!(
        left.iter()
            .all(|update| update.metadata.name.as_deref() != Some("b"))
    );
}

#[test]
fn configuration_comes_from_the_entry_of_the_stack() {
    let mut world = alone(json!({
        "projectInfo": {"name": "p", "runtime": "yaml"},
        "stacks": [
            {"name": "other", "config": [{"key": "x", "value": "1"}]},
            {"name": "dev", "create": true, "secretsProvider": "passphrase", "environment": ["e"], "config": [
                {"key": "p:a", "value": {"b": 1}},
                {"key": "p:c", "valueFrom": {"env": "C", "json": true}, "secret": true},
                {"key": "p:d.e", "path": true, "valueFrom": {"path": "/secrets/d"}},
            ]},
        ],
    }));
    world.held.insert(Slot::Run);
    push(
        &mut world,
        "a",
        json!({"workspaceName": "web", "stackName": "dev", "type": "up", "refresh": true}),
    );
    world.settle();
    let objects = &world.s.objects;
    let started = by_hand::started(objects).next().unwrap();
    let mounts = Mounts {
        config_maps: "/c",
        secrets: "/s",
    };
    let stack = by_hand::stack(objects).unwrap();
    let request = by_hand::request(&stack, objects.by_hand.as_ref(), started, 7, &mounts);
    assert_eq!(
        (request.stack.as_str(), request.create, request.epoch),
        ("dev", true, 7)
    );
    assert_eq!(request.secrets_provider.as_deref(), Some("passphrase"));
    assert_eq!(request.environments, ["e"]);
    assert!(request.options.refresh);
    let keys: Vec<(&str, bool, bool)> = request
        .config
        .iter()
        .map(|item| (item.key.as_str(), item.path, item.secret))
        .collect();
    assert_eq!(
        keys,
        [
            ("p:a", false, false),
            ("p:c", false, true),
            ("p:d.e", true, false)
        ]
    );
}

#[test]
fn its_own_init_containers_find_the_program_in_place() {
    let mut world = alone(json!({
        "git": {"url": "https://git.example/app", "ref": "main"},
        "podTemplate": {"spec": {"initContainers": [{"name": "prepare", "image": "x"}]}},
    }));
    world.settle();
    let tree = ProgramSource::Tree {
        digest: "sha256:r1".into(),
        dir: String::new(),
    };
    // Before anybody asks for a run.
    assert_eq!(world.delivered, [tree]);
    push(
        &mut world,
        "a",
        json!({"workspaceName": "web", "stackName": "dev", "type": "up"}),
    );
    world.settle();
    assert_eq!(ended(&world, "a"), RunState::Succeeded);
    assert_eq!(world.delivered.len(), 1);
}
