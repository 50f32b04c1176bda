//! Fleets that live with faults, and must hold every invariant. A failing seed is printed; `SIM_SEED=n` runs it alone.
#![allow(clippy::unwrap_used)]

use windlass_sim::{Plan, Report, simulate, trace};

fn seeds(all: u64) -> Vec<u64> {
    match std::env::var("SIM_SEED") {
        Ok(seed) => vec![seed.parse().unwrap()],
        Err(_) => (1..=all).collect(),
    }
}

fn hold(plan: &Plan) -> Report {
    let report = simulate(plan);
    if let Some((rule, text)) = &report.violation {
        let story = trace(plan).story.join("\n");
        panic!("SIM_SEED={}: {rule:?}: {text}\n{story}", plan.seed);
    }
    report
}

/// Two halves, for two cores.
#[test]
fn small_fleets_hold_in_heavy_weather_1() {
    seeds(300)
        .into_iter()
        .filter(|seed| seed % 2 == 1)
        .for_each(|seed| {
            hold(&Plan::rough(seed));
        });
}

#[test]
fn small_fleets_hold_in_heavy_weather_2() {
    seeds(300)
        .into_iter()
        .filter(|seed| seed % 2 == 0)
        .for_each(|seed| {
            hold(&Plan::rough(seed));
        });
}

#[test]
fn two_hundred_stacks_live_through_a_month() {
    let plan = Plan::month(1);
    let report = hold(&plan);
    let table = format!("{report:#?}");
    println!("{table}");
    // It was a month with something in it.
    assert!(
        report.runs > 1000 && report.crashes > 5 && report.resyncs > 100,
        "{table}"
    );
    assert!(report.healed_after.is_some());
}

#[test]
fn taking_over_idle_stacks_does_nothing() {
    let report = hold(&Plan::takeover(1, 50));
    assert_eq!((report.runs, report.pods), (0, 0));
    assert!(report.status_writes.0 <= 1, "{report:?}");
}

/// Four status writes for a run that somebody asked for, one for a resync, and what an action of a user may add by
/// itself (suspended, waiting for a Secret, waiting for another Stack).
#[test]
fn status_is_written_only_as_often_as_a_run_needs() {
    for seed in 1..=2 {
        let report = hold(&Plan::calm(seed));
        let asked = report.runs as u64 - report.resyncs;
        let most = 4 * asked + report.resyncs + report.actions;
        println!(
            "{} status writes, at most {most}: {report:?}",
            report.status_writes.1
        );
        assert!(report.status_writes.1 <= most, "{report:?}");
        assert!(report.resyncs > 50, "{report:?}");
    }
}

/// The same plan is the same life, to the last event.
#[test]
fn a_seed_can_be_played_again() {
    let plan = Plan::rough(7);
    assert_eq!(format!("{:?}", trace(&plan)), format!("{:?}", trace(&plan)));
}
