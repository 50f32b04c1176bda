//! How long it takes until all is well after a start, after `kill -9` of the operator, of its leader, of the CLI.

use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};
use windlass_operator::replica::Replica;

use super::bystander::Bystander;
use super::site::{Kind, PATIENCE, Site, is_ready};
use crate::samples::{Samples, Unit, seconds};
use crate::setup::{Setup, Trouble, failed};
use crate::table::Row;

/// A Stack with a resource that takes its time.
const SLOW: &str = "slow";

/// Measures.
///
/// # Errors
/// As the others.
pub async fn measure(setup: &Setup) -> Result<Vec<Row>, Trouble> {
    let rounds = setup.count(5, 2);
    let mut site = Site::prepare(setup).await?;
    let mut bystander = Bystander::new(&site).await?;
    // The first start compiles plugins.
    let (_, mark) = bystander.change(&site).await?;
    site.operator.launch();
    bystander.noticed(&site, mark).await?;

    let (mut started, mut returned) = (Vec::new(), Vec::new());
    for _ in 0..rounds {
        site.operator.terminate();
        started.push(start(&mut site, &mut bystander).await?);
        site.operator.kill();
        returned.push(start(&mut site, &mut bystander).await?);
    }
    let mut rows = vec![
        Row::new(
            "start -> working",
            Samples::spread(Unit::Seconds, started),
            "from exec to the first status written, after an orderly end; plugins from the code cache",
        )
        .against("0.261 s", ""),
        Row::new(
            "back at work after kill -9",
            Samples::spread(Unit::Seconds, returned),
            "the same, under the same identity",
        )
        .against("67 s", "2 s"),
    ];
    rows.push(replica(&mut site, &mut bystander, setup.count(3, 1)).await?);
    rows.extend(in_a_run(&mut site, setup.count(5, 2)).await?);
    Ok(rows)
}

/// Starts the operator; seconds until it has noticed what changed meanwhile.
async fn start(site: &mut Site, bystander: &mut Bystander) -> Result<f64, Trouble> {
    let (_, mark) = bystander.change(site).await?;
    let begun = Instant::now();
    site.operator.launch();
    let noticed = bystander.noticed(site, mark).await?;
    Ok(seconds(noticed.at - begun))
}

