//! The life of a Stack on a cluster, from its creation to its end.
#![allow(clippy::unwrap_used)]

use std::time::Duration;

use serde_json::{Value, json};
use windlass_cluster::Image;
use windlass_operator::{Operator, condition};

const LIMIT: Duration = Duration::from_secs(60);
/// What Argo CD shows beside an object.
const LINK: &str = "link.argocd.argoproj.io/external-link";
/// By which a Stack's author asks for it.
const ASKED: &str = "windlass.pulumi.com/external-link";

const PROGRAM: &str = r#"
apiVersion: pulumi.com/v1
kind: Program
metadata: {name: hello}
program:
  configuration:
    greeting: {type: String, default: hello}
  resources:
    message: {type: "pulumi:Stash", properties: {input: "${greeting}"}}
  outputs:
    greeting: "${message.input}"
    token: {"fn::secret": "sesame-${greeting}"}
"#;

#[tokio::test(flavor = "multi_thread")]
async fn a_stack_lives_from_its_creation_to_its_destruction() {
    let Some(operator) = Operator::start().await else {
        return;
    };
    operator.apply(PROGRAM).await;
    operator
        .stack(
            "hello",
            "programRef: {name: hello}\ndestroyOnFinalize: true",
        )
        .await;
    let stack = operator.ready("hello").await;
    let status = &stack["status"];
    assert_eq!(status["lastUpdate"]["state"], "succeeded", "{status:#}");
    assert_eq!(status["lastUpdate"]["type"], "up");
    assert_eq!(
        status["outputs"],
        json!({"greeting": "hello", "token": "[secret]"})
    );
    assert_eq!(
        stack["metadata"]["finalizers"],
        json!(["finalizer.stack.pulumi.com"])
    );
    assert!(condition(&stack, "Reconciling").is_none() && condition(&stack, "Stalled").is_none());
    let pod = operator.get("pod", "hello-workspace-0").await.unwrap();
    let uid = pod["metadata"]["uid"].clone();

    // A changed config value runs in the same pod.
    let patch = json!({"spec": {"config": {"greeting": "salut"}}}).to_string();
    operator.patch("stack", "hello", &patch).await;
    let stack = operator
        .stack_when("hello", "deployed with its new configuration", |stack| {
            stack["status"]["outputs"]["greeting"] == "salut"
        })
        .await;
    assert_eq!(
        stack["status"]["lastUpdate"]["generation"],
        stack["metadata"]["generation"]
    );
    let pod = operator.get("pod", "hello-workspace-0").await.unwrap();
    assert_eq!(pod["metadata"]["uid"], uid, "the pod was replaced");

    // Asked for by annotation.
    let before = stack["status"]["lastUpdate"]["name"].clone();
    let patch = json!({"metadata": {"annotations": {"pulumi.com/reconciliation-request": "now"}}});
    operator.patch("stack", "hello", &patch.to_string()).await;
    let stack = operator
        .stack_when("hello", "run again", |stack| {
            stack["status"]["lastUpdate"]["name"] != before
                && stack["status"]["observedReconcileRequest"] == "now"
        })
        .await;
    assert_eq!(stack["status"]["lastUpdate"]["reconcileRequest"], "now");

    // The values of secrets are in Secrets alone.
    let text = serde_json::to_string(&(
        &operator.list("stacks").await,
        operator.list("updates").await,
    ))
    .unwrap();
    assert!(!text.contains("sesame"), "{text}");
    assert!(!operator.logs().contains("sesame"));
    let secret = operator.get("secret", "hello-outputs").await.unwrap();
    assert_eq!(secret["type"], "pulumi.com/outputs");

    let deleted = operator
        .plane
        .kubectl(&[
            "delete",
            "stack",
            "hello",
            "-n",
            &operator.namespace,
            "--wait=false",
        ])
        .await;
    assert!(deleted.status.success());
    operator.gone("stack", "hello").await;
    operator.gone("pod", "hello-workspace-0").await;
    operator.gone("workspace", "hello").await;
    let state = operator.state().join(".pulumi/stacks/hello");
    let resources = std::fs::read_to_string(state.join("dev.json")).unwrap();
    assert!(!resources.contains("pulumi:index:Stash"), "{resources}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_operator_goes_on_with_what_it_had_begun() {
    let Some(mut operator) = Operator::start().await else {
        return;
    };
    operator.apply(PROGRAM).await;
    operator.stack("hello", "programRef: {name: hello}").await;
    operator.kill();
    operator.launch();
    let stack = operator.ready("hello").await;
    assert_eq!(stack["status"]["lastUpdate"]["sequence"], 1);
    assert_eq!(operator.list("updates").await.len(), 1);
}

/// Without a source the program is in the image, or an init container puts it where it runs.
#[tokio::test(flavor = "multi_thread")]
async fn a_program_may_lie_in_the_workspace_already() {
    let Some(operator) = Operator::start().await else {
        return;
    };
    let text = "name: @NAME@\nruntime: yaml\nresources:\n  message: {type: \"pulumi:Stash\", properties: {input: hi}}\noutputs: \
                {greeting: \"${message.input}\"}\n";
    let program = operator.state().join("Pulumi.yaml");
    std::fs::write(&program, text.replace("@NAME@", "imaged")).unwrap();
    let image = Image::usual().with_file("/opt/program/Pulumi.yaml", &program);
    operator.kubelet.set_image("test/program:1", image);
    let workspace =
        |more: serde_json::Value| json!({"spec": {"workspaceTemplate": {"spec": more}}});
    let begin = async |name: &str, change: serde_json::Value| {
        let spec = "suspend: true\ndestroyOnFinalize: true";
        operator.stack(name, spec).await;
        operator.patch("stack", name, &change.to_string()).await;
        operator
            .patch("stack", name, r#"{"spec":{"suspend":false}}"#)
            .await;
    };
    let local = json!({"image": "test/program:1", "local": {"dir": "/opt/program"}});
    begin("imaged", workspace(local)).await;
    let put = format!(
        "printf '%s' '{}' > /share/workspace/Pulumi.yaml",
        text.replace("@NAME@", "filled")
    );
    let init = json!({
        "name": "fill", "image": "test/pulumi:1", "command": ["sh", "-c", put],
        "volumeMounts": [{"name": "share", "mountPath": "/share"}],
    });
    begin(
        "filled",
        workspace(json!({"podTemplate": {"spec": {"initContainers": [init]}}})),
    )
    .await;
    for name in ["imaged", "filled"] {
        let stack = operator.ready(name).await;
        assert_eq!(stack["status"]["outputs"], json!({"greeting": "hi"}));
        assert_eq!(operator.resources(name).unwrap(), ["message"]);
        operator
            .kubectl(&["delete", "stack", name, "--wait=false"])
            .await;
    }
    for name in ["imaged", "filled"] {
        operator.gone("stack", name).await;
        assert_eq!(operator.resources(name).unwrap(), Vec::<String>::new());
    }
}

fn link(stack: &Value) -> &Value {
    &stack["metadata"]["annotations"][LINK]
}

/// Merges annotations into the Stack `hello`; null takes one away.
async fn annotate(operator: &Operator, annotations: Value) {
    let patch = json!({"metadata": {"annotations": annotations}});
    operator.patch("stack", "hello", &patch.to_string()).await;
}

/// A backend in a directory has no pages: the status is given one, as a run on Pulumi Cloud would.
async fn ran(operator: &Operator, number: u32) -> String {
    let page = format!("https://app.pulumi.com/acme/hello/dev/updates/{number}");
    let patch = json!({"status": {"lastUpdate": {"permalink": page}}}).to_string();
    let status = ["patch", "stack", "hello", "--subresource=status"];
    operator
        .kubectl(&[&status[..], &["--type=merge", "-p", &patch]].concat())
        .await;
    page
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stack_shows_its_page_where_its_author_asks_and_has_no_other() {
    let Some(operator) = Operator::start().await else {
        return;
    };
    operator.apply(PROGRAM).await;
    operator.stack("hello", "programRef: {name: hello}").await;
    operator.ready("hello").await;
    let shows = async |page: &str| {
        operator
            .stack_when("hello", page, |stack| link(stack) == page)
            .await
    };
    // How often the operator has tried to write the link, and how often it was refused.
    let tried = |refused: bool| {
        let audit = operator.plane.audit_log();
        let ours = audit
            .only(|event| event.uri.contains("external-link") && (!refused || event.code == 409));
        ours.0.len()
    };

    let page = ran(&operator, 1).await;
    annotate(&operator, json!({ASKED: "true"})).await;
    shows(&page).await;
    shows(&ran(&operator, 2).await).await;
    // The log of the API server has a write a little after others see it.
    operator
        .until("both writes in the log", LIMIT, async || tried(false) >= 2)
        .await;
    assert_eq!(tried(false), 2);
    annotate(&operator, json!({ASKED: null})).await;
    operator
        .stack_when("hello", "without a link", |stack| link(stack).is_null())
        .await;
    operator
        .until("the third write in the log", LIMIT, async || {
            tried(false) >= 3
        })
        .await;
    assert_eq!((tried(false), tried(true)), (3, 0));

    // The author's own stays, whatever the operator was asked for, and is tried once for each page.
    let own = "https://wiki.example.com/hello";
    annotate(&operator, json!({ASKED: "true", LINK: own})).await;
    let refused = async |times: usize| {
        operator
            .until("the link was tried", LIMIT, async || tried(true) >= times)
            .await;
    };
    refused(1).await;
    ran(&operator, 3).await;
    refused(2).await;
    annotate(&operator, json!({ASKED: null})).await;
    operator
        .until("nothing was withdrawn", LIMIT, async || tried(false) >= 6)
        .await;
    let stack = operator.get("stack", "hello").await.unwrap();
    assert_eq!(link(&stack), own);
    assert_eq!((tried(false), tried(true)), (6, 2));
}
