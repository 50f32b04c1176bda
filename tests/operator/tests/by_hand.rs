//! Workspaces and Updates that people make themselves.
#![allow(clippy::unwrap_used)]

use std::time::Duration;

use serde_json::{Value, json};
use windlass_e2e::git_server::GitServer;
use windlass_operator::{Operator, condition};

const PATIENCE: Duration = Duration::from_secs(90);

const PROGRAM: &str = r#"
apiVersion: pulumi.com/v1
kind: Program
metadata: {name: hello}
program:
  resources:
    message: {type: "pulumi:Stash", properties: {input: hello}}
  outputs: {greeting: "${message.input}"}
"#;

const SOLO: &[u8] = b"name: solo\nruntime: yaml\nconfig:\n  word: {type: string}\n  token: {type: string}\nresources:\n  one: \
    {type: pulumi:Stash, properties: {input: \"${word}\"}}\noutputs:\n  word: ${one.input}\n  token: ${token}\n";

async fn ended(operator: &Operator, update: &str) -> Value {
    let complete = async || {
        let found = operator.get("update", update).await;
        found.is_some_and(|update| {
            condition(&update, "Complete").is_some_and(|one| one["status"] == "True")
        })
    };
    let what = format!("the end of {update}");
    operator.until(&what, PATIENCE, complete).await;
    operator.get("update", update).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn what_people_make_themselves_runs() {
    let Some(operator) = Operator::start().await else {
        return;
    };
    // Beside a Stack: what it ran last, in another operation, and nothing of it shows in the Stack.
    operator.apply(PROGRAM).await;
    operator.stack("hello", "programRef: {name: hello}").await;
    let before = operator.ready("hello").await;
    operator
        .apply("apiVersion: auto.pulumi.com/v1alpha1\nkind: Update\nmetadata: {name: look}\nspec: {workspaceName: hello, type: preview}\n")
        .await;
    let look = ended(&operator, "look").await;
    assert_eq!(
        condition(&look, "Failed").unwrap()["status"],
        "False",
        "{look:#}"
    );
    assert_eq!(look["status"]["run"]["intent"]["cause"]["type"], "byHand");
    let after = operator.ready("hello").await;
    assert_eq!(
        after["metadata"]["resourceVersion"],
        before["metadata"]["resourceVersion"]
    );

    // On a Workspace with a source, variables and configuration of its own.
    let server = GitServer::start().await.unwrap();
    let repo = server.repo("solo").unwrap();
    let commit = repo
        .commit("main", &[("app/Pulumi.yaml", "100644", SOLO)])
        .unwrap();
    let early = "apiVersion: auto.pulumi.com/v1alpha1\nkind: Update\nmetadata: {name: early}\nspec: {workspaceName: solo, \
                 stackName: organization/solo/dev, type: up}\n";
    operator.apply(early).await;
    operator
        .until(
            "it is said that the Workspace is missing",
            PATIENCE,
            async || {
                let update = operator.get("update", "early").await.unwrap();
                condition(&update, "Progressing")
                    .is_some_and(|one| one["reason"] == "WorkspaceNotFound")
            },
        )
        .await;
    operator
        .apply(&format!(
            r#"
apiVersion: v1
kind: Secret
metadata: {{name: solo}}
stringData: {{token: open-sesame}}
---
apiVersion: auto.pulumi.com/v1alpha1
kind: Workspace
metadata: {{name: solo}}
spec:
  git: {{url: "{}", ref: {commit}, dir: app}}
  env:
  - {{name: PULUMI_BACKEND_URL, value: "file:///state"}}
  - {{name: PULUMI_CONFIG_PASSPHRASE, value: test}}
  - name: TOKEN
    valueFrom: {{secretKeyRef: {{name: solo, key: token}}}}
  podTemplate:
    spec:
      containers:
      - name: pulumi
        volumeMounts: [{{name: state, mountPath: /state}}]
      volumes:
      - name: state
        hostPath: {{path: "@STATE@"}}
  stacks:
  - name: organization/solo/dev
    create: true
    config:
    - {{key: word, value: spoken}}
    - {{key: token, valueFrom: {{env: TOKEN}}, secret: true}}
"#,
            server.url("solo")
        ))
        .await;
    let early = ended(&operator, "early").await;
    assert_eq!(
        condition(&early, "Failed").unwrap()["status"],
        "False",
        "{early:#}\n{}",
        operator.logs()
    );
    let outputs = early["status"]["outputs"].as_str().unwrap().to_owned();
    let secret = operator.get("secret", &outputs).await.unwrap();
    // JSON, as the Pulumi Kubernetes Operator keeps it: "spoken" with its quotes.
    assert_eq!(secret["data"]["word"], "InNwb2tlbiI=");
    assert!(!early.to_string().contains("open-sesame"));
    assert!(!operator.logs().contains("open-sesame"));
    let workspace = operator.get("workspace", "solo").await.unwrap();
    assert_eq!(condition(&workspace, "Ready").unwrap()["status"], "True");

    operator
        .apply("apiVersion: auto.pulumi.com/v1alpha1\nkind: Update\nmetadata: {name: down}\nspec: {workspaceName: solo, stackName: organization/solo/dev, type: destroy, ttlAfterCompleted: 1s}\n")
        .await;
    operator.gone("update", "down").await;
    let state = operator.state().join(".pulumi/stacks/solo/dev.json");
    let resources = std::fs::read_to_string(state).unwrap();
    assert!(!resources.contains("pulumi:index:Stash"), "{resources}");
    operator
        .kubectl(&["delete", "workspace", "solo", "--wait=false"])
        .await;
    operator.gone("pod", "solo-workspace-0").await;
    // What people made stays until they delete it.
    assert_eq!(operator.list("updates").await.len(), 3);
    let cleared: Value = json!(null);
    let early = operator.get("update", "early").await.unwrap();
    assert_eq!(early["metadata"]["finalizers"], cleared);
}
