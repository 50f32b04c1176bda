//! What must hold after every event, whatever happens.

use std::collections::BTreeMap;

use windlass_api::conditions::{STALLED, is_true};
use windlass_api::intent::{Cause, RunSummary};
use windlass_api::run::RunState;
use windlass_api::stack::StackStatus;
use windlass_core::failure::FailureClass;
use windlass_core::run::ours;

use crate::backend::Lock;
use crate::outcome::{CANARY, End};
use crate::plan::SECOND;
use crate::world::{Place, World};

/// The rule that was broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Broken {
    /// Two runs of one workspace at a time.
    OneRunAtATime,
    /// A run began twice.
    StartedTwice,
    /// A run began that the store does not know as started there.
    StartedUnrecorded,
    /// A run was asked for by a leader that had been replaced.
    DeposedLeader,
    /// Two processes lead at a time, both awake.
    TwoLeaders,
    /// A leader has the epoch of an earlier one.
    EpochReused,
    /// A run is recorded with another outcome than it had, or never.
    TrueOutcome,
    /// What is recorded was overwritten by something older.
    RecordedBackwards,
    /// An Update was let go before its Stack recorded it.
    ReleasedUnrecorded,
    /// A Stack that could converge did not.
    Converges,
    /// The finalizer went while resources may remain.
    Finalizer,
    /// The lock of a living holder was taken away.
    LiveLock,
    /// The same was done again without a new reason.
    CauseServedTwice,
    /// A failure was tried again too soon.
    Backoff,
    /// A run began before its prerequisite ever succeeded.
    Prerequisite,
    /// A run was asked for while suspended.
    Suspended,
    /// A run began with a specification long replaced.
    StaleInputs,
    /// A secret stands in an object.
    Secret,
    /// More writes, tasks, steps or objects than the number of Stacks allows.
    Bounded,
    /// Ready went while only a resync was under way.
    Flaps,
    /// More status writes than a run may cost.
    StatusWrites,
    /// The wake-up time is not in the future.
    WakeInFuture,
    /// Taking over idle Stacks did something.
    Takeover,
}

/// What has been seen of one run.
#[derive(Clone, Debug)]
pub struct RunTruth {
    pub place: Place,
    /// The Stack's.
    pub uid: String,
    /// A person asked for it.
    pub by_hand: bool,
    /// It came as far as its stack's resources.
    pub touched: bool,
    pub end: Option<End>,
    /// What its Stack's status said: state and failure class.
    pub recorded: Option<(bool, Option<String>)>,
}

/// What a run was for: generation, request, revision, outputs of other Stacks, operation.
type Served = (i64, Option<String>, String, String, String);

#[derive(Default)]
pub struct Monitor {
    pub violation: Option<(Broken, String)>,
    pub runs: BTreeMap<String, RunTruth>,
    /// By the Stack's uid: what its last run was for, if that succeeded.
    served: BTreeMap<String, Served>,
    failed_at: BTreeMap<String, (i64, Option<String>)>,
    /// Places whose Stack has ever recorded a success, by uid.
    pub succeeded: BTreeMap<String, i64>,
    /// When a place's specification, or its suspension, last changed.
    pub edited_at: BTreeMap<Place, i64>,
    pub status_writes: BTreeMap<Place, u64>,
    pub hourly: BTreeMap<Place, (i64, u64, u64)>,
    pub instant: BTreeMap<Place, (i64, u64)>,
    pub steps: u64,
    pub writes: u64,
    pub tasks: u64,
    pub pods_made: u64,
    pub crashes: u64,
    pub resyncs: u64,
    /// What users did.
    pub actions: u64,
}

impl Monitor {
    pub fn run_ended(&mut self, update: &str, end: &End) {
        if let Some(run) = self.runs.get_mut(update)
            && run.end.is_none()
        {
            run.end = Some(end.clone());
        }
    }

    /// Runs that began.
    pub fn started(&self) -> usize {
        self.runs.len()
    }
}

impl World {
    pub fn slack(&self) -> i64 {
        // A cache may lag, and a step of a leader that is being replaced may be under way.
        self.plan.weather.max_lag + 30 * SECOND
    }

    pub fn deposed_start(&mut self, place: Place, update: &str, epoch: u64, highest: u64) {
        self.broken(Broken::DeposedLeader, || {
            format!(
                "{update} of place {place}: epoch {epoch} started it, the agent had heard {highest}"
            )
        });
    }

