//! Init containers of a template's own: they find the program in place.

use pretty_assertions::{assert_eq, assert_ne};
use serde_json::{Value, json};
use windlass_api::run::ProgramSource;
use windlass_core::decision::Slot;
use windlass_core::failure::{Failure, FailureClass};

use crate::support::{World, fresh};

fn instance(world: &World) -> String {
    let current = world.s.objects.workspace.current.as_ref();
    current.expect("there is no workspace").uid.clone()
}

/// A template with an init container of its own.
fn prepared() -> Value {
    json!({"workspaceTemplate": {"spec": {"podTemplate": {"spec": {"initContainers": [
        {"name": "prepare", "image": "x"}
    ]}}}}})
}

#[test]
fn init_containers_find_the_program_in_place_and_a_new_one_is_another_pod() {
    let mut world = fresh(prepared());
    world.settle();
    let tree = |revision: &str| ProgramSource::Tree {
        digest: format!("sha256:{revision}"),
        dir: String::new(),
    };
    assert_eq!(world.delivered, [tree("r1")]);
    assert_eq!(world.reason(), "ProcessingCompleted");
    let first = instance(&world);

    // What has been put there is what runs: nothing is put there twice.
    world.request("again");
    world.settle();
    assert_eq!((world.runs.len(), world.delivered.len()), (2, 1));
    assert_eq!(instance(&world), first);

    world.push("r2", "t2");
    world.settle();
    assert_eq!(world.delivered, [tree("r1"), tree("r2")]);
    assert_ne!(instance(&world), first);
    assert_eq!(
        (world.runs.len(), world.reason().as_str()),
        (3, "ProcessingCompleted")
    );
}

#[test]
fn what_hinders_the_program_on_its_way_is_said_and_tried_again() {
    let mut world = fresh(prepared());
    let down = Failure::new(FailureClass::Unavailable, "TreeGone", "the tree is gone");
    world.trouble.insert(Slot::Program, down);
    world.settle();
    let told = world.message();
    assert!(
        told.contains("putting the program into the workspace: the tree is gone"),
        "{told}"
    );
    assert!(world.runs.is_empty());
    world.trouble.clear();
    world.wake();
    assert_eq!((world.delivered.len(), world.runs.len()), (1, 1));
}
