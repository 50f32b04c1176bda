//! One Stack at a time: created, run again, changed, resynced.

use std::time::Duration;

use serde_json::{Value, json};
use windlass_operator::condition;

use super::floor::{self, Floor};
use super::site::{Kind, PATIENCE, Site, is_ready, pod_uid, program, told};
use crate::memory;
use crate::samples::{Samples, Unit, seconds};
use crate::setup::{Setup, Trouble, failed};
use crate::table::Row;

/// A Stack that resyncs every minute beside all others.
const RESYNC: &str = "resync";
/// Resyncs happen no more often.
const MINUTE: Duration = Duration::from_secs(60);

/// Measures.
///
/// # Errors
/// `Skipped` where something it needs is missing; a Stack that does not get where it should.
pub async fn measure(setup: &Setup) -> Result<Vec<Row>, Trouble> {
    let pairs = setup.count(6, 2);
    let mut site = Site::prepare(setup).await?;
    site.operator.launch();
    let mut rows = vec![idle(&site, setup).await?];
    site.create(Kind::Program, &program(RESYNC)).await?;
    let spec = json!({
        "programRef": {"name": RESYNC}, "continueResyncOnCommitMatch": true,
        "resyncFrequencySeconds": 60,
    });
    site.create(Kind::Stack, &site.stack(RESYNC, &spec)).await?;
    ready(&site, 0, RESYNC).await?;

    let mut all = Vec::new();
    for pair in 0..pairs {
        let floor = floor::measure(&site, &format!("floor{pair}")).await?;
        all.push((floor, one(&site, &format!("life{pair}")).await?));
    }
    rows.extend(latencies(&all));
    rows.extend(resync(&site, setup.count(3, 1)).await?);
    rows.extend(agents(&site, pairs)?);
    Ok(rows)
}

async fn idle(site: &Site, setup: &Setup) -> Result<Row, Trouble> {
    site.quiet().await?;
    let wait = setup.count(15, 1);
    tokio::time::sleep(Duration::from_secs(wait as u64)).await;
    let how = format!("VmRSS, no Stack, after {wait} s of quiet");
    let memory = Samples::one(Unit::Bytes, site.memory()?);
    Ok(Row::new("operator: idle", memory, how).against("58.8 MB", "25 MB"))
}

/// What one Stack took, in seconds, and the requests until it was settled.
struct Life {
    cold: f64,
    warm: f64,
    config: f64,
    requests: usize,
    told: String,
    /// What the Stack said of itself in each version until it was settled.
    said: Vec<String>,
}

async fn ready(site: &Site, mark: usize, name: &str) -> Result<std::time::Instant, Trouble> {
    let found = site.seen.when(mark, name, "Ready", PATIENCE, is_ready);
    Ok(found.await?.at)
}

async fn one(site: &Site, name: &str) -> Result<Life, Trouble> {
    site.create(Kind::Program, &program(name)).await?;
    let before = site.quiet().await?.0.len();
    let mark = site.seen.mark();
    let stack = site.stack(name, &json!({"programRef": {"name": name}}));
    let begun = site.create(Kind::Stack, &stack).await?;
    let cold = seconds(ready(site, mark, name).await? - begun);
    let mut requests = site.quiet().await?.0.split_off(before);
    // The resync of another Stack may have come between.
    requests.retain(|event| !event.name.starts_with(RESYNC));
    let said = site.seen.after(mark, name);
    let said = said.iter().map(|version| saying(&version.object)).collect();
    let uid = pod_uid(site, name).await?;

    let mark = site.seen.mark();
    let patch =
        json!({"metadata": {"annotations": {"pulumi.com/reconciliation-request": "again"}}});
    let begun = site.patch(name, &patch).await?;
    let again = |stack: &Value| {
        is_ready(stack) && stack["status"]["lastUpdate"]["reconcileRequest"] == "again"
    };
    let warm = site.seen.when(mark, name, "run again", PATIENCE, again);
    let warm = seconds(warm.await?.at - begun);
    site.quiet().await?;

    let mark = site.seen.mark();
    let patch = json!({"spec": {"config": {"greeting": "salut"}}});
    let begun = site.patch(name, &patch).await?;
    let changed =
        |stack: &Value| is_ready(stack) && stack["status"]["outputs"]["greeting"] == "salut";
    let config = site.seen.when(mark, name, "changed", PATIENCE, changed);
    let config = seconds(config.await?.at - begun);
    if pod_uid(site, name).await? != uid {
        return failed("the pod was replaced for a value of configuration");
    }
    Ok(Life {
        cold,
        warm,
        config,
        requests: requests.len(),
        told: told(&requests),
        said,
    })
}

/// In a few words, what a version of a Stack says.
fn saying(stack: &Value) -> String {
    let said = condition(stack, "Reconciling").or_else(|| condition(stack, "Ready"));
    let message = said.unwrap_or_default()["message"].clone();
    message.as_str().unwrap_or("nothing yet").to_owned()
}

