//! Components that violate each limit and grant. Each ends in its own typed error within its time, while another plugin
//! goes on being served.
#![allow(clippy::unwrap_used)]

mod evil;
#[path = "../../../host/wasm/tests/support/mod.rs"]
mod support;

use std::sync::Arc;

use evil::{denied, resolve, setting};
use serde_json::{Value, json};
use support::Table;
use windlass_wasm::outside::http::HttpClient;
use windlass_wasm::{Network, PluginError};

async fn refused(config: Value, allow: Value, spec: Value) -> PluginError {
    let setting = setting(config, allow, Network::default(), Table::default()).await;
    resolve(&setting.host, spec).await.result.unwrap_err()
}

async fn limit(mode: &str) -> PluginError {
    refused(json!({"mode": mode}), json!({}), json!({})).await
}

#[tokio::test]
async fn endless_loop() {
    assert_eq!(
        limit("loop").await,
        PluginError::CpuExceeded { limit_ms: 200 }
    );
}

#[tokio::test]
async fn memory_bomb() {
    assert_eq!(
        limit("memory").await,
        PluginError::MemoryExceeded {
            limit_bytes: 16 << 20
        }
    );
    assert_eq!(
        limit("memories").await,
        PluginError::MemoryExceeded {
            limit_bytes: 16 << 20
        }
    );
}

#[tokio::test]
async fn stack_overflow() {
    assert_eq!(limit("stack").await, PluginError::StackOverflow);
}

#[tokio::test]
async fn log_flood() {
    assert_eq!(
        limit("log").await,
        PluginError::LogFlood { limit_lines: 200 }
    );
    assert_eq!(
        limit("print").await,
        PluginError::LogFlood { limit_lines: 200 }
    );
}

#[tokio::test]
async fn huge_result() {
    let error = refused(
        json!({"mode": "result"}),
        json!({"limits": {"cpuMs": 5_000, "transferBytes": 1 << 20}}),
        json!({}),
    )
    .await;
    assert_eq!(
        error,
        PluginError::TransferExceeded {
            limit_bytes: 1 << 20
        }
    );
}

#[tokio::test]
async fn endless_questions() {
    let config = json!({"mode": "questions", "wants": {"kinds": ["/ConfigMap"]}});
    let setting = setting(
        config,
        json!({"kinds": ["/ConfigMap"]}),
        Network::default(),
        Table::default(),
    )
    .await;
    let done = resolve(&setting.host, json!({})).await;
    assert_eq!(
        done.result.unwrap_err(),
        PluginError::TooManyQuestions { limit: 32 }
    );
    assert_eq!(setting.outside.asked().len(), 32);
    assert_eq!(done.transcript.unwrap().asked.len(), 32);
}

#[tokio::test]
async fn panic_and_exit() {
    let PluginError::Panic { message } = limit("panic").await else {
        panic!("no panic")
    };
    assert!(message.contains("as told"), "{message}");
    assert_eq!(limit("exit").await, PluginError::Exit);
}

#[tokio::test]
async fn the_clock_stands_still_and_the_environment_is_empty() {
    let setting = setting(
        json!({"mode": "surroundings"}),
        json!({}),
        Network::default(),
        Table::default(),
    )
    .await;
    let done = resolve(&setting.host, json!({})).await;
    assert_eq!(
        done.result.unwrap().resolution.revision,
        "clock true waited 0 env 0"
    );
}

#[tokio::test]
async fn a_plugin_that_fails_again_and_again_is_paused_and_others_are_not() {
    let setting = setting(
        json!({"mode": "panic"}),
        json!({}),
        Network::default(),
        Table::default(),
    )
    .await;
    for _ in 0..5 {
        let error = resolve(&setting.host, json!({})).await.result.unwrap_err();
        assert!(matches!(error, PluginError::Panic { .. }), "{error:?}");
    }
    let error = resolve(&setting.host, json!({})).await.result.unwrap_err();
    assert!(
        matches!(error, PluginError::BreakerOpen { .. }),
        "{error:?}"
    );
    assert!(
        setting
            .host
            .list()
            .iter()
            .any(|plugin| plugin.name == "evil" && plugin.paused)
    );
}

fn http(url: &str, hosts: Value) -> (Value, Value) {
    let wants = json!({"interfaces": ["http"], "hosts": hosts});
    (
        json!({"mode": "http", "url": url, "wants": wants}),
        json!({"hosts": hosts}),
    )
}

#[tokio::test]
async fn forbidden_host() {
    let (config, allow) = http("https://10.0.0.8/x", json!(["10.0.0.7"]));
    denied(&refused(config, allow, json!({})).await, "UrlDenied");
}

#[tokio::test]
async fn an_address_that_resolves_to_loopback() {
    let (config, allow) = http("https://localhost/x", json!(["localhost"]));
    let error = refused(config, allow, json!({})).await;
    denied(&error, "UrlDenied");
    assert!(error.to_string().contains("resolves to"), "{error}");
}

