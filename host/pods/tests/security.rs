//! What the containers of a pod may do.

use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::support::*;

fn restricted() -> Value {
    json!({
        "allowPrivilegeEscalation": false,
        "capabilities": {"add": ["NET_BIND_SERVICE"], "drop": ["ALL"]},
    })
}

fn of(pod: &k8s_openapi::api::core::v1::Pod, name: &str) -> Value {
    serde_json::to_value(&container(pod, name).security_context).unwrap()
}

const CONTAINERS: &str = r#"
podTemplate:
  spec:
    initContainers:
    - {name: prepare, image: x}
    - {name: chown, image: x, securityContext: {runAsUser: 0}}
    containers:
    - {name: side, image: x}
    - {name: pulumi, securityContext: {readOnlyRootFilesystem: true}}
"#;

#[test]
fn restricted_covers_every_container_that_says_nothing_itself() {
    for profile in ["", "securityProfile: restricted"] {
        let pod = make_pod(&workspace(&format!("{profile}{CONTAINERS}")));
        assert_eq!(
            serde_json::to_value(&spec(&pod).security_context).unwrap(),
            json!({
                "runAsNonRoot": true, "runAsUser": 1000, "runAsGroup": 1000,
                "seccompProfile": {"type": "RuntimeDefault"},
            })
        );
        for name in ["bootstrap", "prepare", "side"] {
            assert_eq!(of(&pod, name), restricted(), "{name}");
        }
        assert_eq!(of(&pod, "chown"), json!({"runAsUser": 0}));
        let mut merged = restricted();
        merged["readOnlyRootFilesystem"] = json!(true);
        assert_eq!(of(&pod, "pulumi"), merged);
    }
}

#[test]
fn baseline_leaves_containers_to_their_images() {
    let pod = make_pod(&workspace(&format!(
        "securityProfile: baseline{CONTAINERS}"
    )));
    assert_eq!(
        serde_json::to_value(&spec(&pod).security_context).unwrap(),
        json!({"seccompProfile": {"type": "RuntimeDefault"}})
    );
    for name in ["bootstrap", "prepare", "side"] {
        assert_eq!(of(&pod, name), Value::Null, "{name}");
    }
    assert_eq!(of(&pod, "pulumi"), json!({"readOnlyRootFilesystem": true}));
}

#[test]
fn the_default_image_follows_the_profile_and_moves_with_no_tag() {
    let image = |fields: &str| {
        container(&make_pod(&workspace(fields)), "pulumi")
            .image
            .clone()
    };
    let nonroot = image("").unwrap();
    assert!(nonroot.ends_with("-nonroot"), "{nonroot}");
    let root = image("securityProfile: baseline").unwrap();
    assert_eq!(format!("{root}-nonroot"), nonroot);
    assert!(!root.contains("latest"));
    assert_eq!(image("image: mine:1"), Some("mine:1".to_owned()));
    assert_eq!(
        image(
            "image: mine:1\npodTemplate: {spec: {containers: [{name: pulumi, image: theirs:2}]}}"
        ),
        Some("theirs:2".to_owned())
    );
}

#[test]
fn the_agents_certificate_is_for_the_agent_alone() {
    let pod = make_pod(&workspace(CONTAINERS));
    for container in spec(&pod)
        .init_containers
        .iter()
        .flatten()
        .chain(&spec(&pod).containers)
    {
        let has = mounts(container)
            .iter()
            .any(|mount| mount.ends_with(": windlass-tls"));
        assert_eq!(has, container.name == "pulumi", "{}", container.name);
    }
    let volume = spec(&pod)
        .volumes
        .iter()
        .flatten()
        .find(|v| v.name == "windlass-tls")
        .unwrap();
    // Files belong to root and the agent does not: without the bits for others it could not read them.
    assert_eq!(
        serde_json::to_value(volume).unwrap(),
        json!({"name": "windlass-tls", "secret": {"secretName": "shop-agent-tls", "defaultMode": 0o444}})
    );
}
