//! How fast the simulator lives: the real decisions, steps and memory of the engine on simulated ports.

use windlass_sim::plan::DAY;
use windlass_sim::{Plan, simulate};

use crate::samples::{Samples, Unit, timed};
use crate::setup::{Setup, Trouble, failed};
use crate::table::Row;

/// Measures.
///
/// # Errors
/// An invariant is broken: then the figure would mean nothing.
pub fn measure(setup: &Setup) -> Result<Vec<Row>, Trouble> {
    let days = if setup.quick { 1 } else { 5 };
    let (mut rates, mut steps) = (Vec::new(), 0);
    for seed in 1..=setup.count(5, 2) as u64 {
        let plan = Plan {
            live: days * DAY,
            heal: 0,
            ..Plan::month(seed)
        };
        let (took, report) = timed(|| simulate(&plan));
        if let Some((rule, text)) = report.violation {
            return failed(format!("seed {seed}: {rule:?}: {text}"));
        }
        steps += report.steps;
        rates.push(report.steps as f64 / took);
    }
    let how = format!(
        "200 Stacks, {days} days, ordinary weather; {steps} steps in all, one thread, checked after each"
    );
    Ok(vec![Row::new(
        "simulator: steps",
        Samples::spread(Unit::PerSecond, rates),
        how,
    )])
}