    pub fn check_start(&mut self, place: Place, instance: &str, update: &str) {
        let other = self.homes[place].pods.iter().find_map(|pod| {
            pod.process
                .as_ref()
                .map(|it| (pod.uid.clone(), it.update.clone()))
        });
        if let Some((pod, running)) = other {
            self.broken(Broken::OneRunAtATime, || {
                format!("{update} starts on {instance} while {running} goes on on {pod}")
            });
        }
        if self.monitor.runs.contains_key(update) {
            self.broken(Broken::StartedTwice, || {
                format!("{update} starts again on {instance}")
            });
        }
        let stored = self.homes[place]
            .updates
            .now()
            .iter()
            .find(|it| it.metadata.name.as_deref() == Some(update))
            .cloned();
        let recorded = stored
            .as_ref()
            .and_then(|it| it.status.as_ref()?.run.as_ref())
            .is_some_and(|run| run.instance == instance);
        if !recorded {
            self.broken(Broken::StartedUnrecorded, || {
                format!("{update} starts on {instance}")
            });
        }
        let uid = self.stack(place).and_then(|it| it.metadata.uid.clone());
        let truth = RunTruth {
            place,
            uid: uid.unwrap_or_default(),
            by_hand: stored.as_ref().is_some_and(crate::by_hand::by_hand),
            touched: false,
            end: None,
            recorded: None,
        };
        self.monitor.runs.insert(update.to_owned(), truth);
        if self.plan.taken_over {
            self.broken(Broken::Takeover, || format!("{update} runs"));
        }
    }

    pub fn check_release(&mut self, lock: &Lock) {
        let holder = &lock.holder;
        let alive = self
            .homes
            .iter()
            .flat_map(|home| &home.pods)
            .any(|pod| pod.process.as_ref().is_some_and(|it| it.update == *holder));
        if alive || holder == crate::users::PERSON {
            let text = format!("the lock of {holder}, which goes on, was taken away");
            self.broken(Broken::LiveLock, || text);
        }
    }

    /// A status is about to be stored.
    pub fn check_status(&mut self, place: Place, status: &StackStatus) {
        *self.monitor.status_writes.entry(place).or_insert(0) += 1;
        let Some(stack) = self.stack(place).cloned() else {
            return;
        };
        let old = stack.status.clone().unwrap_or_default();
        let uid = stack.metadata.uid.clone().unwrap_or_default();
        let (before, after) = (
            old.last_update.as_ref().map_or(0, |last| last.sequence),
            status.last_update.as_ref().map_or(0, |last| last.sequence),
        );
        if after < before {
            self.broken(Broken::RecordedBackwards, || {
                format!("place {place}: run {before} is overwritten by run {after}")
            });
        }
        // A workspace that does not start is trouble, whatever it was wanted for.
        let trouble = is_true(&status.conditions, STALLED);
        if crate::check::ready(&old) && !crate::check::ready(status) && after == before && !trouble
        {
            self.check_flap(place, &stack);
        }
        let Some(last) = status.last_update.as_ref().filter(|_| after > before) else {
            return;
        };
        let name = last.name.clone().unwrap_or_default();
        let recorded = (last.succeeded(), last.failure_class.clone());
        if last.succeeded() {
            self.monitor.succeeded.insert(uid, self.now);
        }
        self.check_outcome(&name, recorded);
        self.check_cause(place, &name, last.succeeded(), last.failure_class.clone());
    }

    fn check_flap(&mut self, place: Place, stack: &windlass_api::Stack) {
        let home = &self.homes[place];
        let resync = ours(stack, home.updates.now()).any(|it| {
            !it.finished()
                && it.intent.cause == Cause::Resync
                && Some(it.intent.generation) == stack.metadata.generation
        });
        let quiet = !stack.spec.suspend && stack.metadata.deletion_timestamp.is_none();
        let same = stack
            .status
            .as_ref()
            .and_then(|s| s.last_update.as_ref())
            .is_some_and(|last| {
                last.generation == stack.metadata.generation.unwrap_or_default()
                    && last.reconcile_request.as_deref()
                        == windlass_core::names::reconcile_request(stack)
            });
        if resync && quiet && same {
            self.broken(Broken::Flaps, || {
                format!("place {place} is not Ready during a resync")
            });
        }
    }

    /// The end of a run that a person asked for: its Update is its only record.
    pub fn check_made_by_hand(&mut self, place: Place, update: &str, summary: &RunSummary) {
        let stored = self.update(place, update);
        if stored.is_some_and(crate::by_hand::by_hand) {
            let recorded = (summary.state == RunState::Succeeded, summary.class.clone());
            self.check_outcome(update, recorded);
        }
    }

    fn check_outcome(&mut self, update: &str, recorded: (bool, Option<String>)) {
        let lost = recorded.1.as_deref() == Some("lost");
        let truth = self.monitor.runs.get(update).map(|run| run.end.clone());
        let honest = match &truth {
            // It never began: it cannot have succeeded.
            None => !recorded.0,
            // It goes on.
            Some(None) => false,
            Some(Some(End::Success)) => recorded.0 || lost,
            Some(Some(_)) => !recorded.0,
        };
        if !honest {
            self.broken(Broken::TrueOutcome, || {
                format!("{update} is recorded as {recorded:?}, the truth is {truth:?}")
            });
        }
        if let Some(run) = self.monitor.runs.get_mut(update) {
            run.recorded = Some(recorded);
        }
    }

