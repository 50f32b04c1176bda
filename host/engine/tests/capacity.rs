//! The limit on runs: kept, freed, and never lost.

use std::sync::atomic::Ordering;
use std::time::Duration;

use pretty_assertions::assert_eq;
use serde_json::{Value, json};
use windlass_core::decision::Slot;
use windlass_core::failure::{Failure, FailureClass};
use windlass_core::snapshot::{Instance, InstancePhase};
use windlass_engine::Handle;

use crate::support::{Bench, clock, key};

fn fleet(names: &[&'static str]) -> Bench {
    let stacks: Vec<(&str, Value)> = names.iter().map(|name| (*name, json!({}))).collect();
    Bench::new(&stacks)
}

#[tokio::test(start_paused = true)]
async fn no_more_run_at_a_time_than_may_and_all_of_them_do() {
    for (limit, most, seconds) in [
        (1, 1, 100),
        (2, 2, 60),
        (5, 5, 20),
        (100, 5, 20),
        (0, 1, 100),
    ] {
        let bench = fleet(&["a", "b", "c", "d", "e"]);
        let took = bench.settle(limit).await.as_secs();
        assert_eq!(
            bench.tasks.most_running.load(Ordering::SeqCst),
            most,
            "limit {limit}"
        );
        for name in ["a", "b", "c", "d", "e"] {
            assert_eq!(
                (
                    bench.reason(name).as_str(),
                    bench.tasks.started(name, Slot::Run)
                ),
                ("ProcessingCompleted", 1)
            );
        }
        assert!(
            (seconds..seconds + 5).contains(&took),
            "limit {limit}: {took} s"
        );
    }
}

async fn stop(handle: Handle, running: tokio::task::JoinHandle<()>) {
    handle.stop();
    running.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_place_that_the_first_cannot_use_goes_to_the_next() {
    let bench = fleet(&["a", "b", "c"]);
    let down = Failure::new(FailureClass::Unavailable, "Down", "the backend is down");
    bench
        .tasks
        .trouble
        .lock()
        .unwrap()
        .insert(("b".into(), Slot::Backend), down);
    let (runner, handle) = bench.runner(1);
    let running = tokio::spawn(runner.run(false));
    bench
        .until("a and c are ready, whatever becomes of b", |bench| {
            bench.reason("a") == "ProcessingCompleted" && bench.reason("c") == "ProcessingCompleted"
        })
        .await;
    assert_eq!(bench.tasks.started("b", Slot::Run), 0);
    stop(handle, running).await;
}

#[tokio::test(start_paused = true)]
async fn a_place_is_free_again_when_the_stack_that_held_it_is_gone() {
    let bench = fleet(&["a", "b"]);
    bench
        .tasks
        .hang
        .lock()
        .unwrap()
        .push(("a".into(), Slot::Run));
    let (runner, handle) = bench.runner(1);
    let running = tokio::spawn(runner.run(false));
    bench
        .until("a runs", |b| b.tasks.started("a", Slot::Run) == 1)
        .await;
    assert_eq!(bench.tasks.started("b", Slot::Run), 0);
    bench
        .store
        .change(&key("a"), |objects| objects.stack = None);
    handle.wake(key("a"));
    bench
        .until("b is ready", |b| b.reason("b") == "ProcessingCompleted")
        .await;
    stop(handle, running).await;
}

#[tokio::test(start_paused = true)]
async fn a_workspace_that_does_not_start_holds_no_place_and_waits_for_one_later() {
    let bench = fleet(&["a", "b"]);
    let broken = Instance {
        uid: "broken".into(),
        hostname: "a".into(),
        node: None,
        spec_digest: String::new(),
        phase: InstancePhase::Failing {
            reason: "ImagePullBackOff".into(),
            message: "no such image".into(),
        },
        idle_since: clock(),
    };
    bench.store.breaks("a", broken);
    bench
        .tasks
        .hang
        .lock()
        .unwrap()
        .push(("b".into(), Slot::Run));
    let (runner, handle) = bench.runner(1);
    let running = tokio::spawn(runner.run(false));
    bench
        .until("b runs", |b| b.tasks.started("b", Slot::Run) == 1)
        .await;
    assert_eq!(bench.reason("a"), "WorkspaceFailed");
    // The image is there now: a waits for b's place.
    bench.store.change(&key("a"), |objects| {
        objects.workspace.current.as_mut().unwrap().phase = InstancePhase::Ready {
            boot_id: "boot".into(),
        };
    });
    handle.wake(key("a"));
    bench
        .until("a waits", |b| b.reason("a") == "StackProcessing")
        .await;
    tokio::time::sleep(Duration::from_secs(500)).await;
    assert_eq!(bench.tasks.started("a", Slot::Run), 0);
    bench
        .store
        .change(&key("b"), |objects| objects.stack = None);
    handle.wake(key("b"));
    bench
        .until("a is ready", |b| b.reason("a") == "ProcessingCompleted")
        .await;
    assert_eq!(bench.tasks.most_running.load(Ordering::SeqCst), 1);
    stop(handle, running).await;
}

#[tokio::test(start_paused = true)]
async fn runs_that_go_on_from_before_hold_their_places() {
    let bench = fleet(&["a", "b"]);
    bench
        .tasks
        .hang
        .lock()
        .unwrap()
        .push(("a".into(), Slot::Run));
    let (runner, handle) = bench.runner(1);
    let running = tokio::spawn(runner.run(false));
    bench
        .until("a runs", |b| b.tasks.started("a", Slot::Run) == 1)
        .await;
    stop(handle, running).await;
    let (runner, handle) = bench.runner(1);
    let running = tokio::spawn(runner.run(false));
    bench
        .until("a is followed again", |b| {
            b.tasks.started("a", Slot::Run) == 2
        })
        .await;
    tokio::time::sleep(Duration::from_secs(500)).await;
    assert_eq!(bench.tasks.started("b", Slot::Run), 0);
    stop(handle, running).await;
}
