//! What makes a Stack run again, what does not, and what is taken back before it starts.

use pretty_assertions::assert_eq;
use serde_json::json;
use windlass_api::intent::Cause;
use windlass_api::run::{Operation, ProgramSource};
use windlass_core::decision::{Activity, Slot, Write};
use windlass_core::failure::FailureClass;
use windlass_core::snapshot::InstancePhase;

use crate::support::{World, failed, fresh, ready, running};

fn finished(world: &World) -> usize {
    let all = world.log.iter();
    all.filter(|w| matches!(w, Write::FinishUpdate { .. }))
        .count()
}

#[test]
fn a_new_revision_runs_once() {
    let mut world = ready(json!({}));
    world.push("r2", "t2").settle();
    let run = world.runs.last().unwrap();
    assert_eq!(
        (&run.cause, run.revision.as_str()),
        (
            &Cause::NewRevision {
                revision: "r2".into()
            },
            "r2"
        )
    );
    world.pass(3600).settle();
    assert_eq!(world.runs.len(), 2);
}

#[test]
fn a_source_is_polled_when_it_says_so_and_found_without_being_told() {
    let mut world = ready(json!({}));
    let decision = world.settle();
    assert_eq!(decision.wake_at.unwrap().0 - world.s.now.0, 60_000);
    world.revision = "r2".into();
    world.wake();
    assert_eq!(world.runs.last().unwrap().revision, "r2");
}

#[test]
fn a_stack_stays_ready_while_its_source_is_asked_again() {
    for forget in [false, true] {
        let mut world = ready(json!({}));
        world.held.insert(Slot::Source);
        if forget {
            world.amnesia();
        }
        world.pass(61);
        let decision = world.settle();
        assert_eq!(decision.tasks.len(), 1, "asked");
        assert_eq!(world.reason(), "ProcessingCompleted");
    }
}

#[test]
fn a_failed_stack_keeps_its_failure_while_its_source_is_asked_again() {
    let mut world = crate::support::after(json!({}), failed(FailureClass::Program, "boom"));
    let before = world.conditions();
    world.held.insert(Slot::Source);
    world.amnesia().settle();
    assert_eq!(world.conditions(), before);
}

#[test]
fn a_request_runs_once_for_each_value() {
    let mut world = ready(json!({}));
    world.request("a").settle();
    world.request("a").settle();
    assert_eq!(world.runs.len(), 2);
    assert_eq!(world.last().reconcile_request.as_deref(), Some("a"));
    assert_eq!(
        world.status().observed_reconcile_request.as_deref(),
        Some("a")
    );
    world.request("b").settle();
    assert_eq!(world.runs.len(), 3);
}

#[test]
fn a_resync_is_not_announced_and_leaves_the_stack_ready() {
    let mut world =
        ready(json!({"continueResyncOnCommitMatch": true, "resyncFrequencySeconds": 600}));
    let before = world.conditions();
    world.hold_run();
    while world.runs.len() == 1 {
        world.wake();
    }
    assert_eq!(
        (world.conditions(), world.status().current_update),
        (before.clone(), None)
    );
    world.pass(5);
    world.let_run_end();
    assert_eq!((world.conditions(), world.last().sequence), (before, 2));
    assert_eq!(world.runs[1].cause, Cause::Resync);
}

#[test]
fn an_edit_while_a_resync_runs_shows() {
    let mut world = ready(json!({"continueResyncOnCommitMatch": true}));
    world.hold_run();
    while world.runs.len() == 1 {
        world.wake();
    }
    world.edit(json!({"refresh": true})).settle();
    assert_eq!(world.reason(), "StackProcessing");
    assert_eq!(world.status().observed_generation, Some(2));
    world.let_run_end();
    assert_eq!(world.runs.len(), 3, "the edit runs after the resync");
    assert_eq!(world.last().generation, 2);
}

