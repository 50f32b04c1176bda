//! The scripts of an `argocd-cm` as a component: the table of cases, who judges what, hostile scripts.

#![allow(clippy::unwrap_used)]

mod support;

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::Deserialize;
use serde_json::{Value, json};
use support::{Table, host, installed, work};
use windlass_sdk::{Health, HealthStatus};
use windlass_wasm::{LoadError, Network, PluginError, PluginHost, PluginStatus, Policy};

const CASES: &str = include_str!("../../../plugins/health-lua/tests/cases.yaml");
const HOSTILE: &str = include_str!("../../../plugins/health-lua/tests/hostile.yaml");

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Case {
    name: String,
    #[serde(default)]
    open_libs: bool,
    script: String,
    #[serde(default)]
    object: Value,
    expected: Expected,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
enum Expected {
    Health(String),
    Empty,
    Error(String),
    /// The host's own limit.
    Host(String),
}

/// A host with the built-ins, health-lua configured so. Its limits are the plugin's own: a busy machine must not end a script
/// before these do.
async fn configured(config: Value) -> (PluginHost, tempfile::TempDir) {
    let dir = installed();
    let policy = json!({"plugins": {"health-lua": {"config": config, "limits": {"cpuMs": 5_000}}}});
    let policy = Policy::parse(&policy.to_string()).unwrap();
    let host = host(
        &[dir.path()],
        policy,
        Network::default(),
        Arc::new(Table::default()),
    )
    .await;
    (host, dir)
}

/// One kind for each case: `example.org/Case7`.
fn as_config(cases: &[Case]) -> Value {
    let mut config = BTreeMap::new();
    for (at, case) in cases.iter().enumerate() {
        let key = |setting: &str| format!("resource.customizations.{setting}.example.org_Case{at}");
        config.insert(key("health"), case.script.clone());
        if case.open_libs {
            config.insert(key("useOpenLibs"), "true".to_owned());
        }
    }
    json!(config)
}

/// What is said of a case; none if there is no script for it, as for an empty one.
async fn said(host: &PluginHost, at: usize, case: &Case) -> Option<Result<Health, PluginError>> {
    let kind = format!("example.org/Case{at}");
    host.judge_of(&kind)?;
    let mut object = if case.object.is_object() {
        case.object.clone()
    } else {
        json!({})
    };
    object["apiVersion"] = json!("example.org/v1");
    object["kind"] = json!(format!("Case{at}"));
    let done = host
        .assess(&kind, object.to_string(), "{}".into(), &work(json!({})))
        .await;
    Some(done.result)
}

fn is_met(expected: &Expected, found: &Option<Result<Health, PluginError>>) -> bool {
    match (expected, found) {
        (Expected::Empty, None) => true,
        (Expected::Host(reason), Some(Err(error))) => error.reason() == reason,
        (expected, Some(Ok(Health { status, message }))) => match expected {
            Expected::Health(wanted) => {
                let found = format!("{status:?}: {message}");
                *wanted == found || format!("{wanted}: ") == found
            }
            Expected::Empty => {
                *status == HealthStatus::Unknown && message.ends_with("returned no health")
            }
            Expected::Error(part) => {
                *status == HealthStatus::Unknown
                    && message.contains(" failed: ")
                    && message.contains(part)
            }
            Expected::Host(_) => false,
        },
        _ => false,
    }
}

async fn check(host: &PluginHost, cases: &[Case]) {
    let mut wrong = Vec::new();
    for (at, case) in cases.iter().enumerate() {
        let found = said(host, at, case).await;
        if !is_met(&case.expected, &found) {
            wrong.push(format!("{}: {found:?}", case.name));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[tokio::test]
async fn every_case_has_its_verdict() {
    let cases: Vec<Case> = serde_saphyr::from_str(CASES).unwrap();
    let (host, _dir) = configured(as_config(&cases)).await;
    check(&host, &cases).await;
}

#[tokio::test]
async fn hostile_scripts_are_stopped_and_the_plugin_goes_on() {
    let mut cases: Vec<Case> = serde_saphyr::from_str(HOSTILE).unwrap();
    cases.retain(|case| !matches!(case.expected, Expected::Host(_)));
    let (host, _dir) = configured(as_config(&cases)).await;
    check(&host, &cases).await;
    let last = cases.len() - 1;
    assert_eq!(cases[last].name, "a good script");
    assert!(is_met(
        &cases[last].expected,
        &said(&host, last, &cases[last]).await
    ));
}

#[tokio::test]
async fn what_no_instruction_counts_is_stopped_by_the_host() {
    let mut cases: Vec<Case> = serde_saphyr::from_str(HOSTILE).unwrap();
    cases.retain(|case| matches!(case.expected, Expected::Host(_)));
    assert!(!cases.is_empty());
    let (host, _dir) = configured(as_config(&cases)).await;
    check(&host, &cases).await;
    assert!(status(&host).serving);
}

fn status(host: &PluginHost) -> PluginStatus {
    let all = host.list();
    all.into_iter().find(|it| it.name == "health-lua").unwrap()
}

#[tokio::test]
async fn a_script_beats_the_built_in_rule_and_its_own_kind_a_pattern() {
    let stack =
        json!({"apiVersion": "pulumi.com/v1", "kind": "Stack", "metadata": {"generation": 1}});
    let verdict = async |host: &PluginHost, kind: &str, object: &Value| {
        let work = work(json!({}));
        let done = host
            .assess(kind, object.to_string(), "{}".into(), &work)
            .await;
        done.result.map(|health| health.message)
    };
    let rule = Ok("Waiting for the operator to observe the latest spec change".to_owned());

    let (host, _dir) = configured(json!({})).await;
    assert_eq!(
        host.judge_of("pulumi.com/Stack").as_deref(),
        Some("health-argocd")
    );
    assert_eq!(verdict(&host, "pulumi.com/Stack", &stack).await, rule);
    assert!(host.judge_of("apps/Deployment").is_none());
    let idle = status(&host);
    assert!(
        idle.serving && idle.error.is_none() && idle.claims.is_empty(),
        "{idle:?}"
    );

    let (host, _dir) = configured(json!({
        "resource.customizations.health.pulumi.com_Stack": "return {status = 'Healthy', message = 'own'}",
        "resource.customizations.health.Pod": "return {status = 'Healthy', message = 'pod'}",
    }))
    .await;
    assert_eq!(
        verdict(&host, "pulumi.com/Stack", &stack).await,
        Ok("own".into())
    );
    assert_eq!(host.judge_of("/Pod").as_deref(), Some("health-lua"));
    assert!(host.judge_of("apps/Pod").is_none());

    // A pattern is somebody's own words too, and beats what is built in.
    let patterns = "
'*/*': {health.lua: \"return {status = 'Healthy', message = 'all'}\"}
'*.example.org/*': {health.lua: \"return {status = 'Healthy', message = 'example'}\"}
'a.example.org/A': {health.lua: \"return {status = 'Healthy', message = 'its own'}\"}
";
    let (host, _dir) = configured(json!({"resource.customizations": patterns})).await;
    assert_eq!(
        verdict(&host, "pulumi.com/Stack", &stack).await,
        Ok("all".into())
    );
    for (kind, wanted) in [("A", "its own"), ("B", "example")] {
        let object = json!({"apiVersion": "a.example.org/v1", "kind": kind});
        let found = verdict(&host, &format!("a.example.org/{kind}"), &object).await;
        assert_eq!(found, Ok(wanted.into()));
    }
    assert!(host.judge_of("/Pod").is_none());
    assert_eq!(
        status(&host).claims,
        [
            "health:*.example.org/*",
            "health:*/*",
            "health:a.example.org/A"
        ]
    );
}

#[tokio::test]
async fn what_is_being_deleted_is_asked_of_no_script() {
    let (host, _dir) = configured(json!({
        "resource.customizations.health.example.org_Hook": "return {status = 'Healthy', message = 'asked'}",
    }))
    .await;
    for (finalizers, wanted) in [
        (json!([]), "Pending deletion"),
        (json!(["argocd.argoproj.io/hook-finalizer"]), "asked"),
    ] {
        let object = json!({
            "apiVersion": "example.org/v1", "kind": "Hook",
            "metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": finalizers},
        });
        let done = host
            .assess(
                "example.org/Hook",
                object.to_string(),
                "{}".into(),
                &work(json!({})),
            )
            .await;
        assert_eq!(done.result.unwrap().message, wanted);
    }
}

#[tokio::test]
async fn the_clock_stands_at_the_requests_time() {
    let (host, _dir) = configured(json!({
        "resource.customizations.health.example.org_Clock":
            "return {status = 'Healthy', message = require('os').time() .. ''}",
    }))
    .await;
    let object = json!({"apiVersion": "example.org/v1", "kind": "Clock"}).to_string();
    let mut work = work(json!({}));
    work.now_ms = 1_700_000_000_999;
    let done = host
        .assess("example.org/Clock", object, "{}".into(), &work)
        .await;
    assert_eq!(done.result.unwrap().message, "1700000000");
}

#[tokio::test]
async fn a_configuration_that_argo_cd_would_refuse_is_refused() {
    let (host, _dir) = configured(json!({
        "resource.customizations.health.a_B": "return {status = 'Healthy'}",
        "resource.customizations.heal.a_C": "return {status = 'Healthy'}",
    }))
    .await;
    let status = status(&host);
    assert!(!status.serving);
    let Some(LoadError::Config(message)) = status.error else {
        panic!("{:?}", status.error)
    };
    assert!(
        message.contains("resource.customizations.heal.a_C"),
        "{message}"
    );
    assert!(host.judge_of("a/B").is_none());
    // The others do their work.
    assert_eq!(
        host.judge_of("pulumi.com/Stack").as_deref(),
        Some("health-argocd")
    );
}
