//! From a Stack that nobody has looked at to one that is Ready: each phase exactly, and what is recorded.

use pretty_assertions::assert_eq;
use serde_json::json;
use windlass_api::intent::Cause;
use windlass_api::run::{Operation, ProgramSource};
use windlass_api::stack::UpdateState;
use windlass_core::decision::{Activity, Slot, Write};
use windlass_core::failure::FailureClass;
use windlass_core::snapshot::InstancePhase;

use crate::support::{self, Conditions, READY, fresh, ready, running, with_outputs};

fn processing(message: &str) -> Conditions {
    reconciling("StackProcessing", message)
}

fn reconciling(reason: &str, message: &str) -> Conditions {
    vec![
        text(
            "Ready",
            "False",
            "NotReadyInProgress",
            "reconciliation is in progress",
        ),
        text("Reconciling", "True", reason, message),
    ]
}

fn text(a: &str, b: &str, c: &str, d: &str) -> (String, String, String, String) {
    (a.into(), b.into(), c.into(), d.into())
}

#[test]
fn the_first_step_waits_for_nothing() {
    let world = fresh(json!({}));
    let decision = world.decide();
    assert!(matches!(
        decision.writes.as_slice(),
        [Write::AddFinalizer, Write::PutStatus { status }] if status.observed_generation == Some(1)
    ));
    assert_eq!(decision.tasks.len(), 1);
    assert_eq!(decision.tasks[0].kind.slot(), Slot::Source);
}

#[test]
fn each_wait_has_its_condition() {
    let rows = [
        (Slot::Source, "looking up the source and the backend"),
        (Slot::Tree, "looking up the source and the backend"),
        (Slot::Backend, "looking up the source and the backend"),
        (Slot::Run, "stack is being processed"),
    ];
    for (slot, message) in rows {
        let mut world = fresh(json!({}));
        world.held.insert(slot);
        let decision = world.settle();
        assert_eq!(world.conditions(), processing(message), "{slot:?}");
        assert_eq!(decision.activity, Activity::Busy, "{slot:?}");
        world.held.clear();
        world.settle();
        assert_eq!(world.reason(), "ProcessingCompleted", "{slot:?}");
        assert_eq!(world.runs.len(), 1, "{slot:?}");
    }
}

#[test]
fn a_workspace_that_starts_says_what_it_waits_for() {
    for (message, shown) in [
        ("", "waiting for workspace readiness"),
        (
            "pulling the image",
            "waiting for workspace readiness: pulling the image",
        ),
    ] {
        let mut world = fresh(json!({}));
        world.new_workspace = InstancePhase::Starting {
            message: message.into(),
        };
        world.settle();
        assert_eq!(world.conditions(), processing(shown));
        assert!(world.runs.is_empty());
        world.workspace_phase(InstancePhase::Ready {
            boot_id: "b".into(),
        });
        world.settle();
        assert_eq!(world.reason(), "ProcessingCompleted");
    }
}

#[test]
fn ready_says_so_and_nothing_else() {
    let mut world = ready(json!({}));
    assert_eq!(
        world.conditions(),
        vec![text("Ready", "True", "ProcessingCompleted", READY)]
    );
    let decision = world.settle();
    assert_eq!(decision.activity, Activity::Settled);
    assert_eq!(decision.writes, []);
    assert_eq!(decision.tasks, []);
}

#[test]
fn the_update_pins_what_it_runs() {
    let (operation, intent) = fresh(json!({})).next_intent().unwrap();
    assert_eq!(operation, Operation::Up);
    assert_eq!((intent.sequence, intent.generation), (1, 1));
    assert_eq!(intent.cause, Cause::Initial);
    assert_eq!(intent.revision, "r1");
    assert_eq!(intent.stack, "org/app/dev");
    assert_eq!(intent.subtree.as_deref(), Some("t1"));
    let program = ProgramSource::Tree {
        digest: "sha256:r1".into(),
        dir: String::new(),
    };
    assert_eq!(intent.program, program);
}

#[test]
fn what_is_planned_and_running_stands_in_the_status() {
    let world = running(json!({}));
    let current = world.status().current_update.unwrap();
    assert_eq!(current.name, world.newest_update().metadata.name);
    assert_eq!(
        (current.generation, current.commit.as_deref()),
        (1, Some("r1"))
    );
    assert_eq!(world.status().last_update, None);
}

#[test]
fn a_success_is_recorded_whole() {
    let mut world = running(json!({}));
    world.pass(90);
    world.let_run_end();
    let last = world.last();
    assert_eq!(last.state, Some(UpdateState::Succeeded));
    assert_eq!((last.generation, last.sequence, last.failures), (1, 1, 0));
    assert_eq!(last.type_.as_deref(), Some("up"));
    assert_eq!(last.name, world.newest_update().metadata.name);
    assert_eq!(last.last_attempted_commit.as_deref(), Some("r1"));
    assert_eq!(last.last_successful_commit.as_deref(), Some("r1"));
    assert_eq!(last.last_resync_time, Some(world.now()));
    assert_eq!(
        (last.resources, last.subtree.as_deref()),
        (Some(3), Some("t1"))
    );
    assert_eq!(
        (last.message, last.next_attempt, last.failure_class),
        (None, None, None)
    );
    let status = world.status();
    assert_eq!(status.current_update, None);
    assert_eq!(status.project_info.unwrap().name, "app");
    assert_eq!(status.mutated, Some(true));
    assert_eq!(status.observed_generation, Some(1));
}

