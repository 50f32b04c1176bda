//! The definitions have what was published and what was added, in the form that API servers take.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeSet;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use pretty_assertions::assert_eq;
use serde_json::{Value, json};
use windlass_api::crd::{self, Format, missing_fields};

/// The schema of a version, as JSON.
fn schema(definition: &CustomResourceDefinition, version: &str) -> Value {
    let definition = serde_json::to_value(definition).unwrap();
    let versions = definition["spec"]["versions"].as_array().unwrap();
    let version = versions.iter().find(|v| v["name"] == version).unwrap();
    version["schema"]["openAPIV3Schema"].clone()
}

/// Calls `see` with the path and schema of every value, the outermost first.
fn walk(schema: &Value, path: &str, see: &mut impl FnMut(&str, &Value)) {
    see(path, schema);
    for (name, inner) in schema["properties"].as_object().into_iter().flatten() {
        let path = if path.is_empty() {
            name.clone()
        } else {
            format!("{path}.{name}")
        };
        walk(inner, &path, see);
    }
    if let Some(inner) = schema.get("items") {
        walk(inner, &format!("{path}[]"), see);
    }
    if let Some(inner) = schema.get("additionalProperties") {
        walk(inner, &format!("{path}{{}}"), see);
    }
}

/// Type, format, words, how a list or map is merged, default.
fn kind(schema: &Value) -> String {
    let words = |list: &Value, between| {
        let list = list.as_array().into_iter().flatten();
        list.map(|w| w.as_str().unwrap())
            .collect::<Vec<_>>()
            .join(between)
    };
    let mut kind = match schema["type"].as_str() {
        _ if schema["x-kubernetes-int-or-string"] == true => "int-or-string".to_owned(),
        None => "any".to_owned(),
        Some(name) => name.to_owned(),
    };
    if let Some(format) = schema["format"].as_str() {
        kind += &format!("/{format}");
    }
    if kind == "object" && schema["x-kubernetes-preserve-unknown-fields"] == true {
        kind += "+any";
    }
    if schema["enum"].is_array() {
        kind += &format!("({})", words(&schema["enum"], "|"));
    }
    if let Some(list) = schema["x-kubernetes-list-type"].as_str() {
        let keys = words(&schema["x-kubernetes-list-map-keys"], " ");
        kind += format!("({list} {keys}").trim_end();
        kind += ")";
    }
    if let Some(map) = schema["x-kubernetes-map-type"].as_str() {
        kind += &format!("({map})");
    }
    match &schema["default"] {
        Value::Null => {}
        Value::String(text) => kind += &format!("={text}"),
        other => kind += &format!("={other}"),
    }
    kind
}

/// Whether a path is below a type of Kubernetes that is too large to list, or below what Windlass notes about a run.
fn unlisted(path: &str) -> bool {
    const TOPS: [&str; 10] = [
        "podTemplate.spec",
        "env[]",
        "envFrom[]",
        "spec.resources",
        "workspaceTemplate.metadata",
        "updateTemplate.metadata",
        "spec.intent",
        "status.progress",
        "status.run",
        "status.summary",
    ];
    TOPS.iter().any(|top| {
        path.find(top)
            .is_some_and(|at| path[at + top.len()..].starts_with(['.', '[', '{']))
    })
}

fn properties(schema: &Value) -> BTreeSet<String> {
    let mut required = BTreeSet::new();
    walk(schema, "", &mut |path, schema| {
        for name in schema["required"].as_array().into_iter().flatten() {
            required.insert(format!("{path}.{}", name.as_str().unwrap()));
        }
    });
    let mut properties = BTreeSet::new();
    walk(schema, "", &mut |path, schema| {
        if path.is_empty() || unlisted(path) {
            return;
        }
        let star = if required.contains(path) || required.contains(&format!(".{path}")) {
            "*"
        } else {
            ""
        };
        properties.insert(format!("{path}{star} {}", kind(schema)));
    });
    properties
}

