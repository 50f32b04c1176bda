//! Properties of histories: amnesia, fixpoint, stale snapshots, and when to wake.

use proptest::prelude::*;
use serde_json::{Value, json};
use windlass_api::stack::StackStatus;
use windlass_core::decision::{Decision, Write};
use windlass_core::failure::FailureClass;
use windlass_core::snapshot::{InstancePhase, Snapshot};

use crate::support::{World, failed, fresh, with_outputs};

/// What may happen to a Stack and around it.
#[derive(Clone, Debug)]
enum Op {
    Edit(u8),
    Preview(bool),
    Suspend(bool),
    Image(u8),
    Request(u8),
    Push(u8),
    Fails(u8),
    Outputs(u8),
    Pass(u32),
    Secret(bool),
    Prerequisite(u8),
    HoldRun,
    LetRunEnd,
    Cancel,
    WorkspaceDies(bool),
    ProofArrives,
    AgentDown,
    Capacity(bool),
    Delete,
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        3 => (0..4u8).prop_map(Op::Edit),
        1 => any::<bool>().prop_map(Op::Preview),
        1 => any::<bool>().prop_map(Op::Suspend),
        1 => (0..3u8).prop_map(Op::Image),
        2 => (0..3u8).prop_map(Op::Request),
        3 => (0..4u8).prop_map(Op::Push),
        3 => (0..7u8).prop_map(Op::Fails),
        1 => (0..3u8).prop_map(Op::Outputs),
        5 => prop_oneof![1..30u32, 30..4000u32, Just(90_000u32)].prop_map(Op::Pass),
        1 => any::<bool>().prop_map(Op::Secret),
        1 => (0..3u8).prop_map(Op::Prerequisite),
        2 => Just(Op::HoldRun),
        3 => Just(Op::LetRunEnd),
        1 => Just(Op::Cancel),
        2 => any::<bool>().prop_map(Op::WorkspaceDies),
        1 => Just(Op::ProofArrives),
        1 => Just(Op::AgentDown),
        1 => any::<bool>().prop_map(Op::Capacity),
        1 => Just(Op::Delete),
    ]
}

fn spec() -> impl Strategy<Value = Value> {
    any::<(bool, bool, bool, bool, bool)>().prop_map(|(destroy, resync, idle, secret, waits)| {
        let mut spec = json!({"destroyOnFinalize": destroy, "continueResyncOnCommitMatch": resync});
        if idle {
            spec["workspaceIdleSeconds"] = json!(300);
        }
        if secret {
            spec["accessTokenSecret"] = json!("token");
        }
        if waits {
            spec["prerequisites"] = json!([{"name": "db", "succeededWithinDuration": "1h"}]);
        }
        spec
    })
}

fn happens(world: &mut World, op: &Op) {
    if world.gone() {
        return;
    }
    match op {
        Op::Edit(n) => drop(world.edit(json!({"config": {"app:n": n}}))),
        Op::Preview(on) => drop(world.edit(json!({"preview": on}))),
        Op::Suspend(on) => drop(world.edit(json!({"suspend": on}))),
        Op::Image(n) => drop(world.edit(json!({"serviceAccountName": format!("sa-{n}")}))),
        Op::Request(n) => drop(world.request(&n.to_string())),
        Op::Push(n) => drop(world.push(&format!("r{n}"), &format!("t{n}"))),
        Op::Fails(n) => {
            use FailureClass::*;
            let class = [
                Program,
                Policy,
                Unavailable,
                Conflict,
                Lost,
                Invalid,
                Cancelled,
            ][usize::from(*n)];
            world.ends.push_back(failed(class, "boom"));
        }
        Op::Outputs(n) => world.ends.push_back(with_outputs(json!({"n": n}))),
        Op::Pass(seconds) => drop(world.pass((*seconds).into())),
        Op::Secret(there) => {
            let key = "Secret/token/accessToken".parse().unwrap();
            world
                .s
                .objects
                .references
                .insert(key, there.then(|| "1".into()));
        }
        Op::Prerequisite(n) => match n {
            0 => drop(world.s.objects.stacks.remove("db")),
            1 => drop(world.other("db", None).clone()),
            _ => drop(world.other("db", Some(10)).clone()),
        },
        Op::HoldRun => world.hold_run(),
        Op::LetRunEnd => world.held.clear(),
        Op::Cancel => {
            if let Some(update) = world.s.objects.updates.last_mut() {
                let all = update.metadata.annotations.get_or_insert_default();
                all.insert("pulumi.com/cancel".into(), String::new());
                let at = world.s.objects.updates.len() - 1;
                world.touch_update(at);
            }
        }
        Op::WorkspaceDies(proof) => drop(world.kill_workspace(*proof)),
        Op::ProofArrives => {
            let started = world
                .s
                .objects
                .updates
                .iter()
                .filter_map(|u| u.status.as_ref()?.run.clone());
            let current = world
                .s
                .objects
                .workspace
                .current
                .as_ref()
                .map(|i| i.uid.clone());
            let dead: Vec<String> = started
                .map(|r| r.instance)
                .filter(|uid| Some(uid) != current.as_ref())
                .collect();
            world.s.objects.workspace.ended.extend(dead);
        }
        Op::AgentDown => {
            if let Some(instance) = &mut world.s.objects.workspace.current {
                instance.phase = InstancePhase::Down;
            }
        }
        Op::Capacity(there) => world.s.capacity = *there,
        Op::Delete => drop(world.delete()),
    }
}

