//! The manual's path on a real node: every command of `deploy/README.md`, run as it is written, with the operator in a
//! container as its users have it.
#![allow(clippy::unwrap_used)]

mod plugins;

use std::panic::AssertUnwindSafe;
use std::time::{Duration, Instant};

use futures::FutureExt as _;
use pretty_assertions::assert_eq;
use serde_json::{Value, json};
use windlass_cluster::RealNode;
use windlass_operator::helm::{NAMESPACE, TAGS};
use windlass_operator::manual::Manual;
use windlass_operator::{Operator, is_ready};

type OnNode = Operator<RealNode>;

/// How long anything may take that is a matter of seconds.
const LIMIT: Duration = Duration::from_secs(90);
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
async fn install(operator: &OnNode, command: &str, values: &Value) {
    let said = operator.typed_with(command, values).await;
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
    // The API server warns of pods that are there and do not fit; those of everything below it would refuse.
    let restricted = "pod-security.kubernetes.io/enforce=restricted";
    let label = ["label", "namespace", NAMESPACE, restricted];
    let labelled = operator.plane.kubectl(&label).await;
    let said = String::from_utf8_lossy(&labelled.stderr);
    assert!(labelled.status.success() && said.is_empty(), "{said}");
}

/// The values of a release with something more than what nothing runs here without.
fn values(operator: &OnNode, tag: &str, more: &Value) -> Value {
    let mut values = operator.values(tag);
    let more = more.as_object().unwrap().clone();
    values.as_object_mut().unwrap().extend(more);
    values
}

/// The pod that leads; none while nobody does.
async fn leader(operator: &OnNode) -> Option<String> {
    let lease = ["get", "lease", "operator.pulumi.com"];
    let lease = kubectl(operator, &lease).await;
    let holder = lease["spec"]["holderIdentity"].as_str()?;
    // A process is told from the one before it in the same pod: NAME_PID.
    let (pod, _) = holder.rsplit_once('_')?;
    Some(pod.to_owned())
}

/// Asks for a pod's eviction as a drain does; what is said of it if it is refused.
async fn evict(operator: &OnNode, pod: &str) -> Result<(), String> {
    let metadata = json!({"name": pod, "namespace": NAMESPACE});
    let eviction =
        json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": metadata}).to_string();
    let path = format!("/api/v1/namespaces/{NAMESPACE}/pods/{pod}/eviction");
    let create = ["create", "--raw", &path, "-f", "-"];
    let asked = operator
        .plane
        .kubectl_with(&create, eviction.as_bytes())
        .await;
    if asked.status.success() {
        return Ok(());
    }
    Err(String::from_utf8_lossy(&asked.stderr).into_owned())
}

/// Waits until all pods are those of the last release, and ready: Helm's own wait is content with fewer.
async fn rolled_out(operator: &OnNode) {
    let deployment = "deployment/windlass-controller-manager";
    let status = ["-n", NAMESPACE, "rollout", "status", deployment];
    operator.kubectl(&status).await;
}

/// The leader's pod is evicted, the other one's is not; another one leads.
async fn drain(operator: &OnNode) {
    let pods = pods(operator).await;
    let names: Vec<&str> = pods
        .iter()
        .map(|pod| pod["metadata"]["name"].as_str().unwrap())
        .collect();
    let mut first = String::new();
    operator
        .until("one of them leads, and one may go", LIMIT, async || {
            let budget = kubectl(operator, &["get", "pdb", "windlass"]).await;
            first = leader(operator).await.unwrap_or_default();
            names.contains(&first.as_str()) && budget["status"]["disruptionsAllowed"] == 1
        })
        .await;
    let other = *names.iter().find(|name| **name != first).unwrap();
    evict(operator, &first).await.unwrap();
    let said = evict(operator, other).await.unwrap_err();
    assert!(said.contains("disruption budget"), "{said}");
    // The other one, or the one that comes in the first one's place.
    let begun = Instant::now();
    operator
        .until("another one leads", LIMIT, async || {
            leader(operator).await.is_some_and(|pod| pod != first)
        })
        .await;
    eprintln!("another leads after {:?}", begun.elapsed());
}

/// Makes the definitions older than this version.
async fn age_definitions(operator: &OnNode) {
    let remove = json!([{"op": "remove", "path": NEWER}]).to_string();
    let crd = ["patch", "crd", "stacks.pulumi.com", "--type=json", "-p"];
    operator.kubectl(&[&crd[..], &[&remove]].concat()).await;
    assert!(!definitions_are_current(operator).await);
}

async fn definitions_are_current(operator: &OnNode) -> bool {
    let crd = kubectl(operator, &["get", "crd", "stacks.pulumi.com"]).await;
    crd.pointer(NEWER).is_some_and(Value::is_object)
}

