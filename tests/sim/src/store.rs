//! The store as one operator sees it: a cache that lags, writes that fail or whose answers get lost, death at a write.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use windlass_core::decision::Write;
use windlass_core::snapshot::{LastRunView, Objects, StackView};
use windlass_core::time::Timestamp;
use windlass_engine::Key;
use windlass_engine::ports::{Fence, Store, StoreError};

use crate::world::{Place, World};

/// One operator's way to the store.
pub struct SimStore {
    pub world: Arc<Mutex<World>>,
    pub mind: Mutex<Mind>,
    /// The process whose way it is.
    pub operator: u64,
}

/// What the operator's process holds beside the engine's memory.
#[derive(Default)]
pub struct Mind {
    /// Versions its cache has reached: stack, updates, workspace.
    pub cache: BTreeMap<Place, [u64; 3]>,
    /// Runs whose outputs are at hand.
    pub outputs: BTreeSet<String>,
    /// It died in the middle of a step.
    pub dead: bool,
}

pub fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Store for SimStore {
    async fn load(&self, key: &Key) -> Result<Objects, StoreError> {
        let mut world = locked(&self.world);
        let mut mind = locked(&self.mind);
        let Some(&place) = world.places.get(&key.name) else {
            return Err(StoreError::NotFound);
        };
        let refused = world.weather.write_refused / 4.0;
        if !world.reaches_store(self.operator) || world.rng.chance(refused) {
            return Err(StoreError::Unavailable("the store is slow".into()));
        }
        let stale = world.weather.stale_read;
        let fresh = [0; 3].map(|_: u8| !world.rng.chance(stale));
        Ok(load(&world, &mut mind, place, fresh))
    }

    async fn write(
        &self,
        key: &Key,
        write: &Write,
        objects: &Objects,
        fence: &mut Fence,
    ) -> Result<(), StoreError> {
        let mut world = locked(&self.world);
        let mut mind = locked(&self.mind);
        let gone = || StoreError::Unavailable("this process is dead".into());
        if mind.dead {
            return Err(gone());
        }
        let Some(&place) = world.places.get(&key.name) else {
            return Err(StoreError::NotFound);
        };
        let weather = world.weather.clone();
        if world.rng.chance(weather.crash_at_write) {
            mind.dead = true;
            world.note(|| format!("the operator dies before {} of place {place}", name(write)));
            return Err(gone());
        }
        if !world.reaches_store(self.operator) || world.rng.chance(weather.write_refused) {
            return Err(StoreError::Unavailable("the store is slow".into()));
        }
        if world.rng.chance(weather.interject) {
            if world.rng.chance(0.5) {
                world.trouble_at(place);
            } else {
                world.user_acts(place);
            }
        }
        let result = world.perform(&mind, place, write, objects, fence);
        world.note(|| {
            format!(
                "write {} of place {place}: {}",
                name(write),
                outcome(&result)
            )
        });
        if result.is_ok() && world.rng.chance(weather.answer_lost) {
            return Err(StoreError::Unavailable("the answer got lost".into()));
        }
        result
    }
}

fn outcome(result: &Result<(), StoreError>) -> String {
    match result {
        Ok(()) => "ok".into(),
        Err(error) => error.to_string(),
    }
}

