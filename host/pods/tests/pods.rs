//! The pod as its users know it: names, paths, ports, labels; and what the options add.

use pretty_assertions::assert_eq;
use serde_json::json;
use windlass_pods::{LoginToken, PodOptions, layout, node, pod, spec_digest};

use crate::support::*;

/// What users of the Pulumi Kubernetes Operator rely on: `kubectl exec SHOP-workspace-0 -c pulumi`, network policies by
/// label and port name, templates that patch containers and volumes by name, programs that read these variables.
#[test]
fn it_is_the_pod_that_users_of_the_pulumi_kubernetes_operator_know() {
    let pod = pod_of(
        r#"
backend: file:///state
serviceAccountName: pulumi
configRef: {region: {name: shop-settings, key: region}}
secretsRef: {token: {type: Secret, secret: {name: shop-secrets, key: api-token}}}
"#,
    );
    let metadata = &pod.metadata;
    assert_eq!(metadata.name.as_deref(), Some("shop-workspace-0"));
    assert_eq!(metadata.namespace.as_deref(), Some("team"));
    let labels = metadata.labels.as_ref().unwrap();
    for (label, value) in [
        ("auto.pulumi.com/component", "workspace"),
        ("auto.pulumi.com/workspace-name", "shop"),
    ] {
        assert_eq!(
            labels.get(label).map(String::as_str),
            Some(value),
            "{label}"
        );
    }
    let annotations = metadata.annotations.as_ref().unwrap();
    assert!(annotations.contains_key("auto.pulumi.com/revision-hash"));

    let spec = spec(&pod);
    assert_eq!(
        names(spec.init_containers.as_deref().unwrap()),
        ["bootstrap"]
    );
    assert_eq!(names(&spec.containers), ["pulumi"]);
    assert_eq!(spec.service_account_name.as_deref(), Some("pulumi"));
    assert_eq!(spec.termination_grace_period_seconds, Some(600));
    assert_eq!(spec.restart_policy.as_deref(), Some("Always"));
    let volumes = volumes(spec);
    for volume in ["share", "configmap-shop-settings", "secret-shop-secrets"] {
        assert!(volumes.contains(&volume), "{volume}");
    }
    // Left to Kubernetes and the template.
    assert_eq!(spec.automount_service_account_token, None);

    let pulumi = container(&pod, "pulumi");
    assert_eq!(pulumi.working_dir.as_deref(), Some("/share/workspace"));
    let port = &pulumi.ports.as_ref().unwrap()[0];
    assert_eq!(
        (
            port.name.as_deref(),
            port.container_port,
            port.protocol.as_deref()
        ),
        (Some("grpc"), 50051, Some("TCP"))
    );
    let variables: Vec<&str> = pulumi
        .env
        .iter()
        .flatten()
        .map(|e| e.name.as_str())
        .collect();
    for variable in [
        "PULUMI_BACKEND_URL",
        "POD_NAMESPACE",
        "POD_SA_NAME",
        "AGENT_MEMLIMIT",
        "PULUMI_ENV",
    ] {
        assert!(variables.contains(&variable), "{variable}");
    }
    let paths: Vec<&str> = pulumi
        .volume_mounts
        .iter()
        .flatten()
        .map(|m| m.mount_path.as_str())
        .collect();
    for path in [
        "/share",
        "/var/run/configmaps/stacks.pulumi.com/configmaps/shop-settings",
        "/var/run/secrets/stacks.pulumi.com/secrets/shop-secrets",
    ] {
        assert!(paths.contains(&path), "{path}");
    }
}

