//! The place where runs happen: lost, brought back, replaced, reclaimed. And the locks that a lost one leaves.

use pretty_assertions::{assert_eq, assert_ne};
use serde_json::{Value, json};
use windlass_api::intent::{Cause, RunSummary};
use windlass_api::run::{LoginExchange, RunState};
use windlass_core::decision::{Activity, Slot, Write};
use windlass_core::failure::FailureClass;
use windlass_core::request::{Mounts, run_request};
use windlass_core::run;
use windlass_core::snapshot::{Instance, InstancePhase};

use crate::support::{World, after, failed, fresh, ready, running};

fn instance(world: &World) -> &Instance {
    world
        .s
        .objects
        .workspace
        .current
        .as_ref()
        .expect("there is no workspace")
}

fn stops(world: &World) -> usize {
    let all = world.log.iter();
    all.filter(|w| matches!(w, Write::StopWorkspace { .. }))
        .count()
}

#[test]
fn a_run_whose_workspace_is_proven_dead_is_lost_and_run_again_elsewhere() {
    let mut world = running(json!({}));
    let first = instance(&world).uid.clone();
    world.kill_workspace(true);
    world.held.clear();
    let decision = world.settle();
    let last = world.last();
    assert_eq!(
        (
            last.failure_class.as_deref(),
            last.failure_reason.as_deref()
        ),
        (Some("lost"), Some("WorkspaceLost"))
    );
    assert_eq!((world.status().mutated, world.runs.len()), (Some(true), 1));
    assert_eq!(
        decision.activity,
        Activity::Retrying {
            attempts: 1,
            patient: true
        }
    );
    world.wake();
    assert_eq!(
        (world.runs.len(), world.reason().as_str()),
        (2, "ProcessingCompleted")
    );
    assert_ne!(instance(&world).uid, first);
    let summary = world.s.objects.updates[0]
        .status
        .as_ref()
        .unwrap()
        .summary
        .as_ref()
        .unwrap();
    assert_eq!(
        (summary.state, summary.reached_engine),
        (RunState::Lost, true)
    );
}

#[test]
fn absence_is_no_proof() {
    let mut world = running(json!({}));
    let uid = instance(&world).uid.clone();
    world.kill_workspace(false);
    world.held.clear();
    for _ in 0..3 {
        let decision = world.pass(100_000).settle();
        assert_eq!(world.runs.len(), 1);
        assert!(
            matches!(decision.activity, Activity::Blocked { .. }),
            "{:?}",
            decision.activity
        );
        assert_eq!((decision.writes, decision.tasks), (vec![], vec![]));
    }
    assert!(world.message().contains(&format!(
        "waiting for proof that workspace instance {uid} has ended"
    )));
    // Neither is another instance in its place.
    world.s.objects.workspace.current = Some(Instance {
        uid: "other".into(),
        hostname: "web".into(),
        node: None,
        spec_digest: String::new(),
        phase: InstancePhase::Ready {
            boot_id: "b".into(),
        },
        idle_since: world.s.now,
    });
    world.settle();
    assert_eq!(world.runs.len(), 1);
    assert_eq!(instance(&world).uid, "other", "left alone");
}

#[test]
fn a_person_can_say_what_a_cluster_cannot_prove() {
    let mut world = running(json!({}));
    world.kill_workspace(false);
    world.held.clear();
    world.settle();
    let update = world.runs[0].update.clone();
    let told = world.message();
    let command = format!("kubectl annotate update {update} windlass.pulumi.com/assume-lost=true");
    assert!(told.contains("node-1") && told.contains(&command), "{told}");
    let at = world.s.objects.updates.len() - 1;
    let annotations = &mut world.s.objects.updates[at].metadata.annotations;
    let said = ("windlass.pulumi.com/assume-lost", "true");
    *annotations = Some([(said.0.into(), said.1.into())].into());
    world.settle();
    let last = world.last();
    assert_eq!(last.failure_reason.as_deref(), Some("WorkspaceLost"));
    assert_eq!(last.name.as_deref(), Some(update.as_str()));
}

