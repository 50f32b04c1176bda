//! The definitions on a real API server: applied as people apply them, accepting what was accepted before, refusing only
//! nonsense in fields that are new.
#![allow(clippy::unwrap_used)]

use std::process::Command;

use serde_json::{Value, json};
use windlass_cluster::ControlPlane;
use windlass_e2e::world::workspace_root;
use windlass_operator::{Operator, backend};

/// A Stack as the published examples have it: fields of both kinds of sources, references, templates.
const FULL: &str = r#"
apiVersion: @VERSION@
kind: Stack
metadata: {name: @NAME@}
spec:
  stack: acme/web/dev
  accessTokenSecret: token
  envs: [settings]
  envSecrets: [more]
  envRefs:
    FROM_SECRET: {type: Secret, secret: {name: s, key: k}}
    FROM_LITERAL: {type: Literal, literal: {value: plain}}
    OF_NO_KIND: {type: Whatever}
  config: {aws:region: eu-west-1, replicas: 3, tags: {a: b}}
  secretsRef:
    password: {type: Secret, secret: {name: s, key: k}}
  projectRepo: https://git.example/acme/web
  gitAuth:
    accessToken: {type: Secret, secret: {name: git, key: token}}
  branch: refs/heads/main
  programRef: {name: web}
  prerequisites:
  - {name: network, requirement: {succeededWithinDuration: 24h}}
  resyncFrequencySeconds: 300
  destroyOnFinalize: true
  workspaceTemplate:
    spec:
      image: registry.example/pulumi:1
      resources: {limits: {cpu: 1, memory: 0.5Gi}}
      podTemplate:
        spec:
          containers:
          - name: pulumi
            ports: [{containerPort: 8080}]
            env: [{name: K, valueFrom: {secretKeyRef: {key: k}}}]
          tolerations: [{key: spot, operator: Exists}]
  updateTemplate:
    spec: {ttlAfterCompleted: 24h, parallel: 4}
"#;

fn full(version: &str, name: &str) -> String {
    FULL.replace("@VERSION@", version).replace("@NAME@", name)
}

/// Runs kubectl; its output, or what it says of the failure.
async fn kubectl(plane: &ControlPlane, arguments: &[&str], input: &str) -> Result<String, String> {
    let output = plane.kubectl_with(arguments, input.as_bytes()).await;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    if output.status.success() {
        Ok(text(&output.stdout))
    } else {
        Err(text(&output.stderr) + &text(&output.stdout))
    }
}

async fn versions(plane: &ControlPlane) -> String {
    let path = "jsonpath={range .items[*]}{.metadata.name}={.metadata.resourceVersion} {end}";
    kubectl(plane, &["get", "crds", "-o", path], "")
        .await
        .unwrap()
}

/// `windlass run` where it is expected to end by itself: its exit code and what it says.
fn refused(plane: &ControlPlane) -> (Option<i32>, String) {
    let data = tempfile::tempdir().unwrap();
    let output = Command::new(backend::binaries().join("windlass"))
        .args(["run", "--namespace", "default", "--identity", "operator-0"])
        .arg("--data-dir")
        .arg(data.path())
        .arg("--plugin-dir")
        .arg(windlass_e2e::world::plugin_dir())
        .args(["--health-probe-bind-address", "127.0.0.1:0"])
        .env("KUBECONFIG", plane.kubeconfig())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    (output.status.code(), said)
}

