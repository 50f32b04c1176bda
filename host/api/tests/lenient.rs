//! Objects are read as clusters hold them.
#![allow(clippy::unwrap_used)]

use kube::Resource;
use pretty_assertions::assert_eq;
use serde_json::{Value, json};
use windlass_api::lenient::{FromObject, Lenient, from_value};
use windlass_api::stack::StackStatus;
use windlass_api::{Program, Stack, Update, Workspace};

fn object(kind: &str, mut rest: Value) -> Value {
    let fields = rest.as_object_mut().unwrap();
    let group = if matches!(kind, "Stack" | "Program") {
        "pulumi.com/v1"
    } else {
        "auto.pulumi.com/v1alpha1"
    };
    fields.insert("apiVersion".to_owned(), json!(group));
    fields.insert("kind".to_owned(), json!(kind));
    fields.insert(
        "metadata".to_owned(),
        json!({
            "name": "app", "namespace": "team", "uid": "0a1b", "resourceVersion": "417", "generation": 3,
            "creationTimestamp": "2026-01-02T03:04:05Z", "labels": {"a": "b"}, "selfLink": "",
            "managedFields": [{"manager": "kubectl-client-side-apply", "operation": "Update", "apiVersion": group,
                "time": "2026-01-02T03:04:05Z", "fieldsType": "FieldsV1", "fieldsV1": {"f:spec": {".": {}, "f:stack": {}}}}],
        }),
    );
    rest
}

fn stack(spec: Value) -> Result<Stack, String> {
    Stack::from_object(&object("Stack", json!({ "spec": spec }))).map_err(|e| e.to_string())
}

#[test]
fn what_people_write_into_pods_is_read() {
    let stack = stack(json!({
        "stack": "dev",
        "resyncFrequencySeconds": 60.0,
        "branch": null,
        "envs": null,
        "targets": null,
        "gitAuth": null,
        "futureField": {"of": ["another", "version"]},
        "config": {"a": null, "b": {"c": [1, 2.5, true, null]}},
        "workspaceTemplate": {
            "metadata": {"labels": {"x": "y"}, "creationTimestamp": null, "ownerReferences": [{"name": "half"}]},
            "status": {"conditions": [{"type": "Ready"}], "observedGeneration": "free"},
            "spec": {
                "projectInfo": {"runtime": "yaml"},
                "stacks": [{"create": true, "config": [{"value": 3}]}],
                "resources": {"limits": {"cpu": 1, "memory": "64Mi", "example.com/gpu": 2}, "requests": {"cpu": 0.5}},
                "podTemplate": {"spec": {
                    "containers": [{
                        "name": "pulumi",
                        "resources": {"limits": {"cpu": 2}, "requests": null},
                        "env": [{"name": "A", "value": null, "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu", "divisor": 1}}}],
                        "ports": [{"containerPort": 80, "protocol": "TCP"}],
                        "livenessProbe": {"httpGet": {"port": "web"}},
                        "readinessProbe": {"tcpSocket": {"port": 8080}},
                        "futureOfContainers": 1,
                    }],
                    "volumes": [{"name": "v", "emptyDir": {"sizeLimit": 1000}}],
                    "tolerations": null,
                }},
            },
        },
        "updateTemplate": {"status": {"startTime": "yesterday"}, "spec": {"parallel": 4}},
    }))
    .unwrap();
    let spec = &stack.spec;
    assert_eq!(spec.resync_frequency_seconds, Some(60));
    assert_eq!((&spec.branch, spec.envs.len()), (&None, 0));
    assert_eq!(spec.config["a"], Value::Null);
    assert_eq!(spec.config["b"], json!({"c": [1, 2.5, true, null]}));
    let workspace = spec
        .workspace_template
        .as_ref()
        .unwrap()
        .spec
        .as_ref()
        .unwrap();
    let resources = workspace.resources.as_ref().unwrap();
    let limits = resources.limits.as_ref().unwrap();
    assert_eq!(
        (&*limits["cpu"].0, &*limits["example.com/gpu"].0),
        ("1", "2")
    );
    assert_eq!(resources.requests.as_ref().unwrap()["cpu"].0, "0.5");
    assert_eq!(workspace.stacks[0].config[0].value, Some(json!(3)));
    let pod = workspace
        .pod_template
        .as_ref()
        .unwrap()
        .spec
        .as_ref()
        .unwrap();
    let size = pod.volumes.as_ref().unwrap()[0]
        .empty_dir
        .as_ref()
        .unwrap()
        .size_limit
        .as_ref();
    assert_eq!(size.unwrap().0, "1000");
    assert_eq!(stack.metadata.managed_fields.unwrap().len(), 1);
}