#[test]
fn the_agent_is_installed_by_an_init_container_and_served_by_pulumi() {
    let pod = make_pod(&workspace("imagePullPolicy: Always"));
    let bootstrap = container(&pod, "bootstrap");
    assert_eq!(
        bootstrap.command.as_deref().unwrap(),
        ["/windlass-agent", "install", "/share/agent"]
    );
    assert_eq!(mounts(bootstrap), ["/share: share"]);
    assert_eq!(bootstrap.image_pull_policy.as_deref(), Some("IfNotPresent"));
    let pulumi = container(&pod, "pulumi");
    assert_eq!(
        pulumi.command.as_deref().unwrap()[..2],
        ["/share/agent", "serve"]
    );
    assert_eq!(pulumi.image_pull_policy.as_deref(), Some("Always"));
    let probe = pulumi.readiness_probe.as_ref().unwrap();
    assert_eq!(
        probe.exec.as_ref().unwrap().command.as_deref().unwrap(),
        ["/share/agent", "probe"]
    );
}

#[test]
fn the_agents_flags_fit_the_places_of_the_pod() {
    let flag = |name: &str| -> Vec<&str> {
        let at = |i: usize| layout::SERVE.get(i + 1).copied();
        (0..layout::SERVE.len())
            .filter(|&i| layout::SERVE[i] == name)
            .filter_map(at)
            .collect()
    };
    assert_eq!(flag("--listen"), [format!("0.0.0.0:{}", layout::PORT)]);
    assert_eq!(flag("--workspace"), [layout::WORKSPACE_DIR]);
    let mounts = layout::mounts();
    assert_eq!(flag("--mounts"), [mounts.config_maps, mounts.secrets]);
    for inside in [
        layout::WORKSPACE_DIR,
        layout::STATE_DIR,
        layout::ENV_FILE,
        layout::AGENT,
    ] {
        assert!(
            inside.starts_with(&format!("{}/", layout::SHARE)),
            "{inside}"
        );
    }
    // Below the shared volume it could be read by every container that mounts that.
    assert!(!layout::TLS_DIR.starts_with(layout::SHARE));
}

#[test]
fn an_interrupted_operation_ends_before_the_kubelet_kills() {
    let command = |fields: &str| {
        container(&make_pod(&workspace(fields)), "pulumi")
            .command
            .clone()
            .unwrap()
    };
    let grace = |seconds: &str| {
        let words = command(&format!(
            "podTemplate: {{spec: {{terminationGracePeriodSeconds: {seconds}}}}}"
        ));
        let at = words.iter().position(|w| w == "--interrupt-grace-seconds");
        words[at.unwrap() + 1].clone()
    };
    for (pod, agent) in [("600", "530"), ("3600", "3530"), ("30", "15"), ("0", "1")] {
        assert_eq!(grace(pod), agent);
    }
    let other = "podTemplate: {spec: {containers: [{name: pulumi, command: [sleep, inf]}]}}";
    assert_eq!(command(other), ["sleep", "inf"]);
}

#[test]
fn labels_and_annotations_of_the_template_stay_and_system_ones_win() {
    let made = make_pod(&workspace(
        r#"
podTemplate:
  metadata:
    labels: {team: platform, auto.pulumi.com/workspace-name: other}
    annotations:
      note: x
      auto.pulumi.com/revision-hash: forged
      argocd.argoproj.io/ignore-resource-updates: "false"
      kubectl.kubernetes.io/default-container: side
"#,
    ));
    assert_eq!(
        serde_json::to_value(&made.metadata).unwrap(),
        json!({
            "name": "shop-workspace-0",
            "namespace": "team",
            "labels": {
                "auto.pulumi.com/component": "workspace",
                "auto.pulumi.com/workspace-name": "shop",
                "team": "platform",
            },
            "annotations": {
                "argocd.argoproj.io/ignore-resource-updates": "true",
                "auto.pulumi.com/revision-hash": "d1",
                "kubectl.kubernetes.io/default-container": "side",
                "note": "x",
            },
            "ownerReferences": [{
                "apiVersion": "auto.pulumi.com/v1alpha1", "kind": "Workspace", "name": "shop",
                "uid": "workspace-uid", "controller": true, "blockOwnerDeletion": true,
            }],
        })
    );
    assert_eq!(spec_digest(&made), Some("d1"));
    assert_eq!(node(&made), None);
    let orphan = PodOptions {
        owner: None,
        ..options()
    };
    let made = pod(&workspace(""), &orphan).unwrap();
    assert_eq!(made.metadata.owner_references, None);
}

