//! `wit/` can be given to plugins that were built for the last released contract: what the build script found.
#![allow(clippy::unwrap_used)]

include!("cases.rs");

const REPORT: &str = include_str!(concat!(env!("OUT_DIR"), "/contract.txt"));

fn broken(case: &str) -> Vec<&'static str> {
    REPORT
        .lines()
        .filter_map(|line| line.split_once('\t'))
        .filter(|(of, _)| *of == case)
        .map(|(_, what)| what)
        .collect()
}

#[test]
fn components_of_the_last_release_still_fit() {
    let broken = broken("now");
    assert!(
        broken.is_empty(),
        "wit/ breaks plugins that were built for the last contract in wit/released:\n{}\nGive the package a new version \
         (wit/README.md)",
        broken.join("\n")
    );
}

#[test]
fn what_breaks_is_named_and_what_does_not_is_allowed() {
    for (name, file, old, _) in CASES {
        let path = format!("{}/../../wit/{file}", env!("CARGO_MANIFEST_DIR"));
        assert!(
            std::fs::read_to_string(path).unwrap().contains(old),
            "{name}"
        );
        let world = match name {
            "a record gains a field" | "a variant gains a case" => "world source-plugin",
            "an import loses a function" => "world imports",
            "an export gains a function" => "world health-plugin",
            _ => {
                assert_eq!(broken(name), Vec::<&str>::new(), "{name}");
                continue;
            }
        };
        let broken = broken(name);
        assert!(
            broken.iter().any(|line| line.starts_with(world)),
            "{name}: {broken:?}"
        );
    }
}
