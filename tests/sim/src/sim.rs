//! The loop over events, from the first Stack to the last rest.

use std::sync::{Arc, Mutex};

use serde_json::Value;
use windlass_core::decision::TaskKind;
use windlass_core::failure::{Failure, FailureClass};
use windlass_core::snapshot::Session;
use windlass_engine::ports::Found;

use crate::monitor::Broken;
use crate::operator::Operator;
use crate::plan::{HOUR, MINUTE, Plan, SECOND};
use crate::store::locked;
use crate::world::{Asked, Chance, EPOCH_MS, Event, World};

/// What a simulation came to.
#[derive(Clone, Debug)]
pub struct Report {
    pub seed: u64,
    /// The first rule that was broken, and how.
    pub violation: Option<(Broken, String)>,
    /// The last events before that, if the simulation was traced.
    pub story: Vec<String>,
    pub steps: u64,
    pub writes: u64,
    pub tasks: u64,
    pub runs: usize,
    pub resyncs: u64,
    pub actions: u64,
    pub crashes: u64,
    pub pods: u64,
    /// Status writes, the most that one Stack had, and of all.
    pub status_writes: (u64, u64),
    /// Virtual milliseconds until the fleet was at rest after the faults ended.
    pub healed_after: Option<i64>,
}

/// Lives a plan through.
pub fn simulate(plan: &Plan) -> Report {
    run(plan, false)
}

/// The same, remembering what happened.
pub fn trace(plan: &Plan) -> Report {
    run(plan, true)
}

fn run(plan: &Plan, tracing: bool) -> Report {
    let mut fresh = World::new(plan.clone());
    fresh.tracing = tracing;
    let world = Arc::new(Mutex::new(fresh));
    let mut sim = Sim {
        operators: Vec::new(),
        world: Arc::clone(&world),
    };
    {
        let mut world = locked(&world);
        world.settle_in();
        for chance in [
            Chance::OperatorTrouble,
            Chance::PodTrouble,
            Chance::User,
            Chance::Push,
            Chance::Outage,
        ] {
            schedule(&mut world, chance);
        }
    }
    for replica in 0..plan.replicas {
        let process = Operator::start(&world, format!("replica-{replica}"));
        sim.operators.push(process);
    }
    sim.until(EPOCH_MS + plan.live, |_| false);
    let mut healed_after = None;
    if plan.heal > 0 && locked(&world).monitor.violation.is_none() {
        locked(&world).heal();
        let began = locked(&world).now;
        let mut looked = 0;
        sim.until(EPOCH_MS + plan.live + plan.heal, |world| {
            // Now and then is enough.
            if world.now - looked < 10 * MINUTE {
                return false;
            }
            looked = world.now;
            let at_rest = world.now - began > 20 * MINUTE && world.first_unsettled().is_none();
            if at_rest {
                healed_after = Some(world.now - began);
            }
            at_rest
        });
        let mut world = locked(&world);
        if world.monitor.violation.is_none()
            && healed_after.is_none()
            && let Some((place, why)) = world.first_unsettled()
        {
            world.broken(Broken::Converges, || format!("place {place}: {why}"));
        }
        check_records(&mut world);
    }
    let world = locked(&world);
    let monitor = &world.monitor;
    Report {
        seed: plan.seed,
        violation: monitor.violation.clone(),
        story: world.story(),
        steps: monitor.steps,
        writes: monitor.writes,
        tasks: monitor.tasks,
        runs: monitor.started(),
        resyncs: monitor.resyncs,
        actions: monitor.actions,
        crashes: monitor.crashes,
        pods: monitor.pods_made,
        status_writes: (
            monitor.status_writes.values().copied().max().unwrap_or(0),
            monitor.status_writes.values().sum(),
        ),
        healed_after,
    }
}

/// Every run that began is on record, but those whose Stack went before.
fn check_records(world: &mut World) {
    let open = world.monitor.runs.iter().find(|(_, run)| {
        let stays = world
            .stack(run.place)
            .is_some_and(|stack| stack.metadata.uid.as_deref() == Some(&run.uid));
        run.recorded.is_none() && (stays || run.by_hand)
    });
    if let Some((name, run)) = open {
        let text = format!("{name} began and was never recorded: {run:?}");
        world.broken(Broken::TrueOutcome, || text);
    }
}

struct Sim {
    operators: Vec<Operator>,
    world: Arc<Mutex<World>>,
}

