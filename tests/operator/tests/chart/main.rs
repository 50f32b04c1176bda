//! The chart: what it makes of values, as a real API server takes it, and which values it refuses.
#![allow(clippy::unwrap_used)]

mod monitoring;

use pretty_assertions::assert_eq;
use serde_json::Value;
use windlass_cluster::{ControlPlane, FakeKubelet, Image, Images, KubeletOptions};
use windlass_e2e::world::workspace_root;
use windlass_operator::helm::{chart, helm, is_there};
use windlass_operator::manual::{Manual, typed};

/// The manifests that come of values.
async fn rendered(plane: &ControlPlane, arguments: &[&str]) -> Vec<Value> {
    let chart = chart().display().to_string();
    let all = [&["template", "w", &chart, "--namespace", "op"], arguments].concat();
    let output = helm(plane, &all, b"").await;
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {said}");
    let text = String::from_utf8(output.stdout).unwrap();
    let all: Vec<Value> = serde_saphyr::from_multiple(&text).unwrap();
    all.into_iter().filter(Value::is_object).collect()
}

/// What is said of values that are refused.
async fn refused(plane: &ControlPlane, setting: &str) -> String {
    let chart = chart().display().to_string();
    let output = helm(
        plane,
        &["template", "w", &chart, "--set-json", setting],
        b"",
    )
    .await;
    assert!(!output.status.success(), "{setting} is taken");
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn file(name: &str) -> String {
    chart().join("ci").join(name).display().to_string()
}

fn is_of_prometheus(object: &Value) -> bool {
    object["apiVersion"] == "monitoring.coreos.com/v1"
}

fn of_kind<'a>(all: &'a [Value], kind: &str) -> Vec<&'a Value> {
    all.iter().filter(|object| object["kind"] == kind).collect()
}

/// Has the API server take everything whose kind it knows, strictly, without keeping it; gives its warnings.
async fn taken(plane: &ControlPlane, all: &[Value]) -> String {
    let mut all = all.to_vec();
    all.retain(|object| !is_of_prometheus(object));
    assert!(all.len() > 5, "{}", all.len());
    dry_run(plane, &all).await
}

async fn dry_run(plane: &ControlPlane, all: &[Value]) -> String {
    let list = serde_json::json!({"apiVersion": "v1", "kind": "List", "items": all}).to_string();
    let apply = [
        "apply",
        "--server-side",
        "--dry-run=server",
        "--validate=strict",
        "-f",
        "-",
    ];
    let output = plane.kubectl_with(&apply, list.as_bytes()).await;
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{said}");
    said
}

#[tokio::test(flavor = "multi_thread")]
async fn an_api_server_takes_what_comes_of_values() {
    if is_there().is_none() {
        return;
    }
    let Some(plane) = ControlPlane::shared().await else {
        return;
    };
    for namespace in ["op", "apps", "monitoring", "team-a", "team-b"] {
        let made = plane.kubectl(&["create", "namespace", namespace]).await;
        assert!(made.status.success(), "{made:?}");
    }
    let warn = "pod-security.kubernetes.io/warn=restricted";
    plane.kubectl(&["label", "namespace", "op", warn]).await;

    let usual = rendered(plane, &[]).await;
    assert_eq!(taken(plane, &usual).await.lines().count(), 0);
    let deployment = of_kind(&usual, "Deployment")[0];
    let labels = &deployment["spec"]["template"]["metadata"]["labels"];
    assert_eq!(
        labels["app.kubernetes.io/name"],
        "pulumi-kubernetes-operator"
    );

    let everything = rendered(plane, &["--values", &file("everything.yaml")]).await;
    taken(plane, &everything).await;
    for kind in [
        "PodDisruptionBudget",
        "ServiceMonitor",
        "PrometheusRule",
        "Job",
    ] {
        assert_eq!(of_kind(&everything, kind).len(), 1, "{kind}");
    }
    assert_eq!(of_kind(&everything, "NetworkPolicy").len(), 2);
    assert_eq!(of_kind(&everything, "ConfigMap").len(), 2);

    // Nothing that belongs to the cluster, and everything twice.
    let namespaced = rendered(plane, &["--values", &file("namespaced.yaml")]).await;
    taken(plane, &namespaced).await;
    let of_cluster = namespaced.iter().filter(|object| {
        let kind = object["kind"].as_str().unwrap();
        kind.starts_with("Cluster") || object["metadata"]["namespace"].is_null()
    });
    assert_eq!(of_cluster.count(), 0);
    let mut places: Vec<_> = of_kind(&namespaced, "Role")
        .iter()
        .map(|role| role["metadata"]["namespace"].as_str().unwrap())
        .collect();
    places.sort_unstable();
    assert_eq!(places, ["op", "team-a", "team-b"]);
    let deployment = of_kind(&namespaced, "Deployment")[0].to_string();
    assert!(
        deployment.contains("--namespaces=team-a,team-b"),
        "{deployment}"
    );

    // Those of a release of the Pulumi Kubernetes Operator.
    let known = rendered(plane, &["--values", &file("known.yaml")]).await;
    taken(plane, &known).await;
    let deployment = of_kind(&known, "Deployment")[0];
    assert_eq!(deployment["metadata"]["name"], "pko-controller-manager");
    assert_eq!(deployment["spec"]["strategy"]["type"], "Recreate");
    let pod = &deployment["spec"]["template"]["spec"];
    assert_eq!(pod["serviceAccountName"], "pko");
    assert_eq!(pod["imagePullSecrets"][0]["name"], "regcred");
    assert!(
        pod.to_string()
            .contains("--program-fs-adv-addr=op.example.org:80")
    );

    // The quickstart, as it is committed.
    let path = workspace_root().join("deploy/quickstart/install.yaml");
    let text = std::fs::read_to_string(path).unwrap();
    let mut quickstart: Vec<Value> = serde_saphyr::from_multiple(&text).unwrap();
    let namespace = &quickstart.remove(0)["metadata"]["name"];
    plane
        .kubectl(&["create", "namespace", namespace.as_str().unwrap()])
        .await;
    taken(plane, &quickstart).await;
}