#[test]
fn a_login_by_exchange_is_pinned_and_its_token_mounted() {
    let exchange = |audience: &str| LoginExchange {
        audience: audience.into(),
        url: "https://api.example.com/token".into(),
        form: [("scope".to_owned(), "admin".to_owned())].into(),
    };
    let mut world = fresh(json!({}));
    world.login = Some(exchange("urn:one"));
    world.settle();
    let audiences = |world: &World| -> Vec<Option<String>> {
        let all = world.log.iter().filter_map(|write| match write {
            Write::EnsureWorkspace { audience, .. } => Some(audience.clone()),
            _ => None,
        });
        all.collect()
    };
    assert_eq!(audiences(&world), [Some("urn:one".to_owned())]);
    let objects = &world.s.objects;
    let ours = run::ours(world.stack(), &objects.updates).next().unwrap();
    let mounts = Mounts {
        config_maps: "/c",
        secrets: "/s",
    };
    let request = run_request(world.stack(), ours, 1, &mounts);
    assert_eq!(request.login, Some(exchange("urn:one")));

    // Another audience is another token: the pod is made anew. Another scope is not.
    world.login.as_mut().unwrap().form.clear();
    world.revision = "r2".into();
    world.s.source_signal += 1;
    world.settle();
    assert_eq!(audiences(&world).len(), 1);
    world.login = Some(exchange("urn:two"));
    world.revision = "r3".into();
    world.s.source_signal += 1;
    world.settle();
    assert_eq!(audiences(&world)[1..], [Some("urn:two".to_owned())]);
    assert_eq!(world.runs.len(), 3);
}

#[test]
fn an_agent_that_went_down_comes_back_as_the_same_and_goes_on() {
    let mut world = running(json!({}));
    let uid = instance(&world).uid.clone();
    world.workspace_phase(InstancePhase::Down);
    let decision = world.step();
    assert!(
        decision
            .writes
            .iter()
            .any(|w| matches!(w, Write::EnsureWorkspace { .. }))
    );
    assert_eq!(world.message(), "restarting the agent");
    world.let_run_end();
    assert_eq!(
        (instance(&world).uid.as_str(), world.runs.len()),
        (uid.as_str(), 1)
    );
    assert_eq!(world.reason(), "ProcessingCompleted");
}

#[test]
fn a_workspace_that_cannot_be_reached_is_waited_for() {
    for (phase, message) in [
        (
            InstancePhase::Unreachable {
                message: "no route".into(),
            },
            "the workspace cannot be reached: no route",
        ),
        (
            InstancePhase::Stopping,
            "waiting for the workspace of the run",
        ),
        (
            InstancePhase::Starting {
                message: String::new(),
            },
            "waiting for the workspace of the run",
        ),
    ] {
        let mut world = running(json!({}));
        world.workspace_phase(phase).pass(100_000);
        let decision = world.settle();
        assert_eq!(
            (
                world.message().as_str(),
                decision.writes.len(),
                decision.tasks.len()
            ),
            (message, 0, 0)
        );
        world.workspace_phase(InstancePhase::Ready {
            boot_id: "boot-1".into(),
        });
        world.let_run_end();
        assert_eq!(
            (world.runs.len(), world.reason().as_str()),
            (1, "ProcessingCompleted")
        );
    }
}

#[test]
fn a_workspace_that_does_not_start_says_why_and_is_helped_by_an_edit() {
    let mut world = fresh(json!({}));
    world.new_workspace = InstancePhase::Failing {
        reason: "ImagePullBackOff".into(),
        message: "no such image".into(),
    };
    let decision = world.settle();
    assert_eq!(
        (world.reason().as_str(), world.message().as_str()),
        ("WorkspaceFailed", "ImagePullBackOff: no such image")
    );
    assert!(matches!(decision.activity, Activity::Blocked { .. }));
    world.new_workspace = InstancePhase::Ready {
        boot_id: "b".into(),
    };
    world
        .edit(json!({"workspaceTemplate": {"spec": {"image": "better"}}}))
        .settle();
    assert_eq!(
        (world.runs.len(), world.reason().as_str()),
        (1, "ProcessingCompleted")
    );
}