/// A server of one path each: `/away` redirects to `target`, `/count` numbers its requests.
async fn server(target: String) -> (std::net::SocketAddr, Arc<std::sync::atomic::AtomicU32>) {
    use axum::{Router, response::Redirect, routing::any};
    let count = Arc::new(std::sync::atomic::AtomicU32::new(0));
    let counter = count.clone();
    let next = move || {
        let number = counter.fetch_add(1, std::sync::atomic::Ordering::SeqCst) + 1;
        async move { number.to_string() }
    };
    let router = Router::new()
        .route(
            "/away",
            any(move || async move { Redirect::temporary(&target) }),
        )
        .route("/count", any(next));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move { axum::serve(listener, router).await });
    (address, count)
}

fn one_machine() -> (Network, Table) {
    let network = Network {
        loopback: true,
        ..Network::default()
    };
    let table = Table {
        http: Some(HttpClient::new(network.clone())),
        ..Table::default()
    };
    (network, table)
}

#[tokio::test]
async fn redirect_to_a_forbidden_host() {
    let (hidden, count) = server(String::new()).await;
    let (open, _) = server(format!("http://{hidden}/count")).await;
    let (config, allow) = http(&format!("http://{open}/away"), json!([open.to_string()]));
    let (network, table) = one_machine();
    let setting = setting(config, allow, network, table).await;
    let error = resolve(&setting.host, json!({})).await.result.unwrap_err();
    denied(&error, "UrlDenied");
    assert_eq!(count.load(std::sync::atomic::Ordering::SeqCst), 0);
}

#[tokio::test]
async fn a_request_is_sent_once_per_occurrence() {
    let (open, count) = server(String::new()).await;
    let (mut config, allow) = http(&format!("http://{open}/count"), json!([open.to_string()]));
    config["mode"] = json!("post-twice");
    let (network, table) = one_machine();
    let setting = setting(config, allow, network, table).await;
    let done = resolve(&setting.host, json!({})).await;
    assert_eq!(done.result.unwrap().resolution.revision, "1 2");
    assert_eq!(count.load(std::sync::atomic::Ordering::SeqCst), 2);
}

#[tokio::test]
async fn a_returned_url_is_checked_too() {
    let config = json!({"mode": "returned-url", "url": "https://169.254.169.254/x", "wants": {"anyHost": true}});
    let error = refused(config, json!({"anyHost": true}), json!({})).await;
    assert!(matches!(error, PluginError::UrlDenied { .. }), "{error:?}");
    let config = json!({"mode": "returned-url", "url": "file:///etc", "wants": {"anyHost": true}});
    let error = refused(config, json!({"anyHost": true}), json!({})).await;
    assert!(matches!(error, PluginError::UrlDenied { .. }), "{error:?}");
}

#[tokio::test]
async fn forbidden_kind() {
    denied(
        &refused(
            json!({"mode": "kind", "kind": "ConfigMap"}),
            json!({}),
            json!({}),
        )
        .await,
        "KindDenied",
    );
    // Not even a policy can grant this one.
    let allow = json!({"kinds": ["/Secret"]});
    denied(
        &refused(json!({"mode": "kind", "kind": "Secret"}), allow, json!({})).await,
        "KindDenied",
    );
}

#[tokio::test]
async fn a_secret_that_the_spec_does_not_name() {
    let spec = json!({
        "stack": "creds",
        "token": {"type": "Secret", "secret": {"name": "creds", "namespace": "kube-system", "key": "password"}},
        "plain": {"type": "Literal", "literal": {"value": "x"}},
    });
    for pointer in [
        "/spec/token",
        "/spec/plain",
        "/spec/none",
        "/metadata/name",
        "",
        "/spec",
    ] {
        let config = json!({"mode": "secret", "pointer": pointer});
        denied(
            &refused(config, json!({}), spec.clone()).await,
            "SecretDenied",
        );
    }
    // A text that happens to be the name of a Secret does not name it.
    let config = json!({"mode": "secret-key", "pointer": "/spec/stack"});
    denied(&refused(config, json!({}), spec).await, "SecretDenied");
}

#[tokio::test]
async fn an_answer_that_never_comes_is_no_fault_of_the_plugin() {
    // A server that accepts and says nothing.
    let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = silent.local_addr().unwrap();
    let (config, mut allow) = http(&format!("http://{address}/"), json!([address.to_string()]));
    allow["limits"] = json!({"cpuMs": 5_000, "wallMs": 300});
    let (network, table) = one_machine();
    let setting = setting(config, allow, network, table).await;
    for _ in 0..6 {
        let error = resolve(&setting.host, json!({})).await.result.unwrap_err();
        assert_eq!(error, PluginError::Timeout { limit_ms: 300 });
    }
    assert!(setting.host.list().iter().all(|plugin| !plugin.paused));
}
