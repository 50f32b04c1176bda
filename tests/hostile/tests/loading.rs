//! Files that must not be served, each with an error of its own, while the built-ins beside them are.
#![allow(clippy::unwrap_used)]

#[path = "../../../host/wasm/tests/support/mod.rs"]
mod support;

use std::path::Path;
use std::sync::Arc;

use serde_json::{Value, json};
use support::{BUILTINS, builtin_dir, work};
use windlass_wasm::{LoadError, Network, PluginError, PluginHost, PluginStatus, Policy};

fn evil() -> Vec<u8> {
    std::fs::read(support::build(&["windlass-hostile"]).join("windlass-hostile.wasm")).unwrap()
}

async fn host(dir: &Path, plugins: Value) -> PluginHost {
    let policy = Policy::parse(&json!({"plugins": plugins}).to_string()).unwrap();
    support::host(&[dir], policy, Network::default(), Arc::default()).await
}

fn status(host: &PluginHost, name: &str) -> PluginStatus {
    host.list()
        .into_iter()
        .find(|plugin| plugin.name == name)
        .unwrap()
}

async fn health(host: &PluginHost) {
    host.assess(
        "pulumi.com/Stack",
        "{}".into(),
        "{}".into(),
        &work(json!({})),
    )
    .await
    .result
    .unwrap();
}

/// Lays the bytes beside the built-ins and says why they are not served.
async fn refused(bytes: &[u8], policy: Value) -> LoadError {
    let dir = support::installed();
    std::fs::write(dir.path().join("evil.wasm"), bytes).unwrap();
    let host = host(dir.path(), json!({"evil": policy})).await;
    for name in BUILTINS {
        assert!(status(&host, name).serving, "{name}");
    }
    health(&host).await;
    let status = status(&host, "evil");
    assert!(!status.serving);
    status.error.unwrap()
}

fn granted(bytes: &[u8], config: Value) -> Value {
    use sha2::{Digest, Sha256};
    json!({
        "digest": format!("sha256:{}", hex::encode(Sha256::digest(bytes))),
        "interfaces": ["secrets", "kube", "http", "git", "cache"],
        "limits": {"cpuMs": if config["trial"] == "loop" { 200 } else { 5_000 }},
        "config": config,
    })
}

#[tokio::test]
async fn a_trap_in_the_trial_call() {
    let evil = evil();
    let LoadError::Trial(error) = refused(&evil, granted(&evil, json!({"trial": "trap"}))).await
    else {
        panic!("no trial error")
    };
    assert!(matches!(*error, PluginError::Panic { .. }), "{error:?}");
    let LoadError::Trial(error) = refused(&evil, granted(&evil, json!({"trial": "loop"}))).await
    else {
        panic!("no trial error")
    };
    assert_eq!(*error, PluginError::CpuExceeded { limit_ms: 200 });
}

#[tokio::test]
async fn what_is_no_component() {
    let module = wat::parse_str("(module)").unwrap();
    assert_eq!(refused(&module, json!({})).await, LoadError::CoreModule);
    assert_eq!(
        refused(b"#!/bin/sh", json!({})).await,
        LoadError::NotAComponent
    );
    assert_eq!(refused(b"", json!({})).await, LoadError::NotAComponent);
    let empty = wat::parse_str("(component)").unwrap();
    assert_eq!(refused(&empty, json!({})).await, LoadError::NoExports);
}

#[tokio::test]
async fn a_truncated_file() {
    let evil = evil();
    for length in [9, evil.len() / 2, evil.len() - 1] {
        let error = refused(&evil[..length], json!({})).await;
        assert!(
            matches!(error, LoadError::Invalid(_)),
            "{length}: {error:?}"
        );
    }
}

#[tokio::test]
async fn a_file_that_is_too_large() {
    let evil = evil();
    let limit = 1000;
    let error = refused(&evil, json!({"limits": {"fileBytes": limit}})).await;
    assert_eq!(
        error,
        LoadError::TooLarge {
            bytes: evil.len() as u64,
            limit
        }
    );
}

#[tokio::test]
async fn the_wrong_contract_version() {
    let newer =
        wat::parse_str("(component (import \"windlass:plugin/log@0.9.0\" (instance)))").unwrap();
    let error = refused(&newer, json!({})).await;
    let LoadError::ContractVersion { wants, has, .. } = &error else {
        panic!("{error:?}")
    };
    assert_eq!((wants.as_str(), has.as_str()), ("0.9.0", "0.1.x"));
}

