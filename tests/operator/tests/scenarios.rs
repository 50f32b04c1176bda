//! What users of other operators ran into, one after the other on one cluster: a slow API server, a destroy that fails,
//! a fix that is pushed while a retry is far away, secrets that show.
#![allow(clippy::unwrap_used)]

use std::time::Duration;

use serde_json::{Value, json};
use windlass_cluster::{Component, Identity};
use windlass_e2e::git_server::GitServer;
use windlass_operator::{Operator, backend, condition, free_port, is_ready};

const LIMIT: Duration = Duration::from_secs(150);
const FINALIZER: &str = "finalizer.stack.pulumi.com";

/// A retry after the first failure is farther away than any test waits.
const FAR: &str = "retry: {initialBackoffSeconds: 3600, maxBackoffSeconds: 3600}";

/// What only Secrets may hold.
const CONFIG: &str = "canary-config-19b3";
const VARIABLE: &str = "canary-variable-5e77";
const LOUD: &str = "canary-loud-82fa";
const WHOLE: &str = "canary-whole-c3a1";
const CANARIES: [&str; 4] = [CONFIG, VARIABLE, LOUD, WHOLE];

fn failed(stack: &Value) -> bool {
    stack["status"]["lastUpdate"]["state"] == "failed"
        && stack["status"]["observedGeneration"] == stack["metadata"]["generation"]
}

fn failures(stack: &Value) -> u64 {
    stack["status"]["lastUpdate"]["failures"]
        .as_u64()
        .unwrap_or(0)
}

/// The API server answers for a moment only, again and again, while a run goes on.
async fn a_slow_api_server(operator: &Operator) {
    operator.slow("patient").await;
    operator
        .stack("patient", "programRef: {name: patient}")
        .await;
    operator.ready("patient").await;
    let patch = json!({"spec": {"config": {"round": "r1", "pause": "8000"}}});
    operator.patch("stack", "patient", &patch.to_string()).await;
    operator.operated("patient", "update-begun", 1).await;
    let mut pulses = 0;
    while !operator
        .operations("patient")
        .iter()
        .any(|line| line == "update thing")
    {
        operator.plane.pause(Component::ApiServer).unwrap();
        tokio::time::sleep(Duration::from_millis(1_500)).await;
        operator.plane.resume(Component::ApiServer).unwrap();
        tokio::time::sleep(Duration::from_millis(200)).await;
        pulses += 1;
        assert!(pulses < 60, "the run does not end\n{}", operator.logs());
    }
    assert!(pulses >= 3, "{pulses}");
    let stack = operator
        .stack_when("patient", "Ready after a slow time", |stack| {
            is_ready(stack) && stack["status"]["outputs"]["round"] == "r1"
        })
        .await;
    assert_eq!(stack["status"]["lastUpdate"]["sequence"], 2);
    let done = operator.operations("patient");
    assert_eq!(
        done.iter()
            .filter(|line| *line == "update-begun thing")
            .count(),
        1
    );
}

/// The resource cannot be deleted while a directory is missing: the finalizer stays through all failures.
async fn a_destroy_that_fails(operator: &Operator) {
    let dir = operator.state().join("mountpoint");
    let make = || {
        use std::os::unix::fs::PermissionsExt as _;
        std::fs::create_dir(&dir).unwrap();
        std::fs::set_permissions(&dir, std::fs::Permissions::from_mode(0o777)).unwrap();
    };
    make();
    operator
        .apply(
            "apiVersion: pulumi.com/v1\nkind: Program\nmetadata: {name: stubborn}\nprogram:\n  resources:\n    thing:\n      \
             type: windlasstest:index:Thing\n      properties: {value: v, logFile: /state/mountpoint/log}\n",
        )
        .await;
    let spec = "programRef: {name: stubborn}\ndestroyOnFinalize: true\nretry: {initialBackoffSeconds: 1, maxBackoffSeconds: 1}";
    operator.stack("stubborn", spec).await;
    operator.ready("stubborn").await;
    std::fs::remove_dir_all(&dir).unwrap();
    let history = operator.history("stack", "stubborn");
    operator
        .kubectl(&["delete", "stack", "stubborn", "--wait=false"])
        .await;
    let stack = operator
        .stack_when("stubborn", "refused five times", |stack| {
            failures(stack) >= 5
        })
        .await;
    assert_eq!(stack["metadata"]["finalizers"], json!([FINALIZER]));
    assert_eq!(stack["status"]["lastUpdate"]["type"], "destroy");
    assert_eq!(operator.resources("stubborn").unwrap(), ["thing"]);
    make();
    operator.gone("stack", "stubborn").await;
    assert_eq!(operator.resources("stubborn").unwrap(), [""; 0]);
    let text = std::fs::read_to_string(dir.join("log")).unwrap();
    assert_eq!(text, "delete-begun thing\ndelete thing\n");
    // In every version but the last, which nobody sees any more, the finalizer is there.
    let versions = history.versions();
    let mut failing = versions.iter().filter(|stack| failures(stack) > 0);
    assert!(failing.all(|stack| stack["metadata"]["finalizers"] == json!([FINALIZER])));
}