impl Sim {
    fn until(&mut self, end: i64, mut stop: impl FnMut(&mut World) -> bool) {
        loop {
            let event = {
                let mut world = locked(&self.world);
                if world.monitor.violation.is_some() || stop(&mut world) {
                    return;
                }
                match world.next(end) {
                    Some(event) => event,
                    None => {
                        world.now = end;
                        return;
                    }
                }
            };
            self.happens(event);
        }
    }

    fn operator(&mut self, number: u64) -> Option<&mut Operator> {
        self.operators.iter_mut().find(|it| it.number == number)
    }

    /// A frozen process hears and does everything later, in the same order.
    fn happens(&mut self, event: Event) {
        if let Some(operator) = concerns(&event) {
            let mut world = locked(&self.world);
            if let Some(end) = world.asleep_until(operator) {
                let mut delay = end - world.now;
                if matches!(event, Event::Lease { .. }) {
                    // Awake again, it works before the store has answered who leads.
                    let retry = world.plan.lease.retry;
                    delay += world.rng.between(0, retry);
                }
                world.later(delay, event);
                return;
            }
        }
        match event {
            Event::Work { operator } => {
                if let Some(it) = self.operator(operator)
                    && !it.work()
                {
                    self.dies(operator);
                }
            }
            Event::Deliver {
                operator,
                place,
                versions,
            } => {
                if !locked(&self.world).reaches_store(operator) {
                    return;
                }
                if let Some(it) = self.operator(operator) {
                    it.deliver(place, versions);
                }
            }
            Event::Timer {
                operator,
                place,
                token,
            } => {
                if let Some(it) = self.operator(operator) {
                    it.timer(place, token);
                }
            }
            Event::Lease { operator } => {
                if let Some(it) = self.operator(operator)
                    && !it.look_at_lease()
                {
                    self.dies(operator);
                }
            }
            Event::Relist { operator } => {
                if let Some(it) = self.operator(operator) {
                    it.relist();
                }
            }
            Event::Mended { operator } => {
                if let Some(it) = self.operator(operator) {
                    it.read_all();
                }
            }
            Event::Answered { ticket, result } => {
                let number = ticket.operator;
                if let Some(it) = self.operator(number)
                    && !it.answered(&ticket, *result)
                {
                    self.dies(number);
                }
            }
            Event::OperatorStarts { pod } => {
                let next = Operator::start(&self.world, pod);
                self.operators.push(next);
            }
            Event::Chance(Chance::OperatorTrouble) => self.operator_trouble(),
            other => elsewhere(&mut locked(&self.world), other),
        }
    }

    /// Its memory is gone; its place is taken by another, in the same pod or in a new one.
    fn dies(&mut self, number: u64) {
        let Some(at) = self.operators.iter().position(|it| it.number == number) else {
            return;
        };
        let Operator { pod, .. } = self.operators.remove(at);
        let mut world = locked(&self.world);
        world.operators.retain(|it| *it != number);
        world.asleep.remove(&number);
        world.cut.remove(&number);
        world.monitor.crashes += 1;
        world.note(|| format!("operator {number} is dead"));
        let pod = if world.rng.chance(0.3) {
            format!("replica-{number}")
        } else {
            pod
        };
        let delay = world.rng.between(100, 20 * SECOND);
        world.later(delay, Event::OperatorStarts { pod });
    }

    /// A process dies, or is frozen, or does not reach the store: mostly the one that leads.
    fn operator_trouble(&mut self) {
        let number = {
            let mut world = locked(&self.world);
            if !schedule(&mut world, Chance::OperatorTrouble) {
                return;
            }
            let leader = world.operators.first().copied();
            let all = self.operators.len();
            match leader {
                Some(leader) if world.rng.chance(0.8) => leader,
                _ if all == 0 => return,
                _ => self.operators[world.rng.below(all)].number,
            }
        };
        let mut world = locked(&self.world);
        let (freezes, cut) = (world.weather.freezes, world.weather.cut_off);
        if world.rng.chance(freezes) {
            world.freeze(number);
        } else if world.rng.chance(cut) {
            world.cut_off(number);
        } else {
            drop(world);
            self.dies(number);
        }
    }
}

/// The process that an event happens in.
fn concerns(event: &Event) -> Option<u64> {
    match event {
        Event::Work { operator }
        | Event::Deliver { operator, .. }
        | Event::Timer { operator, .. }
        | Event::Relist { operator }
        | Event::Lease { operator }
        | Event::Mended { operator } => Some(*operator),
        Event::Answered { ticket, .. } => Some(ticket.operator),
        _ => None,
    }
}

