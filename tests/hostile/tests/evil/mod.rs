//! The misbehaving component, installed beside the built-ins.
#![allow(dead_code, clippy::unwrap_used)]

use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use serde_json::{Value, json};
use windlass_sdk::ErrorClass;
use windlass_wasm::{Evaluated, Network, PluginError, PluginHost, Policy, Resolved};

use crate::support::{self, Table, work};

/// A hang is a failure; nothing else depends on time.
const HANG: Duration = Duration::from_secs(60);

fn evil() -> &'static PathBuf {
    static FILE: OnceLock<PathBuf> = OnceLock::new();
    FILE.get_or_init(|| {
        let out = support::build(&["windlass-hostile"]);
        out.join("windlass-hostile.wasm")
    })
}

/// A host with the built-ins and one misbehaving plugin, allowed what `allow` says.
pub struct Setting {
    pub host: PluginHost,
    pub outside: Arc<Table>,
    _dir: tempfile::TempDir,
}

pub async fn setting(config: Value, allow: Value, network: Network, outside: Table) -> Setting {
    let dir = support::installed();
    std::fs::copy(evil(), dir.path().join("evil.wasm")).unwrap();
    // Only what is to run out of time has little of it: a busy machine must not decide a test.
    let cpu_ms = if config["mode"] == "loop" { 200 } else { 5_000 };
    let mut plugin = json!({
        "digest": support::digest(evil()),
        "interfaces": ["secrets", "kube", "http", "git", "cache"],
        "limits": {"cpuMs": cpu_ms, "memoryBytes": 16 << 20},
        "config": config,
    });
    for (key, value) in allow.as_object().unwrap() {
        plugin[key] = value.clone();
    }
    let policy = Policy::parse(&json!({"plugins": {"evil": plugin}}).to_string()).unwrap();
    let outside = Arc::new(outside);
    let host = support::host(&[dir.path()], policy, network, outside.clone()).await;
    Setting {
        host,
        outside,
        _dir: dir,
    }
}

/// Resolves through the misbehaving plugin, and meanwhile judges a Stack's health again and again.
pub async fn resolve(host: &PluginHost, spec: Value) -> Evaluated<Resolved> {
    let served = async {
        for _ in 0..20 {
            let health = host
                .assess(
                    "pulumi.com/Stack",
                    "{}".into(),
                    "{}".into(),
                    &work(json!({})),
                )
                .await;
            health.result.unwrap();
        }
    };
    let mut evil = work(spec);
    evil.namespace = "elsewhere".into();
    let both = async { tokio::join!(host.resolve("evil", &evil, None), served).0 };
    tokio::time::timeout(HANG, both).await.unwrap()
}

pub fn denied(error: &PluginError, reason: &str) {
    assert_eq!(
        (error.class(), error.reason()),
        (ErrorClass::Denied, reason),
        "{error:?}"
    );
}