#[test]
fn configuration_from_another_object_replaces_the_workspace_and_from_another_key_does_not() {
    let from = |object: &str, key: &str| {
        json!({
            "configRef": {"app:c": {"name": object, "key": key}},
            "secretsRef": {"app:s": {"type": "Secret", "secret": {"name": object, "key": key}}},
        })
    };
    let mut world = fresh(from("one", "a"));
    for reference in ["one/a", "one/b", "two/b"] {
        for kind in ["ConfigMap", "Secret"] {
            let reference = format!("{kind}/{reference}").parse().unwrap();
            let references = &mut world.s.objects.references;
            references.insert(reference, Some("1".into()));
        }
    }
    let mut world = world.settled();
    let first = instance(&world).uid.clone();
    world.edit(from("one", "b")).settle();
    assert_eq!((&instance(&world).uid, world.runs.len()), (&first, 2));
    let mut config_map = from("one", "b");
    config_map["configRef"]["app:c"]["name"] = json!("two");
    for fields in [config_map, from("two", "b")] {
        let before = instance(&world).uid.clone();
        world.edit(fields.clone()).settle();
        assert_ne!(instance(&world).uid, before, "{fields}");
    }
    assert_eq!(world.runs.len(), 4);
}

#[test]
fn what_the_workspace_is_made_from_replaces_it_and_nothing_else_does() {
    let rows = [
        (json!({"workspaceTemplate": {"spec": {"image": "x"}}}), true),
        (json!({"serviceAccountName": "sa"}), true),
        (
            json!({"envRefs": {"A": {"type": "Literal", "literal": {"value": "1"}}}}),
            true,
        ),
        (json!({"backend": "s3://state"}), true),
        (json!({"config": {"app:a": 1}}), false),
        (json!({"branch": "next"}), false),
        (json!({"refresh": true}), false),
        (json!({"targets": ["urn"]}), false),
        (json!({"timeoutSeconds": 5}), false),
    ];
    for (fields, replaced) in rows {
        let mut world = ready(json!({}));
        let before = instance(&world).uid.clone();
        world.edit(fields.clone()).settle();
        assert_eq!(instance(&world).uid != before, replaced, "{fields}");
        assert_eq!(
            (world.runs.len(), stops(&world)),
            (2, usize::from(replaced)),
            "{fields}"
        );
    }
}

#[test]
fn a_workspace_that_stops_is_waited_for_before_another_is_made() {
    let mut world = ready(json!({}));
    world.workspace_phase(InstancePhase::Stopping);
    world.push("r2", "t2").settle();
    assert_eq!(
        (world.runs.len(), world.message().as_str()),
        (1, "waiting for workspace readiness")
    );
    world.kill_workspace(true).settle();
    assert_eq!(
        (world.runs.len(), world.reason().as_str()),
        (2, "ProcessingCompleted")
    );
}

