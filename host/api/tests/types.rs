//! Nothing is lost between the wire and the types, and the types have the fields that were published.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeSet;

use kube::CustomResourceExt;
use pretty_assertions::assert_eq;
use serde_json::{Value, json};
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
    let schema = crd_schema::<Stack>();
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
                if OURS.contains(&property.as_str()) {
                    continue;
                }
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
    let schema = crd_schema::<Stack>();
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

/// Fields of Updates that only Windlass writes.
const OURS: [&str; 3] = ["intent", "run", "summary"];

fn crd_schema<T: CustomResourceExt>() -> Value {
    let crd = serde_json::to_value(T::crd()).unwrap();
    crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"].clone()
}

/// Names of all properties, one path a line, with a star on those that are required. What Kubernetes itself defines (pods, metadata of objects, references to
/// keys) is not walked.
fn property_paths(schema: &Value, path: &str, paths: &mut BTreeSet<String>) {
    const FOREIGN: [&str; 6] = [
        "podTemplate.spec",
        "env[]",
        "envFrom[]",
        "spec.resources",
        "conditions[]",
        "spec.git.auth",
    ];
    let object_metadata = path.ends_with("metadata")
        && schema["properties"]
            .get("labels")
            .is_none_or(|_| schema["properties"].get("uid").is_some());
    if FOREIGN.iter().any(|foreign| path.ends_with(foreign))
        || (object_metadata && !path.ends_with("artifact.metadata"))
    {
        return;
    }
    if let Some(properties) = schema["properties"].as_object() {
        for (name, inner) in properties {
            let inner_path = if path.is_empty() {
                name.clone()
            } else {
                format!("{path}.{name}")
            };
            let required = schema["required"]
                .as_array()
                .is_some_and(|r| r.iter().any(|r| r == name));
            paths.insert(format!("{inner_path}{}", if required { "*" } else { "" }));
            if !OURS.contains(&name.as_str()) {
                property_paths(inner, &inner_path, paths);
            }
        }
    }
    if schema["items"].is_object() {
        property_paths(&schema["items"], &format!("{path}[]"), paths);
    }
    if schema["additionalProperties"].is_object() {
        property_paths(
            &schema["additionalProperties"],
            &format!("{path}{{}}"),
            paths,
        );
    }
}

fn lines(text: &str) -> BTreeSet<String> {
    text.lines()
        .filter(|l| !l.is_empty() && !l.starts_with('#'))
        .map(str::to_owned)
        .collect()
}

/// Where the types differ from what is published, on purpose.
const DIFFERENCES: [(&str, Option<&str>); 9] = [
    // Either of two forms, so the schema leaves it open; `normalize` is what checks it.
    (
        "spec.prerequisites[].requirement.succeededWithinDuration",
        None,
    ),
    (
        "spec.prerequisites[].name*",
        Some("spec.prerequisites[].name"),
    ),
    // The derive requires it.
    ("spec", Some("spec*")),
    // In templates PKO requires these only of the object that the template is merged into.
    (
        "spec.updateTemplate.status.projectInfo.name",
        Some("spec.updateTemplate.status.projectInfo.name*"),
    ),
    (
        "spec.updateTemplate.status.projectInfo.runtime",
        Some("spec.updateTemplate.status.projectInfo.runtime*"),
    ),
    (
        "spec.workspaceTemplate.spec.projectInfo.name",
        Some("spec.workspaceTemplate.spec.projectInfo.name*"),
    ),
    (
        "spec.workspaceTemplate.spec.projectInfo.runtime",
        Some("spec.workspaceTemplate.spec.projectInfo.runtime*"),
    ),
    (
        "spec.workspaceTemplate.spec.stacks[].config[].key",
        Some("spec.workspaceTemplate.spec.stacks[].config[].key*"),
    ),
    (
        "spec.workspaceTemplate.spec.stacks[].name",
        Some("spec.workspaceTemplate.spec.stacks[].name*"),
    ),
];

/// `added` are our own, beside those that are published.
fn assert_properties<T: CustomResourceExt>(published: &str, added: &str) {
    let mut paths = BTreeSet::new();
    property_paths(&crd_schema::<T>(), "", &mut paths);
    let mut listed: BTreeSet<String> = lines(published).union(&lines(added)).cloned().collect();
    for (published, ours) in DIFFERENCES {
        if listed.remove(published)
            && let Some(ours) = ours
        {
            listed.insert(ours.to_owned());
        }
    }
    let missing: Vec<_> = listed.difference(&paths).collect();
    let unlisted: Vec<_> = paths.difference(&listed).collect();
    assert!(
        missing.is_empty() && unlisted.is_empty(),
        "missing in the type: {missing:#?}\nin neither list: {unlisted:#?}"
    );
}

#[test]
fn the_properties_are_those_published_and_those_added() {
    assert_properties::<Stack>(
        include_str!("fixtures/published-stack.txt"),
        include_str!("fixtures/added-stack.txt"),
    );
    assert_properties::<Program>(include_str!("fixtures/published-program.txt"), "");
    assert_properties::<Workspace>(include_str!("fixtures/published-workspace.txt"), "");
    assert_properties::<Update>(
        include_str!("fixtures/published-update.txt"),
        include_str!("fixtures/added-update.txt"),
    );
}

#[test]
fn the_schema_sets_no_defaults() {
    fn walk(value: &Value, path: &str) {
        match value {
            Value::Object(map) => {
                for (key, inner) in map {
                    walk(inner, &format!("{path}/{key}"));
                }
                if map.get("type").is_some_and(Value::is_string) {
                    assert_eq!(
                        map.get("default"),
                        None,
                        "a default at {path} would change every stored object"
                    );
                }
            }
            Value::Array(items) => items.iter().for_each(|i| walk(i, path)),
            _ => {}
        }
    }
    walk(&crd_schema::<Stack>(), "");
}