fn lines(text: &str) -> BTreeSet<String> {
    let lines = text
        .lines()
        .filter(|l| !l.is_empty() && !l.starts_with('#'));
    lines.map(str::to_owned).collect()
}

/// Where the definitions differ from what is published, on purpose: a prerequisite has either of two forms, so the schema leaves
/// it open; `normalize` is what checks it.
const DIFFERENCES: [(&str, Option<&str>); 3] = [
    (
        "spec.prerequisites[].name* string",
        Some("spec.prerequisites[].name string"),
    ),
    (
        "spec.prerequisites[].requirement object",
        Some("spec.prerequisites[].requirement any"),
    ),
    (
        "spec.prerequisites[].requirement.succeededWithinDuration string",
        None,
    ),
];

#[test]
fn the_properties_are_those_published_and_those_added() {
    let update_added = include_str!("fixtures/added-update.txt");
    for (definition, version, published, added) in [
        (
            crd::stack(),
            "v1",
            include_str!("fixtures/published-stack.txt"),
            include_str!("fixtures/added-stack.txt"),
        ),
        (
            crd::program(),
            "v1",
            include_str!("fixtures/published-program.txt"),
            "",
        ),
        (
            crd::workspace(),
            "v1alpha1",
            include_str!("fixtures/published-workspace.txt"),
            "",
        ),
        (
            crd::update(),
            "v1alpha1",
            include_str!("fixtures/published-update.txt"),
            update_added,
        ),
    ] {
        let mut listed: BTreeSet<_> = lines(published).union(&lines(added)).cloned().collect();
        for (published, ours) in DIFFERENCES {
            if listed.remove(published) {
                listed.extend(ours.map(str::to_owned));
            }
        }
        let there = properties(&schema(definition, version));
        let missing: Vec<_> = listed.difference(&there).collect();
        let unlisted: Vec<_> = there.difference(&listed).collect();
        assert!(
            missing.is_empty() && unlisted.is_empty(),
            "missing in the definition: {missing:#?}\nin neither list: {unlisted:#?}"
        );
    }
}

#[test]
fn the_old_version_of_a_stack_has_the_same_fields_and_does_not_check_the_name() {
    let definition = crd::stack();
    let (new, old) = (schema(definition, "v1"), schema(definition, "v1alpha1"));
    assert_eq!(properties(&new), properties(&old));
    assert!(
        new["x-kubernetes-validations"][0]["rule"]
            .as_str()
            .unwrap()
            .contains("<= 42")
    );
    assert_eq!(old.get("x-kubernetes-validations"), None);
    let versions: Vec<_> = definition.spec.versions.iter().collect();
    assert_eq!(versions.len(), 2);
    assert!(versions[0].served && versions[0].storage);
    assert!(versions[1].served && !versions[1].storage);
    assert_eq!(versions[1].additional_printer_columns, None);
    for version in versions {
        assert_eq!(version.deprecated, None);
        assert!(version.subresources.as_ref().unwrap().status.is_some());
    }
}

