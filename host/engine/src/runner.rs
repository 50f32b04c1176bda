//! The loop over all keys: a queue without duplicates, timers, tasks with deadlines, and a limit on runs.
//!
//! One actor owns all memory. It lends a key's memory to the step of that key: steps of several keys run side by side,
//! of one key one after the other. Tasks run beside all of it.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::Instant;
use windlass_core::decision::{Activity, Decision};
use windlass_core::snapshot::Snapshot;
use windlass_core::time::Timestamp;

use crate::capacity::Places;
use crate::entry::{Done, Entry, Later, Report, StepDone, TaskDone, spawn};
use crate::handle::{Handle, Message};
use crate::key::Key;
use crate::ports::{Store, StoreError, TaskInput, Tasks};
use crate::stats::Stats;
use crate::step::{Settings, Step, step};
use crate::waiting::Waiting;

/// How long a key rests after the store failed; doubled with each failure in a row up to the second.
const STORE_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_STORE_PAUSE: Duration = Duration::from_secs(15);
/// How long a key rests after its step came to grief: a fault of this program, which may not concern other keys.
const PANIC_PAUSE: Duration = Duration::from_secs(300);
/// Steps that run side by side.
const STEPS: usize = 8;
/// No timer is longer: a clock that was set, or a bug, cannot make a key sleep for ever.
const LONGEST_SLEEP: Duration = Duration::from_secs(3600);

/// Hears what happens; for tables, logs, metrics and saved snapshots.
pub trait Observer: Send + Sync + 'static {
    fn stepped(&self, key: &Key, snapshot: &Snapshot, decision: &Decision);
    /// The store could not be read or written for this key.
    fn store_failed(&self, key: &Key, error: &StoreError);
}

/// The loop over all keys.
pub struct Runner<S, T, O> {
    settings: Settings,
    store: Arc<S>,
    tasks: Arc<T>,
    observer: Arc<O>,
    places: Arc<Places>,
    stats: Arc<Stats>,
    /// Keys whose step is under way.
    stepping: usize,
    /// The steps themselves: they end with this loop.
    steps: JoinSet<()>,
    clock: fn() -> Timestamp,
    keys: HashMap<Key, Entry>,
    /// With the moment since when each waits.
    queue: VecDeque<(Key, Instant)>,
    queued: BTreeSet<Key>,
    waiting_for_capacity: Waiting,
    timers: BTreeMap<(Instant, Key), ()>,
    messages: mpsc::UnboundedReceiver<Message>,
    done: mpsc::UnboundedReceiver<Done>,
    report: mpsc::UnboundedSender<Done>,
}

impl<S: Store, T: Tasks, O: Observer> Runner<S, T, O> {
    /// A loop over nothing yet. At most `max_runs` Stacks run at a time.
    pub fn new(
        settings: Settings,
        store: Arc<S>,
        tasks: Arc<T>,
        observer: Arc<O>,
        max_runs: usize,
        clock: fn() -> Timestamp,
    ) -> (Self, Handle) {
        let (sender, messages) = mpsc::unbounded_channel();
        let (report, done) = mpsc::unbounded_channel();
        let places = Places::new(max_runs);
        let runner = Runner {
            settings,
            store,
            tasks,
            observer,
            stats: Arc::new(Stats::new(Arc::clone(&places))),
            places,
            stepping: 0,
            steps: JoinSet::new(),
            clock,
            keys: HashMap::new(),
            queue: VecDeque::new(),
            queued: BTreeSet::new(),
            waiting_for_capacity: Waiting::default(),
            timers: BTreeMap::new(),
            messages,
            done,
            report,
        };
        (runner, Handle { messages: sender })
    }

    /// What an observer may read at any time, while the loop runs and after it.
    pub fn stats(&self) -> Arc<Stats> {
        Arc::clone(&self.stats)
    }