/// Twenty megabytes of outputs: what fits is kept, the rest is named, and the next run is like any other.
async fn large_outputs(operator: &Operator) {
    operator
        .apply(
            "apiVersion: pulumi.com/v1\nkind: Program\nmetadata: {name: large}\nprogram:\n  configuration:\n    kib: {type: \
             Number, default: 20480}\n  resources:\n    thing:\n      type: windlasstest:index:Thing\n      properties: {bigKiB: \
             \"${kib}\", value: small}\n  outputs: {big: \"${thing.big}\", small: \"${thing.value}\"}\n",
        )
        .await;
    operator.stack("large", "programRef: {name: large}").await;
    let stack = operator.ready("large").await;
    let status = &stack["status"];
    assert_eq!(status["outputs"], json!({"small": "small"}));
    let said = status["lastUpdate"]["message"].as_str().unwrap_or_default();
    assert!(said.contains("\"big\" (20481 KiB)"), "{status:#}");
    let secret = operator.get("secret", "large-outputs").await.unwrap();
    let names: Vec<&String> = secret["data"].as_object().unwrap().keys().collect();
    assert_eq!(names, ["small"]);
    let patch = r#"{"spec":{"config":{"kib":"1"}}}"#;
    operator.patch("stack", "large", patch).await;
    let stack = operator
        .stack_when("large", "Ready with all of its outputs", |stack| {
            is_ready(stack) && stack["status"]["outputs"]["big"].is_string()
        })
        .await;
    let said = &stack["status"]["lastUpdate"]["message"];
    assert!(!said.to_string().contains("KiB"), "{said}");
}

/// A Program that is missing is waited for, not asked for.
async fn a_missing_program(operator: &Operator, who: &Identity) {
    operator.stack("early", "programRef: {name: early}").await;
    operator
        .stack_when("early", "waiting for its Program", |stack| {
            condition(stack, "Reconciling").is_some_and(|one| one["reason"] == "SourceUnavailable")
        })
        .await;
    operator.stash("early").await;
    operator.ready("early").await;
    let audit = operator.plane.audit_log().of_user(&who.user_name());
    assert_eq!(audit.count("get", "programs"), 0);
}

fn fixable(greeting: &str) -> String {
    format!(
        "runtime: yaml\nresources:\n  message: {{type: pulumi:Stash, properties: {{input: \"{greeting}\"}}}}\noutputs: \
         {{greeting: \"${{message.input}}\"}}\n"
    )
}