/// States of a Stack as the Pulumi Kubernetes Operator leaves them behind.
#[test]
fn a_status_of_the_operator_that_was_here_before_is_read() {
    let condition = |kind: &str, status: &str, reason: &str| {
        json!({"type": kind, "status": status, "reason": reason, "message": "",
            "lastTransitionTime": "2026-01-02T03:04:05Z"})
    };
    let read = |status: Value| {
        let object = object("Stack", json!({"spec": {"stack": "dev"}, "status": status}));
        Stack::from_object(&object).unwrap().status.unwrap()
    };
    let ready: StackStatus = read(json!({
        "observedGeneration": 3,
        "observedReconcileRequest": "2026",
        "conditions": [condition("Ready", "True", "ProcessingCompleted")],
        "lastUpdate": {
            "generation": 3, "name": "app-199b2f0c1aa", "type": "up", "state": "succeeded",
            "message": "Backoff time elapsed", "lastAttemptedCommit": "sha256:0f", "lastSuccessfulCommit": "sha256:0f",
            "permalink": "https://app.pulumi.com/a/b/dev/updates/1", "lastResyncTime": "2026-01-02T03:04:05Z"},
        "outputs": {"url": "https://x", "count": 3, "password": "[secret]", "list": [null]},
        "projectInfo": {"name": "p", "runtime": "yaml"},
    }));
    let last = ready.last_update.unwrap();
    assert!(last.succeeded());
    assert_eq!((last.failures, last.sequence), (0, 0));
    assert_eq!(ready.outputs.unwrap().len(), 4);
    let running = read(json!({
        "conditions": [condition("Ready", "False", "NotReadyInProgress"), condition("Reconciling", "True", "StackProcessing")],
        "currentUpdate": {"generation": 3, "name": "app-199b2f0c1ab", "commit": "0f"},
        "lastUpdate": {"state": "failed", "failures": 2, "lastResyncTime": "2026-01-02T03:04:05Z"},
    }));
    assert_eq!(running.last_update.unwrap().failures, 2);
    // Written through the old version, long ago.
    let old = read(
        json!({"lastUpdate": {"state": "succeeded", "lastResyncTime": null}, "outputs": null, "conditions": null}),
    );
    assert_eq!(
        (old.outputs, old.last_update.unwrap().last_resync_time),
        (None, None)
    );
}

#[test]
fn the_other_kinds_are_read() {
    let workspace = Workspace::from_object(&object(
        "Workspace",
        json!({
            "spec": {
                "serviceAccountName": "default", "securityProfile": "restricted", "image": "pulumi/pulumi:3.1-nonroot",
                "env": [{"name": "PULUMI_ACCESS_TOKEN", "valueFrom": {"secretKeyRef": {"name": "s", "key": "accessToken"}}}],
                "flux": {"url": "http://x/a.tar.gz", "digest": "sha256:0f"},
                "stacks": [{"name": "dev", "create": true, "config": [{"key": "a", "value": "b", "secret": false}]}],
                "resources": {}, "pulumiLogLevel": 0,
            },
            "status": {"observedGeneration": 1, "address": "app-workspace.team:50051", "pulumiVersion": "3.100.0",
                "conditions": [{"type": "Ready", "status": "True", "reason": "Succeeded", "message": "",
                    "observedGeneration": 1, "lastTransitionTime": "2026-01-02T03:04:05Z"}]},
        }),
    ))
    .unwrap();
    assert_eq!(workspace.spec.stacks[0].name, "dev");
    let update = Update::from_object(&object(
        "Update",
        json!({
            "spec": {"workspaceName": "app", "stackName": "dev", "type": "up", "ttlAfterCompleted": "24h0m0s",
                "message": "Initial stack update", "refresh": false},
            "status": {"observedGeneration": 1, "startTime": "2026-01-02T03:04:05Z", "endTime": null,
                "outputs": "app-199b2f0c1aa-stack-outputs", "projectInfo": {"name": "p", "runtime": "yaml"}},
        }),
    ))
    .unwrap();
    assert_eq!(update.spec.refresh, Some(false));
    let program = Program::from_object(&object(
        "Program",
        json!({
            "program": {"resources": {"r": {"type": "a:b:C", "properties": {"n": null}, "options": null}}, "variables": null},
            "status": {"observedGeneration": 1, "artifact": {"path": "p", "url": "u", "revision": "1",
                "lastUpdateTime": "2026-01-02T03:04:05Z"}},
        }),
    ))
    .unwrap();
    assert_eq!(
        program.body().unwrap().resources["r"].properties["n"],
        Value::Null
    );
    // Admitted, since nothing is required above `spec`.
    for kind in ["Workspace", "Update"] {
        let object = object(kind, json!({}));
        match kind {
            "Workspace" => assert!(
                Workspace::from_object(&object)
                    .unwrap()
                    .spec
                    .image
                    .is_none()
            ),
            _ => assert!(Update::from_object(&object).unwrap().spec.type_.is_none()),
        }
    }
    assert!(
        Program::from_object(&object("Program", json!({})))
            .unwrap()
            .body()
            .is_none()
    );
}

