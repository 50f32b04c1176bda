//! Metrics, and what Prometheus makes of them by the chart's alerts.

use pretty_assertions::assert_eq;
use reqwest::StatusCode;
use windlass_operator::exposition::{Samples, parse};
use windlass_operator::helm::chart;
use windlass_operator::promql::{Case, PromQl};
use windlass_operator::{Operator, free_port};

use super::{PROGRAM, client, until};

/// Of a prober and of somebody else; the first may read metrics.
const READERS: &str = r#"
apiVersion: v1
kind: ServiceAccount
metadata: {name: prober}
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: stranger}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: metrics-reader}
rules: [{nonResourceURLs: [/metrics], verbs: [get]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: metrics-reader}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: metrics-reader}
subjects: [{kind: ServiceAccount, name: prober, namespace: @NAMESPACE@}]
"#;

async fn token(operator: &Operator, account: &str) -> String {
    let output = operator
        .plane
        .kubectl(&["create", "token", account, "-n", &operator.namespace])
        .await;
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

/// The metrics of an operator, read by somebody.
struct Scraper {
    url: String,
    client: reqwest::Client,
    token: String,
}

impl Scraper {
    async fn get(&self, token: Option<&str>, accept: &str) -> reqwest::Result<reqwest::Response> {
        let mut request = self.client.get(&self.url).header("accept", accept);
        if let Some(token) = token {
            request = request.bearer_auth(token);
        }
        request.send().await
    }

    async fn samples(&self) -> Samples {
        let response = self.get(Some(&self.token), "*/*").await.unwrap();
        assert_eq!(response.status(), StatusCode::OK);
        assert_eq!(
            response.headers()["content-type"],
            "text/plain; version=0.0.4; charset=utf-8"
        );
        let text = response.text().await.unwrap();
        parse(&text).unwrap_or_else(|why| panic!("{why}\n{text}"))
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn metrics_are_for_those_who_may_read_them_and_tell_of_what_happens() {
    let address = format!("127.0.0.1:{}", free_port());
    let Some(operator) = Operator::start_with(&["--metrics-bind-address", &address]).await else {
        return;
    };
    let readers = READERS.replace("@NAMESPACE@", &operator.namespace);
    operator.apply(&readers).await;
    let mut scraper = Scraper {
        url: format!("https://{address}/metrics"),
        client: client(),
        token: token(&operator, "prober").await,
    };

    // No token, none of this cluster, one without rights, one with.
    let response = until(&operator, "served", async || {
        scraper.get(None, "*/*").await.ok()
    })
    .await;
    assert_eq!(response.status(), StatusCode::UNAUTHORIZED);
    let status = async |token: &str| scraper.get(Some(token), "*/*").await.unwrap().status();
    assert_eq!(status("nonsense").await, StatusCode::UNAUTHORIZED);
    let stranger = token(&operator, "stranger").await;
    assert_eq!(status(&stranger).await, StatusCode::FORBIDDEN);
    assert_eq!(status(&scraper.token).await, StatusCode::OK);

    let accept = "application/openmetrics-text;version=1.0.0;q=0.5,text/plain;version=0.0.4;q=0.2";
    let response = scraper.get(Some(&scraper.token), accept).await.unwrap();
    let content_type = response.headers()["content-type"].to_str().unwrap();
    assert!(content_type.starts_with("application/openmetrics-text"));
    let text = response.text().await.unwrap();
    assert!(text.ends_with("# EOF\n") && text.contains("\n# TYPE windlass_polls counter\n"));

    // Before there is anything.
    let leads = async || {
        let samples = scraper.samples().await;
        (samples["windlass_leader"] == 1.0 && samples.contains_key("stacks_active"))
            .then_some(samples)
    };
    let before = until(&operator, "leading", leads).await;
    assert_eq!(before["stacks_active"], 0.0);
    let lease = r#"leader_election_master_status{name="operator.pulumi.com"}"#;
    assert_eq!(before[lease], 1.0);
    assert!(
        before
            .keys()
            .any(|name| name.starts_with("windlass_build_info{version="))
    );
    assert!(before["process_resident_memory_bytes"] > 1e6);

    operator.apply(PROGRAM).await;
    operator
        .stack(
            "hello",
            "programRef: {name: hello}\ndestroyOnFinalize: true",
        )
        .await;
    operator.ready("hello").await;
    let namespace = &operator.namespace;
    let per_stack = |name: &str| format!("{name}{{name=\"hello\",namespace=\"{namespace}\"}}");
    let settled = async || {
        let samples = scraper.samples().await;
        (samples.get("windlass_runs_in_flight") == Some(&0.0)
            && samples.get(&per_stack("stacks_reconciling")) == Some(&0.0))
        .then_some(samples)
    };
    let after = until(&operator, "settled", settled).await;
    assert_eq!(after["stacks_active"], 1.0);
    assert_eq!(after["programs_active"], 1.0);
    assert_eq!(after[&per_stack("stacks_failing")], 0.0);
    assert_eq!(after[r#"windlass_stacks{state="ready"}"#], 1.0);
    let created = |samples: &Samples| {
        let named = |key: &&String| {
            key.starts_with("resource_created_at_seconds{") && key.contains("kind=\"Stack\"")
        };
        samples.keys().filter(named).count()
    };
    assert_eq!(created(&after), 1);
    let run = r#"windlass_run_duration_seconds_count{operation="up",outcome="succeeded"}"#;
    assert_eq!(after.get(run), Some(&1.0), "{after:#?}");
    assert_eq!(before.get(run), None);
    for name in [
        r#"windlass_api_requests_total{kind="Stack",result="ok",verb="apply_status"}"#,
        r#"windlass_api_requests_total{kind="Pod",result="ok",verb="create"}"#,
        r#"windlass_runs_started_total{operation="up"}"#,
        r#"windlass_plugin_evaluation_duration_seconds_count{function="resolve",plugin="source-program",result="ok"}"#,
        r#"windlass_task_duration_seconds_count{result="ok",task="fetch"}"#,
        r#"controller_runtime_reconcile_time_seconds_count{controller="stack-controller"}"#,
    ] {
        let value = after.get(name).copied().unwrap_or_default();
        let earlier = before.get(name).copied().unwrap_or_default();
        assert!(value > earlier, "{name} is {value}\n{after:#?}");
    }

    // Nobody is woken for it, if it goes on so.
    let alerts = chart().join("files/alerts.yaml");
    let alerts = PromQl::of_rules(&alerts);
    let woken_for = |samples: &Samples| {
        let cases = [Case::staying(samples, "12h")];
        let firing = alerts
            .as_ref()
            .map(|alerts| alerts.firing(&cases).remove(0));
        let firing = firing.into_iter().flatten();
        firing.map(|alert| alert.alert).collect::<Vec<_>>()
    };
    assert_eq!(woken_for(&after), [""; 0]);

    // A Stack that fails says so under its own name.
    let broken = PROGRAM
        .replace("name: hello", "name: broken")
        .replace("${message.input}", "${nothing.there}");
    operator.apply(&broken).await;
    operator.stack("broken", "programRef: {name: broken}").await;
    let failing = format!("stacks_failing{{name=\"broken\",namespace=\"{namespace}\"}}");
    let failed = async || {
        let samples = scraper.samples().await;
        (samples.get(&failing) == Some(&1.0)).then_some(samples)
    };
    let samples = until(&operator, "failing", failed).await;
    let run = r#"windlass_run_duration_seconds_count{operation="up",outcome="failed"}"#;
    assert!(samples[run] >= 1.0);
    if alerts.is_some() {
        assert_eq!(woken_for(&samples), ["WindlassStackFailing"]);
    }

    // What is gone has no labels.
    for name in ["hello", "broken"] {
        let deleted = operator
            .plane
            .kubectl(&["delete", "stack", name, "-n", namespace, "--wait=false"])
            .await;
        assert!(deleted.status.success());
        operator.gone("stack", name).await;
    }
    let forgotten = async || {
        let samples = scraper.samples().await;
        (samples["stacks_active"] == 0.0).then_some(samples)
    };
    let samples = until(&operator, "without Stacks", forgotten).await;
    for family in ["stacks_failing{", "stacks_reconciling{"] {
        assert!(!samples.keys().any(|name| name.starts_with(family)));
    }
    assert_eq!(created(&samples), 0);
    let run = r#"windlass_run_duration_seconds_count{operation="destroy",outcome="succeeded"}"#;
    assert_eq!(samples.get(run), Some(&1.0));

    // The token is nowhere to be found.
    scraper.token.truncate(40);
    assert!(!operator.logs().contains(&scraper.token));
}
