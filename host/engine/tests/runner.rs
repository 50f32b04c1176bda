//! The loop over all keys, in virtual time.

use std::sync::atomic::Ordering;
use std::time::Duration;

use pretty_assertions::assert_eq;
use serde_json::json;
use tokio::time::Instant;
use windlass_core::decision::Slot;
use windlass_core::failure::{Failure, FailureClass};
use windlass_engine::StoreError;

use crate::support::{Bench, key, stack};

fn one() -> Bench {
    Bench::new(&[("web", json!({}))])
}

#[tokio::test(start_paused = true)]
async fn a_stack_goes_all_the_way_and_the_loop_ends() {
    let bench = one();
    let took = bench.settle(10).await;
    assert_eq!(bench.reason("web"), "ProcessingCompleted");
    for slot in [Slot::Source, Slot::Tree, Slot::Backend, Slot::Run] {
        assert_eq!(bench.tasks.started("web", slot), 1, "{slot:?}");
    }
    assert_eq!(bench.store.tried("createUpdate"), 1);
    assert!((20..25).contains(&took.as_secs()), "{took:?}");
    assert!(
        bench
            .tasks
            .epochs
            .lock()
            .unwrap()
            .iter()
            .all(|epoch| *epoch == 3)
    );
}

#[tokio::test(start_paused = true)]
async fn a_second_loop_over_the_same_store_has_nothing_to_do() {
    let bench = one();
    bench.settle(10).await;
    let writes = bench.store.tried.lock().unwrap().len();
    bench.settle(10).await;
    assert_eq!(bench.store.tried.lock().unwrap().len(), writes);
    assert_eq!(bench.tasks.started("web", Slot::Run), 1);
}

#[tokio::test(start_paused = true)]
async fn waking_a_hundred_times_is_waking_once() {
    let steps = async |wakes: usize| {
        let bench = one();
        let (runner, handle) = bench.runner(10);
        for _ in 0..wakes {
            handle.wake(key("web"));
        }
        runner.run(true).await;
        bench.seen.steps.lock().unwrap().len()
    };
    assert_eq!(steps(100).await, steps(0).await);
}