#[tokio::test]
async fn imports_and_wants_beyond_the_policy() {
    let evil = evil();
    let LoadError::ImportsDenied { imports } = refused(&evil, json!({})).await else {
        panic!("no denial")
    };
    assert!(
        imports.contains(&"windlass:plugin/http".to_owned()),
        "{imports:?}"
    );

    let config = json!({"wants": {"hosts": ["a.test"], "kinds": ["apps/Deployment", "/Secret"], "anyHost": true}});
    let mut policy = granted(&evil, config);
    policy["kinds"] = json!(["/Secret"]);
    let LoadError::GrantsMissing { missing } = refused(&evil, policy).await else {
        panic!("no shortfall")
    };
    assert_eq!(
        missing,
        [
            "anyHost",
            "host a.test",
            "kind /Secret",
            "kind apps/Deployment"
        ]
    );

    let mut policy = granted(&evil, json!({}));
    policy["digest"] = Value::Null;
    assert_eq!(
        refused(&evil, policy).await,
        LoadError::DigestRequired {
            grants: "secrets".into()
        }
    );
    let mut policy = granted(&evil, json!({}));
    policy["digest"] = json!("sha256:00");
    assert!(matches!(
        refused(&evil, policy).await,
        LoadError::DigestMismatch { .. }
    ));

    let sockets = "(component
        (import \"wasi:sockets/tcp@0.2.0\" (instance))
        (instance $none)
        (export \"windlass:plugin/source-provider@0.1.0\" (instance $none)))";
    let sockets = wat::parse_str(sockets).unwrap();
    let expected = LoadError::ImportsDenied {
        imports: vec!["wasi:sockets/tcp@0.2.0".into()],
    };
    assert_eq!(refused(&sockets, json!({})).await, expected);
}

#[tokio::test]
async fn exports_of_another_shape() {
    let shape = "(component
        (instance $none)
        (export \"windlass:plugin/plugin@0.1.0\" (instance $none))
        (export \"windlass:plugin/source-provider@0.1.0\" (instance $none)))";
    let error = refused(&wat::parse_str(shape).unwrap(), json!({})).await;
    assert!(matches!(error, LoadError::Invalid(_)), "{error:?}");
}

#[tokio::test]
async fn a_built_ins_name() {
    let dir = support::installed();
    std::fs::write(dir.path().join("source-git.wasm"), evil()).unwrap();
    let host = host(
        dir.path(),
        json!({"source-git": granted(&evil(), json!({"name": "source-git"}))}),
    )
    .await;
    let error = status(&host, "source-git").error.unwrap();
    assert_eq!(
        error,
        LoadError::BuiltinName {
            name: "source-git".into()
        }
    );
    let error = host
        .resolve("git", &work(json!({})), None)
        .await
        .result
        .unwrap_err();
    assert_eq!(error.reason(), "PluginUnknown");
    health(&host).await;
}

#[tokio::test]
async fn one_name_claimed_twice() {
    let (dir, evil) = (support::installed(), evil());
    for name in ["one", "two", "thief"] {
        std::fs::write(dir.path().join(format!("{name}.wasm")), &evil).unwrap();
    }
    let policy = |name: &str, source: &str| granted(&evil, json!({"name": name, "source": source}));
    let plugins = json!({"one": policy("one", "x"), "two": policy("two", "x"), "thief": policy("thief", "git")});
    let host = host(dir.path(), plugins).await;
    for name in ["one", "two", "thief"] {
        let error = status(&host, name).error.unwrap();
        assert!(matches!(error, LoadError::NameTaken { .. }), "{error:?}");
    }
    let error = host
        .resolve("x", &work(json!({})), None)
        .await
        .result
        .unwrap_err();
    assert!(matches!(error, PluginError::NotServed { .. }), "{error:?}");
    assert!(status(&host, "source-git").serving);

    // One of the two goes, and the other has the name.
    std::fs::remove_file(dir.path().join("two.wasm")).unwrap();
    host.reload().await;
    assert!(status(&host, "one").serving && status(&host, "one").error.is_none());
    host.resolve("x", &work(json!({})), None)
        .await
        .result
        .unwrap();
}

#[tokio::test]
async fn a_bad_new_file_leaves_the_old_one_serving() {
    let dir = support::installed();
    let host = host(dir.path(), json!({})).await;
    let file = dir.path().join("health-argocd.wasm");
    let good = std::fs::read(&file).unwrap();
    std::fs::write(&file, &good[..good.len() / 2]).unwrap();
    host.reload().await;
    let broken = status(&host, "health-argocd");
    assert!(
        broken.serving && matches!(broken.error, Some(LoadError::Invalid(_))),
        "{broken:?}"
    );
    health(&host).await;

    std::fs::write(&file, &good).unwrap();
    host.reload().await;
    assert!(status(&host, "health-argocd").error.is_none());

    std::fs::remove_file(&file).unwrap();
    host.reload().await;
    let gone = host
        .assess(
            "pulumi.com/Stack",
            "{}".into(),
            "{}".into(),
            &work(json!({})),
        )
        .await;
    assert_eq!(gone.result.unwrap_err().reason(), "PluginUnknown");
}

#[tokio::test]
async fn a_change_in_the_directory_is_seen() {
    let dir = support::installed();
    let host = host(dir.path(), json!({})).await;
    let watching = host.clone();
    let watch =
        tokio::spawn(async move { watching.watch(std::time::Duration::from_millis(20)).await });
    std::fs::remove_file(dir.path().join("source-git.wasm")).unwrap();
    let gone = async {
        while host.list().iter().any(|plugin| plugin.name == "source-git") {
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(std::time::Duration::from_secs(60), gone)
        .await
        .unwrap();
    watch.abort();
    assert!(builtin_dir().join("source-git.wasm").exists());
}
