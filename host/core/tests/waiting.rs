//! What a run that is due waits for: other Stacks, their outputs, Secrets and ConfigMaps. And what is no Stack at all.

use pretty_assertions::assert_eq;
use serde_json::{Value, json};
use windlass_core::decision::{Activity, Slot, Write};
use windlass_core::failure::{Failure, FailureClass};
use windlass_core::snapshot::{Reference, StackView};

use crate::support::{World, fresh, ready};

fn on(name: &str) -> Value {
    json!({"prerequisites": [{"name": name}]})
}

/// The message of a Stack that waits for others, and the requests that it has made of them.
fn waits(world: &mut World) -> (String, Vec<(String, String)>) {
    let decision = world.settle();
    assert_eq!(world.reason(), "PrerequisiteNotSatisfied");
    assert!(matches!(decision.activity, Activity::Blocked { .. }));
    assert!(world.runs.is_empty());
    let requests = world.log.iter().filter_map(|write| match write {
        Write::RequestReconcile { stack, value } => Some((stack.clone(), value.clone())),
        _ => None,
    });
    (world.message(), requests.collect())
}

#[test]
fn each_state_of_a_prerequisite_has_its_row() {
    type Setup = fn(&mut World);
    let not = |cause: &str| format!("prerequisite not satisfied for \"db\": {cause}");
    let unfinished = not("prerequisite has not run to completion");
    let rows: [(&str, Setup, Option<String>); 9] = [
        (
            "absent",
            |_| {},
            Some("unable to fetch prerequisite \"db\": Stack \"db\" not found".into()),
        ),
        (
            "never ran",
            |w| {
                w.other("db", None);
            },
            Some(unfinished.clone()),
        ),
        (
            "ran",
            |w| {
                w.other("db", Some(5));
            },
            None,
        ),
        (
            "ran long ago",
            |w| {
                w.other("db", Some(5_000_000));
            },
            None,
        ),
        (
            "failed",
            |w| w.other("db", Some(5)).last.as_mut().unwrap().succeeded = false,
            Some(not("prerequisite failed")),
        ),
        (
            "edited since",
            |w| w.other("db", Some(5)).generation = 2,
            Some(unfinished.clone()),
        ),
        (
            "requested since",
            |w| w.other("db", Some(5)).reconcile_request = Some("x".into()),
            Some(unfinished.clone()),
        ),
        (
            "being deleted",
            |w| w.other("db", Some(5)).deleting = true,
            Some(unfinished.clone()),
        ),
        (
            "requested and served",
            |w| {
                let view = w.other("db", Some(5));
                view.reconcile_request = Some("x".into());
                view.last.as_mut().unwrap().reconcile_request = Some("x".into());
            },
            None,
        ),
    ];
    for (what, setup, message) in rows {
        let mut world = fresh(on("db"));
        setup(&mut world);
        match message {
            Some(message) => assert_eq!(waits(&mut world), (message, vec![]), "{what}"),
            None => {
                world.settle();
                assert_eq!(world.runs.len(), 1, "{what}");
            }
        }
    }
}

#[test]
fn both_spellings_ask_for_a_recent_success() {
    for prerequisite in [
        json!({"name": "db", "requirement": {"succeededWithinDuration": "1h"}}),
        json!({"type": "Stack", "requirement": "db", "succeededWithinDuration": "1h"}),
    ] {
        let mut world = fresh(json!({"prerequisites": [prerequisite]}));
        world.other("db", Some(3601));
        let message =
            "prerequisite not satisfied for \"db\": prerequisite is out of date".to_owned();
        let requests = vec![("db".to_owned(), "after-db-1".to_owned())];
        world.step();
        while world.reason() != "PrerequisiteNotSatisfied" {
            world.step();
        }
        assert_eq!(world.message(), message);
        let unfinished =
            "prerequisite not satisfied for \"db\": prerequisite has not run to completion";
        assert_eq!(
            waits(&mut world),
            (unfinished.into(), requests),
            "asked once, then waited for"
        );
        // The other one has run.
        let view = world.other("db", Some(1));
        view.reconcile_request = Some("after-db-1".into());
        view.last.as_mut().unwrap().reconcile_request = Some("after-db-1".into());
        world.settle();
        assert_eq!(world.runs.len(), 1);
        let mut world = fresh(json!({"prerequisites": [prerequisite]}));
        world.other("db", Some(3600));
        world.settle();
        assert_eq!(world.runs.len(), 1, "an hour is within an hour");
    }
}

#[test]
fn several_are_named_together() {
    let mut world = fresh(json!({"prerequisites": [{"name": "a"}, {"name": "b"}, {"name": "c"}]}));
    world.other("b", Some(1));
    world.other("c", None);
    let (message, _) = waits(&mut world);
    assert_eq!(
        message,
        "multiple prerequisites were not satisfied unable to fetch prerequisite \"a\": Stack \"a\" not found, \
         prerequisite not satisfied for \"c\": prerequisite has not run to completion"
    );
    assert_eq!(
        world.decide().activity,
        Activity::Blocked {
            on: vec!["Stack a".into(), "Stack c".into()]
        }
    );
}

