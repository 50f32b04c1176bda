//! Stacks that can do nothing: their Program is not there.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::site::{Kind, Site, told};
use crate::samples::{Samples, Unit, seconds};
use crate::setup::{Setup, Trouble, failed};
use crate::table::Row;

/// So many suspended Stacks with `--full`.
const MANY: usize = 10_000;

/// Measures.
///
/// # Errors
/// As the others.
pub async fn measure(setup: &Setup) -> Result<Vec<Row>, Trouble> {
    let stacks = setup.count(1_000, 100);
    let mut site = Site::prepare(setup).await?;
    site.operator.launch();
    site.quiet().await?;
    let before = site.requests().0.len();
    let missing = |number| {
        let spec = json!({"programRef": {"name": "missing"}});
        site.stack(&format!("blocked{number}"), &spec)
    };
    let objects: Vec<Value> = (0..stacks).map(missing).collect();
    let begun = site.create_all(Kind::Stack, &objects).await?;
    settled(&site, stacks, |status| {
        let conditions = status["conditions"].as_array();
        conditions.is_some_and(|all| all.iter().any(|one| one["type"] == "Reconciling"))
    })
    .await?;
    let settling = seconds(begun.elapsed());
    let requests = site.quiet().await?.0.split_off(before);
    let each = requests.len() as f64 / stacks as f64;

    // As the recorded figure was taken: a minute's requests after 45 s.
    tokio::time::sleep(Duration::from_secs(setup.count(45, 3) as u64)).await;
    let memory = site.memory()?;
    let before = site.requests().0.len();
    let window = setup.count(60, 6);
    tokio::time::sleep(Duration::from_secs(window as u64)).await;
    let asked = site.requests().0.split_off(before);
    let a_minute = asked.len() as f64 * 60.0 / window as f64;
    let figure = |text: &str| format!("{stacks} blocked Stacks: {text}");
    let mut rows = vec![
        Row::new(
            figure("memory"),
            Samples::one(Unit::Bytes, memory),
            "VmRSS; their Program is missing",
        )
        .against("85 MB", "35 MB"),
        Row::new(
            figure("requests a minute"),
            Samples::one(Unit::Count, a_minute),
            format!("in {window} s of quiet: {}", told(&asked)),
        )
        .against("4000", "0"),
        Row::new(
            figure("requests to settle, each"),
            Samples::one(Unit::Count, each),
            told(&requests),
        )
        .against("3", ""),
        Row::new(
            figure("until all say so"),
            Samples::one(Unit::Seconds, settling),
            "from the first POST; the benchmark creates them 16 at a time",
        ),
    ];
    if setup.full {
        rows.push(many(&site, stacks).await?);
    }
    Ok(rows)
}

async fn many(site: &Site, stacks: usize) -> Result<Row, Trouble> {
    let suspended = |number| {
        let spec = json!({"suspend": true, "programRef": {"name": "missing"}});
        site.stack(&format!("suspended{number}"), &spec)
    };
    let objects: Vec<Value> = (stacks..MANY).map(suspended).collect();
    site.create_all(Kind::Stack, &objects).await?;
    settled(site, MANY, |status| status["observedGeneration"] == 1).await?;
    site.quiet().await?;
    tokio::time::sleep(Duration::from_secs(45)).await;
    let memory = Samples::one(Unit::Bytes, site.memory()?);
    let how = format!("VmRSS after 45 s of quiet; {stacks} blocked, the others suspended");
    Ok(Row::new("operator: 10 000 Stacks", memory, how).against("", "256 MB"))
}

/// Waits until the latest version of so many Stacks is as it should be.
async fn settled(site: &Site, count: usize, is: impl Fn(&Value) -> bool) -> Result<(), Trouble> {
    let begun = Instant::now();
    let mut done = std::collections::BTreeSet::new();
    let mut mark = 0;
    while begun.elapsed() < Duration::from_secs(1_200) {
        let new = site.seen.since(mark);
        mark += new.len();
        let settled = new.into_iter().filter(|one| is(&one.object["status"]));
        done.extend(settled.map(|one| one.name));
        if done.len() >= count {
            return Ok(());
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    failed(format!("{} of {count} Stacks are settled", done.len()))
}