/// A run that begins before an upgrade ends after it, under the new operator, and is the only one.
async fn upgrade(operator: &OnNode, command: &str, values: &Value) {
    operator.apply(HELD).await;
    operator.changed("held", json!({})).await;
    operator.ready("held").await;
    let config = json!({"spec": {"config": {"round": "round-1", "file": "/state/go"}}});
    operator.patch("stack", "held", &config.to_string()).await;
    operator.operated("held", "update-begun", 1).await;

    age_definitions(operator).await;
    let before = pods(operator).await[0]["metadata"]["name"].clone();
    operator.typed_with(command, values).await;
    assert!(definitions_are_current(operator).await);
    rolled_out(operator).await;
    let after = pods(operator).await;
    assert_eq!(after.len(), 2);
    assert!(after.iter().all(|pod| pod["metadata"]["name"] != before));
    drain(operator).await;

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

/// What the manual has for every day, with the Stack's name where it says NAME.
async fn operate(operator: &OnNode, commands: &[String; 4]) {
    let [all, one, log, again] = commands
        .each_ref()
        .map(|command| command.replace("NAME", "held"));
    let said = operator.typed(&all).await;
    assert!(said.contains("held"), "{said}");
    let said = operator.typed(&one).await;
    assert!(said.contains("ProcessingCompleted"), "{said}");
    let said = operator.typed(&log).await;
    assert!(said.contains("Updating (dev)"), "{said}");
    operator.typed(&again).await;
    operator
        .until("it has run again", LIMIT, async || {
            operator.runs("held").await.len() == 3
        })
        .await;
    operator.ready("held").await;
}

/// Back to the first version: it goes on with what the second one left.
async fn rollback(operator: &OnNode, command: &str) {
    operator.typed(command).await;
    rolled_out(operator).await;
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
async fn uninstall(operator: &OnNode, command: &str) {
    let patch = json!({"spec": {"destroyOnFinalize": true}}).to_string();
    operator.patch("stack", "held", &patch).await;
    operator.ready("held").await;
    operator.typed(command).await;
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
    // Helm does not wait for the pods of what it deletes.
    let kinds = "all,roles,rolebindings,serviceaccounts,networkpolicies";
    operator
        .until("nothing of the release is left", LIMIT, async || {
            let left = kubectl(operator, &["get", kinds]).await.to_string();
            !left.contains(r#""app.kubernetes.io/part-of":"windlass""#)
        })
        .await;
}

/// A release that looks after one namespace and has no right beyond it ends what the one before left.
async fn namespaced(operator: &OnNode, definitions: &str, install: &str) {
    age_definitions(operator).await;
    operator.typed(definitions).await;
    assert!(definitions_are_current(operator).await);
    let mut values = operator.values(TAGS[1]);
    values["watchNamespaces"] = json!([operator.namespace]);
    values["rbac"] = json!({"createClusterRole": false, "createClusterAggregationRoles": false});
    values["crds"] = json!({"install": false});
    values["controller"]["metricsSecure"] = json!(false);
    let said = operator.typed_with(install, &values).await;
    assert!(said.contains(&operator.namespace), "{said}");
    let label = "app.kubernetes.io/part-of=windlass";
    let of_cluster = ["get", "clusterroles,clusterrolebindings", "-l", label];
    let made = kubectl(operator, &of_cluster).await;
    assert_eq!(made["items"], json!([]));
    operator.gone("stack", "held").await;
    assert_eq!(operator.resources("held").unwrap(), [""; 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_release_is_installed_upgraded_rolled_back_and_uninstalled() {
    let begun = Instant::now();
    let Some(owned) = Operator::prepare_for_helm().await else {
        return;
    };
    eprintln!("node and images: {:?}", begun.elapsed());
    let mut manual = Manual::read("deploy/README.md");
    let [first, definitions, configmap, policy] = manual.below("Install");
    let [second, back] = manual.below("Upgrade");
    let [gone] = manual.below("Uninstall");
    let operating: [String; 5] = manual.below("Operate");
    manual.is_used_up();
    let [day @ .., binding] = &operating;

    let operator = &owned;
    let whole = async {
        let begun = Instant::now();
        let part = |name: &str| eprintln!("{name}: done after {:?}", begun.elapsed());
        let about_plugins = [configmap.as_str(), policy.as_str()];
        let more = plugins::of_image(operator, about_plugins).await;
        install(operator, &first, &values(operator, TAGS[0], &more)).await;
        part("install");
        plugins::bind(operator, binding).await;
        plugins::are_served(operator, 1, &["source-oci"]).await;
        let mut more = plugins::of_configmap_and_claim(operator, about_plugins).await;
        more["replicaCount"] = 2.into();
        more["podDisruptionBudget"] = json!({"enabled": true});
        upgrade(operator, &second, &values(operator, TAGS[1], &more)).await;
        part("upgrade");
        // One of them is new: the last one was evicted.
        rolled_out(operator).await;
        plugins::are_served(operator, 2, &["source-oci", "source-s3"]).await;
        part("scrape");
        operate(operator, day).await;
        part("operate");
        rollback(operator, &back).await;
        part("rollback");
        uninstall(operator, &gone).await;
        part("uninstall");
        namespaced(operator, &definitions, &first).await;
        part("namespaced");
    };
    if let Err(failed) = AssertUnwindSafe(whole).catch_unwind().await {
        eprintln!("{}", operator.of_pods().await);
        std::panic::resume_unwind(failed);
    }
}
