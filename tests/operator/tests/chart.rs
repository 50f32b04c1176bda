//! The chart: what it makes of values, as a real API server takes it, and which values it refuses.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeSet;

use pretty_assertions::assert_eq;
use serde_json::Value;
use windlass_cluster::{ControlPlane, FakeKubelet, Image, Images, KubeletOptions};
use windlass_e2e::world::workspace_root;
use windlass_operator::helm::{chart, helm, is_there};
use windlass_operator::manual::{Manual, typed};

/// What the definitions of the Prometheus operator hold, which are not there: `ServiceMonitor.spec`, its endpoints, and
/// the rules of a `PrometheusRule`, as far as the chart uses them.
const MONITOR: [&str; 3] = ["selector", "namespaceSelector", "endpoints"];
const ENDPOINT: [&str; 9] = [
    "port",
    "path",
    "honorLabels",
    "interval",
    "scrapeTimeout",
    "scheme",
    "tlsConfig",
    "bearerTokenFile",
    "metricRelabelings",
];
const RULE: [&str; 5] = ["alert", "expr", "for", "labels", "annotations"];

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

fn keys(object: &Value) -> Vec<&str> {
    object
        .as_object()
        .unwrap()
        .keys()
        .map(String::as_str)
        .collect()
}

/// Has the API server take everything, strictly, without keeping it; gives its warnings.
async fn taken(plane: &ControlPlane, all: &[Value]) -> String {
    let mut all = all.to_vec();
    all.retain(|object| !is_of_prometheus(object));
    assert!(all.len() > 5, "{}", all.len());
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

/// The names of metrics that a query asks for: words that are neither functions nor keywords nor inside braces, quotes or
/// lists of labels.
fn asked(query: &str) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    let mut rest = query;
    let (mut word, mut braces) = (String::new(), 0);
    // What follows `by` is a list of labels.
    let mut labels = false;
    loop {
        let next = rest.chars().next();
        rest = next.map_or("", |c| &rest[c.len_utf8()..]);
        if let Some(c) = next.filter(|c| c.is_ascii_alphanumeric() || *c == '_') {
            word.push(c);
            continue;
        }
        let begins = word.chars().next().is_some_and(|c| c.is_ascii_alphabetic());
        let after = rest.trim_start();
        let function =
            next == Some('(') || after.starts_with("by ") || after.starts_with("without ");
        if word == "by" || word == "without" {
            labels = true;
        } else if begins && !function && !labels && braces == 0 && word != "or" && word != "and" {
            names.insert(std::mem::take(&mut word));
        }
        word.clear();
        match next {
            None => break,
            Some('{' | '[') => braces += 1,
            Some('}' | ']') => braces -= 1,
            Some(')') => labels = false,
            _ => {}
        }
    }
    for pair in ["()", "{}", "[]"] {
        let count = |index: usize| query.matches(&pair[index..=index]).count();
        assert_eq!(count(0), count(1), "{query}");
    }
    names
}

#[test]
fn names_are_told_from_functions_and_labels() {
    let query = "histogram_quantile(0.9, sum by (le, verb) (rate(a_bucket{x=~\"b|c\"}[5m]))) or max(d) > 0.05";
    assert_eq!(
        asked(query).into_iter().collect::<Vec<_>>(),
        ["a_bucket", "d"]
    );
}

/// The names of the operator's metrics, as its sources have them.
fn exposed() -> BTreeSet<String> {
    let folder = workspace_root().join("host/kube/src/metrics");
    let mut names = BTreeSet::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let text = std::fs::read_to_string(entry.unwrap().path()).unwrap();
        let quoted = text.split('"').skip(1).step_by(2);
        names.extend(quoted.map(str::to_owned));
    }
    names
}

#[tokio::test(flavor = "multi_thread")]
async fn alerts_and_dashboards_ask_for_metrics_that_there_are() {
    if is_there().is_none() {
        return;
    }
    let Some(plane) = ControlPlane::shared().await else {
        return;
    };
    let all = rendered(plane, &["--values", &file("everything.yaml")]).await;
    let monitor = of_kind(&all, "ServiceMonitor")[0];
    let spec = &monitor["spec"];
    for key in keys(spec) {
        assert!(MONITOR.contains(&key) || key == "targetLabels", "{key}");
    }
    let endpoint = &spec["endpoints"][0];
    assert_eq!(
        keys(endpoint).iter().find(|key| !ENDPOINT.contains(key)),
        None
    );
    assert_eq!(endpoint["scheme"], "https");
    assert_eq!(
        endpoint["port"],
        of_kind(&all, "Service")[0]["spec"]["ports"][1]["name"]
    );
    assert_eq!(
        spec["selector"]["matchLabels"],
        of_kind(&all, "Service")[0]["spec"]["selector"]
    );

    let mut queries = Vec::new();
    let rules = of_kind(&all, "PrometheusRule")[0]["spec"]["groups"][0]["rules"].clone();
    for rule in rules.as_array().unwrap() {
        assert_eq!(keys(rule).iter().find(|key| !RULE.contains(key)), None);
        assert_eq!(rule["labels"]["team"], "platform");
        assert!(
            rule["labels"]["severity"].is_string()
                && rule["annotations"]["description"].is_string()
        );
        assert_ne!(rule["alert"], "WindlassRunsAtTheLimit", "it is disabled");
        queries.push(rule["expr"].as_str().unwrap().to_owned());
    }
    let board = of_kind(&all, "ConfigMap");
    let board = board
        .iter()
        .find_map(|map| map["data"]["windlass.json"].as_str());
    let board: Value = serde_json::from_str(board.unwrap()).unwrap();
    for panel in board["panels"].as_array().unwrap() {
        let targets = panel["targets"].as_array().unwrap();
        queries.extend(
            targets
                .iter()
                .map(|target| target["expr"].as_str().unwrap().to_owned()),
        );
    }
    assert!(queries.len() > 25, "{}", queries.len());
    let exposed = exposed();
    for query in queries {
        let names = asked(&query);
        assert!(!names.is_empty(), "{query}");
        for name in names {
            let suffixes = ["_total", "_bucket", "_count", "_sum"];
            let base = suffixes.iter().find_map(|suffix| name.strip_suffix(suffix));
            assert!(
                exposed.contains(base.unwrap_or(&name)),
                "{query}: no metric {name}"
            );
        }
    }
}
