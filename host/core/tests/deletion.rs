//! The deletion matrix: what is asked for, what may remain, and what stands in the way.

use pretty_assertions::assert_eq;
use serde_json::{Value, json};
use windlass_api::intent::Cause;
use windlass_api::run::{
    Operation::{self, *},
    ProgramSource,
};
use windlass_core::decision::{Activity, Slot, Write};
use windlass_core::failure::FailureClass;
use windlass_core::snapshot::InstancePhase;

use crate::support::{World, after, failed, failure, fresh, ready, running};

fn destroying(fields: Value) -> Value {
    let mut fields = fields;
    fields["destroyOnFinalize"] = json!(true);
    fields
}

/// Has our finalizer, and nothing else yet.
fn looked_at(fields: Value) -> World {
    let mut world = fresh(fields);
    world.step();
    world
}

/// Deletes, settles, and says what was run in all and whether the Stack is gone.
fn delete(mut world: World) -> (Vec<Operation>, bool) {
    world.delete().settle();
    (world.operations(), world.gone())
}

#[test]
fn what_is_asked_for_and_what_may_remain_decide() {
    let unreached = |class| windlass_api::intent::RunSummary {
        reached_engine: false,
        ..failed(class, "boom")
    };
    let program = || failed(FailureClass::Program, "boom");
    let mut previewed = ready(destroying(json!({"preview": true})));
    previewed
        .edit(json!({"preview": false, "suspend": true}))
        .settle();
    let mut once_up = ready(destroying(json!({})));
    once_up.edit(json!({"preview": true})).settle();
    let rows = [
        ("nothing ran", looked_at(json!({})), vec![]),
        ("ran, kept", ready(json!({})), vec![Up]),
        ("failed, kept", after(json!({}), program()), vec![Up]),
        (
            "previewed, kept",
            ready(json!({"preview": true})),
            vec![Preview],
        ),
        (
            "nothing ran, destroy",
            looked_at(destroying(json!({}))),
            vec![],
        ),
        (
            "ran, destroy",
            ready(destroying(json!({}))),
            vec![Up, Destroy],
        ),
        (
            "failed, destroy",
            after(destroying(json!({})), program()),
            vec![Up, Destroy],
        ),
        (
            "lost, destroy",
            after(destroying(json!({})), failed(FailureClass::Lost, "gone")),
            vec![Up, Destroy],
        ),
        (
            "failed before the engine, destroy",
            after(destroying(json!({})), unreached(FailureClass::Invalid)),
            vec![Up],
        ),
        (
            "previewed, destroy",
            ready(destroying(json!({"preview": true}))),
            vec![Preview],
        ),
        ("previewed, then meant, destroy", previewed, vec![Preview]),
        (
            "ran, then only previewed, destroy",
            once_up,
            vec![Up, Preview],
        ),
    ];
    for (what, world, operations) in rows {
        assert_eq!(delete(world), (operations, true), "{what}");
    }
}

#[test]
fn a_later_failure_before_the_engine_forgets_no_resources() {
    let mut world = ready(destroying(json!({})));
    let end = failed(FailureClass::Invalid, "boom");
    world.ends.push_back(windlass_api::intent::RunSummary {
        reached_engine: false,
        ..end
    });
    world.request("x").settle();
    assert_eq!(delete(world), (vec![Up, Up, Destroy], true));
}

#[test]
fn a_stack_that_blocks_before_its_first_run_goes_at_once() {
    for fields in [
        json!({"stack": ""}),
        json!({"prerequisites": [{"name": "db"}]}),
        json!({"envs": ["none"]}),
    ] {
        assert_eq!(delete(fresh(destroying(fields)).settled()), (vec![], true));
    }
}

#[test]
fn a_destroy_needs_no_source_no_prerequisite_and_no_output() {
    let mut world = fresh(destroying(json!({
        "prerequisites": [{"name": "db"}],
        "envRefs": {"V": {"type": "StackOutput", "stack": "db", "output": "v"}},
    })));
    world
        .other("db", Some(1))
        .outputs
        .insert("v".into(), "d".into());
    world.settle();
    world.s.objects.stacks.clear();
    world
        .trouble
        .insert(Slot::Source, failure(FailureClass::Unavailable, "gone"));
    world
        .trouble
        .insert(Slot::Tree, failure(FailureClass::Unavailable, "gone"));
    world.amnesia().delete().settle();
    assert_eq!(
        (world.operations(), world.gone()),
        (vec![Up, Destroy], true)
    );
}

