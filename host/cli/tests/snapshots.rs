//! `replay` of a saved snapshot gives what the core decides.

#![allow(clippy::unwrap_used)]

mod common;

use common::{run, windlass};
use serde_json::Value;
use windlass_api::manifest::{self, Manifest};
use windlass_core::obs::Obs;
use windlass_core::snapshot::{Config, Objects, Observations, StackView};
use windlass_core::time::Timestamp;
use windlass_core::{Snapshot, decide};

const STACK: &str = "
apiVersion: pulumi.com/v1
kind: Stack
metadata: {name: app, uid: u-1, generation: 1, finalizers: [finalizer.stack.pulumi.com]}
spec:
  stack: organization/app/dev
  backend: file:///tmp/state
  programRef: {name: app}
  prerequisites: [{name: network}]
";

fn snapshot() -> Snapshot {
    let mut found = manifest::parse("stack.yaml", STACK);
    assert!(found.errors.is_empty(), "{:?}", found.errors);
    let Manifest::Stack(stack) = found.objects.remove(0).manifest else {
        panic!("no Stack")
    };
    let network = StackView {
        generation: 1,
        ..StackView::default()
    };
    Snapshot {
        now: Timestamp(1_800_000_000_000),
        epoch: 1,
        config: Config::default(),
        capacity: true,
        objects: Objects {
            stack: Some(*stack),
            by_hand: None,
            stacks: [("network".to_owned(), network)].into(),
            ..Objects::default()
        },
        seen: Observations {
            source: Obs::Unknown,
            ..Observations::default()
        },
        source_signal: 0,
    }
}

#[test]
fn the_decision_is_the_cores() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("app.json");
    let snapshot = snapshot();
    std::fs::write(&file, serde_json::to_string(&snapshot).unwrap()).unwrap();
    let ran = run(windlass().args(["replay", "--output", "json"]).arg(&file));
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    let printed: Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!(printed, serde_json::to_value(decide(&snapshot)).unwrap());

    let ran = run(windlass().arg("replay").arg(&file));
    assert!(
        ran.stdout.starts_with("default/app is on its way"),
        "{}",
        ran.stdout
    );
    assert!(
        ran.stdout
            .contains("under way  asking the source for its revision"),
        "{}",
        ran.stdout
    );
    assert!(
        ran.stdout.contains("network: has not run yet"),
        "{}",
        ran.stdout
    );
}

#[test]
fn what_is_no_record_is_bad_input() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("x.json");
    for (text, wanted) in [
        ("{", "not JSON"),
        ("{}", "neither a snapshot"),
        (r#"{"now": 1, "objects": 3}"#, "of another version"),
    ] {
        std::fs::write(&file, text).unwrap();
        let ran = run(windlass().arg("replay").arg(&file));
        assert_eq!(ran.code, 2, "{text}: {}", ran.stderr);
        assert!(ran.stderr.contains(wanted), "{text}: {}", ran.stderr);
    }
}