#[test]
fn names_and_columns_are_those_people_know() {
    let columns = |definition: &CustomResourceDefinition| {
        let columns = definition.spec.versions[0]
            .additional_printer_columns
            .as_ref();
        let columns = columns.unwrap().iter();
        columns
            .map(|c| {
                let priority = c.priority.map(|p| format!(" {p}")).unwrap_or_default();
                format!("{}: {} {}{priority}", c.name, c.type_, c.json_path)
            })
            .collect::<Vec<_>>()
    };
    let expected = [
        (
            "stacks.pulumi.com",
            vec![
                "Stack: string .spec.stack 10",
                "Last Update: string .status.lastUpdate.state",
                "Age: date .status.lastUpdate.lastResyncTime",
                "Last Commit: string .status.lastUpdate.lastAttemptedCommit 10",
                r#"Ready: string .status.conditions[?(@.type=="Ready")].status"#,
                r#"Reconciling: string .status.conditions[?(@.type=="Reconciling")].reason"#,
                r#"Stalled: string .status.conditions[?(@.type=="Stalled")].reason"#,
                "Permalink: string .status.lastUpdate.permalink",
            ],
        ),
        (
            "programs.pulumi.com",
            vec![
                "Age: date .metadata.creationTimestamp",
                "URL: string .status.artifact.url",
            ],
        ),
        (
            "workspaces.auto.pulumi.com",
            vec![
                "Image: string .spec.image",
                r#"Ready: string .status.conditions[?(@.type=="Ready")].status"#,
                "Address: string .status.address",
            ],
        ),
        (
            "updates.auto.pulumi.com",
            vec![
                "Workspace: string .spec.workspaceName",
                "Type: string .spec.type 10",
                "Start Time: date .status.startTime 10",
                "End Time: date .status.endTime 10",
                r#"Progressing: string .status.conditions[?(@.type=="Progressing")].status"#,
                r#"Failed: string .status.conditions[?(@.type=="Failed")].status"#,
                r#"Complete: string .status.conditions[?(@.type=="Complete")].status"#,
                "URL: string .status.permalink",
            ],
        ),
    ];
    for (definition, (name, wanted)) in crd::all().iter().zip(expected) {
        assert_eq!(definition.metadata.name.as_deref(), Some(name));
        assert_eq!(columns(definition), wanted, "{name}");
        let names = &definition.spec.names;
        assert_eq!(names.categories, Some(vec!["pulumi".to_owned()]));
        assert_eq!(names.short_names, None);
        assert_eq!(names.list_kind, Some(format!("{}List", names.kind)));
        assert_eq!(definition.spec.scope, "Namespaced");
    }
}

#[test]
fn every_schema_is_structural() {
    for definition in crd::all() {
        for version in &definition.spec.versions {
            let name = format!("{}/{}", definition.spec.names.kind, version.name);
            walk(&schema(definition, &version.name), &name, &mut structural);
        }
    }
}

fn structural(path: &str, schema: &Value) {
    let fields = schema.as_object().unwrap();
    for forbidden in [
        "$ref",
        "oneOf",
        "anyOf",
        "allOf",
        "not",
        "nullable",
        "definitions",
        "const",
        "uniqueItems",
    ] {
        assert!(!fields.contains_key(forbidden), "{path}: {forbidden}");
    }
    let is = |key: &str| schema[key] == true;
    match schema["type"].as_str() {
        Some("object") => assert!(
            !(fields.contains_key("properties") && fields.contains_key("additionalProperties")),
            "{path}"
        ),
        Some("array") => assert!(schema["items"].is_object(), "{path}"),
        Some("string" | "boolean" | "number") => {}
        Some("integer") => assert!(
            ["int32", "int64"].contains(&schema["format"].as_str().unwrap()),
            "{path}"
        ),
        Some(other) => panic!("{path}: {other}"),
        None => assert!(
            is("x-kubernetes-int-or-string") || is("x-kubernetes-preserve-unknown-fields"),
            "{path} takes nothing"
        ),
    }
    // The server leaves out what is empty; then no apply would ever find nothing to do.
    for key in ["required", "enum", "x-kubernetes-validations", "properties"] {
        let empty = match &schema[key] {
            Value::Array(list) => list.is_empty(),
            Value::Object(map) => map.is_empty(),
            _ => false,
        };
        assert!(!empty, "{path}: empty {key}");
    }
    // A key of a list must always be there.
    for key in schema["x-kubernetes-list-map-keys"]
        .as_array()
        .into_iter()
        .flatten()
    {
        let item = &schema["items"];
        let required = item["required"].as_array().into_iter().flatten();
        let property = &item["properties"][key.as_str().unwrap()];
        assert!(
            required.into_iter().any(|r| r == key) || property.get("default").is_some(),
            "{path}: {key}"
        );
    }
    // The API server takes rules only with bounded cost; all of ours are about one object.
    for rule in schema["x-kubernetes-validations"]
        .as_array()
        .into_iter()
        .flatten()
    {
        let text = rule["rule"].as_str().unwrap();
        assert!(
            !text.contains(".all(") && !text.contains(".exists("),
            "{path}: {text}"
        );
        assert!(rule["message"].is_string(), "{path}");
    }
}

