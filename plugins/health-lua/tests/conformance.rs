//! The table of cases, natively. The same cases run as a component in `windlass-wasm`'s tests, and the real
//! interpreter of Argo CD judges them in `oracle.rs`.
#![allow(clippy::unwrap_used)]

mod common;

use common::{CASES, Expected, NOW, cases, judge};

#[test]
fn every_case_has_its_verdict() {
    let cases = cases(CASES);
    let wrong: Vec<String> = cases
        .iter()
        .filter_map(|case| {
            let found = judge(case, NOW);
            (!case.expected.is_met_by(&found))
                .then(|| format!("{}: {found:?}, not {:?}", case.name, case.expected))
        })
        .collect();
    assert!(cases.len() > 60, "only {} cases were read", cases.len());
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(
        cases
            .iter()
            .any(|case| matches!(case.expected, Expected::Empty))
    );
}

#[test]
fn the_same_input_gives_the_same_verdict() {
    for case in cases(CASES) {
        assert_eq!(judge(&case, NOW), judge(&case, NOW), "{}", case.name);
    }
}
