//! An operator's process: the engine's step and memory, driven as its loop drives them, in virtual time.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, Mutex};

use futures::executor::block_on;
use windlass_core::Snapshot;
use windlass_core::by_hand::started;
use windlass_core::decision::{Activity, Decision, Slot, TaskKind, Write};
use windlass_core::failure::Failure;
use windlass_core::leadership::Candidate;
use windlass_core::run::ours;
use windlass_core::snapshot::Config;
use windlass_core::time::Timestamp;
use windlass_engine::ports::{Found, TaskInput};
use windlass_engine::step::{Settings, Step, step_with};
use windlass_engine::{Key, Keyed};

use crate::lease::{Standing, Turn};
use crate::monitor::Broken;
use crate::plan::{HOUR, SECOND};
use crate::planted::decide_with;
use crate::store::{Mind, SimStore, locked};
use crate::world::{Asked, Event, NAMESPACE, Place, Ticket, World};

/// What an agent says to a leader that has been replaced.
pub const STALE_EPOCH: &str = "StaleEpoch";
/// Finished Updates that a Stack keeps.
pub const KEEP_UPDATES: usize = 10;

#[derive(Default)]
struct Entry {
    memory: Keyed,
    out: BTreeMap<Slot, u64>,
    timer: Option<u64>,
    holds_run: bool,
}

/// One process of the operator. Dropping it is its death.
pub struct Operator {
    pub number: u64,
    /// Its pod's name, which the next process in this place keeps.
    pub pod: String,
    pub epoch: u64,
    standing: Standing,
    settings: Settings,
    world: Arc<Mutex<World>>,
    store: SimStore,
    entries: BTreeMap<Place, Entry>,
    queue: VecDeque<Place>,
    queued: BTreeSet<Place>,
    waiting: BTreeSet<Place>,
    working: bool,
}

impl Operator {
    /// A process that waits for the lease.
    pub fn start(world: &Arc<Mutex<World>>, pod: String) -> Operator {
        let number = {
            let mut it = locked(world);
            let number = it.number();
            it.note(|| format!("operator {number} starts in {pod}"));
            it.later(1, Event::Lease { operator: number });
            number
        };
        Operator {
            number,
            standing: Standing::Waits(Candidate::new(pod.clone())),
            pod,
            epoch: 0,
            settings: Settings {
                epoch: 0,
                config: Config {
                    default_idle_seconds: None,
                    keep_updates: KEEP_UPDATES,
                    workspace_path: false,
                },
            },
            world: Arc::clone(world),
            store: SimStore {
                world: Arc::clone(world),
                mind: Mutex::new(Mind::default()),
                operator: number,
            },
            entries: BTreeMap::new(),
            queue: VecDeque::new(),
            queued: BTreeSet::new(),
            waiting: BTreeSet::new(),
            working: false,
        }
    }

    /// Looks at the lease. False: it is lost, and this process with it.
    pub fn look_at_lease(&mut self) -> bool {
        let turn = locked(&self.world).look_at_lease(self.number, &self.pod, &mut self.standing);
        match turn {
            Turn::Nothing => {}
            Turn::Over => return false,
            Turn::Leads(epoch) => self.lead(epoch),
        }
        true
    }

    fn lead(&mut self, epoch: u64) {
        self.epoch = epoch;
        self.settings.epoch = epoch;
        {
            let mut world = locked(&self.world);
            let number = self.number;
            world.operators.push(number);
            world.note(|| format!("operator {number} leads with epoch {epoch}"));
        }
        self.relist();
    }

    pub fn enqueue(&mut self, place: Place) {
        if self.queued.insert(place) {
            self.queue.push_back(place);
        }
        self.work_soon(1);
    }

    fn work_soon(&mut self, delay: i64) {
        if !self.working && !self.queue.is_empty() {
            self.working = true;
            let operator = self.number;
            locked(&self.world).later(delay, Event::Work { operator });
        }
    }

    /// The watch brings news.
    pub fn deliver(&mut self, place: Place, versions: [u64; 3]) {
        {
            let mut mind = locked(&self.store.mind);
            if let Some(cache) = mind.cache.get_mut(&place) {
                for (have, new) in cache.iter_mut().zip(versions) {
                    *have = (*have).max(new);
                }
            }
        }
        self.enqueue(place);
    }

    /// Everything is read again and looked at, and will be in a while.
    pub fn relist(&mut self) {
        let operator = self.number;
        {
            let mut world = locked(&self.world);
            let every = world.weather.relist_every;
            world.later(every, Event::Relist { operator });
        }
        self.read_all();
    }

    /// Everything is read again and looked at, by one that leads.
    pub fn read_all(&mut self) {
        if !matches!(self.standing, Standing::Leads { .. }) {
            return;
        }
        let places = {
            let world = locked(&self.world);
            locked(&self.store.mind).cache.clear();
            world.homes.len()
        };
        for place in 0..places {
            self.enqueue(place);
        }
    }

    pub fn timer(&mut self, place: Place, token: u64) {
        if let Some(entry) = self.entries.get_mut(&place)
            && entry.timer == Some(token)
        {
            entry.timer = None;
            self.enqueue(place);
        }
    }

    /// A task has found something out. False: the process ends, for an agent told it that another one leads.
    pub fn answered(&mut self, ticket: &Ticket, result: Result<Found, Failure>) -> bool {
        if result
            .as_ref()
            .is_err_and(|failure| failure.reason == STALE_EPOCH)
        {
            return false;
        }
        self.observe(ticket, result);
        true
    }