/// Lets everything come to rest: what is held is let go, what is dead is proven to be.
fn rest(world: &mut World) {
    for op in [
        Op::LetRunEnd,
        Op::ProofArrives,
        Op::Capacity(true),
        Op::Secret(true),
        Op::Prerequisite(2),
    ] {
        happens(world, &op);
    }
    world.settle();
}

/// What two worlds that ended in the same place agree on: everything but the names of workspace instances and boots.
fn place(world: &World) -> (Option<StackStatus>, Vec<Value>, Vec<crate::support::Run>) {
    let status = world
        .s
        .objects
        .stack
        .as_ref()
        .map(|s| s.status.clone().unwrap_or_default());
    let updates = world.s.objects.updates.iter().map(|update| {
        let mut update = serde_json::to_value(update).unwrap();
        update["metadata"]
            .as_object_mut()
            .unwrap()
            .shift_remove("resourceVersion");
        if let Some(run) = update.pointer_mut("/status/run") {
            run["instance"] = json!("");
            run["hostname"] = json!("");
            run["bootId"] = json!("");
        }
        update
    });
    (status, updates.collect(), world.runs.clone())
}

fn checked(world: &World) -> Decision {
    let decision = world.decide();
    if let Some(at) = decision.wake_at {
        assert!(
            at > world.s.now,
            "wakes at {at:?}, and it is {:?}",
            world.s.now
        );
    }
    decision
}

fn assert_same(left: &World, right: &World) {
    pretty_assertions::assert_eq!(place(left), place(right));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    /// Dropping every observation at any point ends in the same place, with no run more.
    #[test]
    fn amnesia(spec in spec(), history in prop::collection::vec((op(), prop::option::of(0..6usize)), 1..25)) {
        let (mut steady, mut forgetful) = (fresh(spec.clone()), fresh(spec));
        for (op, forgets) in history {
            happens(&mut steady, &op);
            happens(&mut forgetful, &op);
            steady.settle();
            if let Some(after) = forgets {
                for _ in 0..after {
                    forgetful.step();
                }
                forgetful.amnesia();
            }
            forgetful.settle();
            assert_same(&steady, &forgetful);
        }
        rest(&mut steady);
        rest(forgetful.amnesia());
        assert_same(&steady, &forgetful);
    }

    /// Dying between any two writes, which is amnesia too, loses nothing and repeats nothing.
    #[test]
    fn death_between_writes(spec in spec(), history in prop::collection::vec((op(), 0..5usize, 0..4usize), 1..25)) {
        let (mut steady, mut dying) = (fresh(spec.clone()), fresh(spec));
        for (op, after, writes) in history {
            happens(&mut steady, &op);
            happens(&mut dying, &op);
            steady.settle();
            for _ in 0..after {
                dying.step();
            }
            let from = dying.s.objects.clone();
            let decision = dying.decide();
            dying.perform_some(&decision, &from, writes);
            dying.amnesia().settle();
            assert_same(&steady, &dying);
        }
    }

    /// Once all that was asked for is done, and no time has passed, nothing more is asked for.
    #[test]
    fn fixpoint(spec in spec(), history in prop::collection::vec(op(), 1..25)) {
        let mut world = fresh(spec);
        for op in history {
            happens(&mut world, &op);
            // Comes to an end at all: `settle` panics otherwise.
            world.settle();
            let decision = world.decide();
            prop_assert_eq!(&decision.writes, &Vec::new());
            // What is still out is asked for again, in the same words: it is the same task.
            let again = world.step();
            prop_assert_eq!(&again, &decision);
            prop_assert_eq!(world.decide(), decision);
        }
    }

    /// Decisions taken from snapshots of the past, performed late, never make another run.
    #[test]
    fn stale_snapshot(
        spec in spec(),
        history in prop::collection::vec((op(), prop::option::of(any::<prop::sample::Index>())), 1..25),
    ) {
        let (mut steady, mut haunted) = (fresh(spec.clone()), fresh(spec));
        let mut past: Vec<Snapshot> = vec![haunted.s.clone()];
        for (op, ghost) in history {
            happens(&mut steady, &op);
            happens(&mut haunted, &op);
            past.push(haunted.s.clone());
            for _ in 0..3 {
                haunted.step();
                past.push(haunted.s.clone());
            }
            if let Some(index) = ghost {
                let old = index.get(&past);
                let decision = windlass_core::decide(old);
                // Another Stack's annotation is not this Stack's run.
                let own = !decision.writes.iter().any(|w| matches!(w, Write::RequestReconcile { .. }));
                if own {
                    haunted.perform(&decision, &old.objects);
                }
            }
            steady.settle();
            haunted.settle();
            prop_assert_eq!(&steady.runs, &haunted.runs);
        }
        rest(&mut steady);
        rest(&mut haunted);
        prop_assert_eq!(&steady.runs, &haunted.runs);
        prop_assert_eq!(steady.gone(), haunted.gone());
    }

    /// The time to look again lies ahead, at every step of every history.
    #[test]
    fn wake_in_the_future(spec in spec(), history in prop::collection::vec(op(), 1..25)) {
        let mut world = fresh(spec);
        for op in history {
            happens(&mut world, &op);
            for _ in 0..15 {
                checked(&world);
                world.step();
            }
        }
        // And whoever wakes then has something to do or a later time to wake: nobody spins.
        let mut wakes = 0;
        while let Some(at) = checked(&world).wake_at {
            world.s.now = at;
            world.settle();
            wakes += 1;
            if wakes == 20 {
                break;
            }
        }
    }
}