/// A fix in a Program object runs at once, a pushed one as soon as the branch is looked at: neither waits for the retry.
async fn a_fix_while_a_retry_is_far_away(operator: &Operator) {
    let server = GitServer::start().await.unwrap();
    let repo = server.repo("pushed").unwrap();
    let commit = |greeting: &str| {
        let text = format!("name: pushed\n{}", fixable(greeting));
        repo.commit("main", &[("Pulumi.yaml", "100644", text.as_bytes())])
            .unwrap()
    };
    commit("${nothing.there}");
    let broken = "apiVersion: pulumi.com/v1\nkind: Program\nmetadata: {name: edited}\nprogram:\n  resources:\n    message: \
                  {type: pulumi:Stash, properties: {input: \"${nothing.there}\"}}\n  outputs: {greeting: \
                  \"${message.input}\"}\n";
    operator.apply(broken).await;
    operator
        .stack("edited", &format!("programRef: {{name: edited}}\n{FAR}"))
        .await;
    let spec = format!("projectRepo: {}\nbranch: main\n{FAR}", server.url("pushed"));
    operator.stack("pushed", &spec).await;
    for name in ["edited", "pushed"] {
        operator.stack_when(name, "failed", failed).await;
    }
    let fixed = commit("mended");
    operator
        .apply(&broken.replace("${nothing.there}", "mended"))
        .await;
    for name in ["edited", "pushed"] {
        let stack = operator
            .stack_when(name, "Ready with the fix", |stack| {
                is_ready(stack) && stack["status"]["outputs"]["greeting"] == "mended"
            })
            .await;
        assert_eq!(stack["status"]["lastUpdate"]["sequence"], 2, "{stack:#}");
        if name == "pushed" {
            assert_eq!(stack["status"]["lastUpdate"]["lastSuccessfulCommit"], fixed);
        }
    }
}

/// Everything of a Stack is deleted in one go: its Program, its service account, its Secret. The pod is still there, so
/// its resources can be destroyed, or the condition says what they need.
async fn everything_deleted_at_once(operator: &Operator) {
    operator.stash("doomed").await;
    let secret = [
        "create",
        "secret",
        "generic",
        "doomed",
        "--from-literal=k=v",
    ];
    operator.kubectl(&secret).await;
    operator
        .kubectl(&["create", "serviceaccount", "doomed"])
        .await;
    let spec = "programRef: {name: doomed}\ndestroyOnFinalize: true\nserviceAccountName: doomed\nsecretsRef:\n  greeting: {type: \
                Secret, secret: {name: doomed, key: k}}";
    operator.stack("doomed", spec).await;
    operator.ready("doomed").await;
    let all = [
        "delete",
        "stack,program,secret,serviceaccount",
        "doomed",
        "--wait=false",
    ];
    operator.kubectl(&all).await;
    let named = "Secret \"doomed\" with key \"k\"";
    operator
        .until("destroyed, or said why not", LIMIT, async || match operator
            .get("stack", "doomed")
            .await
        {
            None => true,
            Some(stack) => condition(&stack, "Reconciling")
                .is_some_and(|one| one["message"].as_str().unwrap_or_default().contains(named)),
        })
        .await;
    if operator.get("stack", "doomed").await.is_some() {
        assert_eq!(operator.resources("doomed").unwrap(), ["message"]);
        operator.kubectl(&secret).await;
        operator.gone("stack", "doomed").await;
    }
    assert_eq!(operator.resources("doomed").unwrap(), [""; 0]);
}