#[tokio::test(flavor = "multi_thread")]
async fn the_checked_in_definitions_are_applied_plainly_and_accept_what_was_accepted() {
    let Some(plane) = ControlPlane::start().await else {
        return;
    };
    let (code, said) = refused(&plane);
    assert!(code.is_some_and(|code| code != 0), "{code:?}: {said}");
    assert!(
        said.contains("does not have the definition") && said.contains("windlass crds | kubectl"),
        "{said}"
    );

    let folder = workspace_root().join("deploy/crds");
    let apply = ["apply", "-f", folder.to_str().unwrap()];
    let said = kubectl(&plane, &apply, "").await.unwrap();
    assert_eq!(said.matches(" created").count(), 4, "{said}");
    for definition in [
        "stacks.pulumi.com",
        "programs.pulumi.com",
        "workspaces.auto.pulumi.com",
        "updates.auto.pulumi.com",
    ] {
        plane.until_established(definition).await;
    }
    let before = versions(&plane).await;
    let said = kubectl(&plane, &apply, "").await.unwrap();
    assert_eq!(said.matches(" unchanged").count(), 4, "{said}");
    assert_eq!(versions(&plane).await, before);

    accepts_what_was_accepted(&plane).await;
    refuses_nonsense_in_new_fields(&plane).await;
    an_older_schema_is_refused_with_the_remedy(&plane).await;
}

async fn accepts_what_was_accepted(plane: &ControlPlane) {
    for (version, name) in [("pulumi.com/v1", "web"), ("pulumi.com/v1alpha1", "old-web")] {
        let manifest = full(version, name);
        let apply = ["apply", "-f", "-"];
        kubectl(plane, &apply, &manifest).await.unwrap();
        let kind = format!(
            "stacks.{}",
            version.replace("pulumi.com/", "") + ".pulumi.com"
        );
        let get = ["get", kind.as_str(), name, "-o", "json"];
        let read = |text: String| serde_json::from_str::<Value>(&text).unwrap();
        let stack = read(kubectl(plane, &get, "").await.unwrap());
        assert_eq!(stack["apiVersion"], version);
        let spec = &stack["spec"];
        assert_eq!(spec["config"]["tags"], json!({"a": "b"}), "{spec:#}");
        assert_eq!(spec["envRefs"]["OF_NO_KIND"]["type"], "Whatever");
        let requirement = &spec["prerequisites"][0]["requirement"];
        assert_eq!(requirement, &json!({"succeededWithinDuration": "24h"}));
        let pod = &spec["workspaceTemplate"]["spec"]["podTemplate"]["spec"];
        let env = &pod["containers"][0]["env"][0];
        assert_eq!(env["valueFrom"]["secretKeyRef"]["key"], "k");

        // Defaults that the API server fills in are no difference to the manifest, and nothing is stored for them.
        kubectl(plane, &apply, &manifest).await.unwrap();
        let again = read(kubectl(plane, &get, "").await.unwrap());
        assert_eq!(
            again["metadata"]["resourceVersion"],
            stack["metadata"]["resourceVersion"]
        );
        kubectl(plane, &["diff", "-f", "-"], &manifest)
            .await
            .unwrap();
    }
    let long = "n".repeat(43);
    let said = kubectl(plane, &["apply", "-f", "-"], &full("pulumi.com/v1", &long)).await;
    let text = "Stack name must be no more than 42 characters in length.";
    assert!(said.as_ref().is_err_and(|e| e.contains(text)), "{said:?}");
    for (version, name) in [
        ("pulumi.com/v1", "n".repeat(42)),
        ("pulumi.com/v1alpha1", long),
    ] {
        kubectl(plane, &["apply", "-f", "-"], &full(version, &name))
            .await
            .unwrap();
    }
}

