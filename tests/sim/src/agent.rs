//! The agent's side of a run: started once by its id, followed by whoever asks, ended by itself, a person or a kill.

use windlass_api::intent::Cause;
use windlass_api::run::{LockInfo, Operation, RunRequest, RunState};
use windlass_core::by_hand;
use windlass_core::failure::{Failure, FailureClass};
use windlass_core::request::{Mounts, run_request};
use windlass_core::run::ours;
use windlass_core::snapshot::RunEnd;
use windlass_engine::ports::{Found, TaskInput};
use windlass_sdk::Outcome;

use crate::backend::{Deployed, Lock};
use crate::operator::STALE_EPOCH;
use crate::outcome::{End, summarize};
use crate::plan::{MINUTE, SECOND};
use crate::planted::Planted;
use crate::pods::{PodPhase, hostname};
use crate::world::{Event, Place, Ticket, World};

/// A CLI at work.
#[derive(Clone, Debug)]
pub struct Process {
    pub update: String,
    pub operation: Operation,
    pub stack: String,
    pub deployed: Deployed,
    pub started: i64,
    pub plan: End,
    pub lock: Option<String>,
    pub watchers: Vec<Ticket>,
    pub interrupted: Option<&'static str>,
}

impl World {
    /// A request to start a run, or to follow it, reaches the instance.
    pub fn ask_run(&mut self, ticket: Ticket, input: &TaskInput, update: &str, instance: &str) {
        let place = ticket.place;
        if self.rng.chance(self.weather.message_lost) {
            self.fail(ticket, "AgentUnreachable", "the connection was lost");
            return;
        }
        let epoch_ignored = self.plan.planted == Some(Planted::EpochIgnored);
        let Some(pod) = self.pod(place, instance) else {
            self.fail(ticket, "AgentUnreachable", "there is no such instance");
            return;
        };
        if pod.phase != PodPhase::Ready || !pod.visible {
            self.fail(ticket, "AgentUnreachable", "the agent does not answer");
            return;
        }
        let highest = pod.max_epoch;
        if input.epoch < highest && !epoch_ignored {
            self.fail(ticket, STALE_EPOCH, "another leader has spoken");
            return;
        }
        pod.max_epoch = highest.max(input.epoch);
        match pod.journal.get(update) {
            Some(Some(end)) => {
                let end = end.clone();
                self.answer(ticket, Ok(Found::Run(Box::new(end))));
                return;
            }
            Some(None) => {
                match &mut pod.process {
                    Some(process) if process.update == update => {
                        // Each is a connection of its own; an earlier request may arrive later.
                        process.watchers.push(ticket);
                    }
                    _ => self.found_dead(place, instance, update, ticket),
                }
                return;
            }
            None => {}
        }
        if pod.process.is_some() {
            self.fail(ticket, "AgentBusy", "another run goes on");
            return;
        }
        let Some(stack) = &by_hand::stack(&input.objects) else {
            self.fail(ticket, "AgentUnreachable", "the Stack is gone");
            return;
        };
        let mounts = Mounts {
            config_maps: "/config",
            secrets: "/secrets",
        };
        let all = ours(stack, &input.objects.updates).chain(by_hand::started(&input.objects));
        let Some(wanted) = all.into_iter().find(|it| it.name == update) else {
            self.fail(ticket, "AgentUnreachable", "the Update is gone");
            return;
        };
        let deployed = Deployed {
            revision: wanted.intent.revision.clone(),
            generation: wanted.intent.generation,
            stack_outputs: wanted.intent.stack_outputs.clone(),
        };
        let request = if wanted.intent.cause == Cause::ByHand {
            let workspace = input.objects.by_hand.as_ref();
            by_hand::request(stack, workspace, wanted, input.epoch, &mounts)
        } else {
            run_request(stack, wanted, input.epoch, &mounts)
        };
        if input.epoch < highest {
            self.deposed_start(place, update, input.epoch, highest);
        }
        self.start(ticket, instance, request, deployed);
    }