#[test]
fn only_what_changed_runs_if_that_is_asked_for() {
    let mut world = ready(json!({"onlyWhenChanged": true}));
    world.push("r2", "t1").settle();
    assert_eq!(world.runs.len(), 1, "the program's directory is the same");
    assert_eq!(world.last().last_successful_commit.as_deref(), Some("r2"));
    assert_eq!(world.reason(), "ProcessingCompleted");
    world.push("r3", "t3").settle();
    assert_eq!(world.runs.len(), 2);
    world.push("r4", "t3").request("now").settle();
    assert_eq!(world.runs.len(), 3, "a request runs whatever changed");
    let mut world = ready(json!({}));
    world.push("r2", "t1").settle();
    assert_eq!(world.runs.len(), 2, "not asked for");
}

#[test]
fn other_content_under_the_same_revision_runs() {
    let mut world = ready(json!({}));
    // A source that begins to state digests is no other source.
    world.content = Some("d1".into());
    world.push("r1", "t1").settle();
    assert_eq!(world.runs.len(), 1);
    world.request("now").settle();
    assert_eq!(world.last().source_digest.as_deref(), Some("d1"));
    world.content = Some("d2".into());
    world.push("r1", "t2").settle();
    assert_eq!(world.runs.len(), 3);
    assert_eq!(
        world.runs[2].cause,
        Cause::NewRevision {
            revision: "r1".into()
        }
    );
    assert_eq!(world.last().source_digest.as_deref(), Some("d2"));

    let mut world = ready(json!({"onlyWhenChanged": true}));
    world.content = Some("d1".into());
    world.push("r2", "t1").settle();
    assert_eq!(
        (world.runs.len(), world.last().source_digest.as_deref()),
        (1, Some("d1")),
        "noted without a run, so that it is no news the next time"
    );
}

#[test]
fn after_a_failure_an_unchanged_directory_runs_again() {
    let mut world = crate::support::after(
        json!({"onlyWhenChanged": true}),
        failed(FailureClass::Program, "boom"),
    );
    world.push("r2", "t1").settle();
    assert_eq!(
        (world.runs.len(), world.reason().as_str()),
        (2, "ProcessingCompleted")
    );
}

#[test]
fn what_changes_before_the_start_takes_the_update_back() {
    type Change = fn(&mut World);
    let rows: [(&str, Change, Option<Operation>); 5] = [
        (
            "edit",
            |w| {
                w.edit(json!({"refresh": true}));
            },
            Some(Operation::Up),
        ),
        (
            "preview instead",
            |w| {
                w.edit(json!({"preview": true}));
            },
            Some(Operation::Preview),
        ),
        (
            "suspend",
            |w| {
                w.edit(json!({"suspend": true}));
            },
            None,
        ),
        (
            "secret rotated",
            |w| {
                let key = "Secret/token/accessToken".parse().unwrap();
                w.s.objects.references.insert(key, Some("2".into()));
            },
            Some(Operation::Up),
        ),
        (
            "deleted",
            |w| {
                w.delete();
            },
            None,
        ),
    ];
    for (what, change, then) in rows {
        let mut world = fresh(json!({"accessTokenSecret": "token"}));
        let key = "Secret/token/accessToken".parse().unwrap();
        world.s.objects.references.insert(key, Some("1".into()));
        world.new_workspace = InstancePhase::Starting {
            message: String::new(),
        };
        world.settle();
        let planned = world.newest_update().metadata.name.clone().unwrap();
        change(&mut world);
        world.new_workspace = InstancePhase::Ready {
            boot_id: "b".into(),
        };
        if let Some(instance) = &mut world.s.objects.workspace.current {
            instance.phase = InstancePhase::Ready {
                boot_id: "b".into(),
            };
        }
        world.settle();
        assert_eq!(
            world.operations(),
            then.into_iter().collect::<Vec<_>>(),
            "{what}"
        );
        assert!(
            world.runs.iter().all(|run| run.update != planned),
            "{what}: it never runs"
        );
        if !world.gone() {
            assert_eq!(
                world.update(&planned).metadata.finalizers,
                None,
                "{what}: released"
            );
        }
    }
}