/// Secrets in configuration, variables, outputs and the words of a failing program.
async fn canaries(operator: &Operator, metrics: &str) {
    operator
        .apply(&format!(
            "apiVersion: v1\nkind: Secret\nmetadata: {{name: canaries}}\nstringData: {{config: {CONFIG}, variable: {VARIABLE}, \
             loud: {LOUD}}}\n---\napiVersion: v1\nkind: Secret\nmetadata: {{name: whole}}\nstringData: {{WHOLE: {WHOLE}}}\n---\napiVersion: pulumi.com/v1\nkind: Program\nmetadata: {{name: singing}}\nprogram:\n  \
             configuration:\n    token: {{type: String}}\n  resources:\n    kept: {{type: pulumi:Stash, properties: {{input: \
             \"${{token}}\"}}}}\n  outputs:\n    word: {{\"fn::secret\": \"output of ${{token}}\"}}\n    token: \"${{kept.output}}\"\n---\n\
             apiVersion: pulumi.com/v1\nkind: Program\nmetadata: {{name: crying}}\nprogram:\n  resources:\n    thing: {{type: \
             \"windlasstest:index:Thing\", properties: {{failEnv: LOUD}}}}\n---\napiVersion: pulumi.com/v1\nkind: Program\nmetadata: \
             {{name: weeping}}\nprogram:\n  resources:\n    thing: {{type: \"windlasstest:index:Thing\", properties: {{failEnv: \
             WHOLE}}}}\n"
        ))
        .await;
    let reference =
        |key: &str| json!({"type": "Secret", "secret": {"name": "canaries", "key": key}});
    for name in ["singing", "crying", "weeping"] {
        let spec = format!(
            "programRef: {{name: {name}}}\nsuspend: true\n{FAR}\nsecretsRef:\n  token: {}",
            reference("config")
        );
        operator.stack(name, &spec).await;
        let variables = json!({"QUIET": reference("variable"), "LOUD": reference("loud")});
        let patch =
            json!({"spec": {"suspend": false, "envRefs": variables, "envSecrets": ["whole"]}});
        operator.patch("stack", name, &patch.to_string()).await;
    }
    operator.ready("singing").await;
    for name in ["crying", "weeping"] {
        let stack = operator.stack_when(name, "failed", failed).await;
        assert!(stack.to_string().contains("refused: "), "{stack:#}");
    }
    // Told of, so that events are among what is searched.
    operator
        .until("an event tells of the failure", LIMIT, async || {
            let events = operator.list("events").await;
            events
                .iter()
                .any(|event| event["involvedObject"]["name"] == "crying")
        })
        .await;
    let outputs = operator.get("secret", "singing-outputs").await.unwrap();
    assert!(outputs["data"]["word"].is_string(), "{outputs}");

    let kinds = operator
        .kubectl(&["api-resources", "--verbs=list", "-o", "name"])
        .await;
    let kinds: Vec<&str> = kinds.lines().filter(|kind| *kind != "secrets").collect();
    let all = [
        "get",
        &kinds.join(","),
        "--all-namespaces",
        "-o",
        "json",
        "--show-managed-fields",
        "--ignore-not-found",
    ];
    let mut texts = vec![("an object".to_owned(), operator.kubectl(&all).await)];
    assert!(texts[0].1.contains("crying"));
    texts.push(("the operator's log".to_owned(), operator.logs()));
    let scraped = reqwest::get(format!("http://{metrics}/metrics"))
        .await
        .unwrap();
    let scraped = scraped.text().await.unwrap();
    assert!(scraped.contains("windlass_build_info"), "{scraped}");
    texts.push(("a metric".to_owned(), scraped));
    for stack in ["singing", "crying"] {
        let pod = format!("{stack}-workspace-0");
        let log = operator.kubelet.logs(&operator.namespace, &pod, "pulumi");
        let log = log.unwrap();
        assert!(log.contains("pulumi:pulumi:Stack"), "{log}");
        texts.push((format!("the log of {pod}"), log));
        for pid in operator
            .kubelet
            .processes(&operator.namespace, &pod)
            .unwrap()
        {
            let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            let line = String::from_utf8_lossy(&line).into_owned();
            texts.push((format!("the arguments of a process of {pod}"), line));
        }
    }
    for (what, text) in &texts {
        for canary in CANARIES {
            if let Some(at) = text.find(canary) {
                let near = text[..at].lines().last().unwrap_or_default();
                panic!("{canary} is in {what}, after {near:?}");
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_users_ran_into_elsewhere_does_not_happen() {
    if !backend::has_provider() {
        return;
    }
    let metrics = format!("127.0.0.1:{}", free_port());
    let arguments = ["--metrics-bind-address", &metrics, "--metrics-secure=false"];
    let Some(mut operator) = Operator::prepare().await else {
        return;
    };
    let (who, kubeconfig) = operator.somebody("windlass").await;
    operator.kubeconfig = kubeconfig;
    operator.arguments = arguments.map(str::to_owned).to_vec();
    operator.launch();
    tokio::join!(
        a_destroy_that_fails(&operator),
        a_fix_while_a_retry_is_far_away(&operator),
        everything_deleted_at_once(&operator),
        canaries(&operator, &metrics),
        large_outputs(&operator),
        a_missing_program(&operator, &who),
    );
    // Nothing else goes on then.
    a_slow_api_server(&operator).await;
}