    /// Runs until [`Handle::stop`], or, if `until_settled`, until nothing goes on by itself any more: every key is
    /// settled, blocked on somebody else, or retries something that time alone rarely mends.
    pub async fn run(mut self, until_settled: bool) {
        loop {
            while let Ok(message) = self.messages.try_recv() {
                if self.take(message) {
                    return self.end().await;
                }
            }
            while self.steps.try_join_next().is_some() {}
            while let Ok(done) = self.done.try_recv() {
                self.finish(done);
            }
            self.fire_timers();
            while self.stepping < STEPS
                && let Some(key) = self.next()
            {
                self.step(key);
            }
            if until_settled && self.settled() {
                return;
            }
            let next = self.timers.keys().next().map(|(at, _)| *at);
            self.publish();
            tokio::select! {
                message = self.messages.recv() => match message {
                    Some(message) => if self.take(message) { return self.end().await },
                    // Nobody is left who could stop the loop.
                    None => return self.end().await,
                },
                Some(done) = self.done.recv() => self.finish(done),
                () = sleep_until(next) => {}
            }
        }
    }

    fn publish(&self) {
        self.stats.publish(
            self.queue.len(),
            self.queue.front().map(|(_, since)| *since),
            self.stepping,
            self.keys.len(),
            self.waiting_for_capacity.len(),
        );
    }

    /// Lets the steps finish that are under way.
    async fn end(&mut self) {
        while self.steps.join_next().await.is_some() {}
    }

    fn take(&mut self, message: Message) -> bool {
        match message {
            Message::Wake(key) => self.enqueue(key),
            Message::Source(key) => {
                let entry = self.entry(&key);
                match &mut entry.memory {
                    Some((memory, _)) => memory.source_signal += 1,
                    None => entry.later.push(Later::Source),
                }
                self.enqueue(key);
            }
            Message::Stop => return true,
        }
        false
    }

    fn enqueue(&mut self, key: Key) {
        if self.queued.insert(key.clone()) {
            self.queue.push_back((key, Instant::now()));
        }
    }

    fn fire_timers(&mut self) {
        let now = Instant::now();
        while let Some((at, _)) = self.timers.keys().next().cloned() {
            if at > now {
                break;
            }
            if let Some(((_, key), ())) = self.timers.pop_first() {
                if let Some(entry) = self.keys.get_mut(&key) {
                    entry.timer = None;
                }
                self.enqueue(key);
            }
        }
    }

    fn entry(&mut self, key: &Key) -> &mut Entry {
        let places = &self.places;
        self.keys
            .entry(key.clone())
            .or_insert_with(|| Entry::new(places))
    }

    /// The next key whose memory is at hand. One that is being looked at keeps its place in the queue.
    fn next(&mut self) -> Option<Key> {
        let at = self.queue.iter().position(|(key, _)| {
            self.keys
                .get(key)
                .is_none_or(|entry| entry.memory.is_some())
        })?;
        let (key, _) = self.queue.remove(at)?;
        self.queued.remove(&key);
        Some(key)
    }

    fn finish(&mut self, done: Done) {
        let Done { key, report } = done;
        match report {
            Report::Task(done) => self.task_done(key, done),
            Report::Step(done) => {
                self.stepping -= 1;
                self.step_done(key, *done);
            }
        }
    }

    fn task_done(&mut self, key: Key, done: TaskDone) {
        let now = (self.clock)();
        let Some(entry) = self.keys.get_mut(&key) else {
            return;
        };
        let Some((memory, _)) = &mut entry.memory else {
            entry.later.push(Later::Task(done));
            return;
        };
        let TaskDone {
            slot,
            cause,
            result,
        } = done;
        if memory.observe(&key, slot, &cause, result, now) {
            entry.tasks.remove(&slot);
            self.enqueue(key);
        }
    }

    fn step(&mut self, key: Key) {
        let now = (self.clock)();
        let Some((mut memory, mut place)) = self.entry(&key).memory.take() else {
            // Looked at already; `next` does not choose it.
            return self.enqueue(key);
        };
        self.stepping += 1;
        let (settings, store) = (self.settings.clone(), Arc::clone(&self.store));
        let report = self.report.clone();
        self.steps.spawn(async move {
            let stepped = step(&settings, &mut memory, &*store, &key, &mut place, now);
            let result = AssertUnwindSafe(stepped).catch_unwind().await.ok();
            let done = StepDone {
                memory,
                place,
                now,
                result,
            };
            let _ = report.send(Done {
                key,
                report: Report::Step(Box::new(done)),
            });
        });
    }

