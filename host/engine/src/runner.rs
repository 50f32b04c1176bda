//! The loop over all keys: a queue without duplicates, timers, tasks with deadlines, and a limit on runs.
//!
//! One actor owns all memory. Steps run inside it (they only talk to the store); tasks run beside it.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::task::AbortHandle;
use tokio::time::Instant;
use windlass_core::decision::{Activity, Decision, Slot, Task, TaskKind};
use windlass_core::failure::{Failure, FailureClass};
use windlass_core::snapshot::Snapshot;
use windlass_core::time::Timestamp;

use crate::key::Key;
use crate::keyed::Keyed;
use crate::ports::{Found, Store, StoreError, TaskInput, Tasks};
use crate::step::{Settings, Step, step};

/// How long a key rests after the store failed.
const STORE_PAUSE: Duration = Duration::from_secs(1);
/// No timer is longer: a clock that was set, or a bug, cannot make a key sleep for ever.
const LONGEST_SLEEP: Duration = Duration::from_secs(3600);

/// Hears what happens; for tables, logs, metrics and saved snapshots.
pub trait Observer: Send + Sync + 'static {
    fn stepped(&self, key: &Key, snapshot: &Snapshot, decision: &Decision);
    /// The store could not be read or written for this key.
    fn store_failed(&self, key: &Key, error: &StoreError);
}

/// What the loop is told from outside.
#[derive(Clone, Debug)]
enum Message {
    Wake(Key),
    /// Something happened to the source that its revision does not show.
    Source(Key),
    Stop,
}

/// Speaks to a running loop. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Handle {
    messages: mpsc::UnboundedSender<Message>,
}

impl Handle {
    /// Looks at this key soon. Asking twice is asking once.
    pub fn wake(&self, key: Key) {
        // A loop that has ended needs no waking.
        let _ = self.messages.send(Message::Wake(key));
    }

    /// Asks this key's source again.
    pub fn source_changed(&self, key: Key) {
        let _ = self.messages.send(Message::Source(key));
    }

    /// Ends the loop after the step that is under way. Runs go on with their agents.
    pub fn stop(&self) {
        let _ = self.messages.send(Message::Stop);
    }
}

/// The loop over all keys.
pub struct Runner<S, T, O> {
    settings: Settings,
    store: Arc<S>,
    tasks: Arc<T>,
    observer: Arc<O>,
    max_runs: usize,
    /// Keys that hold a run.
    running: usize,
    clock: fn() -> Timestamp,
    keys: HashMap<Key, Entry>,
    queue: VecDeque<Key>,
    queued: BTreeSet<Key>,
    waiting_for_capacity: BTreeSet<Key>,
    timers: BTreeMap<(Instant, Key), ()>,
    messages: mpsc::UnboundedReceiver<Message>,
    done: mpsc::UnboundedReceiver<Done>,
    report: mpsc::UnboundedSender<Done>,
}

#[derive(Default)]
struct Entry {
    memory: Keyed,
    tasks: BTreeMap<Slot, AbortHandle>,
    timer: Option<Instant>,
    holds_run: bool,
    activity: Option<Activity>,
}