    fn start(&mut self, ticket: Ticket, instance: &str, request: RunRequest, deployed: Deployed) {
        let place = ticket.place;
        self.check_start(place, instance, &request.id);
        self.release_locks(&request);
        let seconds = self.weather.run_seconds;
        let mut takes = self.rng.between(seconds.0 * SECOND, seconds.1 * SECOND);
        let number = self.number();
        let now = self.now;
        let bad = request.operation != Operation::Destroy && self.git.is_bad(&deployed.revision);
        let (unavailable, hangs) = (
            self.rng.chance(self.weather.run_unavailable) || self.backends.down,
            self.rng.chance(self.weather.run_hangs),
        );
        let state = self.backends.stack(&request.stack);
        let mut lock = None;
        let plan = if request.operation.mutates() && !state.locks.is_empty() {
            takes = 2 * SECOND;
            End::Locked(state.locks.iter().map(|lock| lock.info.clone()).collect())
        } else if unavailable {
            takes = 5 * SECOND;
            End::Unavailable
        } else {
            if request.operation.mutates() {
                let id = format!("lock-{number}");
                state.locks.push(Lock {
                    info: LockInfo {
                        id: id.clone(),
                        user: "pulumi".into(),
                        hostname: hostname(instance),
                        pid: 7,
                        created: "2026-01-01T00:00:00Z".into(),
                        gone: false,
                    },
                    holder: request.id.clone(),
                });
                lock = Some(id);
            }
            match (hangs, request.timeout_seconds) {
                (true, Some(limit)) => {
                    takes = i64::try_from(limit).unwrap_or(60) * SECOND;
                    End::Deadline
                }
                (true, None) => End::Hangs,
                (false, _) if bad => End::Program,
                (false, _) => End::Success,
            }
        };
        self.note(|| {
            format!(
                "RUN {} ({}) of place {place} starts on {instance}: {plan:?}",
                request.id, request.operation
            )
        });
        let hangs = plan == End::Hangs;
        let update = request.id.clone();
        let lost = self.rng.chance(self.weather.message_lost);
        let process = Process {
            update: update.clone(),
            operation: request.operation,
            stack: request.stack,
            deployed,
            started: now,
            plan,
            lock,
            watchers: if lost {
                Vec::new()
            } else {
                vec![ticket.clone()]
            },
            interrupted: None,
        };
        if let Some(pod) = self.pod(place, instance) {
            pod.journal.insert(update.clone(), None);
            pod.process = Some(process);
        }
        if lost {
            self.fail(ticket, "AgentUnreachable", "the connection was lost");
        }
        if !hangs {
            let pod = instance.to_owned();
            self.later(takes, Event::RunEnds { place, pod, update });
        }
    }

    fn release_locks(&mut self, request: &RunRequest) {
        for id in &request.release_locks {
            let state = self.backends.stack(&request.stack);
            let Some(at) = state.locks.iter().position(|lock| lock.info.id == *id) else {
                continue;
            };
            let lock = state.locks.remove(at);
            self.check_release(&lock);
            self.note(|| format!("lock {id} of {} is released", lock.holder));
        }
    }

    /// The CLI comes to its end.
    pub fn run_ends(&mut self, place: Place, instance: &str, update: &str) {
        let Some(pod) = self.pod(place, instance) else {
            return;
        };
        let Some(process) = pod.process.take_if(|process| process.update == update) else {
            return;
        };
        let end = match process.interrupted {
            Some(cause) => End::Interrupted(cause),
            None => process.plan.clone(),
        };
        self.settle(place, instance, process, end);
    }

    /// The CLI is killed. With a living agent its end is seen.
    pub fn kill(&mut self, place: Place, instance: &str, seen: bool) {
        let Some(pod) = self.pod(place, instance) else {
            return;
        };
        let Some(process) = pod.process.take() else {
            return;
        };
        if seen && pod.phase != PodPhase::Down {
            self.settle(place, instance, process, End::Killed);
            return;
        }
        let held = process.lock.is_some();
        self.note(|| format!("RUN {} is killed, unseen, lock {held}", process.update));
        self.effects(&process, &End::Killed);
        self.monitor.run_ended(&process.update, &End::Killed);
    }

    /// Tells the CLI to stop soon.
    pub fn interrupt(&mut self, place: Place, instance: &str, cause: &'static str) {
        let delay = self.rng.between(SECOND, 20 * SECOND);
        let Some(pod) = self.pod(place, instance) else {
            return;
        };
        let Some(process) = &mut pod.process else {
            return;
        };
        if process.interrupted.is_some() {
            return;
        }
        process.interrupted = Some(cause);
        let (pod, update) = (instance.to_owned(), process.update.clone());
        self.later(delay, Event::RunEnds { place, pod, update });
    }

    pub fn ask_cancel(&mut self, ticket: Ticket, epoch: u64, update: &str, instance: &str) {
        let place = ticket.place;
        let reachable = self.pod(place, instance).is_some_and(|pod| {
            pod.phase == PodPhase::Ready && pod.visible && epoch >= pod.max_epoch
        });
        let runs = self
            .pod(place, instance)
            .is_some_and(|pod| pod.process.as_ref().is_some_and(|it| it.update == update));
        if !reachable || !runs || self.rng.chance(self.weather.message_lost) {
            self.fail(ticket, "AgentUnreachable", "nobody hears the cancellation");
            return;
        }
        self.interrupt(place, instance, "cancelled");
        self.answer(ticket, Ok(Found::Cancelling));
    }

