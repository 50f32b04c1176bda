//! Templates merged over what is built in.

use pretty_assertions::assert_eq;
use serde_json::json;

use crate::support::*;

#[test]
fn lists_are_merged_by_key_with_the_templates_entries_first() {
    let workspace = make_workspace(&stack(
        r#"
configRef: {k: {name: settings, key: k}}
workspaceTemplate:
  spec:
    podTemplate:
      spec:
        containers:
        - {name: side, image: x}
        - name: pulumi
          volumeMounts:
          - {name: state, mountPath: /state}
        volumes:
        - {name: state, hostPath: {path: /state}}
"#,
    ));
    let template = workspace.spec.pod_template.as_ref().unwrap();
    let written = template.spec.as_ref().unwrap();
    assert_eq!(names(&written.containers), ["side", "pulumi"]);
    assert_eq!(
        mounts(&written.containers[1]),
        [
            "/state: state",
            "/var/run/configmaps/stacks.pulumi.com/configmaps/settings: configmap-settings"
        ]
    );
    assert_eq!(volumes(written), ["state", "configmap-settings"]);

    let pod = make_pod(&workspace);
    assert_eq!(names(&spec(&pod).containers), ["side", "pulumi"]);
    assert_eq!(
        mounts(container(&pod, "pulumi")),
        [
            "/state: state",
            "/var/run/configmaps/stacks.pulumi.com/configmaps/settings: configmap-settings",
            "/share: share",
            "/var/run/secrets/windlass/tls: windlass-tls",
        ]
    );
    assert_eq!(
        volumes(spec(&pod)),
        ["state", "configmap-settings", "share", "windlass-tls"]
    );
}

#[test]
fn init_containers_of_the_template_come_behind_the_built_in() {
    let pod = make_pod(&workspace(
        r#"
podTemplate:
  spec:
    initContainers:
    - {name: first, image: x}
    - {name: bootstrap, resources: {limits: {memory: 32Mi}}}
    - {name: second, image: x}
"#,
    ));
    assert_eq!(
        names(spec(&pod).init_containers.as_deref().unwrap()),
        ["bootstrap", "first", "second"]
    );
    let bootstrap = container(&pod, "bootstrap");
    assert_eq!(
        bootstrap.image.as_deref(),
        Some("registry.example/windlass-agent:1.0")
    );
    assert_eq!(
        serde_json::to_value(&bootstrap.resources).unwrap(),
        json!({"limits": {"memory": "32Mi"}})
    );
}

#[test]
fn a_volume_of_the_template_takes_the_place_of_the_built_in() {
    let pod = make_pod(&workspace(
        "podTemplate: {spec: {volumes: [{name: share, persistentVolumeClaim: {claimName: c}}]}}",
    ));
    assert_eq!(
        serde_json::to_value(&spec(&pod).volumes).unwrap()[0],
        json!({"name": "share", "persistentVolumeClaim": {"claimName": "c"}})
    );
}

#[test]
fn a_mount_of_another_volume_keeps_nothing_of_the_one_it_replaces() {
    let pod = make_pod(&workspace(
        r#"
podTemplate:
  spec:
    containers:
    - name: pulumi
      volumeMounts:
      - {name: mine, mountPath: /share}
      - {name: mine, mountPath: /var/run/secrets/windlass/tls}
    volumes: [{name: mine, emptyDir: {}}]
"#,
    ));
    // The place of the certificate is not the template's to take.
    assert_eq!(
        mounts(container(&pod, "pulumi")),
        [
            "/share: mine",
            "/var/run/secrets/windlass/tls: windlass-tls"
        ]
    );
}

