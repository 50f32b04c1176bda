//! Fifty Stacks at once, each with a pod and a run of its own, on one machine.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use futures::future::try_join_all;
use serde_json::{Value, json};

use super::bystander::Bystander;
use super::site::{Kind, Site, is_ready, program, told};
use crate::samples::{Samples, Unit, seconds};
use crate::setup::{Setup, Trouble};
use crate::table::Row;

/// Longer than all of them take.
const LIMIT: Duration = Duration::from_secs(600);

/// Measures.
///
/// # Errors
/// As the others.
pub async fn measure(setup: &Setup) -> Result<Vec<Row>, Trouble> {
    let stacks = setup.count(50, 8);
    let mut site = Site::prepare(setup).await?;
    site.operator.launch();
    let names: Vec<String> = (0..stacks).map(|number| format!("fleet{number}")).collect();
    let programs: Vec<Value> = names.iter().map(|name| program(name)).collect();
    site.create_all(Kind::Program, &programs).await?;
    let mut bystander = Bystander::new(&site).await?;
    let before = site.quiet().await?.0.len();

    let stack = |name: &String| site.stack(name, &json!({"programRef": {"name": name}}));
    let objects: Vec<Value> = names.iter().map(stack).collect();
    let begun = site.create_all(Kind::Stack, &objects).await?;
    let ready = when_all(&site, 0, &names, is_ready).await?;
    let created = ready.iter().map(|at| seconds(*at - begun)).collect();
    let requests = site.quiet().await?.0.split_off(before);
    tokio::time::sleep(Duration::from_secs(setup.count(45, 1) as u64)).await;
    let memory = site.memory()?;

    // All of them again, while somebody else changes another Stack.
    let mark = site.seen.mark();
    let patch = json!({"spec": {"config": {"greeting": "salut"}}});
    let begun = Instant::now();
    try_join_all(names.iter().map(|name| site.patch(name, &patch))).await?;
    let over = AtomicBool::new(false);
    let changed = async {
        let changed =
            |stack: &Value| is_ready(stack) && stack["status"]["outputs"]["greeting"] == "salut";
        let all = when_all(&site, mark, &names, changed).await;
        over.store(true, Ordering::Relaxed);
        all
    };
    let noticed = bystander.keep_changing(&site, || over.load(Ordering::Relaxed));
    let (changed, noticed) = futures::future::try_join(changed, noticed).await?;
    let changed = changed.iter().map(|at| seconds(*at - begun)).collect();

    let each = requests.len() as f64 / stacks as f64;
    let figure = |text: &str| format!("{stacks} Stacks at once: {text}");
    Ok(vec![
        Row::new(
            figure("Ready"),
            Samples::spread(Unit::Seconds, created),
            "first / median / last, from the first POST; a pod each, 25 runs at a time",
        )
        .against("137 / 198 / 208 s", "last: 70 s"),
        Row::new(
            figure("requests, each"),
            Samples::one(Unit::Count, each),
            told(&requests),
        )
        .against("40-42", ""),
        Row::new(
            format!("{stacks} Stacks Ready: memory"),
            Samples::one(Unit::Bytes, memory),
            "VmRSS of the operator after 45 s of quiet",
        )
        .against("87.3 MB", ""),
        Row::new(
            figure("config value -> Ready"),
            Samples::spread(Unit::Seconds, changed),
            "first / median / last, all pods warm",
        ),
        Row::new(
            "a new generation is noticed",
            Samples::tail(Unit::Seconds, noticed),
            format!("patch to observedGeneration of one more Stack, while {stacks} run"),
        )
        .against("", "0.5 s"),
    ])
}

/// The moments at which each was as it should be.
async fn when_all(
    site: &Site,
    mark: usize,
    names: &[String],
    is: impl Fn(&Value) -> bool + Copy,
) -> Result<Vec<Instant>, Trouble> {
    let each = names.iter().map(async |name| {
        let found = site
            .seen
            .when(mark, name, "as it should be", LIMIT, is)
            .await?;
        Ok::<_, Trouble>(found.at)
    });
    try_join_all(each).await
}