    /// The run that is being recorded: had it a reason that was not served yet?
    fn check_cause(&mut self, place: Place, update: &str, succeeded: bool, class: Option<String>) {
        let stored = self.homes[place].updates.now();
        let found = stored
            .iter()
            .find(|it| it.metadata.name.as_deref() == Some(update));
        let Some(update) = found.cloned() else {
            return;
        };
        let Some(intent) = update.spec.intent.clone() else {
            return;
        };
        let uid = self
            .stack(place)
            .and_then(|stack| stack.metadata.uid.clone())
            .unwrap_or_default();
        let operation = update.spec.type_.clone().unwrap_or_default();
        let created = update
            .metadata
            .creation_timestamp
            .as_ref()
            .map_or(0, |t| t.0.as_millisecond());
        let served: Served = (
            intent.generation,
            intent.reconcile_request.clone(),
            intent.revision.clone(),
            intent.stack_outputs.clone(),
            operation,
        );
        // The last run succeeded with the very same: only the time for a resync is a reason to do it again.
        if self.monitor.served.get(&uid) == Some(&served) && intent.cause != Cause::Resync {
            let cause = intent.cause.clone();
            self.broken(Broken::CauseServedTwice, || {
                format!("place {place}: {cause:?} ran again: {served:?}")
            });
        }
        if intent.cause == Cause::Resync {
            self.monitor.resyncs += 1;
        }
        if let (Cause::Retry { attempt }, Some((ended, class))) =
            (&intent.cause, self.monitor.failed_at.get(&uid).cloned())
        {
            let least = FailureClass::parse(class.as_deref())
                .first_delay()
                .as_millis();
            // Times are stored in whole seconds.
            let least = i64::try_from(least).unwrap_or(0) - 2 * SECOND;
            if created - ended < least {
                let attempt = *attempt;
                self.broken(Broken::Backoff, || {
                    format!(
                        "place {place}: attempt {attempt} began {} ms after the failure",
                        created - ended
                    )
                });
            }
        }
        if succeeded {
            self.monitor.served.insert(uid.clone(), served);
            self.monitor.failed_at.remove(&uid);
        } else {
            self.monitor.served.remove(&uid);
            let ended = update_end(&update).unwrap_or(self.now);
            self.monitor.failed_at.insert(uid, (ended, class));
        }
    }

    pub fn check_finalizer(&mut self, place: Place) {
        let Some(stack) = self.stack(place).cloned() else {
            return;
        };
        let running = self.homes[place]
            .pods
            .iter()
            .any(|pod| pod.process.is_some());
        let uid = stack.metadata.uid.clone().unwrap_or_default();
        // What an earlier Stack of this name left is not this one's to destroy.
        let touched = self
            .monitor
            .runs
            .values()
            .any(|run| run.touched && run.uid == uid);
        let resources = self
            .backends
            .stack(&crate::users::canonical(&stack))
            .resources;
        let status = stack.status.clone().unwrap_or_default();
        let asked = stack.spec.destroy_on_finalize && !stack.spec.preview;
        if asked && touched && resources > 0 {
            let mutated = status.mutated;
            self.broken(Broken::Finalizer, || {
                format!("place {place}: {resources} resources remain, noted: {mutated:?}")
            });
        }
        if running {
            self.broken(Broken::Finalizer, || {
                format!("place {place}: released while a run goes on")
            });
        }
    }

    pub fn check_update_release(&mut self, place: Place, update: &windlass_api::Update) {
        // Those of a Stack that is gone are nobody's any more.
        let one = std::slice::from_ref(update);
        let Some(stack) = self
            .stack(place)
            .filter(|it| ours(it, one).next().is_some())
        else {
            return;
        };
        let recorded = stack
            .status
            .as_ref()
            .and_then(|s| s.last_update.as_ref())
            .map_or(0, |last| last.sequence);
        let ran = update.status.as_ref().is_some_and(|s| s.summary.is_some());
        let sequence = update
            .spec
            .intent
            .as_ref()
            .map_or(0, |intent| intent.sequence);
        if ran && sequence > recorded {
            self.broken(Broken::ReleasedUnrecorded, || {
                format!("place {place}: run {sequence} is let go, {recorded} is recorded")
            });
        }
    }

    /// Nothing stored carries a secret.
    pub fn check_secrets(&mut self, place: Place, value: &impl std::fmt::Debug) {
        let text = format!("{value:?}");
        if text.contains(CANARY) {
            self.broken(Broken::Secret, || format!("place {place}: {text}"));
        }
    }
}

fn update_end(update: &windlass_api::Update) -> Option<i64> {
    Some(update.status.as_ref()?.summary.as_ref()?.ended_at_ms)
}