struct Done {
    key: Key,
    slot: Slot,
    cause: String,
    result: Result<Found, Failure>,
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
        let runner = Runner {
            settings,
            store,
            tasks,
            observer,
            max_runs: max_runs.max(1),
            running: 0,
            clock,
            keys: HashMap::new(),
            queue: VecDeque::new(),
            queued: BTreeSet::new(),
            waiting_for_capacity: BTreeSet::new(),
            timers: BTreeMap::new(),
            messages,
            done,
            report,
        };
        (runner, Handle { messages: sender })
    }

    /// Runs until [`Handle::stop`], or, if `until_settled`, until nothing goes on by itself any more: every key is
    /// settled, blocked on somebody else, or retries something that time alone rarely mends.
    pub async fn run(mut self, until_settled: bool) {
        loop {
            while let Ok(message) = self.messages.try_recv() {
                if self.take(message) {
                    return;
                }
            }
            while let Ok(done) = self.done.try_recv() {
                self.finish(done);
            }
            self.fire_timers();
            if let Some(key) = self.queue.pop_front() {
                self.queued.remove(&key);
                self.step(key).await;
                continue;
            }
            if until_settled && self.settled() {
                return;
            }
            let next = self.timers.keys().next().map(|(at, _)| *at);
            tokio::select! {
                message = self.messages.recv() => match message {
                    Some(message) => if self.take(message) { return },
                    // Nobody is left who could stop the loop.
                    None => return,
                },
                Some(done) = self.done.recv() => self.finish(done),
                () = sleep_until(next) => {}
            }
        }
    }

    fn take(&mut self, message: Message) -> bool {
        match message {
            Message::Wake(key) => self.enqueue(key),
            Message::Source(key) => {
                self.keys
                    .entry(key.clone())
                    .or_default()
                    .memory
                    .source_signal += 1;
                self.enqueue(key);
            }
            Message::Stop => return true,
        }
        false
    }

    fn enqueue(&mut self, key: Key) {
        if self.queued.insert(key.clone()) {
            self.queue.push_back(key);
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

    fn finish(&mut self, done: Done) {
        let Done {
            key,
            slot,
            cause,
            result,
        } = done;
        let Some(entry) = self.keys.get_mut(&key) else {
            return;
        };
        if entry
            .memory
            .observe(&key, slot, &cause, result, (self.clock)())
        {
            entry.tasks.remove(&slot);
            self.enqueue(key);
        }
    }

    async fn step(&mut self, key: Key) {
        let now = (self.clock)();
        let entry = self.keys.entry(key.clone()).or_default();
        let capacity = entry.holds_run || self.running < self.max_runs;
        match step(
            &self.settings,
            &mut entry.memory,
            &*self.store,
            &key,
            capacity,
            now,
        )
        .await
        {
            Ok(step) => self.after(key, step, now),
            Err(error) => {
                self.observer.store_failed(&key, &error);
                self.set_timer(key, Instant::now() + STORE_PAUSE);
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
        let gone = snapshot.objects.stack.is_none() && !again && decision.writes.is_empty();
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
        self.running -= usize::from(entry.holds_run);
        entry.holds_run = holds_run(&snapshot, &decision);
        self.running += usize::from(entry.holds_run);
        entry.activity = Some(decision.activity.clone());
        if let Some(timer) = entry.timer.take() {
            self.timers.remove(&(timer, key.clone()));
        }
        if decision.activity == Activity::Queued {
            self.waiting_for_capacity.insert(key.clone());
        } else {
            self.waiting_for_capacity.remove(&key);
        }
        // While a place is free, the first that waits tries to take it. Whoever cannot after all, because its backend
        // does not answer, say, leaves it to the next.
        if self.running < self.max_runs
            && let Some(next) = self.waiting_for_capacity.pop_first()
        {
            self.enqueue(next);
        }
        if let Some(error) = error {
            self.observer.store_failed(&key, &error);
            self.set_timer(key, Instant::now() + STORE_PAUSE);
        } else if again {
            self.enqueue(key);
        } else if gone {
            if let Some(entry) = self.keys.remove(&key) {
                self.running -= usize::from(entry.holds_run);
            }
        } else if let Some(at) = decision.wake_at {
            let wait = at.since((self.clock)()).min(LONGEST_SLEEP);
            self.set_timer(key, Instant::now() + wait + Duration::from_millis(1));
        }
    }

    fn set_timer(&mut self, key: Key, at: Instant) {
        let entry = self.keys.entry(key.clone()).or_default();
        if let Some(before) = entry.timer.replace(at) {
            self.timers.remove(&(before, key.clone()));
        }
        self.timers.insert((at, key), ());
    }

    /// Whether nothing is left that goes on by itself. What failed for want of something outside is tried a few times;
    /// a program that failed is not: its failure is the answer.
    fn settled(&self) -> bool {
        const PATIENCE: i64 = 3;
        self.queue.is_empty()
            && self.keys.values().all(|entry| match &entry.activity {
                None | Some(Activity::Busy | Activity::Queued) => false,
                Some(Activity::Retrying { attempts, patient }) => {
                    !*patient || *attempts >= PATIENCE
                }
                Some(Activity::Blocked { .. } | Activity::Settled) => true,
            })
    }
}

/// Whether the key has a run that is asked for and not over. One that cannot go on without help gives up its place: a
/// few broken images must not hold a fleet.
fn holds_run(snapshot: &Snapshot, decision: &Decision) -> bool {
    use windlass_core::decision::Write;
    let creates = decision
        .writes
        .iter()
        .any(|write| matches!(write, Write::CreateUpdate { .. }));
    let open = snapshot.objects.stack.as_ref().is_some_and(|stack| {
        windlass_core::run::ours(stack, &snapshot.objects.updates).any(|update| !update.finished())
    });
    let goes_on = !matches!(
        decision.activity,
        Activity::Blocked { .. } | Activity::Queued
    );
    creates || (open && goes_on)
}

fn spawn<T: Tasks>(
    tasks: Arc<T>,
    input: TaskInput,
    task: Task,
    report: mpsc::UnboundedSender<Done>,
) -> AbortHandle {
    let key = input.key.clone();
    let slot = task.kind.slot();
    let deadline = deadline(&task.kind);
    tokio::spawn(async move {
        let work = tasks.run(input);
        let result = match deadline {
            None => work.await,
            Some(limit) => match tokio::time::timeout(limit, work).await {
                Ok(result) => result,
                Err(_) => Err(Failure::new(
                    FailureClass::Unavailable,
                    "Timeout",
                    format!("no answer within {} s", limit.as_secs()),
                )),
            },
        };
        let _ = report.send(Done {
            key,
            slot,
            cause: task.cause,
            result,
        });
    })
    .abort_handle()
}

/// The longest that a task may take. A run has its own deadline, with its agent.
fn deadline(kind: &TaskKind) -> Option<Duration> {
    match kind {
        TaskKind::Resolve => Some(Duration::from_secs(60)),
        TaskKind::Fetch { .. } => Some(Duration::from_secs(120)),
        TaskKind::OpenBackend { .. } => Some(Duration::from_secs(30)),
        TaskKind::Cancel { .. } => Some(Duration::from_secs(30)),
        TaskKind::Run { .. } => None,
    }
}

async fn sleep_until(at: Option<Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at).await,
        None => std::future::pending().await,
    }
}