fn latencies(all: &[(Floor, Life)]) -> Vec<Row> {
    type Figure = (
        &'static str,
        fn(&(Floor, Life)) -> (f64, f64),
        &'static str,
        [&'static str; 3],
    );
    let figures: [Figure; 3] = [
        (
            "Stack -> Ready, cold",
            |(floor, life)| (life.cold, floor.cold),
            "two pulumi:Stash; POST to Ready; peer: POST of a bare pod to the end of stack init, config set, up in it",
            ["9.95 s beside 1.31 s", "8.6 s", "0.5 s"],
        ),
        (
            "run again by annotation",
            |(floor, life)| (life.warm, floor.warm),
            "the pod is warm, nothing changes; peer: up in the bare pod",
            ["1.73 s beside 0.36 s", "1.37 s", "0.15 s"],
        ),
        (
            "config value -> Ready",
            |(floor, life)| (life.config, floor.config),
            "same pod; peer: config set and up in the bare pod",
            ["10.9 s, new pod", "10.4 s", "0.3 s (0.8 s in all)"],
        ),
    ];
    let mut rows = Vec::new();
    for (name, pick, how, [recorded, beyond, goal]) in figures {
        let (ours, floors): (Vec<f64>, Vec<f64>) = all.iter().map(pick).unzip();
        let more = all.iter().map(pick).map(|(ours, floor)| ours - floor);
        let more = Samples::spread(Unit::Seconds, more.collect());
        let row = Row::new(name, Samples::spread(Unit::Seconds, ours), how);
        let row = row.beside(Samples::spread(Unit::Seconds, floors));
        rows.push(row.against(recorded, ""));
        let row = Row::new(format!("{name}: beyond the floor"), more, "of each pair");
        rows.push(row.against(beyond, goal));
    }
    let requests = all.iter().map(|(_, life)| life.requests as f64).collect();
    let how = format!(
        "until two quiet seconds after Ready; the last: {}",
        all.last()
            .map(|(_, life)| life.told.as_str())
            .unwrap_or_default()
    );
    let requests = Samples::spread(Unit::Count, requests);
    rows.push(Row::new("requests, create -> Ready", requests, how).against("35", "14"));
    let versions = all.iter().map(|(_, life)| life.said.len() as f64).collect();
    let how = all.last().map(|(_, life)| life.said.join("; "));
    let how = format!("with its creation; the last: {}", how.unwrap_or_default());
    let versions = Samples::spread(Unit::Count, versions);
    rows.push(Row::new("versions of the Stack, create -> Ready", versions, how).against("6", "6"));
    rows
}

fn sequence(stack: &Value) -> u64 {
    stack["status"]["lastUpdate"]["sequence"]
        .as_u64()
        .unwrap_or(0)
}

/// Versions of the Stack, and requests, from one resync to the next.
async fn resync(site: &Site, cycles: usize) -> Result<Vec<Row>, Trouble> {
    let (mut writes, mut requests, mut said) = (Vec::new(), Vec::new(), String::new());
    for _ in 0..cycles {
        let versions = site.seen.after(0, RESYNC);
        let Some(last) = versions.last() else {
            return failed("the Stack that resyncs is gone");
        };
        let (mark, run) = (site.seen.mark(), sequence(&last.object));
        let before = site.quiet().await?.0.len();
        let next = |stack: &Value| sequence(stack) > run;
        site.seen
            .when(mark, RESYNC, "resynced", MINUTE * 3, next)
            .await?;
        let asked = site.quiet().await?.0.split_off(before);
        let versions = site.seen.after(mark, RESYNC);
        let flaps =
            |stack: &Value| condition(stack, "Ready").is_none_or(|ready| ready["status"] != "True");
        if versions.iter().any(|version| flaps(&version.object)) {
            return failed("Ready was not True all the time during a resync");
        }
        writes.push(versions.len() as f64);
        requests.push(asked.len() as f64);
        said = told(&asked);
    }
    let row = |name: &str, samples, how: String| {
        Row::new(name, Samples::spread(Unit::Count, samples), how)
    };
    Ok(vec![
        row(
            "resync: writes to the Stack",
            writes,
            "versions that a watch saw; Ready was True in all of them".to_owned(),
        )
        .against("3, Ready flaps", "1, Ready stays True"),
        row("resync: requests", requests, format!("the last: {said}")).against("15", ""),
    ])
}

fn agents(site: &Site, count: usize) -> Result<Vec<Row>, Trouble> {
    let (mut own, mut all) = (Vec::new(), Vec::new());
    for number in 0..count {
        let pod = format!("life{number}-workspace-0");
        let processes = site
            .operator
            .kubelet
            .processes(&site.operator.namespace, &pod)?;
        let agent = processes
            .into_iter()
            .filter_map(|pid| u32::try_from(pid).ok())
            .find(|pid| {
                let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
                let program = line.split(|byte| *byte == 0).next().unwrap_or_default();
                program.ends_with(b"agent")
            });
        let of = |field: &str| agent.and_then(|pid| memory::of(pid, field));
        let (Some(anonymous), Some(resident)) = (of("RssAnon"), of("VmRSS")) else {
            return failed(format!("no agent runs in {pod}"));
        };
        own.push(anonymous as f64);
        all.push(resident as f64);
    }
    let row =
        |name: &str, samples, how: &str| Row::new(name, Samples::spread(Unit::Bytes, samples), how);
    Ok(vec![
        row(
            "agent in its pod: memory in all",
            all,
            "VmRSS, idle after three runs; the pages of its file are shared by agents of one node",
        )
        .against("55.3 MB", "8 MB"),
        row("agent in its pod: memory of its own", own, "RssAnon"),
    ])
}