/// The word for a write, with what matters of it.
pub fn name(write: &Write) -> String {
    match write {
        Write::AddFinalizer => "AddFinalizer".into(),
        Write::PutStatus { status } => format!(
            "PutStatus(run {}, ready {}, {})",
            status.last_update.as_ref().map_or(0, |last| last.sequence),
            crate::check::ready(status),
            status
                .conditions
                .iter()
                .filter(|c| c.type_ != "Ready")
                .map(|c| format!("{}: {}", c.reason, c.message))
                .collect::<String>()
        ),
        Write::RequestReconcile { stack, value } => format!("RequestReconcile({stack}, {value})"),
        Write::EnsureWorkspace { .. } => "EnsureWorkspace".into(),
        Write::StopWorkspace { uid } => format!("StopWorkspace({uid})"),
        Write::CreateUpdate { name, intent, .. } => {
            format!("CreateUpdate({name}, {:?})", intent.cause)
        }
        Write::RecordStart { update, record } => {
            format!("RecordStart({update}, {})", record.instance)
        }
        Write::SaveOutputs { update } => format!("SaveOutputs({update})"),
        Write::UpdateWaits { update, .. } => format!("UpdateWaits({update})"),
        Write::FinishUpdate { update, .. } => format!("FinishUpdate({update})"),
        Write::ReleaseUpdate { update } => format!("ReleaseUpdate({update})"),
        Write::DeleteUpdate { update } => format!("DeleteUpdate({update})"),
        Write::RemoveFinalizer => "RemoveFinalizer".into(),
        Write::Event { event } => format!("Event({})", event.reason),
    }
}

fn load(world: &World, mind: &mut Mind, place: Place, fresh: [bool; 3]) -> Objects {
    let home = &world.homes[place];
    let cache = mind.cache.entry(place).or_insert([
        home.stack.version(),
        home.updates.version(),
        home.workspace.version(),
    ]);
    let newest = [
        home.stack.version(),
        home.updates.version(),
        home.workspace.version(),
    ];
    for index in 0..3 {
        if fresh[index] {
            cache[index] = newest[index];
        }
    }
    let [stack, updates, workspace] = *cache;
    // Seen as late as the pods of the workspace.
    let by_hand = home.by_hand.now().clone();
    let stack = home.stack.seen(stack).1;
    let updates = home.updates.seen(updates).1;
    let workspace = home.workspace.seen(workspace).1;
    let mut stacks = BTreeMap::new();
    let mut references = BTreeMap::new();
    if let Some(stack) = stack.as_ref() {
        let mut wanted = crate::users::looks_at(&stack.spec);
        let mut next = 0;
        while next < wanted.len() {
            let other = wanted[next].clone();
            next += 1;
            if stacks.contains_key(&other) {
                continue;
            }
            let Some((view, further)) = view_of(world, mind, &other) else {
                continue;
            };
            stacks.insert(other, view);
            wanted.extend(further);
        }
        if let Ok(checked) = windlass_core::spec::check(stack, false) {
            for reference in checked.references {
                let version = world.references.get(&reference).cloned().flatten();
                references.insert(reference, version);
            }
        }
    }
    Objects {
        stack: stack.as_ref().clone(),
        by_hand: by_hand.filter(|_| home.stack.now().is_none()),
        updates: updates.as_ref().clone(),
        workspace: workspace.as_ref().clone(),
        stacks,
        references,
        health: Vec::new(),
        refusal: None,
    }
}

/// Another Stack, as the cache has it.
fn view_of(world: &World, mind: &Mind, name: &str) -> Option<(StackView, Vec<String>)> {
    let place = *world.places.get(name)?;
    let home = &world.homes[place];
    let version = mind
        .cache
        .get(&place)
        .map_or(home.stack.version(), |cache| cache[0]);
    let stack = home.stack.seen(version).1;
    let stack = stack.as_ref().as_ref()?;
    let status = stack.status.clone().unwrap_or_default();
    let last = status.last_update.as_ref().map(|last| LastRunView {
        name: last.name.clone().unwrap_or_default(),
        generation: last.generation,
        reconcile_request: last.reconcile_request.clone(),
        succeeded: last.succeeded(),
        at: Timestamp(last.resync_time_ms()),
    });
    let further = crate::users::looks_at(&stack.spec);
    let view = StackView {
        generation: stack.metadata.generation.unwrap_or_default(),
        reconcile_request: windlass_core::names::reconcile_request(stack).map(str::to_owned),
        deleting: stack.metadata.deletion_timestamp.is_some(),
        last,
        prerequisites: further.clone(),
        outputs: status
            .outputs
            .iter()
            .flatten()
            .map(|(name, value)| (name.clone(), windlass_core::digest::digest(value)))
            .collect(),
    };
    Some((view, further))
}