#[test]
fn a_cycle_is_named_and_stalled() {
    let knows = |world: &mut World, name: &str, of: &[&str]| {
        world.other(name, None).prerequisites = of.iter().map(|s| (*s).to_owned()).collect();
    };
    let mut world = fresh(on("a"));
    knows(&mut world, "a", &["x", "b"]);
    knows(&mut world, "b", &["web"]);
    knows(&mut world, "x", &["x"]);
    world.settle();
    assert_eq!(
        (world.reason().as_str(), world.message().as_str()),
        (
            "SpecInvalid",
            "the prerequisites form a cycle: web -> a -> b -> web; remove one of them"
        )
    );
    let mut world = fresh(on("web"));
    world.settle();
    assert_eq!(
        world.message(),
        "the prerequisites form a cycle: web -> web; remove one of them"
    );
    // A cycle that this Stack is no part of is for its members to report.
    let mut world = fresh(on("a"));
    knows(&mut world, "a", &["b"]);
    knows(&mut world, "b", &["a"]);
    world.settle();
    assert_eq!(world.reason(), "PrerequisiteNotSatisfied");
    // It goes away by an edit of any member.
    knows(&mut world, "b", &[]);
    world.other("a", Some(1));
    world.settle();
    assert_eq!(world.runs.len(), 1);
}

#[test]
fn prerequisites_hold_back_runs_not_readiness() {
    let mut world = fresh(on("db"));
    world.other("db", Some(1));
    world.settle();
    world.s.objects.stacks.clear();
    world.settle();
    assert_eq!(world.reason(), "ProcessingCompleted", "nothing is due");
    world.push("r2", "t2").settle();
    assert_eq!(
        (world.reason().as_str(), world.runs.len()),
        ("PrerequisiteNotSatisfied", 1)
    );
}

#[test]
fn a_reference_that_is_missing_is_named_and_found_when_it_appears() {
    let rows = [
        (
            json!({"accessTokenSecret": "t"}),
            "Secret/t/accessToken",
            "Secret \"t\" with key \"accessToken\"",
        ),
        (json!({"envs": ["e"]}), "ConfigMap/e", "ConfigMap \"e\""),
        (json!({"envSecrets": ["e"]}), "Secret/e", "Secret \"e\""),
        (
            json!({"configRef": {"app:k": {"name": "c", "key": "k"}}}),
            "ConfigMap/c/k",
            "ConfigMap \"c\" with key \"k\"",
        ),
        (
            json!({"secretsRef": {"app:p": {"type": "Secret", "secret": {"name": "s", "key": "p"}}}}),
            "Secret/s/p",
            "Secret \"s\" with key \"p\"",
        ),
        (
            json!({"envRefs": {"P": {"type": "Secret", "secret": {"name": "s", "key": "p"}}}}),
            "Secret/s/p",
            "Secret \"s\" with key \"p\"",
        ),
        (
            json!({"envRefs": {"P": {"type": "ConfigMap", "configMap": {"name": "c", "key": "k"}}}}),
            "ConfigMap/c/k",
            "ConfigMap \"c\" with key \"k\"",
        ),
    ];
    for (fields, reference, named) in rows {
        let mut world = fresh(fields);
        let reference: Reference = reference.parse().unwrap();
        world.s.objects.references.insert(reference.clone(), None);
        let decision = world.settle();
        assert_eq!(
            world.message(),
            format!("waiting for {named}: not found in this namespace")
        );
        assert_eq!(
            decision.activity,
            Activity::Blocked {
                on: vec![named.to_owned()]
            }
        );
        world
            .s
            .objects
            .references
            .insert(reference, Some("1".into()));
        world.settle();
        assert_eq!(
            (world.reason().as_str(), world.runs.len()),
            ("ProcessingCompleted", 1),
            "{named}"
        );
    }
}

#[test]
fn a_rotated_secret_makes_no_run_and_no_new_workspace() {
    let mut world = fresh(json!({"accessTokenSecret": "t"}));
    let key: Reference = "Secret/t/accessToken".parse().unwrap();
    world
        .s
        .objects
        .references
        .insert(key.clone(), Some("1".into()));
    world.settle();
    let instance = world.s.objects.workspace.current.clone();
    world.s.objects.references.insert(key, Some("2".into()));
    world.settle();
    assert_eq!(world.runs.len(), 1);
    world.request("x").settle();
    let uid = |i: Option<windlass_core::snapshot::Instance>| i.unwrap().uid;
    assert_eq!(
        uid(world.s.objects.workspace.current.clone()),
        uid(instance)
    );
}

fn uses_vpc() -> Value {
    json!({"envRefs": {"VPC": {"type": "StackOutput", "stack": "network", "output": "vpc"}}})
}

