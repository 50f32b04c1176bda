//! When a pod is the same pod: what replaces one and what does not.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Pod;
use pretty_assertions::{assert_eq, assert_ne};
use proptest::prelude::*;
use serde_json::{Value, json};
use windlass_api::Stack;
use windlass_api::run::ProgramSource;
use windlass_core::snapshot::Objects;
use windlass_core::spec::check;

use crate::support::*;

const BASE: &str = r#"
projectRepo: https://git.example/shop
commit: aaaa
backend: s3://state
serviceAccountName: deployer
config: {"shop:size": 3}
configRef: {"shop:region": {name: settings, key: region}}
secrets: {"shop:inline": hunter2}
secretsRef:
  shop:token: {type: Secret, secret: {name: tokens, key: api}}
  shop:literal: {type: Literal, literal: {value: hunter3}}
envRefs:
  PASS: {type: Secret, secret: {name: pass, key: phrase}}
workspaceTemplate: {spec: {image: "pulumi:1"}}
"#;

fn digest(stack: &Stack) -> String {
    digest_for(stack, "sha256:a")
}

fn digest_for(stack: &Stack, tree: &str) -> String {
    let checked = check(stack, true).unwrap();
    let program = ProgramSource::Tree {
        digest: tree.to_owned(),
        dir: String::new(),
    };
    checked.workspace_digest(&stack.spec, &Objects::default(), None, &program)
}

#[test]
fn another_program_is_another_pod_only_for_init_containers_that_find_it() {
    let plain = stack(BASE);
    assert_eq!(
        digest_for(&plain, "sha256:a"),
        digest_for(&plain, "sha256:b")
    );
    let template = json!({"spec": {"podTemplate": {"spec": {"initContainers": [{"name": "i", "image": "x"}]}}}});
    let prepared = edited("/spec/workspaceTemplate", template);
    assert_ne!(
        digest_for(&prepared, "sha256:a"),
        digest_for(&prepared, "sha256:b")
    );
}

fn edited(pointer: &str, value: Value) -> Stack {
    let mut written = serde_json::to_value(stack(BASE)).unwrap();
    let (parent, key) = pointer.rsplit_once('/').unwrap();
    written
        .pointer_mut(parent)
        .unwrap_or_else(|| panic!("{parent}"))
        .as_object_mut()
        .unwrap()
        .insert(key.to_owned(), value);
    serde_json::from_value(written).unwrap()
}

fn made(stack: &Stack) -> Pod {
    make_pod(&make_workspace(stack))
}

#[test]
fn source_and_configuration_leave_the_pod_alone() {
    let base = stack(BASE);
    for (pointer, value) in [
        ("/spec/commit", json!("bbbb")),
        ("/spec/repoDir", json!("infra")),
        ("/spec/config/shop:size", json!(4)),
        ("/spec/config/shop:new", json!({"a": [1]})),
        ("/spec/secrets/shop:inline", json!("other")),
        (
            "/spec/secretsRef/shop:literal/literal",
            json!({"value": "other"}),
        ),
        (
            "/spec/secretsRef/shop:token/secret",
            json!({"name": "tokens", "key": "second"}),
        ),
        (
            "/spec/configRef/shop:region",
            json!({"name": "settings", "key": "zone", "json": true}),
        ),
        ("/spec/refresh", json!(true)),
        ("/spec/resyncFrequencySeconds", json!(900)),
        ("/spec/secretsProvider", json!("awskms")),
        ("/spec/environment", json!(["prod"])),
        ("/spec/stack", json!("staging")),
    ] {
        let other = edited(pointer, value);
        assert_ne!(other, base, "{pointer}");
        assert_eq!(made(&other), made(&base), "{pointer}");
        assert_eq!(digest(&other), digest(&base), "{pointer}");
    }
}

#[test]
fn what_the_pod_is_made_of_replaces_it() {
    let base = stack(BASE);
    for (pointer, value) in [
        ("/spec/serviceAccountName", json!("other")),
        ("/spec/backend", json!("s3://other")),
        ("/spec/accessTokenSecret", json!("token")),
        ("/spec/envs", json!(["settings"])),
        ("/spec/envSecrets", json!(["settings"])),
        (
            "/spec/envRefs/PASS",
            json!({"type": "Secret", "secret": {"name": "pass", "key": "other"}}),
        ),
        (
            "/spec/envRefs/NEW",
            json!({"type": "Literal", "literal": {"value": "x"}}),
        ),
        ("/spec/workspaceTemplate/spec", json!({"image": "pulumi:2"})),
        (
            "/spec/workspaceTemplate/spec/securityProfile",
            json!("baseline"),
        ),
        (
            "/spec/workspaceTemplate/spec/podTemplate",
            json!({"spec": {"nodeSelector": {"a": "b"}, "containers": []}}),
        ),
        // Another object has to be mounted, and a pod's volumes cannot be changed.
        (
            "/spec/configRef/shop:zone",
            json!({"name": "zones", "key": "zone"}),
        ),
        (
            "/spec/secretsRef/shop:token",
            json!({"type": "Secret", "secret": {"name": "other", "key": "api"}}),
        ),
    ] {
        let other = edited(pointer, value);
        assert_ne!(made(&other), made(&base), "{pointer}");
        assert_ne!(digest(&other), digest(&base), "{pointer}");
    }
}