#[test]
fn what_an_older_definition_let_in_is_told_by_its_field() {
    for (spec, error) in [
        (
            json!({"stack": 3}),
            "spec.stack: expected a string, found a number; write the value in quotes",
        ),
        (
            json!({"stack": "dev", "targets": "urn"}),
            "spec.targets: expected a list, found a string; put \"- \" before each item",
        ),
        (
            json!({"stack": "dev", "envRefs": {"A": {"literal": {"value": "x"}}}}),
            "spec.envRefs.A.type: this field is required; add it",
        ),
        (
            json!({"stack": "dev", "prerequisites": [{"name": "a"}, "b"]}),
            "spec.prerequisites[1]: expected a mapping, found a string; write \"name: value\" lines below it",
        ),
        (
            json!({"stack": "dev", "workspaceTemplate": {"spec": {"podTemplate": {"spec": {"containers": [{"env": {}}]}}}}}),
            "spec.workspaceTemplate.spec.podTemplate.spec.containers[0].env: expected a list, found a mapping; put \"- \" before each item",
        ),
        (
            json!({"stack": "dev", "workspaceReclaimPolicy": "Keep"}),
            "spec.workspaceReclaimPolicy: unknown value; use Retain or Delete",
        ),
        (
            json!({"stack": "dev", "resyncFrequencySeconds": 0.5}),
            "spec.resyncFrequencySeconds: this number does not fit; it must be a whole number in range",
        ),
        (json!({}), "spec.stack: this field is required; add it"),
    ] {
        assert_eq!(stack(spec.clone()).unwrap_err(), error, "{spec}");
    }
    let without_spec = Stack::from_object(&object("Stack", json!({}))).unwrap_err();
    assert_eq!(without_spec.field, "spec.stack");
    let program =
        json!({"program": {"resources": {"r": {"type": "a:b:C", "options": {"protect": "yes"}}}}});
    let program = Program::from_object(&object("Program", program)).unwrap_err();
    assert_eq!(program.field, "program.resources.r.options.protect");
}

#[test]
fn an_error_never_shows_a_value() {
    let spec = json!({"stack": "dev", "secrets": "hunter2", "secretsRef": {"A": "hunter2"}});
    assert!(!stack(spec).unwrap_err().contains("hunter2"));
    let time = json!({"lastUpdate": {"lastResyncTime": "hunter2"}});
    let error = from_value::<StackStatus>(&time).unwrap_err();
    assert_eq!(error.field, "lastUpdate.lastResyncTime");
    assert!(!error.to_string().contains("hunter2"), "{error}");
}

#[test]
fn one_bad_object_does_not_spoil_a_list() {
    #[derive(serde::Deserialize)]
    struct List {
        items: Vec<Lenient<Stack>>,
    }
    let good = object("Stack", json!({"spec": {"stack": "dev"}}));
    let mut bad = object("Stack", json!({"spec": {"stack": ["dev"]}}));
    bad["metadata"]["finalizers"] = json!(["finalizer.stack.pulumi.com"]);
    bad["metadata"]["deletionTimestamp"] = json!("2026-01-02T03:04:05Z");
    let mut worse = bad.clone();
    worse["metadata"]["labels"] = json!("none");
    // As the API server writes lists: items without kind and version.
    for item in [&mut bad, &mut worse] {
        item.as_object_mut().unwrap().remove("kind");
    }
    let text = json!({"items": [good, bad, worse]}).to_string();
    let List { items } = serde_json::from_str(&text).unwrap();
    assert_eq!(items[0].0.as_ref().unwrap().spec.stack, "dev");
    let invalid = items[1].0.as_ref().unwrap_err();
    assert_eq!(
        invalid.to_string(),
        "Stack team/app: spec.stack: expected a string, found a list"
    );
    for item in &items[1..] {
        let meta = item.meta();
        assert_eq!(meta.name.as_deref(), Some("app"));
        assert_eq!(meta.namespace.as_deref(), Some("team"));
        assert_eq!(meta.uid.as_deref(), Some("0a1b"));
        assert_eq!(meta.resource_version.as_deref(), Some("417"));
        assert_eq!(
            meta.finalizers.as_ref().unwrap(),
            &["finalizer.stack.pulumi.com"]
        );
        assert!(meta.deletion_timestamp.is_some());
    }
    assert_eq!(Lenient::<Stack>::kind(&()), "Stack");
}
