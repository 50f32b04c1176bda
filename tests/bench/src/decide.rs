//! How many decisions one core takes in a second, on three snapshots that come up all the time.

use std::hint::black_box;
use std::time::{Duration, Instant};

use windlass_core::decision::{Activity, TaskKind, Write};
use windlass_core::{Decision, Snapshot, decide};

use crate::history::History;
use crate::samples::{Samples, Unit, seconds};
use crate::setup::{Setup, Trouble, failed};
use crate::table::Row;

/// Decisions between two looks at the clock.
const BATCH: u32 = 500;

/// Measures.
///
/// # Errors
/// A snapshot is not what its name says.
pub fn measure(setup: &Setup) -> Result<Vec<Row>, Trouble> {
    let time = Duration::from_millis(if setup.quick { 200 } else { 3000 });
    let idle = History::ready()?;
    let due = {
        let mut history = History::ready()?;
        history.push();
        history.until_due()?
    };
    let running = {
        let mut history = History::ready()?;
        history.hold_run();
        history.push();
        history.settle()?;
        history.snapshot().clone()
    };
    let idle = idle.snapshot().clone();
    check("idle", &idle, |it| {
        it.activity == Activity::Settled && it.writes.is_empty()
    })?;
    check("due", &due, |it| {
        it.writes
            .iter()
            .any(|write| matches!(write, Write::CreateUpdate { .. }))
    })?;
    check("in flight", &running, |it| {
        it.tasks
            .iter()
            .any(|task| matches!(task.kind, TaskKind::Run { .. }))
            && it.writes.is_empty()
    })?;
    let recorded = idle.objects.updates.len();
    if recorded != 3 {
        return failed(format!("the idle Stack has {recorded} recorded Updates"));
    }
    let rows = [
        (
            "decide: idle, Ready",
            idle,
            "nothing to do; 3 recorded Updates",
        ),
        (
            "decide: a run is due",
            due,
            "a new revision is known; creates the Update",
        ),
        (
            "decide: a run goes on",
            running,
            "the agent has the run; nothing to write",
        ),
    ];
    Ok(rows
        .into_iter()
        .map(|(figure, snapshot, what)| {
            let bytes = serde_json::to_vec(&snapshot).map_or(0, |text| text.len());
            Row::new(
                figure,
                rate(&snapshot, time),
                format!("{what}; one thread, snapshot of {bytes} bytes as JSON"),
            )
        })
        .collect())
}

fn check(
    name: &str,
    snapshot: &Snapshot,
    holds: impl Fn(&Decision) -> bool,
) -> Result<(), Trouble> {
    let decision = decide(snapshot);
    if holds(&decision) {
        return Ok(());
    }
    failed(format!(
        "the snapshot {name:?} is decided otherwise: {decision:?}"
    ))
}

fn rate(snapshot: &Snapshot, time: Duration) -> Samples {
    for _ in 0..BATCH {
        black_box(decide(black_box(snapshot)));
    }
    let (mut rates, begun) = (Vec::new(), Instant::now());
    while begun.elapsed() < time {
        let from = Instant::now();
        for _ in 0..BATCH {
            black_box(decide(black_box(snapshot)));
        }
        rates.push(f64::from(BATCH) / seconds(from.elapsed()));
    }
    Samples::spread(Unit::PerSecond, rates)
}
