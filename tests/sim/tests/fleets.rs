//! Fleets that live with faults, and must hold every invariant. A failing seed is printed; `SIM_SEED=n` runs it alone.
#![allow(clippy::unwrap_used)]

use windlass_sim::{Plan, simulate, trace};

fn seeds(all: u64) -> Vec<u64> {
    match std::env::var("SIM_SEED") {
        Ok(seed) => vec![seed.parse().unwrap()],
        Err(_) => (1..=all).collect(),
    }
}

fn hold(plan: &Plan) {
    let report = simulate(plan);
    if let Some((rule, text)) = report.violation {
        let story = trace(plan).story.join("\n");
        panic!("SIM_SEED={}: {rule:?}: {text}\n{story}", plan.seed);
    }
}

#[test]
fn small_fleets_hold_in_heavy_weather() {
    for seed in seeds(300) {
        hold(&Plan::rough(seed));
    }
}

/// For the one who mends: which rules fail how often.
#[test]
fn tally() {
    let mut all = std::collections::BTreeMap::<_, Vec<_>>::new();
    let from = std::time::Instant::now();
    let mut steps = 0;
    for seed in 1..=100 {
        let report = simulate(&Plan::rough(seed));
        steps += report.steps;
        if let Some((rule, _)) = report.violation {
            all.entry(rule).or_default().push(seed);
        }
    }
    println!("{all:?} {steps} steps {:?}", from.elapsed());
}