#[test]
fn a_run_that_goes_on_is_not_taken_back() {
    for change in [
        json!({"refresh": true}),
        json!({"suspend": true}),
        json!({"stack": ""}),
    ] {
        let mut world = running(json!({}));
        world.edit(change).settle();
        assert_eq!(finished(&world), 0);
        world.let_run_end();
        assert_eq!(
            world.last().generation,
            if world.runs.len() == 2 { 2 } else { 1 }
        );
    }
}

#[test]
fn suspension_starts_nothing_and_ends() {
    let mut world = ready(json!({}));
    world.edit(json!({"suspend": true})).push("r2", "t2");
    let decision = world.settle();
    assert_eq!(
        (world.reason().as_str(), decision.activity),
        ("Suspended", Activity::Settled)
    );
    assert_eq!(world.conditions().len(), 1, "{:?}", world.conditions());
    world.pass(100_000).request("x").settle();
    assert_eq!(world.runs.len(), 1);
    world.edit(json!({"suspend": false})).settle();
    assert_eq!(
        (world.runs.len(), world.reason().as_str()),
        (2, "ProcessingCompleted")
    );
}

#[test]
fn a_person_cancels_a_run_once() {
    let mut world = running(json!({}));
    let name = world.newest_update().metadata.name.clone().unwrap();
    let update = &mut world.s.objects.updates[0];
    update
        .metadata
        .annotations
        .get_or_insert_default()
        .insert("pulumi.com/cancel".into(), String::new());
    let asked: usize = (0..20)
        .map(|_| {
            world
                .step()
                .tasks
                .iter()
                .filter(|t| t.kind.slot() == Slot::Cancel)
                .count()
        })
        .sum();
    assert_eq!(asked, 1, "not again and again until the run ends");
    world.let_run_end();
    assert_eq!(world.last().failure_class.as_deref(), Some("cancelled"));
    assert_eq!((world.runs.len(), world.last().name), (1, Some(name)));
    assert_eq!(world.reason(), "UpdateFailed");
}

#[test]
fn a_person_cancels_a_run_before_it_starts() {
    let mut world = fresh(json!({}));
    world.new_workspace = InstancePhase::Starting {
        message: String::new(),
    };
    world.settle();
    let update = &mut world.s.objects.updates[0];
    let annotations = update.metadata.annotations.get_or_insert_default();
    annotations.insert("pulumi.com/cancel".into(), String::new());
    world.settle();
    assert_eq!(
        world.message(),
        "up was cancelled; not retrying until the spec or source changes: cancelled on request before it started"
    );
    assert_eq!((world.runs.len(), world.s.objects.updates.len()), (0, 1));
    assert_eq!(world.status().mutated, Some(false));
    world.workspace_phase(InstancePhase::Ready {
        boot_id: "b".into(),
    });
    world.push("r2", "t2").settle();
    assert_eq!(world.reason(), "ProcessingCompleted");
}

#[test]
fn a_full_fleet_makes_it_wait_and_a_run_that_goes_on_does_not_care() {
    let mut world = fresh(json!({}));
    world.s.capacity = false;
    let decision = world.settle();
    assert_eq!(decision.activity, Activity::Queued);
    assert_eq!(world.message(), "waiting for other runs to end");
    assert!(
        world.s.objects.workspace.current.is_none(),
        "nothing is made for it yet"
    );
    world.s.capacity = true;
    world.settle();
    assert_eq!(world.runs.len(), 1);
    let mut world = running(json!({}));
    world.s.capacity = false;
    world.let_run_end();
    assert_eq!(world.reason(), "ProcessingCompleted");
}

#[test]
fn a_run_whose_place_was_given_up_waits_for_another_before_it_starts() {
    let mut world = fresh(json!({}));
    world.new_workspace = InstancePhase::Failing {
        reason: "ImagePullBackOff".into(),
        message: "no such image".into(),
    };
    world.settle();
    world.s.capacity = false;
    world.workspace_phase(InstancePhase::Ready {
        boot_id: "b".into(),
    });
    assert_eq!(world.settle().activity, Activity::Queued);
    assert_eq!(world.message(), "waiting for other runs to end");
    world.s.capacity = true;
    world.settle();
    assert_eq!((world.runs.len(), world.s.objects.updates.len()), (1, 1));
}

