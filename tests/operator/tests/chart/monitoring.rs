//! What the chart gives Prometheus and Grafana: the kinds of the Prometheus Operator under their own definitions, alerts as
//! Prometheus evaluates them, queries for metrics that there are.

use std::collections::{BTreeMap, BTreeSet};

use pretty_assertions::assert_eq;
use serde_json::{Value, json};
use windlass_cluster::{ControlPlane, go_module};
use windlass_e2e::world::workspace_root;
use windlass_operator::helm::{chart, is_there};
use windlass_operator::promql::{Case, PromQl};

use super::{dry_run, file, is_of_prometheus, of_kind, rendered};

/// Metrics with constant values of an operator that has nothing to complain of: a leader and another replica.
const HEALTHY: [(&str, &str); 9] = [
    (r#"windlass_leader{pod="a"}"#, "1x200"),
    (r#"windlass_leader{pod="b"}"#, "0x200"),
    (r#"stacks_failing{namespace="team",name="db"}"#, "0x200"),
    (r#"windlass_stacks{state="stalled",pod="a"}"#, "0x200"),
    (r#"windlass_queue_oldest_seconds{pod="a"}"#, "59x200"),
    (
        r#"windlass_api_requests_total{result="ok",pod="a"}"#,
        "0+94x200",
    ),
    ("windlass_polls_total", "0+10x200"),
    ("windlass_poll_failures_total", "0+4x200"),
    (r#"windlass_plugin_serving{plugin="source-git"}"#, "1x200"),
];

/// An alert; what is other than in `HEALTHY`; minutes after which it does not fire yet, and after which it does; words of its
/// summary.
type Row = (
    &'static str,
    &'static [(&'static str, &'static str)],
    u32,
    u32,
    &'static str,
);
const ROWS: [Row; 11] = [
    (
        "WindlassNoLeader",
        &[(r#"windlass_leader{pod="a"}"#, "0x200")],
        4,
        6,
        "No replica",
    ),
    (
        "WindlassStackFailing",
        &[(r#"stacks_failing{namespace="team",name="web"}"#, "1x200")],
        29,
        31,
        "team/web has been failing",
    ),
    (
        "WindlassStacksStalled",
        &[(r#"windlass_stacks{state="stalled",pod="a"}"#, "2x200")],
        29,
        31,
        "2 Stacks",
    ),
    (
        "WindlassDeletionWaits",
        &[(r#"windlass_stacks_deleting{pod="a"}"#, "1x200")],
        119,
        121,
        "1 Stacks",
    ),
    (
        "WindlassQueueIsSlow",
        &[(r#"windlass_queue_oldest_seconds{pod="a"}"#, "61x200")],
        9,
        11,
        "more than a minute",
    ),
    (
        "WindlassRunsAtTheLimit",
        &[(r#"windlass_runs_waiting{pod="a"}"#, "3x200")],
        59,
        61,
        "3 Stacks",
    ),
    (
        "WindlassApiRequestsFail",
        &[(
            r#"windlass_api_requests_total{result="refused",pod="a"}"#,
            "0+6x200",
        )],
        14,
        32,
        "6% of",
    ),
    (
        "WindlassPluginNotServed",
        &[(r#"windlass_plugin_serving{plugin="own"}"#, "0x200")],
        9,
        11,
        "Plugin own",
    ),
    (
        "WindlassPluginPaused",
        &[(r#"windlass_plugin_paused{plugin="own"}"#, "1x200")],
        14,
        16,
        "Plugin own",
    ),
    (
        "WindlassSourcesUnreachable",
        &[("windlass_poll_failures_total", "0+6x200")],
        29,
        62,
        "60% of",
    ),
    (
        "WindlassUnreadableObjects",
        &[(r#"windlass_unreadable_objects{kind="Stack"}"#, "1x200")],
        14,
        16,
        "kind Stack",
    ),
];

/// What is no reason to wake anybody, however long it lasts: less than a limit, or not all the time.
const QUIET: [(&str, &str); 4] = [
    (
        r#"windlass_api_requests_total{result="refused",pod="a"}"#,
        "0+4x200",
    ),
    // That something is not there yet is an answer.
    (
        r#"windlass_api_requests_total{result="not_found",pod="a"}"#,
        "0+50x200",
    ),
    (
        r#"stacks_failing{namespace="team",name="web"}"#,
        "1x25 0x2 1x25 0x2 1x25 0x2 1x25 0x100",
    ),
    (r#"windlass_runs_waiting{pod="a"}"#, "3x50 0 3x50 0 3x50"),
];

fn case(series: &[(&str, &str)], minutes: u32) -> Case {
    let all = HEALTHY.iter().chain(series);
    let series: BTreeMap<String, String> = all
        .map(|(name, values)| ((*name).to_owned(), (*values).to_owned()))
        .collect();
    Case {
        series,
        after: format!("{minutes}m"),
    }
}

#[test]
fn an_alert_fires_for_what_it_says_and_for_nothing_else() {
    let rules = chart().join("files/alerts.yaml");
    let Some(alerts) = PromQl::of_rules(&rules) else {
        return;
    };
    let mut cases = vec![case(&[], 180), case(&QUIET, 180)];
    for (_, series, not_yet, then, _) in ROWS {
        cases.extend([case(series, not_yet), case(series, then)]);
    }
    // Nobody is there to say anything.
    cases.push(Case {
        series: BTreeMap::new(),
        after: "6m".to_owned(),
    });
    let fired = alerts.firing(&cases);
    let names = |index: usize| -> Vec<&str> {
        let fired = fired[index].iter();
        fired.map(|alert| alert.alert.as_str()).collect()
    };
    assert_eq!(names(0), [""; 0]);
    assert_eq!(names(1), [""; 0]);
    for (row, (alert, _, _, _, words)) in ROWS.iter().enumerate() {
        assert_eq!(names(2 + row * 2), [""; 0], "{alert}");
        assert_eq!(names(3 + row * 2), [*alert]);
        let fired = &fired[3 + row * 2][0];
        assert!(fired.summary.contains(words), "{}", fired.summary);
        assert!(!fired.description.is_empty() && fired.labels.contains_key("severity"));
    }
    assert_eq!(names(cases.len() - 1), ["WindlassNoLeader"]);

    let text = std::fs::read_to_string(rules).unwrap();
    let all: Value = serde_saphyr::from_str(&text).unwrap();
    let all = all["groups"][0]["rules"].as_array().unwrap();
    let all: Vec<&str> = all
        .iter()
        .map(|rule| rule["alert"].as_str().unwrap())
        .collect();
    assert_eq!(all, ROWS.map(|row| row.0));
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
async fn prometheus_operator_takes_its_kinds_and_queries_ask_for_metrics_that_there_are() {
    if is_there().is_none() {
        return;
    }
    let operator = "github.com/prometheus-operator/prometheus-operator";
    let Some(module) = go_module("promql-oracle", operator) else {
        return;
    };
    let Some(plane) = ControlPlane::shared().await else {
        return;
    };
    let definitions = module.join("example/prometheus-operator-crd");
    for kind in ["servicemonitors", "prometheusrules"] {
        let name = format!("{kind}.monitoring.coreos.com");
        let path = definitions.join(format!("monitoring.coreos.com_{kind}.yaml"));
        let path = path.display().to_string();
        let made = plane.kubectl(&["create", "-f", &path]).await;
        assert!(made.status.success(), "{made:?}");
        plane.until_established(&name).await;
    }

    let all = rendered(plane, &["--values", &file("everything.yaml")]).await;
    let mut theirs = all.clone();
    theirs.retain(is_of_prometheus);
    assert_eq!(theirs.len(), 2);
    for object in &mut theirs {
        object["metadata"]["namespace"] = json!("default");
    }
    assert_eq!(dry_run(plane, &theirs).await.lines().count(), 0);
    // They are judged by their definitions, not waved through.
    let mut odd = theirs.clone();
    odd[0]["spec"]["endpoint"] = json!([]);
    let list = json!({"apiVersion": "v1", "kind": "List", "items": odd}).to_string();
    let apply = ["apply", "--dry-run=server", "--validate=strict", "-f", "-"];
    let refused = plane.kubectl_with(&apply, list.as_bytes()).await;
    let said = String::from_utf8_lossy(&refused.stderr);
    assert!(said.contains("unknown field"), "{said}");

    let spec = &of_kind(&all, "ServiceMonitor")[0]["spec"];
    let service = &of_kind(&all, "Service")[0]["spec"];
    assert_eq!(spec["endpoints"][0]["scheme"], "https");
    assert_eq!(spec["endpoints"][0]["port"], service["ports"][1]["name"]);
    assert_eq!(spec["selector"]["matchLabels"], service["selector"]);

    let rules = of_kind(&all, "PrometheusRule")[0]["spec"].clone();
    let mut queries = Vec::new();
    for rule in rules["groups"][0]["rules"].as_array().unwrap() {
        assert_eq!(rule["labels"]["team"], "platform");
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
        let targets = targets
            .iter()
            .map(|target| target["expr"].as_str().unwrap());
        queries.extend(targets.map(|query| query.replace("$__rate_interval", "5m")));
    }
    assert!(queries.len() > 25, "{}", queries.len());

    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("rules.json");
    std::fs::write(&file, rules.to_string()).unwrap();
    let Some(prometheus) = PromQl::of_rules(&file) else {
        return;
    };
    // As they are rendered, for a release of its own.
    let fired = prometheus.firing(&[case(ROWS[0].1, ROWS[0].3)]);
    assert_eq!(fired[0][0].labels["team"], "platform");
    let exposed = exposed();
    for (query, names) in queries.iter().zip(prometheus.metrics(&queries)) {
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