#[test]
fn embedded_pods_are_merged_and_defaulted_as_pods_are() {
    let definition = crd::workspace();
    let schema = schema(definition, "v1alpha1");
    let pod = &schema["properties"]["spec"]["properties"]["podTemplate"]["properties"]["spec"];
    assert_eq!(pod["required"], json!(["containers"]));
    let container = &pod["properties"]["containers"]["items"]["properties"];
    for (schema, wanted) in [
        (&pod["properties"]["containers"], "array(map name)"),
        (&pod["properties"]["tolerations"], "array(atomic)"),
        (&pod["properties"]["nodeSelector"], "object(atomic)"),
        (&container["ports"], "array(map containerPort protocol)"),
        (
            &container["ports"]["items"]["properties"]["protocol"],
            "string=TCP",
        ),
        (
            &container["resources"]["properties"]["limits"]["additionalProperties"],
            "int-or-string",
        ),
        (
            &container["livenessProbe"]["properties"]["httpGet"]["properties"]["port"],
            "int-or-string",
        ),
        (
            &container["envFrom"]["items"]["properties"]["secretRef"],
            "object(atomic)",
        ),
        (
            &container["envFrom"]["items"]["properties"]["secretRef"]["properties"]["name"],
            "string=",
        ),
    ] {
        assert_eq!(kind(schema), wanted, "{schema}");
    }
    let quantity = &container["resources"]["properties"]["limits"]["additionalProperties"];
    assert!(quantity["pattern"].is_string());
    let mut described = Vec::new();
    walk(pod, "", &mut |path, schema| {
        if !path.is_empty() && schema.get("description").is_some() {
            described.push(path.to_owned());
        }
    });
    assert_eq!(described, Vec::<String>::new());
}

#[test]
fn nothing_of_a_stack_itself_is_defaulted() {
    walk(&schema(crd::stack(), "v1"), "", &mut |path, schema| {
        let embedded = path.starts_with("spec.workspaceTemplate.spec.");
        assert!(
            embedded || schema.get("default").is_none(),
            "a default at {path} would change every stored object"
        );
    });
}

#[test]
fn kubectl_apply_can_carry_each() {
    for definition in crd::all() {
        let size = serde_json::to_vec(&definition).unwrap().len();
        assert!(
            size < 240 * 1024,
            "{} has {size} bytes",
            definition.spec.names.kind
        );
    }
}

#[test]
fn the_texts_say_what_the_definitions_say() {
    let definitions: Vec<_> = crd::all()
        .iter()
        .map(|d| serde_json::to_value(d).unwrap())
        .collect();
    for (file, wanted) in crd::files(Format::Yaml).iter().zip(&definitions) {
        assert!(file.text.starts_with("# Generated by `windlass crds`"));
        let read: Value = serde_saphyr::from_str(&file.text).unwrap();
        assert_eq!(&read, wanted, "{}", file.name);
        let group_and_plural = (&wanted["spec"]["group"], &wanted["spec"]["names"]["plural"]);
        let (Value::String(group), Value::String(plural)) = group_and_plural else {
            panic!()
        };
        assert_eq!(file.name, format!("{group}_{plural}.yaml"));
    }
    for (file, wanted) in crd::files(Format::Json).iter().zip(&definitions) {
        let read: Value = serde_json::from_str(&file.text).unwrap();
        assert_eq!(&read, wanted, "{}", file.name);
    }
    let list: Value = serde_json::from_str(&crd::text(Format::Json)).unwrap();
    assert_eq!(list["kind"], "List");
    assert_eq!(list["items"].as_array().unwrap(), &definitions);
    let documents: Vec<Value> = serde_saphyr::from_multiple(&crd::text(Format::Yaml)).unwrap();
    assert_eq!(documents, definitions);
}