async fn refuses_nonsense_in_new_fields(plane: &ControlPlane) {
    let reference = |fields: &str| format!("envRefs: {{V: {{{fields}}}}}");
    let together = "stack and output belong together, with type StackOutput";
    let cases = [
        (
            "source: {type: mine}\n  projectRepo: https://git.example/a".to_owned(),
            Some("source excludes projectRepo, fluxSource and programRef; keep one of them"),
        ),
        ("source: {type: mine}".to_owned(), None),
        (
            "retry: {initialBackoffSeconds: 9, maxBackoffSeconds: 3}".to_owned(),
            Some("initialBackoffSeconds must not be more than maxBackoffSeconds"),
        ),
        (
            "retry: {initialBackoffSeconds: 3, maxBackoffSeconds: 9}".to_owned(),
            None,
        ),
        (
            "timeoutSeconds: 0".to_owned(),
            Some("should be greater than or equal to 1"),
        ),
        (
            reference("type: StackOutput, stack: network"),
            Some(together),
        ),
        (
            reference("type: Secret, stack: network, output: vpc"),
            Some(together),
        ),
        (
            reference("type: StackOutput, stack: network, output: vpc"),
            None,
        ),
        (
            reference("type: Secret, configMap: {name: c, key: k}"),
            Some("configMap needs type ConfigMap"),
        ),
        (
            reference("type: ConfigMap, configMap: {name: c, key: k}"),
            None,
        ),
        // Meaningless, and accepted ever since.
        (
            "projectRepo: https://git.example/a\n  programRef: {name: a}".to_owned(),
            None,
        ),
        (reference("type: Secret"), None),
    ];
    for (fields, refusal) in cases {
        let manifest = format!(
            "apiVersion: pulumi.com/v1\nkind: Stack\nmetadata: {{name: tried}}\nspec:\n  stack: a/b/c\n  {fields}\n"
        );
        let create = ["create", "--dry-run=server", "-f", "-"];
        let said = kubectl(plane, &create, &manifest).await;
        match refusal {
            None => assert!(said.is_ok(), "{fields}: {said:?}"),
            Some(text) => {
                assert!(
                    said.as_ref().is_err_and(|e| e.contains(text)),
                    "{fields}: {said:?}"
                );
            }
        }
    }
}

async fn an_older_schema_is_refused_with_the_remedy(plane: &ControlPlane) {
    let path = "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/timeoutSeconds";
    let patch = json!([{"op": "remove", "path": path}]).to_string();
    let crd = "stacks.pulumi.com";
    kubectl(
        plane,
        &["patch", "crd", crd, "--type=json", "-p", &patch],
        "",
    )
    .await
    .unwrap();
    let (code, said) = refused(plane);
    assert!(code.is_some_and(|code| code != 0), "{code:?}: {said}");
    for text in [
        crd,
        "lacks 1 fields",
        "v1: spec.timeoutSeconds",
        "windlass crds | kubectl apply --server-side",
    ] {
        assert!(said.contains(text), "{text:?} is not in {said}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_applied_again_is_not_written_and_the_columns_tell_the_state() {
    let Some(operator) = Operator::start().await else {
        return;
    };
    operator.stash("shown").await;
    operator.stack("shown", "programRef: {name: shown}").await;
    let before = operator.ready("shown").await;
    // The operator's finalizer, status and the defaults are between the manifest and the object.
    operator.stack("shown", "programRef: {name: shown}").await;
    let after = operator.get("stack", "shown").await.unwrap();
    for field in ["resourceVersion", "generation"] {
        assert_eq!(after["metadata"][field], before["metadata"][field]);
    }

    let table = operator.kubectl(&["get", "stacks"]).await;
    let rows: Vec<Vec<&str>> = table
        .lines()
        .map(|line| {
            line.split("  ")
                .map(str::trim)
                .filter(|s| !s.is_empty())
                .collect()
        })
        .collect();
    let columns = [
        "NAME",
        "LAST UPDATE",
        "AGE",
        "READY",
        "RECONCILING",
        "STALLED",
        "PERMALINK",
    ];
    assert_eq!(rows[0], columns, "{table}");
    assert_eq!(rows[1][..2], ["shown", "succeeded"], "{table}");
    assert_eq!(rows[1][3], "True", "{table}");
    let wide = operator.kubectl(&["get", "stacks", "-o", "wide"]).await;
    assert!(
        wide.contains("LAST COMMIT") && wide.contains("organization/shown/dev"),
        "{wide}"
    );
    let of_category = operator.kubectl(&["get", "pulumi"]).await;
    for kind in ["stack", "program", "workspace", "update"] {
        assert!(of_category.contains(&format!("{kind}.")), "{of_category}");
    }
    let wait = [
        "wait",
        "--for=condition=Ready",
        "stack/shown",
        "--timeout=10s",
    ];
    operator.kubectl(&wait).await;
}
