//! One step: writes in order, up to the first that fails, and what that means for the next.

use pretty_assertions::assert_eq;
use serde_json::json;
use windlass_core::decision::{Activity, Decision, Event, Write};
use windlass_core::obs::{Known, Obs};
use windlass_core::snapshot::Snapshot;
use windlass_engine::step::step_with;
use windlass_engine::{Fence, Keyed, Step, Store, StoreError};

use crate::support::{FakeStore, clock, key, settings, stack};

fn wants(writes: Vec<Write>) -> impl Fn(&Snapshot) -> Decision + Sync {
    move |_| Decision {
        writes: writes.clone(),
        tasks: vec![],
        wake_at: None,
        phase: None,
        activity: Activity::Settled,
    }
}

fn update(name: &str) -> String {
    name.to_owned()
}

fn three() -> Vec<Write> {
    vec![
        Write::AddFinalizer,
        Write::ReleaseUpdate {
            update: update("u"),
        },
        Write::StopWorkspace { uid: "i".into() },
    ]
}

fn event() -> Write {
    Write::Event {
        event: Event {
            warning: false,
            reason: "R".into(),
            message: "m".into(),
        },
    }
}

async fn take(store: &FakeStore, memory: &mut Keyed, writes: Vec<Write>) -> Step {
    step_with(
        &wants(writes),
        &settings(),
        memory,
        store,
        &key("web"),
        true,
        clock(),
    )
    .await
    .unwrap()
}

fn store() -> FakeStore {
    let store = FakeStore::default();
    store.put(stack("web", json!({})));
    store
}

#[tokio::test]
async fn writes_go_in_order_and_ask_to_look_again() {
    let store = store();
    let step = take(&store, &mut Keyed::default(), three()).await;
    assert_eq!(
        *store.tried.lock().unwrap(),
        ["addFinalizer", "releaseUpdate", "stopWorkspace"]
    );
    assert!(step.again && step.error.is_none());
    let step = take(&store, &mut Keyed::default(), vec![event()]).await;
    assert!(!step.again, "an event changes nothing");
    let step = take(&store, &mut Keyed::default(), vec![]).await;
    assert!(!step.again);
}

#[tokio::test]
async fn the_first_write_that_fails_ends_the_step() {
    for (error, again, told) in [
        (StoreError::Conflict, true, false),
        (StoreError::NotFound, true, false),
        (StoreError::NotAtHand, true, false),
        (StoreError::Unavailable("down".into()), true, true),
        (StoreError::Rejected("no".into()), true, true),
    ] {
        let store = store();
        store
            .write_errors
            .lock()
            .unwrap()
            .push(("releaseUpdate", error.clone()));
        let step = take(&store, &mut Keyed::default(), three()).await;
        assert_eq!(
            *store.tried.lock().unwrap(),
            ["addFinalizer", "releaseUpdate"],
            "{error:?}"
        );
        assert_eq!(
            (step.again, step.error.is_some()),
            (again, told),
            "{error:?}"
        );
    }
}

#[tokio::test]
async fn outputs_that_are_no_longer_at_hand_are_found_out_again() {
    let store = store();
    let mut memory = Keyed::default();
    let end = serde_json::from_value(json!({
        "update": "u", "has_outputs": true,
        "summary": {"state": "succeeded", "startedAtMs": 0, "endedAtMs": 0},
    }));
    memory.seen.run = Obs::Known(Known {
        at: clock(),
        cause: "c".into(),
        value: end.unwrap(),
    });
    store
        .write_errors
        .lock()
        .unwrap()
        .push(("saveOutputs", StoreError::NotAtHand));
    let writes = vec![
        Write::SaveOutputs {
            update: update("u"),
        },
        Write::AddFinalizer,
    ];
    let step = take(&store, &mut memory, writes).await;
    assert!(step.again && step.error.is_none());
    assert_eq!(memory.seen.run, Obs::Unknown);
    assert_eq!(*store.tried.lock().unwrap(), ["saveOutputs"]);
}

#[tokio::test]
async fn a_store_that_cannot_be_read_is_the_only_error_of_a_step() {
    let store = store();
    store
        .load_errors
        .lock()
        .unwrap()
        .push_back(StoreError::Unavailable("down".into()));
    let result = step_with(
        &wants(vec![]),
        &settings(),
        &mut Keyed::default(),
        &store,
        &key("web"),
        true,
        clock(),
    )
    .await;
    assert_eq!(result.unwrap_err(), StoreError::Unavailable("down".into()));
}

#[tokio::test]
async fn the_decision_sees_what_the_store_and_the_memory_hold() {
    let store = store();
    let mut memory = Keyed {
        source_signal: 5,
        ..Keyed::default()
    };
    for capacity in [true, false] {
        let step = step_with(
            &wants(vec![]),
            &settings(),
            &mut memory,
            &store,
            &key("web"),
            capacity,
            clock(),
        )
        .await
        .unwrap();
        let seen = step.snapshot;
        assert_eq!(
            (seen.capacity, seen.source_signal, seen.epoch),
            (capacity, 5, 3)
        );
        assert_eq!(seen.objects.stack, store.objects(&key("web")).stack);
    }
}

#[tokio::test]
async fn a_status_is_fenced_by_what_was_seen_and_kept_up_by_own_writes() {
    let store = store();
    let objects = store.objects(&key("web"));
    let mut fence = Fence::of(&objects);
    let put = Write::PutStatus {
        status: Box::default(),
    };
    for write in [&Write::AddFinalizer, &put, &put] {
        store
            .write(&key("web"), write, &objects, &mut fence)
            .await
            .unwrap();
    }
    let mut stale = Fence::of(&objects);
    assert_eq!(
        store.write(&key("web"), &put, &objects, &mut stale).await,
        Err(StoreError::Conflict)
    );
}
