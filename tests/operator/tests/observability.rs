//! What an operator shows of itself: metrics to whoever may read them, events, archives of Programs.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::io::Read as _;
use std::time::{Duration, Instant};

use reqwest::StatusCode;
use serde_json::Value;
use sha2::{Digest as _, Sha256};
use windlass_operator::exposition::{Samples, parse};
use windlass_operator::{Operator, free_port};

const PATIENCE: Duration = Duration::from_secs(90);

const PROGRAM: &str = r#"
apiVersion: pulumi.com/v1
kind: Program
metadata: {name: hello}
program:
  resources:
    message: {type: "pulumi:Stash", properties: {input: hello}}
  outputs:
    greeting: "${message.input}"
"#;

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

fn client() -> reqwest::Client {
    reqwest::Client::builder()
        .tls_danger_accept_invalid_certs(true)
        .no_proxy()
        .timeout(Duration::from_secs(20))
        .build()
        .unwrap()
}

/// Waits until an answer is there and as it should be.
async fn until<T>(operator: &Operator, what: &str, mut ask: impl AsyncFnMut() -> Option<T>) -> T {
    let begun = Instant::now();
    loop {
        if let Some(answer) = ask().await {
            return answer;
        }
        assert!(
            begun.elapsed() < PATIENCE,
            "not {what}\n{}",
            operator.logs()
        );
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

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

/// The digest of an archive, and its files.
fn unpacked(bytes: &[u8]) -> (String, BTreeMap<String, String>) {
    let digest = format!("sha256:{}", hex::encode(Sha256::digest(bytes)));
    let mut archive = tar::Archive::new(flate2::read::GzDecoder::new(bytes));
    let mut files = BTreeMap::new();
    for entry in archive.entries().unwrap() {
        let mut entry = entry.unwrap();
        let mut text = String::new();
        entry.read_to_string(&mut text).unwrap();
        files.insert(entry.path().unwrap().display().to_string(), text);
    }
    (digest, files)
}

/// The status of the Program once it is of its present generation.
async fn artifact(operator: &Operator, generation: i64) -> Value {
    until(operator, "an artifact of its generation", async || {
        let program = operator.get("program", "hello").await?;
        let status = &program["status"];
        (status["observedGeneration"] == generation).then(|| status["artifact"].clone())
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_can_be_fetched_under_the_address_in_its_status() {
    let Some(operator) = Operator::start().await else {
        return;
    };
    operator.apply(PROGRAM).await;
    let client = client();
    let first = artifact(&operator, 1).await;
    let namespace = &operator.namespace;
    assert_eq!(
        first["url"],
        format!(
            "http://127.0.0.1:{}/programs/{namespace}/hello/1",
            operator.programs_port
        )
    );
    assert_eq!(
        first["path"],
        format!("programs/{namespace}/hello/1.tar.gz")
    );
    assert_eq!(first["revision"], "1");
    let get = async |url: &str| client.get(url).send().await.unwrap();
    let url = |artifact: &Value| artifact["url"].as_str().unwrap().to_owned();

    let response = get(&url(&first)).await;
    assert_eq!(response.status(), StatusCode::OK);
    assert_eq!(response.headers()["content-type"], "application/gzip");
    let bytes = response.bytes().await.unwrap();
    assert_eq!(first["size"], bytes.len());
    let (digest, files) = unpacked(&bytes);
    assert_eq!(first["digest"], digest.as_str());
    assert!(
        files["Pulumi.yaml"].contains("runtime: \"yaml\""),
        "{files:?}"
    );
    assert!(files["Main.yaml"].contains("pulumi:Stash"), "{files:?}");

    // Read by name alone: there is no directory to leave.
    let base = format!("http://127.0.0.1:{}/programs", operator.programs_port);
    for (path, status) in [
        (format!("{namespace}/hello/2"), StatusCode::NOT_FOUND),
        (format!("{namespace}/other/1"), StatusCode::NOT_FOUND),
        (format!("{namespace}/hello/latest"), StatusCode::BAD_REQUEST),
        (
            format!("{namespace}/..%2f..%2fetc%2fpasswd/1"),
            StatusCode::NOT_FOUND,
        ),
        (String::new(), StatusCode::NOT_FOUND),
    ] {
        assert_eq!(
            get(&format!("{base}/{path}")).await.status(),
            status,
            "{path}"
        );
    }

    // Nothing is written while nothing changes.
    let version = |program: &Value| program["metadata"]["resourceVersion"].clone();
    let before = operator.get("program", "hello").await.unwrap();
    operator.apply(PROGRAM).await;
    operator
        .apply(&PROGRAM.replace("name: hello", "name: later"))
        .await;
    until(&operator, "seen", async || {
        let later = operator.get("program", "later").await?;
        later["status"]["artifact"]["digest"]
            .is_string()
            .then_some(())
    })
    .await;
    let after = operator.get("program", "hello").await.unwrap();
    assert_eq!(version(&before), version(&after));
    let managers = operator
        .plane
        .kubectl(&[
            "get",
            "program",
            "hello",
            "-n",
            namespace,
            "-o",
            "json",
            "--show-managed-fields",
        ])
        .await;
    let managers = String::from_utf8_lossy(&managers.stdout).into_owned();
    assert!(managers.contains("pulumi-kubernetes-operator/program-status"));

    // Another generation is another archive; who was told of the one before still gets that.
    operator
        .apply(&PROGRAM.replace("input: hello", "input: salut"))
        .await;
    let second = artifact(&operator, 2).await;
    assert_ne!(first["digest"], second["digest"]);
    let (digest, _) = unpacked(&get(&url(&second)).await.bytes().await.unwrap());
    assert_eq!(second["digest"], digest.as_str());
    let (digest, _) = unpacked(&get(&url(&first)).await.bytes().await.unwrap());
    assert_eq!(first["digest"], digest.as_str());

    // What somebody takes away comes back.
    let emptied = operator
        .plane
        .kubectl(&[
            "patch",
            "program",
            "hello",
            "-n",
            namespace,
            "--subresource=status",
            "--type=merge",
            "-p",
            r#"{"status": {"artifact": null}}"#,
        ])
        .await;
    assert!(emptied.status.success(), "{emptied:?}");
    until(&operator, "written again", async || {
        let program = operator.get("program", "hello").await?;
        (program["status"]["artifact"]["digest"] == second["digest"]).then_some(())
    })
    .await;

    let deleted = operator
        .plane
        .kubectl(&["delete", "program", "hello", "-n", namespace])
        .await;
    assert!(deleted.status.success());
    for gone in [&second, &first] {
        until(&operator, "gone", async || {
            let status = get(&url(gone)).await.status();
            (status == StatusCode::NOT_FOUND).then_some(())
        })
        .await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stack_runs_a_program_that_it_fetches_like_a_flux_source() {
    // Kinds beyond Flux's own are the administrator's to allow.
    let policy = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(
        policy.path(),
        "plugins: {source-flux: {kinds: [pulumi.com/Program]}}",
    )
    .unwrap();
    let path = policy.path().display().to_string();
    let Some(operator) = Operator::start_with(&["--policy", &path]).await else {
        return;
    };
    operator.apply(PROGRAM).await;
    operator
        .stack(
            "hello",
            "fluxSource:\n  sourceRef: {apiVersion: pulumi.com/v1, kind: Program, name: hello}",
        )
        .await;
    let stack = operator.ready("hello").await;
    assert_eq!(stack["status"]["outputs"]["greeting"], "hello");

    // Told of under the reasons that alerts know.
    for (kind, reason) in [
        ("Update", "UpdateSucceeded"),
        ("Workspace", "Initialized"),
        ("Stack", "StackCreated"),
    ] {
        until(&operator, "told of", async || {
            let events = operator.list("events").await;
            let told = |event: &&Value| {
                event["involvedObject"]["kind"] == kind && event["reason"] == reason
            };
            events.iter().find(told).map(|_| ())
        })
        .await;
    }

    operator
        .apply(&PROGRAM.replace("input: hello", "input: salut"))
        .await;
    operator
        .stack_when("hello", "run with the changed Program", |stack| {
            stack["status"]["outputs"]["greeting"] == "salut"
        })
        .await;
}