#[test]
fn every_container_finds_the_file_of_variables() {
    let pod = make_pod(&workspace(
        "podTemplate: {spec: {initContainers: [{name: login, image: x}], containers: [{name: side, image: x, env: [{name: PULUMI_ENV, value: /mine}]}]}}",
    ));
    for name in ["bootstrap", "login", "side", "pulumi"] {
        let list = env(container(&pod, name).env.as_deref().unwrap());
        let found: Vec<&String> = list
            .iter()
            .filter(|e| e.starts_with("PULUMI_ENV"))
            .collect();
        assert_eq!(found, ["PULUMI_ENV=/share/.env"], "{name}");
    }
}

#[test]
fn a_token_is_mounted_where_the_login_is_an_exchange() {
    let login = PodOptions {
        login: Some(LoginToken {
            audience: "urn:pulumi:org:acme".to_owned(),
            expiration_seconds: 3600,
        }),
        ..options()
    };
    let made = pod(
        &workspace("podTemplate: {spec: {containers: [{name: side, image: x}]}}"),
        &login,
    )
    .unwrap();
    let volume = spec(&made)
        .volumes
        .iter()
        .flatten()
        .find(|v| v.name == "windlass-login")
        .unwrap();
    assert_eq!(
        serde_json::to_value(&volume.projected).unwrap(),
        json!({"defaultMode": 0o444, "sources": [{"serviceAccountToken": {
            "audience": "urn:pulumi:org:acme", "expirationSeconds": 3600, "path": "token"}}]})
    );
    let pulumi = container(&made, "pulumi");
    assert!(mounts(pulumi).contains(&"/var/run/secrets/windlass/login: windlass-login".to_owned()));
    assert!(
        env(pulumi.env.as_deref().unwrap()).contains(
            &"WINDLASS_LOGIN_TOKEN_FILE=/var/run/secrets/windlass/login/token".to_owned()
        )
    );
    assert_eq!(mounts(container(&made, "side")), Vec::<String>::new());

    let none = make_pod(&workspace(""));
    assert!(!serde_json::to_string(&none).unwrap().contains("login"));
}

#[test]
fn init_containers_of_the_template_can_have_the_program_first() {
    let first = PodOptions {
        source_first: true,
        ..options()
    };
    let order = |fields: &str| -> Vec<String> {
        let workspace = workspace(fields);
        let made = pod(&workspace, &first).unwrap();
        let init = spec(&made).init_containers.clone().unwrap();
        names(&init).into_iter().map(str::to_owned).collect()
    };
    let own = "podTemplate: {spec: {initContainers: [{name: prepare, image: x}]}}";
    assert!(workspace(own).spec.has_init_containers());
    assert_eq!(order(own), ["bootstrap", "fetch", "prepare"]);
    assert_eq!(order(""), ["bootstrap"]);
    assert_eq!(
        names(
            spec(&make_pod(&workspace(own)))
                .init_containers
                .as_deref()
                .unwrap()
        ),
        ["bootstrap", "prepare"]
    );
}

#[test]
fn changes_to_the_built_in_init_containers_are_no_init_containers() {
    let patches = workspace(
        "podTemplate: {spec: {initContainers: [{name: fetch, env: [{name: A, value: b}]}, {name: bootstrap}]}}",
    );
    assert!(!patches.spec.has_init_containers());
    let made = make_pod(&patches);
    assert_eq!(
        names(spec(&made).init_containers.as_deref().unwrap()),
        ["bootstrap"]
    );
    // One with an image is a container of its own, whatever it is called.
    let own = workspace("podTemplate: {spec: {initContainers: [{name: fetch, image: git}]}}");
    assert!(own.spec.has_init_containers());
    assert_eq!(
        names(spec(&make_pod(&own)).init_containers.as_deref().unwrap()),
        ["bootstrap", "fetch"]
    );
}
