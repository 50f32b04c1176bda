//! Actions: where they are offered, and what they change.

use pretty_assertions::assert_eq;
use serde_json::{Value, json};
use windlass_core::phase::Phase;

use crate::Rules;
use crate::stacks::stack;

#[test]
fn actions_are_offered_where_they_help_and_do_what_they_say() {
    let Some(rules) = Rules::find() else { return };
    let mut ready = stack(&Phase::Ready);
    ready["status"]["lastUpdate"] = json!({"state": "succeeded"});
    let mut running = stack(&Phase::processing("at it"));
    running["status"]["currentUpdate"] = json!({"name": "web-1"});
    let suspended = stack(&Phase::Suspended);
    for (object, offered) in [
        (
            &ready,
            [
                "cancel no",
                "reconcile yes",
                "refresh yes",
                "resume no",
                "suspend yes",
            ],
        ),
        (
            &running,
            [
                "cancel yes",
                "reconcile yes",
                "refresh no",
                "resume no",
                "suspend yes",
            ],
        ),
        (
            &suspended,
            [
                "cancel no",
                "reconcile no",
                "refresh no",
                "resume yes",
                "suspend no",
            ],
        ),
    ] {
        let printed = rules.ask("list-actions", object, &[]).unwrap();
        let mut listed: Vec<String> = printed
            .lines()
            .skip(1)
            .filter_map(|line| {
                let mut words = line.split_whitespace();
                let (name, disabled) = (words.next()?, words.next()?);
                Some(format!(
                    "{name} {}",
                    if disabled == "true" { "no" } else { "yes" }
                ))
            })
            .collect();
        listed.sort();
        assert_eq!(listed, offered);
    }
    let done = |object: &Value, action: &str, more: &[&str]| {
        let arguments: Vec<&str> = [action].iter().chain(more).copied().collect();
        rules.ask("run-action", object, &arguments).unwrap()
    };
    let printed = done(
        &ready,
        "reconcile",
        &["--param", "request=after the outage"],
    );
    assert!(
        printed.contains("pulumi.com/reconciliation-request: after the outage"),
        "{printed}"
    );
    let printed = done(&ready, "reconcile", &[]);
    assert!(
        printed.contains("pulumi.com/reconciliation-request: \"20"),
        "{printed}"
    );
    let printed = done(&ready, "suspend", &[]);
    assert!(printed.contains("suspend: true"), "{printed}");
    let printed = done(&suspended, "resume", &[]);
    assert!(printed.contains("suspend: false"), "{printed}");
    let printed = done(&running, "cancel", &[]);
    for part in ["kind: Update", "name: web-1", "pulumi.com/cancel: \"true\""] {
        assert!(printed.contains(part), "{printed}");
    }
    let printed = done(&ready, "refresh", &[]);
    for part in [
        "kind: Update",
        "type: refresh",
        "workspaceName: web",
        "namespace: apps",
    ] {
        assert!(printed.contains(part), "{printed}");
    }
}