#[tokio::test(start_paused = true)]
async fn nothing_at_all_is_settled() {
    assert_eq!(Bench::new(&[]).settle(1).await, Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn timers_bring_a_resync_and_stop_ends_the_loop() {
    let bench = Bench::new(&[(
        "web",
        json!({"continueResyncOnCommitMatch": true, "resyncFrequencySeconds": 600}),
    )]);
    let (runner, handle) = bench.runner(10);
    let begin = Instant::now();
    let running = tokio::spawn(runner.run(false));
    bench
        .until("three runs", |b| b.tasks.started("web", Slot::Run) == 3)
        .await;
    let took = begin.elapsed().as_secs();
    assert!((1220..1245).contains(&took), "{took} s");
    let steps = bench.seen.steps.lock().unwrap().len();
    assert!(steps < 60, "{steps} steps: it sleeps in between");
    handle.stop();
    running.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_run_is_not_the_loops_to_end() {
    let bench = one();
    let (runner, handle) = bench.runner(10);
    let running = tokio::spawn(runner.run(false));
    bench
        .until("it runs", |b| b.tasks.started("web", Slot::Run) == 1)
        .await;
    handle.stop();
    running.await.unwrap();
    // The next loop asks the agent again: the same Update.
    bench.settle(10).await;
    assert_eq!(bench.store.tried("createUpdate"), 1);
    assert_eq!(bench.reason("web"), "ProcessingCompleted");
}

#[tokio::test(start_paused = true)]
async fn what_fails_outside_is_tried_a_few_times_before_the_loop_ends() {
    let bench = one();
    let failure = Failure::new(FailureClass::Unavailable, "Down", "git is down");
    bench
        .tasks
        .trouble
        .lock()
        .unwrap()
        .insert(("web".into(), Slot::Source), failure);
    let took = bench.settle(10).await;
    assert_eq!(bench.tasks.started("web", Slot::Source), 3);
    assert_eq!(bench.reason("web"), "SourceUnavailable");
    assert!((40..50).contains(&took.as_secs()), "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn what_is_refused_ends_the_loop_at_once() {
    let bench = one();
    let failure = Failure::new(FailureClass::Invalid, "BadUrl", "no such scheme");
    bench
        .tasks
        .trouble
        .lock()
        .unwrap()
        .insert(("web".into(), Slot::Source), failure);
    let took = bench.settle(10).await;
    assert_eq!(bench.reason("web"), "SpecInvalid");
    assert!(took < Duration::from_secs(1), "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn a_task_without_an_answer_fails_at_its_deadline() {
    let bench = one();
    bench
        .tasks
        .hang
        .lock()
        .unwrap()
        .push(("web".into(), Slot::Source));
    let (runner, handle) = bench.runner(10);
    let begin = Instant::now();
    let running = tokio::spawn(runner.run(false));
    bench
        .until("it is seen", |b| b.reason("web") == "SourceUnavailable")
        .await;
    assert!((60..62).contains(&begin.elapsed().as_secs()));
    bench.tasks.hang.lock().unwrap().clear();
    bench
        .until("it recovers", |b| b.reason("web") == "ProcessingCompleted")
        .await;
    handle.stop();
    running.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn what_is_not_wanted_any_more_is_dropped() {
    let bench = one();
    bench
        .tasks
        .hang
        .lock()
        .unwrap()
        .push(("web".into(), Slot::Source));
    let (runner, handle) = bench.runner(10);
    let running = tokio::spawn(runner.run(false));
    bench
        .until("it is asked", |b| b.tasks.started("web", Slot::Source) == 1)
        .await;
    bench.store.change(&key("web"), |objects| {
        objects.stack.as_mut().unwrap().spec.suspend = true
    });
    handle.wake(key("web"));
    bench
        .until("it is dropped", |b| {
            b.tasks.dropped.load(Ordering::SeqCst) == 1
        })
        .await;
    assert_eq!(bench.reason("web"), "Suspended");
    handle.stop();
    running.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_source_that_changed_is_asked_again() {
    let bench = one();
    let (runner, handle) = bench.runner(10);
    let running = tokio::spawn(runner.run(false));
    bench
        .until("it is ready", |b| b.reason("web") == "ProcessingCompleted")
        .await;
    handle.wake(key("web"));
    handle.source_changed(key("web"));
    bench
        .until("it is asked again", |b| {
            b.tasks.started("web", Slot::Source) == 2
        })
        .await;
    handle.stop();
    running.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_store_that_fails_is_told_of_and_asked_again() {
    let bench = one();
    let down = StoreError::Unavailable("down".into());
    bench
        .store
        .load_errors
        .lock()
        .unwrap()
        .extend([down.clone(), down.clone()]);
    bench
        .store
        .write_errors
        .lock()
        .unwrap()
        .push(("createUpdate", down.clone()));
    let (runner, handle) = bench.runner(10);
    let running = tokio::spawn(runner.run(false));
    bench
        .until("it is ready", |b| b.reason("web") == "ProcessingCompleted")
        .await;
    assert_eq!(
        *bench.seen.errors.lock().unwrap(),
        [down.clone(), down.clone(), down]
    );
    assert_eq!(bench.tasks.started("web", Slot::Run), 1);
    handle.stop();
    running.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_store_that_keeps_failing_is_asked_ever_more_rarely_until_it_answers() {
    let bench = one();
    let down = StoreError::Unavailable("down".into());
    let fail = |failures: usize| {
        let errors = std::iter::repeat_n(down.clone(), failures);
        bench.store.load_errors.lock().unwrap().extend(errors);
        Instant::now()
    };
    let told = |b: &Bench| b.store.load_errors.lock().unwrap().is_empty();
    let (runner, handle) = bench.runner(10);
    let begun = fail(7);
    let running = tokio::spawn(runner.run(false));
    bench.until("all have failed", told).await;
    // They have come after 1, 2, 4, 8 and twice 15 seconds.
    assert_eq!(begun.elapsed().as_secs(), 45);
    bench
        .until("it is ready", |b| b.reason("web") == "ProcessingCompleted")
        .await;
    // What is over is forgotten: it begins with a second again.
    let begun = fail(2);
    handle.wake(key("web"));
    bench.until("both have failed", told).await;
    assert_eq!(begun.elapsed().as_secs(), 1);
    handle.stop();
    running.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn somebody_elses_write_is_met_by_looking_again() {
    let bench = one();
    for _ in 0..3 {
        bench
            .store
            .write_errors
            .lock()
            .unwrap()
            .push(("putStatus", StoreError::Conflict));
    }
    bench.settle(10).await;
    assert_eq!(bench.reason("web"), "ProcessingCompleted");
    assert_eq!(bench.seen.errors.lock().unwrap().len(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_stack_that_appears_later_is_looked_at_when_woken() {
    let bench = Bench::new(&[]);
    let (runner, handle) = bench.runner(10);
    let running = tokio::spawn(runner.run(false));
    handle.wake(key("web"));
    bench
        .until("it was looked at", |b| {
            b.seen.steps.lock().unwrap().len() == 1
        })
        .await;
    bench.store.put(stack("web", json!({})));
    handle.wake(key("web"));
    bench
        .until("it is ready", |b| b.reason("web") == "ProcessingCompleted")
        .await;
    handle.stop();
    running.await.unwrap();
}