#[test]
fn a_destroy_takes_the_projects_name_from_where_it_can() {
    let program = |world: &mut World| {
        let (operation, intent) = world.delete().next_intent().unwrap();
        assert_eq!((operation, intent.cause), (Destroy, Cause::Deletion));
        intent.program
    };
    let named = ProgramSource::ProjectOnly {
        name: "app".into(),
        runtime: "yaml".into(),
    };
    let mut world = ready(destroying(json!({})));
    assert_eq!(program(&mut world), named);
    let mut world = ready(destroying(json!({})));
    world.stack_mut().status.as_mut().unwrap().project_info = None;
    assert_eq!(
        program(&mut world),
        named,
        "the canonical name of the stack has it too"
    );
}

#[test]
fn a_destroy_that_runs_the_program_waits_for_its_source() {
    let mut world = ready(destroying(json!({"runProgram": true})));
    world.trouble.insert(
        Slot::Source,
        failure(FailureClass::Unavailable, "git is down"),
    );
    world.amnesia().delete().settle();
    assert_eq!(
        (world.reason().as_str(), world.message().as_str()),
        ("SourceUnavailable", "git is down")
    );
    world.trouble.clear();
    let tree = ProgramSource::Tree {
        digest: "sha256:r1".into(),
        dir: String::new(),
    };
    world.s.now = world.decide().wake_at.unwrap();
    assert_eq!(world.next_intent().unwrap().1.program, tree);
    world.settle();
    assert!(world.gone());
}

#[test]
fn a_destroy_that_fails_is_tried_again_and_the_finalizer_stays() {
    let mut world = ready(destroying(json!({})));
    for class in [
        FailureClass::Program,
        FailureClass::Unavailable,
        FailureClass::Lost,
    ] {
        world.ends.push_back(failed(class, "in use"));
    }
    world.delete().settle();
    assert_eq!(
        (world.reason().as_str(), world.message().as_str()),
        ("RetryingAfterFailure", "1 update failure(s): in use")
    );
    for _ in 0..2 {
        assert!(!world.gone());
        world.wake();
    }
    assert_eq!(world.last().failures, 3);
    world.wake();
    assert_eq!((world.operations().len(), world.gone()), (5, true));
}

#[test]
fn a_destroy_that_was_refused_waits_for_a_person() {
    let mut world = ready(destroying(json!({})));
    world
        .ends
        .push_back(failed(FailureClass::Invalid, "the passphrase is wrong"));
    world.delete().settle();
    assert_eq!(
        world.message(),
        "destroy was refused; not retrying until the spec or source changes: the passphrase is wrong"
    );
    world.pass(1_000_000).settle();
    assert!(!world.gone());
    world.request("again").settle();
    assert!(world.gone());
}

#[test]
fn a_destroy_that_is_not_wanted_after_all_is_given_up_by_an_edit() {
    let mut world = ready(destroying(json!({})));
    world
        .ends
        .push_back(failed(FailureClass::Invalid, "the account is closed"));
    world.delete().settle();
    world.edit(json!({"destroyOnFinalize": false})).settle();
    assert_eq!(
        (world.operations(), world.gone()),
        (vec![Up, Destroy], true)
    );
}

#[test]
fn what_a_destroy_lacks_is_named_and_the_finalizer_stays() {
    let mut world = fresh(destroying(json!({"accessTokenSecret": "t"})));
    let key: windlass_core::snapshot::Reference = "Secret/t/accessToken".parse().unwrap();
    world
        .s
        .objects
        .references
        .insert(key.clone(), Some("1".into()));
    world.settle();
    world.s.objects.references.insert(key.clone(), None);
    world.delete().settle();
    assert_eq!(
        world.message(),
        "waiting for Secret \"t\" with key \"accessToken\": not found in this namespace"
    );
    world.s.objects.references.insert(key, Some("2".into()));
    world.settle();
    assert!(world.gone());
}

#[test]
fn a_run_that_goes_on_ends_first() {
    for (fields, operations) in [
        (json!({}), vec![Up]),
        (destroying(json!({})), vec![Up, Destroy]),
    ] {
        let mut world = running(fields);
        world.delete().settle();
        assert!(!world.gone(), "its end is not known yet");
        assert!(
            !world
                .log
                .iter()
                .any(|w| matches!(w, Write::StopWorkspace { .. }))
        );
        world.let_run_end();
        assert_eq!((world.operations(), world.gone()), (operations, true));
    }
}