    fn step_done(&mut self, key: Key, done: StepDone) {
        let StepDone {
            memory,
            place,
            now,
            result,
        } = done;
        let entry = self.entry(&key);
        entry.memory = Some((memory, place));
        let later = std::mem::take(&mut entry.later);
        match result {
            Some(Ok(step)) => self.after(key.clone(), step, now),
            Some(Err(error)) => {
                self.rest(key.clone(), &error);
            }
            None => {
                tracing::error!(%key, "looking at this key came to grief; it rests for a while");
                // Whatever it was, it is found out again from nothing.
                self.keys.remove(&key);
                self.set_timer(key.clone(), Instant::now() + PANIC_PAUSE);
            }
        }
        for news in later {
            match news {
                Later::Source => {
                    if let Some((memory, _)) = &mut self.entry(&key).memory {
                        memory.source_signal += 1;
                    }
                    self.enqueue(key.clone());
                }
                Later::Task(done) => self.task_done(key.clone(), done),
            }
        }
    }

    fn after(&mut self, key: Key, step: Step, now: Timestamp) {
        let Step {
            snapshot,
            decision,
            start,
            abandon,
            again,
            error,
            objects,
        } = step;
        self.observer.stepped(&key, &snapshot, &decision);
        // Nothing is left, or what is left is nothing that a Stack or a person wants.
        let gone = snapshot.objects.stack.is_none()
            && snapshot.objects.by_hand.is_none()
            && !again
            && decision.writes.is_empty()
            && decision.tasks.is_empty();
        let Some(entry) = self.keys.get_mut(&key) else {
            return;
        };
        for slot in abandon {
            if let Some(task) = entry.tasks.remove(&slot) {
                task.abort();
            }
        }
        for task in start {
            let slot = task.kind.slot();
            let input = TaskInput {
                key: key.clone(),
                kind: task.kind.clone(),
                cause: task.cause.clone(),
                objects: Arc::clone(&objects),
                epoch: self.settings.epoch,
                now,
            };
            let handle = spawn(Arc::clone(&self.tasks), input, task, self.report.clone());
            if let Some(before) = entry.tasks.insert(slot, handle) {
                before.abort();
            }
        }
        entry.activity = Some(decision.activity.clone());
        if error.is_none() {
            entry.store_failures = 0;
        }
        if let Some(timer) = entry.timer.take() {
            self.timers.remove(&(timer, key.clone()));
        }
        if decision.activity == Activity::Queued {
            self.waiting_for_capacity.insert(&key);
        } else {
            self.waiting_for_capacity.remove(&key);
        }
        // While a place is free, whoever's turn it is tries to take it. Whoever cannot after all, because its backend
        // does not answer, say, leaves it to the next.
        if self.places.free()
            && let Some(next) = self.waiting_for_capacity.take()
        {
            self.enqueue(next);
        }
        if let Some(error) = error {
            self.rest(key, &error);
            return;
        }
        if again {
            self.enqueue(key);
        } else if gone {
            self.keys.remove(&key);
        } else if let Some(at) = decision.wake_at {
            let wait = at.since((self.clock)()).min(LONGEST_SLEEP);
            self.set_timer(key, Instant::now() + wait + Duration::from_millis(1));
        }
    }

    /// The store failed: everybody who waits for it comes back, but not at once and not together.
    fn rest(&mut self, key: Key, error: &StoreError) {
        self.observer.store_failed(&key, error);
        let entry = self.entry(&key);
        let factor = 1 << entry.store_failures.min(10);
        entry.store_failures += 1;
        let pause = (STORE_PAUSE * factor).min(LONGEST_STORE_PAUSE);
        self.set_timer(key, Instant::now() + pause);
    }

    fn set_timer(&mut self, key: Key, at: Instant) {
        if let Some(before) = self.entry(&key).timer.replace(at) {
            self.timers.remove(&(before, key.clone()));
        }
        self.timers.insert((at, key), ());
    }

    /// Whether nothing is left that goes on by itself. What failed for want of something outside is tried a few times;
    /// a program that failed is not: its failure is the answer.
    fn settled(&self) -> bool {
        const PATIENCE: i64 = 3;
        self.queue.is_empty()
            && self.stepping == 0
            && self.keys.values().all(|entry| match &entry.activity {
                None | Some(Activity::Busy | Activity::Queued) => false,
                Some(Activity::Retrying { attempts, patient }) => {
                    !*patient || *attempts >= PATIENCE
                }
                Some(Activity::Blocked { .. } | Activity::Settled) => true,
            })
    }
}

async fn sleep_until(at: Option<Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at).await,
        None => std::future::pending().await,
    }
}