/// Our definition, changed.
fn changed(change: impl Fn(&mut Value)) -> CustomResourceDefinition {
    let mut definition = serde_json::to_value(crd::stack()).unwrap();
    change(&mut definition["spec"]["versions"]);
    serde_json::from_value(definition).unwrap()
}

/// The properties at a path of a version.
fn at<'a>(versions: &'a mut Value, version: usize, path: &[&str]) -> &'a mut Value {
    let mut schema = &mut versions[version]["schema"]["openAPIV3Schema"];
    for step in path {
        schema = match *step {
            "[]" => &mut schema["items"],
            "{}" => &mut schema["additionalProperties"],
            name => &mut schema["properties"][name],
        };
    }
    schema
}

fn remove(versions: &mut Value, version: usize, path: &[&str], name: &str) {
    let properties = &mut at(versions, version, path)["properties"];
    properties
        .as_object_mut()
        .unwrap()
        .remove(name)
        .expect("it is there");
}

#[test]
fn a_cluster_with_our_definitions_lacks_nothing() {
    for definition in crd::all() {
        assert_eq!(missing_fields(definition), Vec::<String>::new());
    }
    // An API server fills in its own defaults; a newer Windlass adds fields; another operator's definition is no concern.
    let newer = changed(|versions| {
        at(versions, 0, &["spec"])["properties"]["future"] = json!({ "type": "string" });
    });
    assert_eq!(missing_fields(&newer), Vec::<String>::new());
    let mut foreign = changed(|versions| remove(versions, 0, &[], "spec"));
    foreign.metadata.name = Some("stacks.example.com".to_owned());
    assert_eq!(missing_fields(&foreign), Vec::<String>::new());
}

#[test]
fn what_an_older_definition_lacks_is_named_once() {
    let older = changed(|versions| {
        remove(versions, 0, &["spec"], "retry");
        remove(versions, 0, &["spec"], "timeoutSeconds");
        remove(versions, 0, &["status"], "health");
        remove(versions, 0, &["status", "lastUpdate"], "sequence");
        remove(versions, 0, &["spec", "envRefs", "{}"], "output");
        remove(versions, 0, &["spec", "prerequisites", "[]"], "type");
        *at(versions, 0, &["spec", "prerequisites", "[]", "requirement"]) = json!({"type": "object", "properties": {"succeededWithinDuration": {"type": "string"}}});
        remove(versions, 1, &["spec"], "suspend");
    });
    assert_eq!(
        missing_fields(&older),
        [
            "v1: spec.envRefs{}.output",
            "v1: spec.prerequisites[].requirement",
            "v1: spec.prerequisites[].type",
            "v1: spec.retry",
            "v1: spec.timeoutSeconds",
            "v1: status.health",
            "v1: status.lastUpdate.sequence",
            "v1alpha1: spec.suspend",
        ]
    );
}

#[test]
fn a_version_that_is_not_served_is_missing() {
    let without = changed(|versions| versions[1]["served"] = json!(false));
    assert_eq!(missing_fields(&without), ["v1alpha1: not served"]);
    let alone = changed(|versions| drop(versions.as_array_mut().unwrap().remove(0)));
    assert_eq!(missing_fields(&alone), ["v1: not served"]);
}

#[test]
fn a_definition_that_keeps_unknown_fields_lacks_nothing() {
    let open = changed(|versions| {
        *at(versions, 0, &["spec"]) =
            json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    });
    assert_eq!(missing_fields(&open), Vec::<String>::new());
}
