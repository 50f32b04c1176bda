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

#[test]
fn small_fleets_hold_in_heavy_weather() {
    for seed in seeds(300) {
        hold(&Plan::rough(seed));
    }
}

#[test]
fn two_hundred_stacks_live_through_a_month() {
    let plan = Plan::month(1);
    let report = hold(&plan);
    let table = format!("{report:#?}");
    println!("{table}");
    // It was a month with something in it.
    assert!(
        report.runs > 2000 && report.crashes > 5 && report.resyncs > 100,
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

/// The same plan is the same life, to the last event.
#[test]
fn a_seed_can_be_played_again() {
    let plan = Plan::rough(7);
    assert_eq!(format!("{:?}", trace(&plan)), format!("{:?}", trace(&plan)));
}

/// For the one who mends: which rules fail how often.
#[test]
fn tally() {
    let count: u64 = std::env::var("SIM_COUNT").map_or(100, |n| n.parse().unwrap());
    let from = std::time::Instant::now();
    let threads: Vec<_> = (0..2)
        .map(|half| {
            std::thread::spawn(move || {
                let reports = (1..=count)
                    .filter(|seed| seed % 2 == half)
                    .map(|seed| simulate(&Plan::rough(seed)));
                reports.collect::<Vec<_>>()
            })
        })
        .collect();
    let mut all = std::collections::BTreeMap::<_, Vec<_>>::new();
    let (mut steps, mut runs) = (0, 0);
    for report in threads.into_iter().flat_map(|it| it.join().unwrap()) {
        steps += report.steps;
        runs += report.runs;
        if let Some((rule, text)) = report.violation {
            println!(
                "{} {rule:?} {}",
                report.seed,
                text.chars().take(150).collect::<String>()
            );
            all.entry(rule).or_default().push(report.seed);
        }
    }
    println!("{all:?} {steps} steps {runs} runs {:?}", from.elapsed());
}