#[test]
fn a_probe_has_the_handler_of_the_template() {
    let pod = make_pod(&workspace(
        "podTemplate: {spec: {containers: [{name: pulumi, readinessProbe: {tcpSocket: {port: 50051}, periodSeconds: 9}}]}}",
    ));
    let probe = container(&pod, "pulumi").readiness_probe.as_ref().unwrap();
    assert_eq!(
        serde_json::to_value(probe).unwrap(),
        json!({"tcpSocket": {"port": 50051}, "periodSeconds": 9, "timeoutSeconds": 5, "failureThreshold": 3})
    );
    let slower = make_pod(&workspace(
        "podTemplate: {spec: {containers: [{name: pulumi, readinessProbe: {periodSeconds: 9}}]}}",
    ));
    let probe = container(&slower, "pulumi")
        .readiness_probe
        .as_ref()
        .unwrap();
    assert_eq!(probe.period_seconds, Some(9));
    assert!(probe.exec.is_some());
}

#[test]
fn a_port_without_a_protocol_is_the_same_port() {
    let pod = make_pod(&workspace(
        "podTemplate: {spec: {containers: [{name: pulumi, ports: [{containerPort: 50051, hostPort: 50051}, {containerPort: 50051, protocol: UDP}]}]}}",
    ));
    assert_eq!(
        serde_json::to_value(&container(&pod, "pulumi").ports).unwrap(),
        json!([
            {"name": "grpc", "containerPort": 50051, "hostPort": 50051, "protocol": "TCP"},
            {"containerPort": 50051, "protocol": "UDP"},
        ])
    );
}

#[test]
fn resources_are_merged_and_have_requests() {
    for (fields, expected) in [
        ("", json!({"requests": {"cpu": "100m", "memory": "64Mi"}})),
        (
            "resources: {requests: {memory: 1Gi}, limits: {memory: 2Gi}}",
            json!({"requests": {"cpu": "100m", "memory": "1Gi"}, "limits": {"memory": "2Gi"}}),
        ),
        (
            "resources: {requests: {memory: 1Gi}}\npodTemplate: {spec: {containers: [{name: pulumi, resources: {requests: {cpu: 1}}}]}}",
            json!({"requests": {"cpu": "1", "memory": "1Gi"}}),
        ),
        (
            "podTemplate: {spec: {containers: [{name: pulumi, resources: {limits: {cpu: 50m}}}]}}",
            json!({"requests": {"cpu": "50m", "memory": "64Mi"}, "limits": {"cpu": "50m"}}),
        ),
    ] {
        let pod = make_pod(&workspace(fields));
        assert_eq!(
            serde_json::to_value(&container(&pod, "pulumi").resources).unwrap(),
            expected,
            "{fields}"
        );
    }
}

#[test]
fn the_rest_of_the_pod_is_the_templates() {
    let pod = make_pod(&workspace(
        r#"
podTemplate:
  spec:
    containers: [{name: pulumi, workingDir: /src, lifecycle: {preStop: {exec: {command: [bye]}}}}]
    nodeSelector: {disk: ssd}
    tolerations: [{key: ci, operator: Exists}]
    imagePullSecrets: [{name: registry}]
    priorityClassName: high
    automountServiceAccountToken: false
    terminationGracePeriodSeconds: 30
    serviceAccountName: theirs
    securityContext: {fsGroup: 1000, runAsUser: 2000}
    restartPolicy: Always
"#,
    ));
    let spec = spec(&pod);
    assert_eq!(spec.node_selector.as_ref().unwrap()["disk"], "ssd");
    assert_eq!(spec.tolerations.as_ref().unwrap().len(), 1);
    assert_eq!(
        spec.image_pull_secrets.as_ref().unwrap()[0].name,
        "registry"
    );
    assert_eq!(spec.priority_class_name.as_deref(), Some("high"));
    assert_eq!(spec.automount_service_account_token, Some(false));
    assert_eq!(spec.termination_grace_period_seconds, Some(30));
    assert_eq!(spec.service_account_name.as_deref(), Some("theirs"));
    let security = spec.security_context.as_ref().unwrap();
    assert_eq!(
        (
            security.fs_group,
            security.run_as_user,
            security.run_as_group
        ),
        (Some(1000), Some(2000), Some(1000))
    );
    let pulumi = container(&pod, "pulumi");
    assert_eq!(pulumi.working_dir.as_deref(), Some("/src"));
    assert!(pulumi.lifecycle.is_some());
}