async fn says(replica: &Replica, text: &str) -> Result<(), Trouble> {
    let begun = Instant::now();
    while !replica.log().contains(text) {
        if begun.elapsed() > PATIENCE {
            return failed(format!(
                "a replica does not say {text:?}: {}",
                replica.log()
            ));
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    Ok(())
}

/// The leader is killed for good while another replica waits.
async fn replica(
    site: &mut Site,
    bystander: &mut Bystander,
    rounds: usize,
) -> Result<Row, Trouble> {
    let mut took = Vec::new();
    for round in 0..rounds {
        let name = format!("operator-{}", round + 1);
        let (_, kubeconfig) = site.operator.somebody(&name).await;
        let other = site.operator.replica(&name, &kubeconfig);
        says(&other, "another process leads").await?;
        let begun = Instant::now();
        site.operator.kill();
        let (_, mark) = bystander.change(site).await?;
        let noticed = bystander.noticed(site, mark).await?;
        took.push(seconds(noticed.at - begun));
        if other.terminate().0 != Some(0) {
            return failed("a replica did not end when asked to");
        }
        start(site, bystander).await?;
    }
    let how = "from kill -9 of the leader to a status written by the other; lease of 15 s, renewed every 2 s";
    let took = Samples::spread(Unit::Seconds, took);
    Ok(Row::new("another replica at work", took, how).against("", "15 s"))
}

fn done(site: &Site, operation: &str) -> usize {
    let line = format!("{operation} thing");
    let all = site.operator.operations(SLOW);
    all.iter().filter(|one| **one == line).count()
}

/// Asks for a run that takes two seconds, and waits until its resource is at it.
async fn begin(site: &Site, round: usize) -> Result<usize, Trouble> {
    let begun = done(site, "update-begun");
    let mark = site.seen.mark();
    let patch = json!({"spec": {"config": {"round": text(round), "pause": "2000"}}});
    site.patch(SLOW, &patch).await?;
    until("a run begins", || done(site, "update-begun") > begun).await?;
    Ok(mark)
}

/// What looks like a number would be taken for one.
fn text(round: usize) -> String {
    format!("r{round}")
}

async fn until(what: &str, is: impl Fn() -> bool) -> Result<(), Trouble> {
    let begun = Instant::now();
    while !is() {
        if begun.elapsed() > PATIENCE {
            return failed(format!("not within {PATIENCE:?}: {what}"));
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    Ok(())
}

async fn ended(site: &Site, mark: usize, round: usize) -> Result<Instant, Trouble> {
    let is = |stack: &Value| {
        is_ready(stack) && stack["status"]["outputs"]["round"] == text(round).as_str()
    };
    let found = site.seen.when(mark, SLOW, "Ready again", PATIENCE, is);
    Ok(found.await?.at)
}

async fn in_a_run(site: &mut Site, rounds: usize) -> Result<Vec<Row>, Trouble> {
    site.operator.slow(SLOW).await;
    let spec = json!({"programRef": {"name": SLOW}, "config": {"round": text(0)}});
    let mark = site.seen.mark();
    site.create(Kind::Stack, &site.stack(SLOW, &spec)).await?;
    ended(site, mark, 0).await?;
    let mut round = 0;

    let mut recorded = Vec::new();
    for _ in 0..rounds {
        round += 1;
        let (begun, over) = (done(site, "update-begun"), done(site, "update"));
        let mark = begin(site, round).await?;
        site.operator.kill();
        until("the run ends", || done(site, "update") > over).await?;
        until("its lock is gone", || site.operator.locks().is_empty()).await?;
        let returns = Instant::now();
        site.operator.launch();
        recorded.push(seconds(ended(site, mark, round).await? - returns));
        if done(site, "update-begun") != begun + 1 {
            return failed("a run was repeated because the operator was killed");
        }
    }

    let (mut released, mut runs) = (Vec::new(), Vec::new());
    for _ in 0..rounds {
        round += 1;
        let before = sequence(site);
        let mark = begin(site, round).await?;
        let cli = cli(site)?;
        let begun = Instant::now();
        kill(cli, Signal::SIGKILL)?;
        released.push(seconds(ended(site, mark, round).await? - begun));
        let locks = site.operator.locks();
        if !locks.is_empty() {
            return failed(format!("locks are left: {locks:?}"));
        }
        runs.push((sequence(site) - before) as f64);
    }
    let updates = site.api(Kind::Update).list(&Default::default()).await?;
    Ok(vec![
        Row::new(
            "run after kill -9 of the operator: recorded",
            Samples::spread(Unit::Seconds, recorded),
            "from the start of the operator to the outcome in the Stack; the run had ended meanwhile, none was repeated",
        )
        .against("aborted, repeated after 90 s", "1 s"),
        Row::new(
            "run after kill -9 of the CLI: Ready",
            Samples::spread(Unit::Seconds, released),
            "no lock is left; the resource takes 2 s",
        )
        .against("never", ""),
        Row::new(
            "run after kill -9 of the CLI: runs",
            Samples::spread(Unit::Count, runs),
            format!("with the killed one; {} Updates are kept of all", updates.items.len()),
        )
        .against("never", "2"),
    ])
}

/// The number of the last run that is recorded in the Stack.
fn sequence(site: &Site) -> u64 {
    let last = site.seen.after(0, SLOW).pop();
    let status = last.map(|version| version.object["status"].clone());
    status.unwrap_or_default()["lastUpdate"]["sequence"]
        .as_u64()
        .unwrap_or(0)
}

/// The `pulumi up` in the pod.
fn cli(site: &Site) -> Result<Pid, Trouble> {
    let pod = format!("{SLOW}-workspace-0");
    let processes = site
        .operator
        .kubelet
        .processes(&site.operator.namespace, &pod)?;
    let found = processes.into_iter().find(|pid| {
        let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let mut words = line.split(|byte| *byte == 0);
        words
            .next()
            .is_some_and(|program| program.ends_with(b"pulumi"))
            && words.any(|word| word == b"up")
    });
    match found {
        Some(pid) => Ok(Pid::from_raw(pid)),
        None => failed("no CLI runs in the pod"),
    }
}