#[test]
fn values_behind_references_and_secrets_of_the_stack_are_in_no_pod() {
    let text = serde_json::to_string(&made(&stack(BASE))).unwrap();
    assert!(!text.contains("hunter"));
    assert!(!text.contains("shop:size"));
}

fn name() -> impl Strategy<Value = String> {
    "[a-z]([a-z0-9-]{0,8}[a-z0-9])?(\\.[a-z]{1,4})?"
}

fn fields() -> impl Strategy<Value = Value> {
    let reference = prop_oneof![
        name().prop_map(|n| json!({"type": "Literal", "literal": {"value": n}})),
        (name(), name())
            .prop_map(|(n, k)| json!({"type": "Secret", "secret": {"name": n, "key": k}})),
        (name(), name())
            .prop_map(|(n, k)| json!({"type": "ConfigMap", "configMap": {"name": n, "key": k}})),
        (name(), name()).prop_map(|(n, k)| json!({"type": "StackOutput", "stack": n, "output": k})),
    ];
    let env = prop::collection::btree_map(
        prop_oneof!["[A-Z]{1,3}", Just("PULUMI_BACKEND_URL".to_owned())],
        reference,
        0..5,
    );
    let secrets = prop::collection::btree_map(
        "[a-z]{1,3}",
        (name(), name())
            .prop_map(|(n, k)| json!({"type": "Secret", "secret": {"name": n, "key": k}})),
        0..4,
    );
    let template_env = prop::collection::vec("[A-Z]{1,2}", 0..4);
    (env, secrets, template_env, any::<bool>()).prop_map(|(env, secrets, names, baseline)| {
        let variables: Vec<Value> = names
            .iter()
            .map(|n| json!({"name": n, "value": "t"}))
            .collect();
        json!({
            "stack": "prod",
            "backend": "s3://state",
            "envRefs": env,
            "secretsRef": secrets,
            "workspaceTemplate": {"spec": {
                "securityProfile": if baseline { "baseline" } else { "restricted" },
                "env": variables,
                "podTemplate": {"spec": {"containers": [
                    {"name": "side", "image": "x", "env": variables},
                    {"name": "pulumi", "env": variables},
                ]}},
            }},
        })
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn the_same_stack_gives_the_same_valid_pod(fields in fields()) {
        let stack: Stack = serde_json::from_value(json!({
            "apiVersion": "pulumi.com/v1", "kind": "Stack",
            "metadata": {"name": "shop", "namespace": "team", "uid": "u"},
            "spec": fields,
        })).unwrap();
        let workspace = make_workspace(&stack);
        let pod = make_pod(&workspace);
        // Through the API server and back it is still the same workspace.
        let stored = serde_json::from_str(&serde_json::to_string(&workspace).unwrap()).unwrap();
        prop_assert_eq!(&make_pod(&stored), &pod);
        prop_assert_eq!(
            serde_json::to_string(&made(&stack)).unwrap(),
            serde_json::to_string(&pod).unwrap()
        );
        // Lists that the API server keeps as maps have one entry a key.
        let mut mounted = BTreeMap::new();
        for container in spec(&pod).init_containers.iter().flatten().chain(&spec(&pod).containers) {
            let mut seen = std::collections::BTreeSet::new();
            for variable in container.env.iter().flatten() {
                prop_assert!(seen.insert(&variable.name), "{} twice", variable.name);
            }
            for mount in container.volume_mounts.iter().flatten() {
                prop_assert!(mounted.insert((&container.name, &mount.mount_path), &mount.name).is_none());
                prop_assert!(volumes(spec(&pod)).contains(&mount.name.as_str()));
            }
        }
        let mut seen = std::collections::BTreeSet::new();
        for volume in volumes(spec(&pod)) {
            prop_assert!(seen.insert(volume), "{volume} twice");
            prop_assert!(volume.len() <= 63 && !volume.contains('.'));
        }
    }
}
