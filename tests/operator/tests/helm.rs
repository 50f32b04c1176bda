//! The chart, installed by the real `helm` on a real node: the operator runs as it does for its users, in a container.
#![allow(clippy::unwrap_used)]

use std::panic::AssertUnwindSafe;

use futures::FutureExt as _;
use pretty_assertions::assert_eq;
use serde_json::{Value, json};
use windlass_cluster::RealNode;
use windlass_operator::helm::{NAMESPACE, TAGS, chart};
use windlass_operator::{Operator, is_ready};

type OnNode = Operator<RealNode>;

const RELEASE: &str = "windlass";
/// A field of Stacks that an older definition lacks.
const NEWER: &str =
    "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/workspaceReclaimPolicy";

/// A Program whose resource is updated when `${round}` changes, and then takes until the file is there.
const HELD: &str = r#"
apiVersion: pulumi.com/v1
kind: Program
metadata: {name: held}
program:
  configuration:
    round: {type: String, default: round-0}
    file: {type: String, default: ""}
  resources:
    thing:
      type: windlasstest:index:Thing
      properties: {value: "${round}", waitFile: "${file}", logFile: /state/held.log}
  outputs:
    round: "${thing.value}"
"#;

async fn release(operator: &OnNode, verb: &[&str], values: Value) -> String {
    let chart = chart().display().to_string();
    let place = [
        RELEASE,
        &chart,
        "--namespace",
        NAMESPACE,
        "--wait",
        "--timeout",
        "3m",
        "--values",
        "-",
    ];
    operator.helm(&[verb, &place].concat(), &values).await
}

async fn kubectl(operator: &OnNode, arguments: &[&str]) -> Value {
    let all = [&["-n", NAMESPACE, "-o", "json"], arguments].concat();
    serde_json::from_str(&operator.kubectl(&all).await).unwrap()
}

/// The operator's pods that are not ending.
async fn pods(operator: &OnNode) -> Vec<Value> {
    let label = "app.kubernetes.io/name=pulumi-kubernetes-operator";
    let found = kubectl(operator, &["get", "pods", "-l", label]).await;
    let mut found = found["items"].as_array().unwrap().clone();
    found.retain(|pod| pod["metadata"]["deletionTimestamp"].is_null());
    found
}

/// Installs the release; the definitions are there, and of what put them there nothing is left.
async fn install(operator: &OnNode) {
    let said = release(operator, &["install"], operator.values(TAGS[0])).await;
    assert!(said.contains("looks after every namespace"), "{said}");
    let pods = pods(operator).await;
    assert_eq!(pods.len(), 1);
    let image = pods[0]["spec"]["containers"][0]["image"].as_str().unwrap();
    assert!(image.ends_with(TAGS[0]), "{image}");
    // What sources need is in the image, with its libraries; it is not root's.
    let deployment = "deployment/windlass-controller-manager";
    for (program, argument) in [("git", "--version"), ("ssh", "-V"), ("windlass", "version")] {
        let exec = ["-n", NAMESPACE, "exec", deployment, "--", program, argument];
        operator.kubectl(&exec).await;
    }
    for kind in ["jobs", "serviceaccounts"] {
        let left = kubectl(operator, &["get", kind]).await;
        assert!(!left.to_string().contains("windlass-crds"), "{left}");
    }
}

/// A run that begins before an upgrade ends after it, under the new operator, and is the only one.
async fn upgrade(operator: &OnNode) {
    operator.apply(HELD).await;
    operator.changed("held", json!({})).await;
    operator.ready("held").await;
    let config = json!({"spec": {"config": {"round": "round-1", "file": "/state/go"}}});
    operator.patch("stack", "held", &config.to_string()).await;
    operator.operated("held", "update-begun", 1).await;

    // The definitions are older than the next version.
    let remove = json!([{"op": "remove", "path": NEWER}]).to_string();
    let crd = ["patch", "crd", "stacks.pulumi.com", "--type=json", "-p"];
    operator.kubectl(&[&crd[..], &[&remove]].concat()).await;
    let before = pods(operator).await[0]["metadata"]["name"].clone();
    release(operator, &["upgrade"], operator.values(TAGS[1])).await;
    let crd = kubectl(operator, &["get", "crd", "stacks.pulumi.com"]).await;
    assert!(!crd.pointer(NEWER).unwrap_or(&Value::Null).is_null());
    let after = pods(operator).await;
    assert_eq!(after.len(), 1);
    assert_ne!(after[0]["metadata"]["name"], before);

    std::fs::write(operator.state().join("go"), "").unwrap();
    operator
        .stack_when("held", "Ready with the output of the run", |stack| {
            is_ready(stack) && stack["status"]["outputs"]["round"] == "round-1"
        })
        .await;
    assert_eq!(
        operator.runs("held").await,
        [(1, true, None), (2, true, None)]
    );
    let operations = operator.operations("held");
    let done = |line: &str| operations.iter().filter(|done| **done == line).count();
    assert_eq!((done("update-begun thing"), done("update thing")), (1, 1));
}

