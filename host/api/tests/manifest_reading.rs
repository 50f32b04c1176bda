//! What good manifests become.
#![allow(clippy::unwrap_used)]

use pretty_assertions::assert_eq;
use proptest::prelude::*;
use serde_json::json;
use windlass_api::Stack;
use windlass_api::manifest::{self, Kind, Manifest, Manifests};

fn clean(text: &str) -> Vec<Manifest> {
    let Manifests {
        objects,
        warnings,
        errors,
        ..
    } = manifest::parse("a.yaml", text);
    assert_eq!(errors, vec![]);
    assert_eq!(warnings, vec![]);
    objects.into_iter().map(|o| o.manifest).collect()
}

fn stack(spec: &str) -> Stack {
    let text = format!(
        "apiVersion: pulumi.com/v1\nkind: Stack\nmetadata: {{name: web}}\nspec:\n  stack: dev\n{spec}"
    );
    match clean(&text).pop() {
        Some(Manifest::Stack(stack)) => *stack,
        other => panic!("{other:?}"),
    }
}

#[test]
fn config_values_keep_their_json_types() {
    let stack = stack(
        "  config:\n    s: text\n    quoted: \"12\"\n    n: 12\n    f: 1.5\n    b: true\n    old: yes\n    octal: 0755\n    nothing: null\n    tilde: ~\n    list: [1, a, {b: c}]\n    map: {a: {b: 1}}\n    date: 2026-01-01\n    version: 1.20.0\n    aws:region: eu-west-1\n    block: |\n      a\n      b\n    big: 18446744073709551615\n    12: numeric key\n",
    );
    let expected = json!({
        "s": "text", "quoted": "12", "n": 12, "f": 1.5, "b": true, "old": true, "octal": 493, "nothing": null,
        "tilde": null, "list": [1, "a", {"b": "c"}], "map": {"a": {"b": 1}}, "date": "2026-01-01",
        "version": "1.20.0", "aws:region": "eu-west-1", "block": "a\nb\n", "big": 18446744073709551615u64,
        "12": "numeric key",
    });
    assert_eq!(serde_json::to_value(&stack.spec.config).unwrap(), {
        let mut sorted = serde_json::Map::new();
        let object = expected.as_object().unwrap();
        let mut keys: Vec<_> = object.keys().collect();
        keys.sort();
        for key in keys {
            sorted.insert(key.clone(), object[key].clone());
        }
        serde_json::Value::Object(sorted)
    });
}

#[test]
fn a_field_without_a_value_is_a_field_that_is_not_there() {
    let stack =
        stack("  envs:\n  refresh:\n  gitAuth: null\n  config:\n  resyncFrequencySeconds: ~\n");
    assert_eq!(stack.spec.envs, Vec::<String>::new());
    assert_eq!(
        serde_json::to_value(&stack.spec).unwrap(),
        json!({"stack": "dev"})
    );
}

#[test]
fn what_a_server_says_is_left_out() {
    let text = "apiVersion: pulumi.com/v1\nkind: Stack\nmetadata:\n  name: web\n  namespace: apps\n  labels: {a: b}\n  uid: x\n  resourceVersion: \"7\"\n  generation: 3\n  creationTimestamp: null\n  managedFields: []\nspec: {stack: dev}\nstatus: {lastUpdate: {generation: nonsense}}\n";
    let objects = clean(text);
    assert_eq!(
        serde_json::to_value(objects[0].metadata()).unwrap(),
        json!({"name": "web", "namespace": "apps", "labels": {"a": "b"}})
    );
}

#[test]
fn several_documents_lists_and_json() {
    let text = r#"# nothing but a comment
---
---
apiVersion: v1
kind: List
items:
  - apiVersion: pulumi.com/v1
    kind: Program
    metadata: {name: p}
    program:
      resources: {r: {type: "pulumi:Stash", properties: {input: 1}}}
      outputs: {o: "${r.output}"}
  - apiVersion: v1
    kind: ConfigMap
    metadata: {name: c}
    data: {k: v}
---
{"apiVersion": "auto.pulumi.com/v1alpha1", "kind": "WorkspaceList", "items": [
	{"apiVersion": "auto.pulumi.com/v1alpha1", "kind": "Workspace", "metadata": {"name": "w"},
	 "spec": {"image": "x", "resources": {"limits": {"cpu": 1, "memory": "64Mi"}}}}]}
---
apiVersion: auto.pulumi.com/v1alpha1
kind: Update
metadata: {name: u}
"#;
    let objects = clean(text);
    let kinds: Vec<_> = objects.iter().map(Manifest::kind).collect();
    assert_eq!(
        kinds,
        vec![
            Kind::Program,
            Kind::ConfigMap,
            Kind::Workspace,
            Kind::Update
        ]
    );
    let Manifest::Program(program) = &objects[0] else {
        panic!()
    };
    assert_eq!(
        program.body().unwrap().resources["r"].properties["input"],
        json!(1)
    );
    let Manifest::Workspace(workspace) = &objects[2] else {
        panic!()
    };
    let limits = workspace.spec.resources.clone().unwrap().limits.unwrap();
    assert_eq!(
        limits["cpu"].0, "1",
        "a quantity may be written as a number"
    );
    assert_eq!(limits["memory"].0, "64Mi");
    for object in &objects {
        assert_eq!(object.key().namespace, "default");
    }
}