#[test]
fn the_stack_settles_while_the_fleet_is_full_and_nothing_is_due() {
    let mut world = ready(json!({}));
    world.s.capacity = false;
    assert_eq!(world.settle().activity, Activity::Settled);
}

#[test]
fn a_program_in_the_workspace_needs_no_source() {
    let none = json!({"projectRepo": null, "branch": null});
    let mut world = fresh(none.clone());
    world.settle();
    assert_eq!(world.reason(), "SpecInvalid");
    let mut world = fresh(none);
    world.s.config.workspace_path = true;
    world.settle();
    assert_eq!((world.runs.len(), world.runs[0].revision.as_str()), (1, ""));
    world.pass(100_000).settle();
    assert_eq!(world.runs.len(), 1);
    // In the image.
    world
        .edit(json!({"workspaceTemplate": {"spec": {"local": {"dir": "/opt/app"}}}}))
        .settle();
    let intent = world.newest_update().spec.intent.clone().unwrap();
    let dir = "/opt/app".to_owned();
    assert_eq!(intent.program, ProgramSource::WorkspacePath { dir });
}

#[test]
fn old_updates_go_once_enough_newer_ones_are_there() {
    let mut world = ready(json!({}));
    world.s.config.keep_updates = 3;
    for n in 0..6 {
        world.pass(60).request(&n.to_string()).settle();
    }
    assert_eq!(world.s.objects.updates.len(), 7, "all are of today");
    world.pass(25 * 3600).settle();
    assert_eq!(world.s.objects.updates.len(), 3);
    let newest = world.last().name;
    assert!(
        world
            .s
            .objects
            .updates
            .iter()
            .any(|u| u.metadata.name == newest)
    );
    world.request("after").settle();
    assert_eq!(world.last().sequence, 8, "numbers go on");
}

#[test]
fn an_update_made_again_under_a_used_number_is_not_run() {
    let mut world = ready(json!({}));
    assert_eq!(world.runs.len(), 1);
    // Somebody deleted the first; a step with an old status made it again.
    let mut again = world.s.objects.updates.remove(0);
    let name = again.metadata.name.clone().unwrap();
    again.status = None;
    again.metadata.finalizers = Some(vec![windlass_api::names::FINALIZER.to_owned()]);
    world.s.objects.updates.push(again);
    world.settle();
    assert_eq!(world.runs.len(), 1);
    let left = world.update(&name);
    assert_eq!(left.metadata.finalizers, None);
    let conditions = &left.status.as_ref().unwrap().conditions;
    let complete = windlass_api::conditions::get(conditions, windlass_api::conditions::COMPLETE);
    assert_eq!(complete.unwrap().reason, "Superseded");
    assert_eq!(world.last().sequence, 1);
}

#[test]
fn what_was_announced_and_is_not_there_is_made_only_with_a_status_that_is_new() {
    let mut world = ready(json!({}));
    world.s.source_signal += 1;
    world.revision = "r2".into();
    // The step that announces it ends before it makes it.
    let decision = loop {
        let decision = world.decide();
        let made = |write: &Write| matches!(write, Write::CreateUpdate { .. });
        if decision.writes.iter().any(made) {
            break decision;
        }
        world.step();
    };
    let announced = decision
        .writes
        .iter()
        .position(|write| matches!(write, Write::PutStatus { .. }))
        .unwrap();
    let from = world.s.objects.clone();
    world.perform_some(&decision, &from, announced + 1);
    let decision = world.decide();
    let order: Vec<bool> = decision
        .writes
        .iter()
        .filter_map(|write| match write {
            Write::PutStatus { .. } => Some(true),
            Write::CreateUpdate { .. } => Some(false),
            _ => None,
        })
        .collect();
    assert_eq!(order, [true, false]);
    world.settle();
    assert_eq!(world.runs.len(), 2);
}