#[test]
fn a_run_that_was_lost_without_proof_keeps_the_finalizer() {
    let mut world = running(destroying(json!({})));
    world.delete().kill_workspace(false);
    let decision = world.settle();
    assert!(matches!(decision.activity, Activity::Blocked { .. }) && !world.gone());
    let started = world.newest_update().status.clone().unwrap().run.unwrap();
    world.s.objects.workspace.ended.push(started.instance);
    world.held.clear();
    world.settle();
    assert_eq!(
        (world.operations(), world.gone()),
        (vec![Up, Destroy], true)
    );
}

#[test]
fn suspension_does_not_stop_a_deletion() {
    let mut world = ready(destroying(json!({})));
    world.edit(json!({"suspend": true})).settle();
    assert_eq!(delete(world), (vec![Up, Destroy], true));
}

#[test]
fn a_full_fleet_makes_a_destroy_wait() {
    let mut world = ready(destroying(json!({})));
    world.s.capacity = false;
    assert_eq!(world.delete().settle().activity, Activity::Queued);
    world.s.capacity = true;
    world.settle();
    assert!(world.gone());
}

#[test]
fn a_destroy_uses_the_workspace_that_is_there() {
    let mut world = ready(destroying(json!({})));
    world.log.clear();
    world.delete().settle();
    assert!(
        !world
            .log
            .iter()
            .any(|w| matches!(w, Write::EnsureWorkspace { .. }))
    );
}

#[test]
fn a_workspace_that_cannot_start_holds_a_destroy_and_says_so() {
    let mut world = ready(destroying(json!({"workspaceReclaimPolicy": "Delete"})));
    world.new_workspace = InstancePhase::Failing {
        reason: "ImagePullBackOff".into(),
        message: "no such image".into(),
    };
    world.delete().settle();
    assert_eq!(
        (world.reason().as_str(), world.message().as_str()),
        ("WorkspaceFailed", "ImagePullBackOff: no such image")
    );
    world
        .workspace_phase(InstancePhase::Ready {
            boot_id: "b".into(),
        })
        .settle();
    assert!(world.gone());
}

#[test]
fn the_last_write_is_the_finalizer_and_nothing_is_left() {
    let mut world = ready(destroying(json!({})));
    world.delete().settle();
    let writes: Vec<&Write> = world
        .log
        .iter()
        .filter(|w| !matches!(w, Write::Event { .. }))
        .collect();
    let at = writes
        .iter()
        .position(|w| matches!(w, Write::RemoveFinalizer))
        .unwrap();
    assert!(
        writes[at + 1..]
            .iter()
            .all(|w| matches!(w, Write::DeleteUpdate { .. } | Write::ReleaseUpdate { .. }))
    );
    assert_eq!(world.s.objects.updates, []);
    assert_eq!(world.s.objects.workspace.current, None);
    assert_eq!(world.decide().writes, []);
}

#[test]
fn a_destroyed_stack_has_no_outputs_and_no_resources() {
    let mut world = after(
        destroying(json!({})),
        crate::support::with_outputs(json!({"a": 1})),
    );
    world.delete();
    // Stop where the destroy is recorded, before the object is gone.
    loop {
        let decision = world.decide();
        let put = decision.writes.iter().find_map(|w| match w {
            Write::PutStatus { status } if status.last_update.as_ref().unwrap().sequence == 2 => {
                Some(status.clone())
            }
            _ => None,
        });
        if let Some(status) = put {
            assert_eq!(
                (status.outputs.clone(), status.mutated),
                (None, Some(false))
            );
            break;
        }
        world.step();
    }
}

#[test]
fn another_finalizer_is_none_of_ours() {
    let mut world = ready(json!({}));
    world
        .stack_mut()
        .metadata
        .finalizers
        .as_mut()
        .unwrap()
        .push("example.com/wait".into());
    let stack = world.stack_mut();
    stack.metadata.finalizers = Some(vec!["example.com/wait".into()]);
    world.delete().settle();
    assert_eq!(
        world
            .log
            .iter()
            .filter(|w| matches!(w, Write::AddFinalizer))
            .count(),
        1,
        "not added to what is going"
    );
    assert_eq!(world.s.objects.updates, []);
}
