//! Nothing is lost between the wire and the types.
#![allow(clippy::unwrap_used)]

use pretty_assertions::assert_eq;
use serde_json::{Value, json};
use windlass_api::crd;
use windlass_api::manifest::{self, Manifest};
use windlass_api::program::ProgramStatus;
use windlass_api::stack::StackStatus;
use windlass_api::{Program, Stack, Update, Workspace};

/// Sorted, so that only content is compared.
fn sorted(value: &Value) -> Value {
    match value {
        Value::Object(map) => {
            let mut entries: Vec<_> = map.iter().map(|(k, v)| (k.clone(), sorted(v))).collect();
            entries.sort_by(|a, b| a.0.cmp(&b.0));
            Value::Object(entries.into_iter().collect())
        }
        Value::Array(items) => Value::Array(items.iter().map(sorted).collect()),
        other => other.clone(),
    }
}

fn stack_schema() -> Value {
    let definition = serde_json::to_value(crd::stack()).unwrap();
    definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"].clone()
}

fn yaml(text: &str) -> Value {
    serde_saphyr::from_str(text).unwrap()
}

fn only(text: &str) -> Manifest {
    let mut found = manifest::parse("fixture", text);
    assert_eq!(found.errors, vec![]);
    assert_eq!(found.warnings, vec![]);
    assert_eq!(found.objects.len(), 1);
    found.objects.remove(0).manifest
}

#[test]
fn a_stack_with_every_field_round_trips() {
    let text = include_str!("fixtures/stack-full.yaml");
    let Manifest::Stack(stack) = only(text) else {
        panic!()
    };
    let json = serde_json::to_value(&stack).unwrap();
    assert_eq!(sorted(&json), sorted(&yaml(text)));
    let again: Stack = serde_json::from_value(json).unwrap();
    assert_eq!(again, *stack);
    // The fixture is worth what it covers: all properties of the spec, and those of the templates.
    let schema = stack_schema();
    let spec = &yaml(text)["spec"];
    for property in schema["properties"]["spec"]["properties"]
        .as_object()
        .unwrap()
        .keys()
    {
        assert!(
            spec.get(property).is_some(),
            "the fixture lacks spec.{property}"
        );
    }
    for template in ["workspaceTemplate", "updateTemplate"] {
        let schema = &schema["properties"]["spec"]["properties"][template]["properties"];
        for part in ["spec", "status"] {
            for property in schema[part]["properties"].as_object().unwrap().keys() {
                let there = spec[template][part].get(property).is_some();
                assert!(there, "the fixture lacks spec.{template}.{part}.{property}");
            }
        }
    }
}

#[test]
fn a_stack_status_with_every_field_round_trips() {
    let json: Value = serde_json::from_str(include_str!("fixtures/stack-status.json")).unwrap();
    let status: StackStatus = serde_json::from_value(json.clone()).unwrap();
    assert_eq!(
        sorted(&serde_json::to_value(&status).unwrap()),
        sorted(&json)
    );
    let schema = stack_schema();
    let schema = &schema["properties"]["status"]["properties"];
    for property in schema.as_object().unwrap().keys() {
        assert!(
            json.get(property).is_some(),
            "the fixture lacks status.{property}"
        );
    }
    for property in schema["lastUpdate"]["properties"]
        .as_object()
        .unwrap()
        .keys()
    {
        assert!(
            json["lastUpdate"].get(property).is_some(),
            "the fixture lacks lastUpdate.{property}"
        );
    }
}

#[test]
fn an_unknown_state_of_an_update_is_kept() {
    let json = json!({"lastUpdate": {"state": "paused"}});
    let status: StackStatus = serde_json::from_value(json.clone()).unwrap();
    assert_eq!(serde_json::to_value(status).unwrap(), json);
}

#[test]
fn a_program_with_every_field_round_trips() {
    let text = include_str!("fixtures/program-full.yaml");
    let Manifest::Program(program) = only(text) else {
        panic!()
    };
    let json = serde_json::to_value(&program).unwrap();
    assert_eq!(sorted(&json), sorted(&yaml(text)));
    let again: Program = serde_json::from_value(json).unwrap();
    assert_eq!(again, *program);
    let status = json!({"observedGeneration": 1, "artifact": {
        "path": "programs/a/b/1.tar.gz", "url": "http://x/programs/a/b/1", "revision": "1", "digest": "sha256:0a",
        "lastUpdateTime": "2026-01-01T00:00:00Z", "size": 12, "metadata": {"a": "b"}}});
    let typed: ProgramStatus = serde_json::from_value(status.clone()).unwrap();
    assert_eq!(
        sorted(&serde_json::to_value(typed).unwrap()),
        sorted(&status)
    );
}

#[test]
fn workspace_and_update_round_trip_as_objects() {
    let template = &yaml(include_str!("fixtures/stack-full.yaml"))["spec"];
    let mut workspace = template["workspaceTemplate"].clone();
    workspace["metadata"]["name"] = json!("w");
    let typed: Workspace = serde_json::from_value(workspace.clone()).unwrap();
    assert_eq!(
        sorted(&serde_json::to_value(&typed).unwrap()),
        sorted(&workspace)
    );
    let mut update = template["updateTemplate"].clone();
    update["metadata"]["name"] = json!("u");
    let typed: Update = serde_json::from_value(update.clone()).unwrap();
    assert_eq!(
        sorted(&serde_json::to_value(&typed).unwrap()),
        sorted(&update)
    );
}

#[test]
fn secrets_of_a_spec_are_not_shown_by_debug() {
    let Manifest::Stack(stack) = only(include_str!("fixtures/stack-full.yaml")) else {
        panic!()
    };
    assert!(!format!("{stack:?}").contains("hunter2"));
}