#[test]
fn a_failure_keeps_what_the_success_before_it_said() {
    let mut world = ready(json!({}));
    world
        .ends
        .push_back(support::failed(FailureClass::Program, "boom"));
    world.push("r2", "t2").settle();
    let last = world.last();
    assert_eq!(last.state, Some(UpdateState::Failed));
    assert_eq!(last.message.as_deref(), Some("boom"));
    assert_eq!(last.last_attempted_commit.as_deref(), Some("r2"));
    assert_eq!(last.last_successful_commit.as_deref(), Some("r1"));
    assert_eq!(last.resources, Some(3));
    assert_eq!(
        (last.failures, last.failure_class.as_deref()),
        (1, Some("program"))
    );
    assert_eq!(last.failure_reason.as_deref(), Some("Reason"));
    assert!(last.next_attempt.is_some());
}

#[test]
fn outputs_are_replaced_kept_and_cleared() {
    let mut world = support::after(json!({}), with_outputs(json!({"a": 1, "b": "[secret]"})));
    let outputs = |world: &support::World| serde_json::to_value(world.status().outputs).unwrap();
    assert_eq!(outputs(&world), json!({"a": 1, "b": "[secret]"}));
    // None reported, and a failure: what was known stays.
    world.request("1").settle();
    assert_eq!(outputs(&world), json!({"a": 1, "b": "[secret]"}));
    world
        .ends
        .push_back(support::failed(FailureClass::Program, "boom"));
    world.request("2").settle();
    assert_eq!(outputs(&world), json!({"a": 1, "b": "[secret]"}));
    // The last output was removed.
    world.ends.push_back(with_outputs(json!({})));
    world.request("3").settle();
    assert_eq!(outputs(&world), json!({}));
}

#[test]
fn outputs_are_saved_before_the_end_is_recorded() {
    let world = support::after(json!({}), with_outputs(json!({"a": 1})));
    let at = |wanted: fn(&Write) -> bool| world.log.iter().position(wanted).unwrap();
    let saved = at(|w| matches!(w, Write::SaveOutputs { .. }));
    let finished = at(|w| matches!(w, Write::FinishUpdate { .. }));
    let released = at(|w| matches!(w, Write::ReleaseUpdate { .. }));
    let recorded = world
        .log
        .iter()
        .rposition(|w| matches!(w, Write::PutStatus { .. }))
        .unwrap();
    assert!(
        saved < finished && finished < recorded && recorded < released,
        "{:#?}",
        world.log
    );
}

#[test]
fn the_start_is_recorded_by_itself_before_the_agent_is_asked() {
    let mut world = fresh(json!({}));
    loop {
        let decision = world.step();
        let starts = decision
            .writes
            .iter()
            .any(|w| matches!(w, Write::RecordStart { .. }));
        let asks = decision
            .tasks
            .iter()
            .any(|task| task.kind.slot() == Slot::Run);
        assert!(!(starts && asks), "one after the other");
        if asks {
            break;
        }
    }
    let run = world
        .newest_update()
        .status
        .as_ref()
        .unwrap()
        .run
        .as_ref()
        .unwrap();
    let instance = world.s.objects.workspace.current.as_ref().unwrap();
    assert_eq!(
        (&run.instance, &run.hostname),
        (&instance.uid, &instance.hostname)
    );
    assert_eq!(run.boot_id, "boot-1");
}

#[test]
fn preview_runs_previews_and_promises_nothing() {
    let mut world = ready(json!({"preview": true}));
    assert_eq!(world.operations(), [Operation::Preview]);
    assert_eq!(world.reason(), "ProcessingCompleted");
    assert_eq!(world.last().type_.as_deref(), Some("preview"));
    assert_ne!(world.status().mutated, Some(true));
    // From preview to up and back.
    world.edit(json!({"preview": false})).settle();
    world.edit(json!({"preview": true})).settle();
    assert_eq!(
        world.operations(),
        [Operation::Preview, Operation::Up, Operation::Preview]
    );
    assert_eq!(world.status().mutated, Some(true), "the up made resources");
}

#[test]
fn events_tell_the_story_in_the_words_of_the_operator_before() {
    let world = ready(json!({}));
    let events: Vec<(bool, &str, &str)> = world
        .log
        .iter()
        .filter_map(|write| match write {
            Write::Event { event } => {
                Some((event.warning, event.reason.as_str(), event.message.as_str()))
            }
            _ => None,
        })
        .collect();
    assert_eq!(
        events,
        [
            (false, "StackUpdateDetected", "Initial stack update"),
            (false, "StackCreated", "Successfully updated stack"),
        ]
    );
}

#[test]
fn a_run_is_at_most_four_writes_to_the_stacks_status() {
    let puts = |world: &support::World| {
        let all = world.log.iter();
        all.filter(|w| matches!(w, Write::PutStatus { .. })).count()
    };
    let mut world = fresh(json!({}));
    world.new_workspace = InstancePhase::Starting {
        message: String::new(),
    };
    world.settle();
    world.workspace_phase(InstancePhase::Ready {
        boot_id: "b".into(),
    });
    world.settle();
    assert_eq!(puts(&world), 4, "the first, with a workspace to be made");
    world.log.clear();
    world.push("r2", "t2").settle();
    assert_eq!(puts(&world), 4, "a new revision");
    world.log.clear();
    world
        .edit(json!({"continueResyncOnCommitMatch": true}))
        .settle();
    world.log.clear();
    while world.runs.last().unwrap().cause != Cause::Resync {
        world.wake();
    }
    assert_eq!(puts(&world), 1, "a resync");
}
