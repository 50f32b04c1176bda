//! One step for one key: look, decide, write. It never waits for anything but the store.

use std::sync::Arc;

use windlass_core::decision::{Activity, Decision, Slot, Task, Write};
use windlass_core::obs::Obs;
use windlass_core::snapshot::{Config, Objects, Snapshot};
use windlass_core::time::Timestamp;

use crate::capacity::Capacity;
use crate::key::Key;
use crate::keyed::Keyed;
use crate::ports::{Fence, Store, StoreError};

/// What holds for all keys.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    pub epoch: u64,
    pub config: Config,
}

/// How a step went.
#[derive(Debug)]
pub struct Step {
    pub snapshot: Snapshot,
    pub decision: Decision,
    pub start: Vec<Task>,
    pub abandon: Vec<Slot>,
    /// Look again at once: something was written, or somebody else wrote.
    pub again: bool,
    /// A write did not happen, and not because somebody else wrote.
    pub error: Option<StoreError>,
    /// The objects that tasks of this step work from.
    pub objects: Arc<Objects>,
}

/// Looks, decides, writes.
///
/// # Errors
/// The store cannot be read. A failed write is no error of the step: it ends the writes, and says so in the result.
pub async fn step<S: Store>(
    settings: &Settings,
    memory: &mut Keyed,
    store: &S,
    key: &Key,
    capacity: &mut impl Capacity,
    now: Timestamp,
) -> Result<Step, StoreError> {
    let decide = &windlass_core::decide;
    step_in(decide, settings, memory, store, key, capacity, now).await
}

/// The same with another `decide`: the simulator plants faults there.
///
/// # Errors
/// As [`step`].
pub async fn step_with<S: Store>(
    decide: &(dyn Fn(&Snapshot) -> Decision + Sync),
    settings: &Settings,
    memory: &mut Keyed,
    store: &S,
    key: &Key,
    mut capacity: bool,
    now: Timestamp,
) -> Result<Step, StoreError> {
    step_in(decide, settings, memory, store, key, &mut capacity, now).await
}

async fn step_in<S: Store>(
    decide: &(dyn Fn(&Snapshot) -> Decision + Sync),
    settings: &Settings,
    memory: &mut Keyed,
    store: &S,
    key: &Key,
    capacity: &mut impl Capacity,
    now: Timestamp,
) -> Result<Step, StoreError> {
    let objects = store.load(key).await?;
    let mut snapshot = Snapshot {
        now,
        epoch: settings.epoch,
        config: settings.config.clone(),
        capacity: capacity.free(),
        objects: objects.clone(),
        seen: memory.seen.clone(),
        source_signal: memory.source_signal,
    };
    let mut decision = decide(&snapshot);
    if !capacity.settle(holds_run(&snapshot, &decision), has_open_run(&snapshot)) {
        // The place that was free is taken.
        snapshot.capacity = false;
        decision = decide(&snapshot);
        capacity.settle(holds_run(&snapshot, &decision), has_open_run(&snapshot));
    }
    let mut fence = Fence::of(&objects);
    let mut again = false;
    let mut error = None;
    for write in &decision.writes {
        match store.write(key, write, &objects, &mut fence).await {
            Ok(()) => again |= !matches!(write, Write::Event { .. }),
            Err(StoreError::Conflict | StoreError::NotFound) => {
                again = true;
                break;
            }
            Err(StoreError::NotAtHand) => {
                memory.seen.run = Obs::Unknown;
                again = true;
                break;
            }
            Err(other) => {
                error = Some(other);
                break;
            }
        }
    }
    let (start, abandon) = memory.schedule(&decision.tasks, now);
    Ok(Step {
        snapshot,
        decision,
        start,
        abandon,
        again,
        error,
        objects: Arc::new(objects),
    })
}

/// Whether the key has a run that is asked for and not over. One that cannot go on without help gives up its place: a
/// few broken images must not hold a fleet.
fn holds_run(snapshot: &Snapshot, decision: &Decision) -> bool {
    let creates = decision.writes.iter().any(|write| {
        matches!(
            write,
            Write::CreateUpdate { .. } | Write::RecordStart { .. }
        )
    });
    let goes_on = !matches!(
        decision.activity,
        Activity::Blocked { .. } | Activity::Queued
    );
    creates || (has_open_run(snapshot) && goes_on)
}

fn has_open_run(snapshot: &Snapshot) -> bool {
    let objects = &snapshot.objects;
    let own = objects.stack.as_ref().is_some_and(|stack| {
        windlass_core::run::ours(stack, &objects.updates).any(|update| !update.finished())
    });
    own || windlass_core::by_hand::started(objects).next().is_some()
}