    /// A restarted agent finds a run in its journal that nobody ended.
    fn found_dead(&mut self, place: Place, instance: &str, update: &str, ticket: Ticket) {
        let stack = self.stack_of(place, update);
        let outcome = Outcome::default();
        let locks = self.locks_of(&stack);
        let summary = summarize(self, place, instance, RunState::Lost, outcome, locks, 0);
        let end = RunEnd {
            update: update.to_owned(),
            summary,
            has_outputs: false,
        };
        if let Some(pod) = self.pod(place, instance) {
            pod.journal.insert(update.to_owned(), Some(end.clone()));
        }
        self.answer(ticket, Ok(Found::Run(Box::new(end))));
    }

    fn settle(&mut self, place: Place, instance: &str, process: Process, end: End) {
        self.note(|| format!("RUN {} ends: {end:?}", process.update));
        self.effects(&process, &end);
        self.monitor.run_ended(&process.update, &end);
        let state = end.state();
        let mut locks = end.locks();
        if end == End::Killed {
            locks = self.locks_of(&process.stack);
        }
        let outcome = end.outcome(&locks);
        let mut summary = summarize(
            self,
            place,
            instance,
            state,
            outcome,
            locks,
            process.started,
        );
        summary.reached_engine = !matches!(end, End::Locked(_) | End::Unavailable);
        let has_outputs = state == RunState::Succeeded && process.operation == Operation::Up;
        if has_outputs {
            let masked = self.plan.planted != Some(Planted::OutputsUnmasked);
            summary.outputs = Some(crate::outcome::outputs(&process, masked));
        }
        summary.resources = Some(self.backends.stack(&process.stack).resources);
        let run_end = RunEnd {
            update: process.update.clone(),
            summary,
            has_outputs,
        };
        let now = self.now;
        if let Some(pod) = self.pod(place, instance) {
            pod.journal
                .insert(process.update.clone(), Some(run_end.clone()));
            pod.idle_since = now;
        }
        let heard = self
            .pod(place, instance)
            .is_some_and(|pod| pod.phase == PodPhase::Ready || pod.phase == PodPhase::Stopping);
        for ticket in process.watchers {
            if heard {
                self.answer(ticket, Ok(Found::Run(Box::new(run_end.clone()))));
            } else {
                self.fail(ticket, "AgentUnreachable", "the connection was lost");
            }
        }
        self.publish(place);
    }

    /// What the run did to its stack, and its lock.
    fn effects(&mut self, process: &Process, end: &End) {
        let size = u32::try_from(process.deployed.generation.rem_euclid(5)).unwrap_or(0) + 1;
        let partial = u32::try_from(self.rng.below(4)).unwrap_or(0);
        let state = self.backends.stack(&process.stack);
        if *end != End::Killed {
            state
                .locks
                .retain(|lock| Some(&lock.info.id) != process.lock.as_ref());
        }
        if process.operation.mutates()
            && !matches!(end, End::Locked(_) | End::Unavailable)
            && let Some(run) = self.monitor.runs.get_mut(&process.update)
        {
            run.touched = true;
        }
        match (process.operation, end) {
            (Operation::Preview | Operation::Refresh, _) => {}
            (_, End::Locked(_) | End::Unavailable) => {}
            (Operation::Up, End::Success) => {
                state.resources = size;
                state.deployed = Some(process.deployed.clone());
            }
            (Operation::Destroy, End::Success) => {
                state.resources = 0;
                state.deployed = None;
            }
            (Operation::Up, _) => state.resources = state.resources.max(partial),
            (Operation::Destroy, _) => state.resources = state.resources.saturating_sub(partial),
        }
    }

    pub fn locks_of(&mut self, stack: &str) -> Vec<LockInfo> {
        let locks = &self.backends.stack(stack).locks;
        locks.iter().map(|lock| lock.info.clone()).collect()
    }

    fn stack_of(&self, place: Place, update: &str) -> String {
        let updates = self.homes[place].updates.now();
        updates
            .iter()
            .find(|it| it.metadata.name.as_deref() == Some(update))
            .and_then(|it| {
                let pinned = it.status.as_ref().and_then(|it| it.run.as_ref());
                let pinned = pinned.and_then(|run| run.intent.as_deref());
                it.spec.intent.as_ref().or(pinned)
            })
            .map(|intent| intent.stack.clone())
            .unwrap_or_default()
    }

    pub fn answer(&mut self, ticket: Ticket, result: Result<Found, Failure>) {
        let result = Box::new(result);
        let (delay, result) = if self.rng.chance(self.weather.message_lost) {
            let failure = Failure::new(FailureClass::Unavailable, "Timeout", "no answer");
            (MINUTE, Box::new(Err(failure)))
        } else {
            (self.rng.between(1, 200), result)
        };
        self.later(delay, Event::Answered { ticket, result });
    }

    pub fn fail(&mut self, ticket: Ticket, reason: &str, message: &str) {
        let failure = Failure::new(FailureClass::Unavailable, reason, message);
        let delay = self.rng.between(10, 5 * SECOND);
        let result = Box::new(Err(failure));
        self.later(delay, Event::Answered { ticket, result });
    }
}
