//! One line of setup for a Stack, and a small world in which everything that a decision asks for succeeds.

mod ends;
mod tasks;
mod world;
mod writes;

pub use ends::{failed, succeeded, with_outputs};
pub use world::{Conditions, Run, World};

use serde_json::{Value, json};
use windlass_api::Stack;
use windlass_core::failure::{Failure, FailureClass};

/// The moment at which every world begins.
pub const T0: i64 = 1_767_225_600_000;
pub const READY: &str = "the stack has been processed and is up to date";

/// A Stack `web` of a Git source, with these fields of the specification on top. `null` removes a field.
pub fn stack(fields: Value) -> Stack {
    let mut spec = json!({
        "stack": "org/app/dev",
        "projectRepo": "https://git.example/app",
        "branch": "main",
        "backend": "file:///state",
    });
    for (key, value) in fields.as_object().unwrap() {
        if value.is_null() {
            spec.as_object_mut().unwrap().shift_remove(key);
        } else {
            spec[key] = value.clone();
        }
    }
    serde_json::from_value(json!({
        "apiVersion": "pulumi.com/v1",
        "kind": "Stack",
        "metadata": {"name": "web", "namespace": "apps", "uid": "uid-web", "generation": 1},
        "spec": spec,
    }))
    .unwrap()
}

/// A Stack that nobody has looked at yet.
pub fn fresh(fields: Value) -> World {
    World::new(stack(fields))
}

/// A Stack that has run once, successfully, and waits.
pub fn ready(fields: Value) -> World {
    fresh(fields).settled()
}

/// A Stack whose first run ended so.
pub fn after(fields: Value, end: windlass_api::intent::RunSummary) -> World {
    let mut world = fresh(fields);
    world.ends.push_back(end);
    world.settled()
}

/// A Stack whose first run goes on.
pub fn running(fields: Value) -> World {
    let mut world = fresh(fields);
    world.hold_run();
    world.settled()
}

pub fn failure(class: FailureClass, message: &str) -> Failure {
    Failure::new(class, "Reason", message)
}