/// Back to the first version: it goes on with what the second one left.
async fn rollback(operator: &OnNode) {
    let back = [
        "rollback",
        RELEASE,
        "1",
        "--namespace",
        NAMESPACE,
        "--wait",
        "--timeout",
        "3m",
    ];
    operator.helm(&back, &Value::Null).await;
    let pods = pods(operator).await;
    let image = pods[0]["spec"]["containers"][0]["image"].as_str().unwrap();
    assert!(image.ends_with(TAGS[0]), "{image}");
    let config = json!({"spec": {"config": {"round": "round-2"}}});
    operator.patch("stack", "held", &config.to_string()).await;
    operator
        .stack_when("held", "Ready under the version before", |stack| {
            is_ready(stack) && stack["status"]["outputs"]["round"] == "round-2"
        })
        .await;
}

/// Nothing of the users' goes with the release; a Stack that is deleted without an operator waits for the next one.
async fn uninstall(operator: &OnNode) {
    let patch = json!({"spec": {"destroyOnFinalize": true}}).to_string();
    operator.patch("stack", "held", &patch).await;
    operator.ready("held").await;
    let gone = [
        "uninstall",
        RELEASE,
        "--namespace",
        NAMESPACE,
        "--wait",
        "--timeout",
        "3m",
    ];
    operator.helm(&gone, &Value::Null).await;
    for name in [
        "stacks.pulumi.com",
        "programs.pulumi.com",
        "workspaces.auto.pulumi.com",
        "updates.auto.pulumi.com",
    ] {
        kubectl(operator, &["get", "crd", name]).await;
    }
    let runs = operator.runs("held").await;
    let delete = ["delete", "stack", "held", "--wait=false"];
    operator.kubectl(&delete).await;
    let stack = operator.get("stack", "held").await.unwrap();
    assert!(
        !stack["metadata"]["finalizers"]
            .as_array()
            .unwrap()
            .is_empty()
    );
    assert_eq!(operator.resources("held").unwrap(), ["thing"]);
    assert_eq!(operator.runs("held").await, runs);
    let left = kubectl(
        operator,
        &[
            "get",
            "all,roles,rolebindings,serviceaccounts,networkpolicies",
        ],
    )
    .await;
    assert!(
        !left
            .to_string()
            .contains(r#""app.kubernetes.io/part-of":"windlass""#),
        "{left:#}"
    );

    release(operator, &["install"], operator.values(TAGS[1])).await;
    operator.gone("stack", "held").await;
    assert_eq!(operator.resources("held").unwrap(), [""; 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_release_is_installed_upgraded_rolled_back_and_uninstalled() {
    let Some(owned) = Operator::prepare_for_helm().await else {
        return;
    };
    let operator = &owned;
    let whole = async {
        for (name, part) in [
            ("install", install(operator).boxed_local()),
            ("upgrade", upgrade(operator).boxed_local()),
            ("rollback", rollback(operator).boxed_local()),
            ("uninstall", uninstall(operator).boxed_local()),
        ] {
            let begun = std::time::Instant::now();
            part.await;
            eprintln!("{name}: {:?}", begun.elapsed());
        }
    };
    if let Err(failed) = AssertUnwindSafe(whole).catch_unwind().await {
        eprintln!("{}", operator.of_pods().await);
        std::panic::resume_unwind(failed);
    }
}
