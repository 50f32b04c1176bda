//! The Workspace that a Stack makes, by field.

use pretty_assertions::assert_eq;
use serde_json::json;
use windlass_api::Time;
use windlass_pods::{SecurityProfile, WorkspaceOptions, workspace_spec};

use crate::support::*;

#[test]
fn it_has_the_stacks_name_labels_and_owner() {
    let workspace = make_workspace(&stack(""));
    assert_eq!(
        serde_json::to_value(&workspace.metadata).unwrap(),
        json!({
            "name": "shop",
            "namespace": "team",
            "labels": {"pulumi.com/component": "stack", "pulumi.com/stack-name": "shop"},
            "annotations": {"argocd.argoproj.io/ignore-resource-updates": "true"},
            "ownerReferences": [{
                "apiVersion": "pulumi.com/v1", "kind": "Stack", "name": "shop", "uid": "stack-uid",
                "controller": true, "blockOwnerDeletion": true,
            }],
        })
    );
}

#[test]
fn a_stack_that_is_being_deleted_owns_nothing_new() {
    let mut stack = stack("");
    stack.metadata.deletion_timestamp = Some(Time("2026-01-02T03:04:05Z".parse().unwrap()));
    assert_eq!(make_workspace(&stack).metadata.owner_references, None);
}

#[test]
fn defaults_are_the_administrators_where_nobody_says_more() {
    let options = WorkspaceOptions {
        service_account: "runner".to_owned(),
        security_profile: SecurityProfile::Baseline,
    };
    for (fields, account, profile) in [
        ("", "runner", "baseline"),
        ("serviceAccountName: deployer", "deployer", "baseline"),
        (
            "serviceAccountName: deployer\nworkspaceTemplate: {spec: {serviceAccountName: other, securityProfile: restricted}}",
            "other",
            "restricted",
        ),
    ] {
        let spec = workspace_spec(&stack(fields), &options).unwrap().spec;
        assert_eq!(
            spec.service_account_name.as_deref(),
            Some(account),
            "{fields}"
        );
        assert_eq!(spec.security_profile.as_deref(), Some(profile), "{fields}");
    }
}

#[test]
fn config_maps_and_secrets_are_mounted_once_at_the_known_paths() {
    let workspace = make_workspace(&stack(
        r#"
configRef:
  shop:region: {name: settings, key: region}
  shop:zones: {name: settings, key: zones, json: true}
secretsRef:
  shop:token: {type: Secret, secret: {name: tokens, key: api}}
  shop:other: {type: Secret, secret: {name: tokens, key: other}}
  shop:literal: {type: Literal, literal: {value: hunter2}}
"#,
    ));
    let template = workspace.spec.pod_template.as_ref().unwrap();
    let spec = template.spec.as_ref().unwrap();
    assert_eq!(names(&spec.containers), ["pulumi"]);
    assert_eq!(
        mounts(&spec.containers[0]),
        [
            "/var/run/configmaps/stacks.pulumi.com/configmaps/settings: configmap-settings",
            "/var/run/secrets/stacks.pulumi.com/secrets/tokens: secret-tokens",
        ]
    );
    assert_eq!(
        serde_json::to_value(&spec.volumes).unwrap(),
        json!([
            {"name": "configmap-settings", "configMap": {"name": "settings"}},
            {"name": "secret-tokens", "secret": {"secretName": "tokens"}},
        ])
    );
}

