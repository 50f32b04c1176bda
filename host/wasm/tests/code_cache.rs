//! Machine code is loaded only if it is what this user stored.
#![allow(clippy::unwrap_used)]

mod support;

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::json;
use support::{Table, builtin_dir, builtins, work};
use windlass_wasm::{HostError, HostOptions, LoadError, Network, PluginHost, Policy};

fn options(plugins: &Path, cache: &Path) -> HostOptions {
    HostOptions {
        plugin_dirs: vec![plugins.to_owned()],
        cache_dir: cache.to_owned(),
        policy: Policy::default(),
        builtins: builtins(),
        leave_idle: false,
        file_urls: true,
        network: Network::default(),
        threads: 1,
    }
}

async fn host(plugins: &Path, cache: &Path) -> Result<PluginHost, HostError> {
    PluginHost::new(options(plugins, cache), Arc::new(Table::default())).await
}

/// One plugin is enough, and quicker.
fn one() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let file = "health-argocd.wasm";
    std::fs::copy(builtin_dir().join(file), dir.path().join(file)).unwrap();
    dir
}

async fn cached(plugins: &Path, cache: &Path) -> bool {
    let host = host(plugins, cache).await.unwrap();
    host.assess(
        "pulumi.com/Stack",
        "{}".into(),
        "{}".into(),
        &work(json!({})),
    )
    .await
    .result
    .unwrap();
    host.list()[0].cached
}

fn code(cache: &Path) -> PathBuf {
    let files = std::fs::read_dir(cache)
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let mut codes: Vec<PathBuf> = files
        .filter(|path| path.extension().is_some_and(|it| it == "code"))
        .collect();
    assert_eq!(codes.len(), 1);
    codes.remove(0)
}

#[tokio::test]
async fn whatever_does_not_fit_is_compiled_again() {
    let (plugins, cache) = (one(), tempfile::tempdir().unwrap());
    let cache = cache.path().join("cache");
    assert!(!cached(plugins.path(), &cache).await);
    assert!(cached(plugins.path(), &cache).await);

    let file = code(&cache);
    let good = std::fs::read(&file).unwrap();
    let mut flipped = good.clone();
    let middle = flipped.len() / 2;
    flipped[middle] ^= 1;
    for bad in [
        flipped,
        good[..good.len() / 2].to_vec(),
        good[..10].to_vec(),
        Vec::new(),
    ] {
        std::fs::write(&file, bad).unwrap();
        assert!(!cached(plugins.path(), &cache).await);
        assert!(cached(plugins.path(), &cache).await);
    }

    // Good code under another component's name is not that component's code.
    let other = file.with_file_name(
        file.file_name()
            .unwrap()
            .to_str()
            .unwrap()
            .replacen('0', "1", 1),
    );
    if other != file {
        std::fs::rename(&file, &other).unwrap();
        assert!(!cached(plugins.path(), &cache).await);
    }

    // Another key, so nothing that was stored is trusted.
    std::fs::write(cache.join("key"), [7; 32]).unwrap();
    assert!(!cached(plugins.path(), &cache).await);
}

#[tokio::test]
async fn nobody_else_may_enter_the_cache() {
    let (plugins, cache) = (one(), tempfile::tempdir().unwrap());
    let cache = cache.path().join("cache");
    host(plugins.path(), &cache).await.unwrap();
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(&cache), mode(&cache.join("key"))), (0o700, 0o600));
    std::fs::set_permissions(&cache, std::fs::Permissions::from_mode(0o755)).unwrap();
    assert!(matches!(
        host(plugins.path(), &cache).await,
        Err(HostError::Cache { .. })
    ));
}

#[tokio::test]
async fn what_decides_nothing_without_a_configuration_is_not_compiled() {
    let (plugins, cache) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let cache = cache.path().join("cache");
    let file = plugins.path().join("health-lua.wasm");
    std::fs::copy(builtin_dir().join("health-lua.wasm"), &file).unwrap();
    let new = async |cache: &Path, policy: Policy| {
        let options = HostOptions {
            leave_idle: true,
            policy,
            ..options(plugins.path(), cache)
        };
        let host = PluginHost::new(options, Arc::new(Table::default())).await;
        host.unwrap().list().remove(0)
    };
    let idle = new(&cache, Policy::default()).await;
    assert!(idle.idle && idle.builtin && !idle.serving && idle.error.is_none());
    let codes = std::fs::read_dir(&cache).unwrap().filter(|entry| {
        let name = entry.as_ref().unwrap().file_name();
        name.to_str().unwrap().ends_with(".code")
    });
    assert_eq!(codes.count(), 0);

    // With one it is compiled as any other. The code is the other tests' too.
    let config = json!({"plugins": {"health-lua": {"config": {}}}});
    let configured = serde_json::from_value(config).unwrap();
    let served = new(&builtin_dir().join("code-cache"), configured).await;
    assert!(served.serving && !served.idle, "{served:?}");

    // Whatever else bears its name is refused as ever.
    std::fs::copy(builtin_dir().join("health-argocd.wasm"), &file).unwrap();
    let other = new(&cache, Policy::default()).await;
    assert!(!other.idle);
    assert!(matches!(other.error, Some(LoadError::BuiltinName { .. })));
}
