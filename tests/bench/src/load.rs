//! From a file in the plugin directory to a plugin that is served: compiled, and with its machine code from the cache.

use std::path::Path;

use crate::evaluate::host;
use crate::samples::{Samples, Unit, seconds};
use crate::setup::{Setup, Trouble, failed};
use crate::table::Row;

const BUILT_IN: [&str; 7] = [
    "source-git",
    "source-flux",
    "source-program",
    "backend-cloud",
    "backend-diy",
    "health-argocd",
    "health-lua",
];

/// Measures.
///
/// # Errors
/// `Skipped` without the components; a plugin that does not load.
pub fn measure(setup: &Setup) -> Result<Vec<Row>, Trouble> {
    let plugins = setup.plugins()?;
    let rounds = setup.count(10, 2);
    let mut rows = Vec::new();
    for (what, names) in [
        ("health-argocd", &BUILT_IN[5..6]),
        ("health-lua", &BUILT_IN[6..]),
        ("all 7 built-ins", &BUILT_IN[..]),
    ] {
        let (mut cold, mut cached) = (Vec::new(), Vec::new());
        for _ in 0..rounds {
            let cache = tempfile::tempdir()?;
            let cache = cache.path().join("code");
            cold.push(
                setup
                    .runtime
                    .block_on(load(&plugins, names, &cache, false))?,
            );
            cached.push(
                setup
                    .runtime
                    .block_on(load(&plugins, names, &cache, true))?,
            );
        }
        let bytes: u64 = names
            .iter()
            .filter_map(|name| std::fs::metadata(plugins.join(format!("{name}.wasm"))).ok())
            .map(|data| data.len())
            .sum();
        let size = format!("{} KiB", bytes / 1024);
        let row = |way: &str, samples, how: &str| {
            let figure = format!("loading {what}: {way}");
            Row::new(
                figure,
                Samples::spread(Unit::Seconds, samples),
                format!("{size}; {how}"),
            )
        };
        rows.push(row(
            "cold",
            cold,
            "checked, compiled, tried, published, by a host that is up",
        ));
        rows.push(row(
            "cached",
            cached,
            "the same in a new host, machine code from the cache",
        ));
    }
    Ok(rows)
}

/// Seconds from the files' appearance to all of them being served.
async fn load(plugins: &Path, names: &[&str], cache: &Path, cached: bool) -> Result<f64, Trouble> {
    let dir = tempfile::tempdir()?;
    let host = host(dir.path(), &plugins.join("digests.json"), cache).await?;
    for name in names {
        let file = format!("{name}.wasm");
        std::fs::copy(plugins.join(&file), dir.path().join(&file))?;
    }
    let begun = std::time::Instant::now();
    host.reload().await;
    let took = seconds(begun.elapsed());
    let list = host.list();
    let good = list.len() == names.len()
        && list
            .iter()
            .all(|it| it.serving && it.builtin && it.cached == cached);
    if !good {
        return failed(format!(
            "not loaded as expected (cached: {cached}): {list:?}"
        ));
    }
    Ok(took)
}