#[test]
fn its_own_stack_shows_configuration_but_no_secret_value() {
    let workspace = make_workspace(&stack(
        r#"
config: {"shop:size": 3, "shop:both": plain}
configRef:
  shop:zones: {name: settings, key: zones, json: true}
secrets: {"shop:inline": hunter2}
secretsRef:
  shop:both: {type: Secret, secret: {name: tokens, key: api}}
  shop:literal: {type: Literal, literal: {value: hunter2}}
secretsProvider: passphrase
environment: [base, prod]
useLocalStackOnly: true
"#,
    ));
    assert_eq!(
        serde_json::to_value(&workspace.spec.stacks).unwrap(),
        json!([{
            "name": "prod",
            "create": false,
            "secretsProvider": "passphrase",
            "environment": ["base", "prod"],
            "config": [
                {"key": "shop:both", "secret": true,
                 "valueFrom": {"path": "/var/run/secrets/stacks.pulumi.com/secrets/tokens/api"}},
                {"key": "shop:inline", "secret": true},
                {"key": "shop:literal", "secret": true},
                {"key": "shop:size", "secret": false, "value": 3},
                {"key": "shop:zones", "secret": false, "valueFrom": {
                    "path": "/var/run/configmaps/stacks.pulumi.com/configmaps/settings/zones", "json": true}},
            ],
        }])
    );
    assert!(
        !serde_json::to_string(&workspace)
            .unwrap()
            .contains("hunter2")
    );
}

#[test]
fn the_stacks_of_the_template_stand_beside_its_own() {
    let workspace = make_workspace(&stack(
        r#"
config: {"a": 1, "b": 2}
workspaceTemplate:
  spec:
    stacks:
    - name: other
      create: true
    - name: prod
      secretsProvider: awskms
      config: [{key: b, value: 3}]
"#,
    ));
    assert_eq!(
        serde_json::to_value(&workspace.spec.stacks).unwrap(),
        json!([
            {"name": "other", "create": true},
            {"name": "prod", "create": true, "secretsProvider": "awskms", "config": [
                {"key": "a", "value": 1, "secret": false},
                {"key": "b", "value": 3},
            ]},
        ])
    );
}

#[test]
fn every_field_of_a_template_reaches_the_workspace() {
    let workspace = make_workspace(&stack(
        r#"
workspaceTemplate:
  metadata: {labels: {team: platform, pulumi.com/stack-name: other}, annotations: {note: x}}
  spec:
    image: registry.example/pulumi@sha256:00
    imagePullPolicy: Always
    local: {dir: /src}
    projectInfo: {name: p, runtime: yaml}
    git: {url: "https://git.example/x"}
    flux: {url: "http://flux.example/x"}
    resources: {limits: {memory: 1Gi}}
    serviceTemplate: {metadata: {labels: {s: t}}}
    pulumiLogLevel: 4
    podTemplate: {metadata: {labels: {l: m}, annotations: {n: o}}}
"#,
    ));
    let labels = workspace.metadata.labels.unwrap();
    assert_eq!(labels["team"], "platform");
    assert_eq!(labels["pulumi.com/stack-name"], "shop");
    assert_eq!(workspace.metadata.annotations.unwrap()["note"], "x");
    let mut spec = serde_json::to_value(&workspace.spec).unwrap();
    for implied in ["stacks", "securityProfile", "serviceAccountName"] {
        spec.as_object_mut().unwrap().remove(implied);
    }
    assert_eq!(
        spec,
        json!({
            "image": "registry.example/pulumi@sha256:00",
            "imagePullPolicy": "Always",
            "local": {"dir": "/src"},
            "projectInfo": {"name": "p", "runtime": "yaml"},
            "git": {"url": "https://git.example/x"},
            "flux": {"url": "http://flux.example/x"},
            "resources": {"limits": {"memory": "1Gi"}},
            "serviceTemplate": {"metadata": {"labels": {"s": "t"}}},
            "pulumiLogLevel": 4,
            "podTemplate": {
                "metadata": {"labels": {"l": "m"}, "annotations": {"n": "o"}},
                "spec": {"containers": [{"name": "pulumi"}]},
            },
        })
    );
}

#[test]
fn it_names_no_source_of_the_stack() {
    for source in [
        "projectRepo: https://git.example/x\ncommit: abc",
        "programRef: {name: p}",
        "fluxSource: {sourceRef: {apiVersion: v1, kind: Bucket, name: b}}",
    ] {
        assert_eq!(make_workspace(&stack(source)), make_workspace(&stack("")));
    }
}