fn outputs(world: &mut World, digest: Option<&str>) {
    let outputs = digest.map(|digest| ("vpc".to_owned(), digest.to_owned()));
    *world.other("network", Some(1)) = StackView {
        outputs: outputs.into_iter().collect(),
        ..world.other("network", Some(1)).clone()
    };
}

#[test]
fn an_output_of_another_stack_is_waited_for_and_followed() {
    let mut world = fresh(uses_vpc());
    let (message, _) = waits(&mut world);
    assert_eq!(message, "waiting for output \"vpc\" of Stack \"network\"");
    outputs(&mut world, None);
    waits(&mut world);
    outputs(&mut world, Some("d1"));
    world.settle();
    assert_eq!(world.runs.len(), 1);
    world.pass(3600).settle();
    assert_eq!(world.runs.len(), 1, "the same value");
    outputs(&mut world, Some("d2"));
    world.settle();
    assert_eq!(
        world.runs.last().unwrap().cause,
        windlass_api::intent::Cause::InputsChanged
    );
    assert_eq!(world.runs.len(), 2);
    outputs(&mut world, None);
    world.settle();
    assert_eq!(
        (world.reason().as_str(), world.runs.len()),
        ("PrerequisiteNotSatisfied", 2)
    );
}

#[test]
fn a_specification_that_means_nothing_says_what_to_do() {
    let several = "the Stack names several sources: spec.projectRepo (or another field of a Git source) and spec.programRef; keep one";
    let rows = [
        (
            json!({"stack": " "}),
            "spec.stack is empty; name the Pulumi stack, as in organization/project/stack",
        ),
        (json!({"programRef": {"name": "p"}}), several),
        (
            json!({"prerequisites": [{}]}),
            "spec.prerequisites[0]: it names no Stack; write \"name: STACK\"",
        ),
        (
            json!({"envRefs": {"A": {"type": "StackOutput", "stack": "web", "output": "o"}}}),
            "spec.envRefs.A: a Stack cannot use its own output",
        ),
        (
            json!({"envRefs": {"A": {"type": "Env", "env": {"name": "HOME"}}}}),
            "spec.envRefs.A: type Env is no longer supported; use Secret, ConfigMap, Literal or StackOutput",
        ),
        (
            json!({"secretsRef": {"a": {"type": "ConfigMap", "configMap": {"name": "c", "key": "k"}}}}),
            "spec.secretsRef.a: type must be Secret or Literal, found ConfigMap",
        ),
        (
            json!({"secretsRef": {"a": {"type": "Secret", "secret": {"namespace": "kube-system", "name": "c", "key": "k"}}}}),
            "spec.secretsRef.a: cross-namespace refs are not allowed: the Secret \"c\" is to be read from namespace \"kube-system\"",
        ),
        (
            json!({"gitAuth": {"basicAuth": {"userName": {"type": "Literal", "literal": {"value": "git"}},
                "password": {"type": "Secret", "secret": {"namespace": "kube-system", "name": "c", "key": "k"}}}}}),
            "spec.gitAuth.basicAuth.password: cross-namespace refs are not allowed: the Secret \"c\" is to be read from namespace \"kube-system\"",
        ),
    ];
    for (fields, message) in rows {
        let mut world = fresh(fields);
        let decision = world.settle();
        assert_eq!(
            (world.reason().as_str(), world.message().as_str()),
            ("SpecInvalid", message)
        );
        assert_eq!(world.conditions()[0].2, "NotReadyStalled");
        assert_eq!((decision.tasks, decision.wake_at), (vec![], None));
    }
    let mut world = ready(json!({}));
    world.edit(json!({"stack": ""})).settle();
    assert_eq!(
        (world.reason().as_str(), world.status().observed_generation),
        ("SpecInvalid", Some(2))
    );
    world.edit(json!({"stack": "org/app/dev"})).settle();
    assert_eq!(
        (world.reason().as_str(), world.runs.len()),
        ("ProcessingCompleted", 2)
    );
}

#[test]
fn a_request_or_an_edit_means_the_source_as_it_is_now() {
    let mut world = ready(json!({}));
    let revisions = |world: &World| -> Vec<String> {
        world.runs.iter().map(|run| run.revision.clone()).collect()
    };
    // Nobody has told of the push yet, and the next look at the branch is due in a while.
    world.revision = "r2".into();
    world.request("after-the-push").settle();
    assert_eq!(revisions(&world), ["r1", "r2"]);
    world.revision = "r3".into();
    world.edit(json!({"config": {"a": "b"}})).settle();
    assert_eq!(revisions(&world), ["r1", "r2", "r3"]);
    // A source that does not answer holds nobody up: what it said last is run.
    let down = Failure::new(FailureClass::Unavailable, "Down", "the host is down");
    world.trouble.insert(Slot::Source, down);
    world.request("again").settle();
    assert_eq!(revisions(&world), ["r1", "r2", "r3", "r3"]);
}
