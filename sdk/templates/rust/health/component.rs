//! The component in the real host.

use windlass_sdk_test::{Component, World, json};

#[test]
fn the_condition_decides() {
    let plugin = Component::build();
    let object = |generation: u32, ready: &str| {
        json!({
            "apiVersion": "example.org/v1", "kind": "@TYPE@", "metadata": {"name": "one", "generation": generation},
            "status": {"observedGeneration": 2, "conditions": [{"type": "Ready", "status": ready, "message": "no disk"}]},
        })
    };
    for (object, status, message) in [
        (object(2, "True"), "Healthy", "ready"),
        (object(2, "False"), "Degraded", "no disk"),
        (object(3, "True"), "Progressing", "the controller has not seen the latest spec"),
    ] {
        let verdict = plugin.assess(&World::new(), &object).unwrap();
        assert_eq!((&verdict["status"], &verdict["message"]), (&json!(status), &json!(message)));
    }
}