#[test]
fn positions_in_lists_and_later_documents_are_those_of_the_file() {
    let text = "apiVersion: v1\nkind: List\nitems:\n- apiVersion: v1\n  kind: ConfigMap\n  metadata: {name: c}\n  data: {k: 1}\n";
    let found = manifest::parse("a.yaml", text);
    assert_eq!(
        found.errors[0].to_string(),
        "a.yaml:7:13: items[0].data.k: expected a string, found a number; write the value in quotes"
    );
}

#[test]
fn string_data_wins_over_data() {
    let text = "apiVersion: v1\nkind: Secret\nmetadata: {name: s}\ntype: Opaque\ndata: {a: b25l, b: dHdv}\nstringData: {b: three, c: four}\n";
    let objects = clean(text);
    let Manifest::Secret(secret) = &objects[0] else {
        panic!()
    };
    assert_eq!(secret.get("a"), Some(b"one".as_slice()));
    assert_eq!(secret.get("b"), Some(b"three".as_slice()));
    assert_eq!(secret.get("c"), Some(b"four".as_slice()));
    let json = serde_json::to_value(secret).unwrap();
    assert_eq!(
        json["data"],
        json!({"a": "b25l", "b": "dGhyZWU=", "c": "Zm91cg=="})
    );
    assert_eq!(
        &serde_json::from_value::<windlass_api::Secret>(json).unwrap(),
        secret.as_ref()
    );
    assert!(!format!("{secret:?}").contains("three"));
}

#[test]
fn anchors_and_merge_keys_are_followed() {
    let stack = stack(
        "  envRefs:\n    A: &ref {type: Secret, secret: {name: s, key: k}}\n    B: *ref\n    C:\n      <<: *ref\n      type: Literal\n",
    );
    assert_eq!(stack.spec.env_refs["A"], stack.spec.env_refs["B"]);
    assert_eq!(stack.spec.env_refs["C"].type_, "Literal");
    assert_eq!(
        stack.spec.env_refs["C"].secret,
        stack.spec.env_refs["A"].secret
    );
}

#[test]
fn a_directory_is_read_in_order_and_not_below() {
    let dir = tempfile::tempdir().unwrap();
    let write = |name: &str, object: &str| {
        let text = format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {object}}}\n");
        std::fs::write(dir.path().join(name), text).unwrap();
    };
    write("b.yml", "b");
    write("a.yaml", "a");
    write("c.json", "c");
    write(".hidden.yaml", "hidden");
    write("readme.md", "readme");
    std::fs::create_dir(dir.path().join("program.yaml")).unwrap();
    write("program.yaml/x.yaml", "below");
    let found = manifest::read_path(dir.path());
    assert_eq!(found.errors, vec![]);
    let names: Vec<_> = found
        .objects
        .iter()
        .map(|o| o.manifest.key().name)
        .collect();
    assert_eq!(names, vec!["a", "b", "c"]);
    let missing = manifest::read_path(&dir.path().join("none"));
    assert!(
        missing.errors[0]
            .to_string()
            .contains("none:1:1: cannot be read: "),
        "{:?}",
        missing.errors
    );
}

#[test]
fn bombs_are_errors() {
    let mut laughs = String::from("a0: &a0 [x, x, x, x, x, x, x, x, x]\n");
    for level in 1..12 {
        let refs = vec![format!("*a{}", level - 1); 9].join(", ");
        laughs.push_str(&format!("a{level}: &a{level} [{refs}]\n"));
    }
    let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    let mut nested = String::new();
    for level in 0..40 {
        let inner = if level == 0 {
            "x".to_owned()
        } else {
            format!("*b{}", level - 1)
        };
        nested.push_str(&format!(
            "b{level}: &b{level} {}{inner}{}\n",
            "[".repeat(50),
            "]".repeat(50)
        ));
    }
    for bomb in [laughs, deep, nested] {
        let found = manifest::parse("a.yaml", &bomb);
        assert_eq!(found.errors.len(), 1);
        assert!(
            found.errors[0].to_string().contains("not valid YAML"),
            "{}",
            found.errors[0]
        );
    }
}

proptest! {
    #[test]
    fn no_text_makes_it_panic(text in "\\PC*") {
        let _ = manifest::parse("a.yaml", &text);
    }

    #[test]
    fn no_mutation_of_a_manifest_makes_it_panic(
        cut in 0usize..600, len in 0usize..40, insert in "[-:{}\\[\\]&*!|>'\"%@`#, \\n\\ta-z0-9]{0,12}",
    ) {
        let text = include_str!("fixtures/stack-full.yaml");
        let boundary = |mut at: usize| { while !text.is_char_boundary(at) { at -= 1; } at };
        let start = boundary(cut.min(text.len()));
        let end = boundary((start + len).min(text.len()));
        let mutated = format!("{}{insert}{}", &text[..start], &text[end..]);
        let found = manifest::parse("a.yaml", &mutated);
        for error in &found.errors {
            prop_assert!(error.place.position.line >= 1 && error.place.position.column >= 1);
        }
    }
}