/// Without Helm: the commands of the quickstart, with a pod that runs for the Job.
#[tokio::test(flavor = "multi_thread")]
async fn the_quickstart_brings_the_definitions() {
    let Some(plane) = ControlPlane::start().await else {
        return;
    };
    let name = format!("docker.io/windlass/windlass:{}", env!("CARGO_PKG_VERSION"));
    let image = Image::usual().with_entrypoint(&["/usr/local/bin/windlass"]);
    let options = KubeletOptions {
        images: Images::none().with(name, image),
        ..KubeletOptions::default()
    };
    let Some(_kubelet) = FakeKubelet::start_with(&plane, options).await else {
        return;
    };
    let mut manual = Manual::read("deploy/quickstart/README.md");
    let [apply, wait] = manual.below("deploy/quickstart");
    manual.is_used_up();
    for line in [
        apply.as_str(),
        &wait,
        "kubectl get stacks",
        "kubectl get sa pulumi",
    ] {
        let output = typed(&plane, "default", line).await;
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "$ {line}\n{said}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_value_that_is_wrong_is_named() {
    if is_there().is_none() {
        return;
    }
    let Some(plane) = ControlPlane::shared().await else {
        return;
    };
    for (setting, parts) in [
        ("replicaCout=2", &["replicaCout"][..]),
        ("controller.logLvl=\"info\"", &["/controller", "logLvl"]),
        ("controller.logLevel=\"loud\"", &["/controller/logLevel"]),
        (
            "leaderElection.leaseDuration=60",
            &["/leaderElection/leaseDuration", "want string"],
        ),
        ("image.digest=\"latest\"", &["/image/digest"]),
        ("policy={\"plugin\":{}}", &["/policy", "plugin"]),
        (
            "plugins=[{\"name\":\"a\",\"configMap\":\"x\",\"claim\":{\"claimName\":\"y\"}}]",
            &["\"a\" has 2 sources", "exactly one of"],
        ),
        (
            "plugins=[{\"name\":\"a\",\"configMap\":\"x\"},{\"name\":\"a\",\"configMap\":\"y\"}]",
            &["\"a\" is there twice"],
        ),
        (
            "rbac.createClusterRole=false",
            &["createRole: true", "watchNamespaces"],
        ),
    ] {
        let said = refused(plane, setting).await;
        assert!(
            parts.iter().all(|part| said.contains(part)),
            "{setting}: {said}"
        );
    }
    let both = "{\"replicaCount\":2,\"data\":{\"existingClaim\":\"x\"}}";
    let chart = chart().display().to_string();
    let all = ["template", "w", &chart, "--values", "-"];
    let said = String::from_utf8(helm(plane, &all, both.as_bytes()).await.stderr).unwrap();
    assert!(said.contains("several replicas cannot share"), "{said}");

    let lint = [
        "lint",
        "--strict",
        &chart,
        "--values",
        &file("everything.yaml"),
    ];
    let output = helm(plane, &lint, b"").await;
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        output.status.success() && !said.contains("[WARNING]"),
        "{said}"
    );
}
