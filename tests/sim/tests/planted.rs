//! Faults that are planted must be found: a simulator that finds nothing proves nothing.
#![allow(clippy::unwrap_used)]

use windlass_sim::{Plan, Planted, simulate};

/// Seeds within which every planted fault has to be found.
const WITHIN: u64 = 200;

fn find(planted: Planted) -> Option<(u64, windlass_sim::Broken, String)> {
    (1..=WITHIN).find_map(|seed| {
        let (rule, text) = simulate(&Plan::rough(seed).with(planted)).violation?;
        planted
            .breaks()
            .contains(&rule)
            .then_some((seed, rule, text))
    })
}

#[test]
fn every_planted_fault_is_found() {
    let threads: Vec<_> = (0..2)
        .map(|half| {
            std::thread::spawn(move || {
                let mine = Planted::ALL.into_iter().skip(half).step_by(2);
                mine.map(|planted| (planted, find(planted)))
                    .collect::<Vec<_>>()
            })
        })
        .collect();
    let mut missed = Vec::new();
    for (planted, found) in threads.into_iter().flat_map(|it| it.join().unwrap()) {
        match found {
            Some((seed, rule, text)) => {
                let text: String = text.chars().take(90).collect();
                println!("{planted:?}: seed {seed}, {rule:?}: {text}");
            }
            None => missed.push(planted),
        }
    }
    assert!(
        missed.is_empty(),
        "not found within {WITHIN} seeds: {missed:?}"
    );
}