    fn observe(&mut self, ticket: &Ticket, result: Result<Found, Failure>) {
        let place = ticket.place;
        let (now, key) = {
            let world = locked(&self.world);
            (Timestamp(world.now), key(&world, place))
        };
        let Some(entry) = self.entries.get_mut(&place) else {
            return;
        };
        if entry.out.get(&ticket.slot) != Some(&ticket.token) {
            return;
        }
        if let Ok(Found::Run(end)) = &result
            && end.has_outputs
        {
            locked(&self.store.mind).outputs.insert(end.update.clone());
        }
        if entry
            .memory
            .observe(&key, ticket.slot, &ticket.cause, result, now)
        {
            entry.out.remove(&ticket.slot);
            self.enqueue(place);
        }
    }

    /// Takes the next key. False: the process died of it.
    pub fn work(&mut self) -> bool {
        self.working = false;
        let Some(place) = self.queue.pop_front() else {
            return true;
        };
        self.queued.remove(&place);
        let alive = self.step(place);
        self.work_soon(2);
        alive
    }

    fn step(&mut self, place: Place) -> bool {
        let (now, key, planted, max_runs) = {
            let mut world = locked(&self.world);
            world.count_step(place);
            let key = key(&world, place);
            (
                Timestamp(world.now),
                key,
                world.plan.planted,
                world.plan.max_runs,
            )
        };
        let running = self
            .entries
            .values()
            .filter(|entry| entry.holds_run)
            .count();
        let entry = self.entries.entry(place).or_default();
        let capacity = entry.holds_run || running < max_runs;
        let decide = move |snapshot: &Snapshot| decide_with(planted, snapshot);
        let step = block_on(step_with(
            &decide,
            &self.settings,
            &mut entry.memory,
            &self.store,
            &key,
            capacity,
            now,
        ));
        if locked(&self.store.mind).dead {
            return false;
        }
        match step {
            Ok(step) => self.after(place, key, step),
            Err(_) => self.set_timer(place, SECOND),
        }
        true
    }

    fn after(&mut self, place: Place, key: Key, step: Step) {
        let Step {
            snapshot,
            decision,
            start,
            abandon,
            again,
            error,
            objects,
        } = step;
        let now = snapshot.now;
        self.check(place, &snapshot, &decision);
        let Some(entry) = self.entries.get_mut(&place) else {
            return;
        };
        for slot in abandon {
            entry.out.remove(&slot);
        }
        for task in start {
            let mut world = locked(&self.world);
            world.count_task(place);
            if !matches!(task.kind, TaskKind::Resolve { .. }) {
                let (number, what) = (self.number, word(&task.kind));
                world.note(|| format!("operator {number} asks for place {place}: {what}"));
            }
            let token = world.number();
            let slot = task.kind.slot();
            entry.out.insert(slot, token);
            let ticket = Ticket {
                operator: self.number,
                place,
                slot,
                cause: task.cause.clone(),
                token,
            };
            let input = TaskInput {
                key: key.clone(),
                kind: task.kind,
                cause: task.cause,
                objects: Arc::clone(&objects),
                epoch: self.epoch,
                now,
            };
            let lag = world.weather.max_lag;
            let delay = world.rng.between(1, 50 + lag);
            let task = Box::new(Asked { ticket, input });
            world.later(delay, Event::Asked { task });
        }
        let held = entry.holds_run;
        entry.holds_run = holds_run(&snapshot, &decision);
        entry.timer = None;
        let freed = held && !entry.holds_run;
        if decision.activity == Activity::Queued {
            self.waiting.insert(place);
        } else {
            self.waiting.remove(&place);
        }
        if freed && let Some(next) = self.waiting.pop_first() {
            self.enqueue(next);
        }
        if error.is_some() {
            self.set_timer(place, SECOND);
        } else if again {
            self.enqueue(place);
        } else if let Some(at) = decision.wake_at {
            let wait = i64::try_from(at.since(now).as_millis()).unwrap_or(HOUR);
            self.set_timer(place, wait + 1);
        }
    }

    fn check(&self, place: Place, snapshot: &Snapshot, decision: &Decision) {
        let mut world = locked(&self.world);
        if decision.wake_at.is_some_and(|at| at <= snapshot.now) {
            world.broken(Broken::WakeInFuture, || {
                format!(
                    "place {place}: {:?} at {:?}",
                    decision.wake_at, snapshot.now
                )
            });
        }
    }

    fn set_timer(&mut self, place: Place, wait: i64) {
        let mut world = locked(&self.world);
        let token = world.number();
        self.entries.entry(place).or_default().timer = Some(token);
        let operator = self.number;
        world.later(
            wait,
            Event::Timer {
                operator,
                place,
                token,
            },
        );
    }
}

fn key(world: &World, place: Place) -> Key {
    Key::new(NAMESPACE, world.homes[place].name.clone())
}

fn word(kind: &TaskKind) -> String {
    match kind {
        TaskKind::Resolve { .. } => "Resolve".into(),
        TaskKind::Fetch { .. } => "Fetch".into(),
        TaskKind::OpenBackend { .. } => "OpenBackend".into(),
        TaskKind::Deliver { instance, .. } => format!("Deliver to {instance}"),
        TaskKind::Run { update, instance } => format!("Run {update} on {instance}"),
        TaskKind::Cancel { update, instance } => format!("Cancel {update} on {instance}"),
    }
}

/// As the engine's loop counts runs.
fn holds_run(snapshot: &Snapshot, decision: &Decision) -> bool {
    let creates = decision.writes.iter().any(|write| {
        matches!(
            write,
            Write::CreateUpdate { .. } | Write::RecordStart { .. }
        )
    });
    let objects = &snapshot.objects;
    let open = objects
        .stack
        .as_ref()
        .is_some_and(|stack| ours(stack, &objects.updates).any(|update| !update.finished()));
    creates || open || started(objects).next().is_some()
}