#[test]
fn an_idle_workspace_goes_when_the_stack_or_the_fleet_says_so() {
    let rows: [(Value, Option<u64>, Option<i64>); 6] = [
        (json!({}), None, None),
        (json!({"workspaceIdleSeconds": 100}), None, Some(100)),
        (json!({}), Some(300), Some(300)),
        (json!({"workspaceIdleSeconds": 100}), Some(300), Some(100)),
        (json!({"workspaceIdleSeconds": 0}), None, Some(0)),
        (
            json!({"workspaceIdleSeconds": 100, "suspend": true}),
            None,
            Some(100),
        ),
    ];
    for (fields, fleet, seconds) in rows {
        let mut world = ready(json!({"workspaceIdleSeconds": 1_000_000}));
        world
            .edit(json!({"suspend": false, "workspaceIdleSeconds": null}))
            .settle();
        world.s.config.default_idle_seconds = fleet;
        world.edit(fields.clone()).settle();
        // Without a poll of the source, only idleness wakes it.
        world.s.seen.source = windlass_core::obs::Obs::Unknown;
        world.held.insert(Slot::Source);
        if seconds != Some(0) {
            let since = instance(&world).idle_since;
            if let Some(seconds) = seconds {
                world.s.now = windlass_core::time::Timestamp(since.0 + seconds * 1000 - 1);
                world.held.clear();
                let wake = world.settle().wake_at.unwrap();
                assert!(wake.0 <= since.0 + seconds * 1000, "{fields}");
                assert_eq!(stops(&world), 0, "{fields}: not yet");
                world.s.now = windlass_core::time::Timestamp(since.0 + seconds * 1000);
            } else {
                world.held.clear();
                world.pass(1_000_000);
            }
            world.settle();
        }
        assert_eq!(
            stops(&world),
            usize::from(seconds.is_some()),
            "{fields} {fleet:?}"
        );
    }
}

#[test]
fn an_idle_workspace_is_made_again_for_the_next_run() {
    let mut world = ready(json!({"workspaceIdleSeconds": 10}));
    world.pass(11).settle();
    assert_eq!(world.s.objects.workspace.current, None);
    assert_eq!(world.reason(), "ProcessingCompleted");
    world.push("r2", "t2").settle();
    assert_eq!(
        (world.runs.len(), world.reason().as_str()),
        (2, "ProcessingCompleted")
    );
}

#[test]
fn the_reclaim_policy_deletes_after_success_alone() {
    let delete = json!({"workspaceReclaimPolicy": "Delete"});
    assert_eq!(stops(&ready(delete.clone())), 1);
    assert_eq!(
        stops(&ready(json!({"workspaceReclaimPolicy": "Retain"}))),
        0
    );
    assert_eq!(stops(&ready(json!({}))), 0);
    assert_eq!(
        stops(&after(delete, failed(FailureClass::Program, "boom"))),
        0
    );
}

#[test]
fn locks_judged_stale_are_released_by_the_next_run_once() {
    let met = RunSummary {
        stale_locks: vec!["lock-1".into()],
        ..failed(FailureClass::Conflict, "locked")
    };
    let mut world = after(json!({}), met);
    world.s.now = world.decide().wake_at.unwrap();
    let (_, intent) = world.next_intent().unwrap();
    assert_eq!(
        (intent.release_locks, intent.cause),
        (vec!["lock-1".to_owned()], Cause::Retry { attempt: 2 })
    );
    world.settle();
    world.push("r2", "t2");
    assert_eq!(
        world.next_intent().unwrap().1.release_locks,
        Vec::<String>::new()
    );
}

#[test]
fn locks_of_a_live_holder_are_none_to_release() {
    let mut world = after(
        json!({}),
        failed(FailureClass::Conflict, "locked by someone"),
    );
    world.s.now = world.decide().wake_at.unwrap();
    assert_eq!(
        world.next_intent().unwrap().1.release_locks,
        Vec::<String>::new()
    );
}

#[test]
fn what_a_stack_that_is_gone_left_behind_goes_too() {
    let mut world = ready(json!({}));
    world.s.objects.stack = None;
    let decision = world.settle();
    assert_eq!(world.s.objects.updates, []);
    assert_eq!(world.s.objects.workspace.current, None);
    assert_eq!(
        (decision.phase, decision.activity),
        (None, Activity::Settled)
    );
}

#[test]
fn updates_of_an_earlier_stack_of_the_same_name_are_not_ours() {
    let world = ready(json!({}));
    let old = world.s.objects.updates.clone();
    let mut world = fresh(json!({}));
    world.stack_mut().metadata.uid = Some("uid-second".into());
    world.s.objects.updates = old;
    world.settle();
    assert_eq!((world.runs.len(), world.last().sequence), (1, 1));
    assert_eq!(world.runs[0].cause, Cause::Initial);
}