/// False: the weather does not bring such things any more.
fn schedule(world: &mut World, chance: Chance) -> bool {
    let weather = &world.weather;
    let every = match chance {
        Chance::OperatorTrouble => weather.crash_every,
        Chance::PodTrouble => weather.pod_trouble_every,
        Chance::User => weather.user_every,
        Chance::Push => weather.push_every,
        Chance::Outage => weather.outage_every,
    };
    if every > 0 {
        let delay = world.rng.between(every / 4, every * 7 / 4);
        world.later(delay, Event::Chance(chance));
    }
    every > 0
}

/// What happens outside the operators.
fn elsewhere(world: &mut World, event: Event) {
    match event {
        Event::Asked { task } => asked(world, *task),
        Event::PodReady { place, pod, boot } => world.pod_ready(place, &pod, boot),
        Event::PodGone { place, pod } => world.pod_gone(place, &pod),
        Event::Heals { place, pod } => world.pod_heals(place, &pod),
        Event::RunEnds { place, pod, update } => world.run_ends(place, &pod, &update),
        Event::GitBack => world.git.down = false,
        Event::BackendBack => world.backends.down = false,
        Event::SecretBack { reference } => {
            let version = world.number().to_string();
            world.set_secret(reference, Some(version));
        }
        Event::Resume { place } => world.edit(place, |spec, _| spec.suspend = false),
        Event::Recreate { place } => world.create(place),
        Event::Collect { place, owner } => world.collect(place, &owner),
        Event::AskAgain => world.ask_again(),
        Event::HandDone { stack } => {
            let state = world.backends.stack(&stack);
            state
                .locks
                .retain(|lock| lock.holder != crate::users::PERSON);
        }
        Event::Chance(chance) => {
            if !schedule(world, chance) {
                return;
            }
            match chance {
                Chance::PodTrouble => world.pod_trouble(),
                Chance::User => world.user(),
                Chance::Push => world.push(),
                Chance::Outage => outage(world),
                Chance::OperatorTrouble => {}
            }
        }
        Event::Work { .. }
        | Event::Deliver { .. }
        | Event::Timer { .. }
        | Event::Relist { .. }
        | Event::Answered { .. }
        | Event::Lease { .. }
        | Event::Mended { .. }
        | Event::OperatorStarts { .. } => {}
    }
}

fn outage(world: &mut World) {
    let delay = world.rng.between(MINUTE, HOUR);
    if world.rng.chance(0.5) {
        world.git.down = true;
        world.later(delay, Event::GitBack);
    } else {
        world.backends.down = true;
        world.later(delay, Event::BackendBack);
    }
}

fn asked(world: &mut World, task: Asked) {
    let Asked { ticket, input } = task;
    if !world.operators.contains(&ticket.operator) && !matches!(input.kind, TaskKind::Run { .. }) {
        return;
    }
    match &input.kind {
        TaskKind::Run { update, instance } => {
            world.ask_run(ticket, &input, update, instance);
        }
        TaskKind::Deliver { instance, .. } => {
            world.ask_deliver(ticket, input.epoch, instance);
        }
        TaskKind::Cancel { update, instance } => {
            world.ask_cancel(ticket, input.epoch, update, instance);
        }
        TaskKind::Resolve { .. } => {
            let stack = windlass_core::by_hand::stack(&input.objects);
            let spec = stack.map(|it| serde_json::to_value(&it.spec));
            let spec = spec.and_then(Result::ok).unwrap_or(Value::Null);
            let result = world.git.resolve(&spec).map(Found::Source);
            world.answer(ticket, result);
        }
        TaskKind::Fetch { resolution } => {
            let result = world.git.fetch(resolution).map(Found::Tree);
            world.answer(ticket, result);
        }
        TaskKind::OpenBackend { project } => {
            let result = open(world, &input, project.clone());
            world.answer(ticket, result);
        }
    }
}

fn open(
    world: &World,
    input: &windlass_engine::TaskInput,
    project: Option<String>,
) -> Result<Found, Failure> {
    if world.backends.down {
        return Err(Failure::new(
            FailureClass::Unavailable,
            "BackendUnavailable",
            "connection refused",
        ));
    }
    let spec = input
        .objects
        .stack
        .as_ref()
        .map(|it| it.spec.clone())
        .unwrap_or_default();
    let request = windlass_sdk::BackendRequest {
        project,
        stack: spec.stack.clone(),
        url: spec.backend.unwrap_or_default(),
        spec: Value::Null,
        now_ms: 0,
    };
    match backend_diy::open(&request) {
        Ok(session) => Ok(Found::Backend(Session {
            stack: session.stack,
            env: session.env,
            login: None,
        })),
        Err(error) => Err(Failure::new(
            FailureClass::Invalid,
            "BackendInvalid",
            format!("{error:?}"),
        )),
    }
}
