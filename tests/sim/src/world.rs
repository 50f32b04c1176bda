//! Everything outside the operator: stored objects, workspaces, backends, Git, time and what is going to happen.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};

use windlass_api::{Stack, Update, Workspace};
use windlass_core::decision::Slot;
use windlass_core::failure::Failure;
use windlass_core::snapshot::{Reference, WorkspaceView};
use windlass_engine::ports::{Found, TaskInput};

use crate::backend::Backends;
use crate::git::Git;
use crate::history::History;
use crate::lease::Lease;
use crate::monitor::{Broken, Monitor};
use crate::plan::{Plan, Weather};
use crate::pods::Pod;
use crate::rng::Rng;

/// When the simulated time begins: 2026-01-01.
pub const EPOCH_MS: i64 = 1_767_225_600_000;
pub const NAMESPACE: &str = "default";
const TRACE: usize = 3000;
const TOLD: usize = 70;

/// Index of a Stack's name among all names.
pub type Place = usize;

/// What is going to happen.
#[derive(Debug)]
pub enum Event {
    /// An operator takes the next key from its queue.
    Work {
        operator: u64,
    },
    /// The watch of an operator delivers versions: stack, updates, workspace.
    Deliver {
        operator: u64,
        place: Place,
        versions: [u64; 3],
    },
    Timer {
        operator: u64,
        place: Place,
        token: u64,
    },
    Relist {
        operator: u64,
    },
    /// A task's request reaches whom it asks.
    Asked {
        task: Box<Asked>,
    },
    /// A task's answer reaches the operator.
    Answered {
        ticket: Ticket,
        result: Box<Result<Found, Failure>>,
    },
    PodReady {
        place: Place,
        pod: String,
        boot: u64,
    },
    PodGone {
        place: Place,
        pod: String,
    },
    Heals {
        place: Place,
        pod: String,
    },
    RunEnds {
        place: Place,
        pod: String,
        update: String,
    },
    /// A process looks at the lease.
    Lease {
        operator: u64,
    },
    /// The network between a process and the store works again.
    Mended {
        operator: u64,
    },
    OperatorStarts {
        pod: String,
    },
    Chance(Chance),
    GitBack,
    BackendBack,
    SecretBack {
        reference: Reference,
    },
    Resume {
        place: Place,
    },
    Recreate {
        place: Place,
    },
    /// Of an object that is being deleted in the foreground.
    Collect {
        place: Place,
        owner: String,
    },
    AskAgain,
    HandDone {
        stack: String,
    },
}

/// What happens to the fleet again and again while the weather lasts.
#[derive(Clone, Copy, Debug)]
pub enum Chance {
    OperatorTrouble,
    PodTrouble,
    User,
    Push,
    Outage,
}

/// Whom an answer is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ticket {
    pub operator: u64,
    pub place: Place,
    pub slot: Slot,
    pub cause: String,
    pub token: u64,
}

#[derive(Debug)]
pub struct Asked {
    pub ticket: Ticket,
    pub input: TaskInput,
}

struct Due {
    at: i64,
    number: u64,
    event: Event,
}

impl PartialEq for Due {
    fn eq(&self, other: &Due) -> bool {
        (self.at, self.number) == (other.at, other.number)
    }
}
impl Eq for Due {}
impl PartialOrd for Due {
    fn partial_cmp(&self, other: &Due) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Due {
    fn cmp(&self, other: &Due) -> std::cmp::Ordering {
        (self.at, self.number).cmp(&(other.at, other.number))
    }
}

/// One Stack's name and everything stored under it.
pub struct Home {
    pub name: String,
    pub stack: History<Option<Stack>>,
    pub updates: History<Vec<Update>>,
    pub workspace: History<WorkspaceView>,
    /// A Workspace that somebody made by hand.
    pub by_hand: History<Option<Workspace>>,
    /// Instances, also those that are no longer to be seen and not proven dead.
    pub pods: Vec<Pod>,
    /// Uids of instances that are proven dead.
    pub ended: Vec<String>,
    /// Places that look at this one's Stack.
    pub dependents: Vec<Place>,
    /// What users of this place like: fixed by the seed.
    pub made: u64,
}

pub struct World {
    pub now: i64,
    pub rng: Rng,
    pub plan: Plan,
    /// The weather of the moment; still while the fleet heals.
    pub weather: Weather,
    pub homes: Vec<Home>,
    pub places: BTreeMap<String, Place>,
    /// Secrets and ConfigMaps with their versions.
    pub references: BTreeMap<Reference, Option<String>>,
    pub git: Git,
    pub backends: Backends,
    pub monitor: Monitor,
    /// Operators that believe that they lead, oldest first.
    pub operators: Vec<u64>,
    pub lease: Lease,
    /// Highest epoch given out.
    pub epoch: u64,
    /// Processes that were frozen, and until when.
    pub asleep: BTreeMap<u64, i64>,
    /// Processes that did not reach the store, and until when.
    pub cut: BTreeMap<u64, i64>,
    future: BinaryHeap<Reverse<Due>>,
    numbers: u64,
    trace: VecDeque<(i64, String)>,
    pub tracing: bool,
}

impl World {
    pub fn new(plan: Plan) -> World {
        World {
            now: EPOCH_MS,
            rng: Rng::new(plan.seed),
            weather: plan.weather.clone(),
            homes: Vec::new(),
            places: BTreeMap::new(),
            references: BTreeMap::new(),
            git: Git::default(),
            backends: Backends::default(),
            monitor: Monitor::default(),
            operators: Vec::new(),
            lease: Lease::default(),
            epoch: 0,
            asleep: BTreeMap::new(),
            cut: BTreeMap::new(),
            future: BinaryHeap::new(),
            numbers: 0,
            trace: VecDeque::new(),
            tracing: false,
            plan,
        }
    }

    /// A number that nobody else has.
    pub fn number(&mut self) -> u64 {
        self.numbers += 1;
        self.numbers
    }

    pub fn later(&mut self, delay: i64, event: Event) {
        let number = self.number();
        self.future.push(Reverse(Due {
            at: self.now + delay.max(0),
            number,
            event,
        }));
    }

    /// The next event and the time it happens at, if it is not after `until`.
    pub fn next(&mut self, until: i64) -> Option<Event> {
        if self.future.peek().is_none_or(|due| due.0.at > until) {
            return None;
        }
        let Reverse(due) = self.future.pop()?;
        self.now = due.at;
        Some(due.event)
    }

    /// Remembers what happened, for the report of a failure.
    pub fn note(&mut self, text: impl FnOnce() -> String) {
        if !self.tracing {
            return;
        }
        if self.trace.len() == TRACE {
            self.trace.pop_front();
        }
        let text = text();
        self.trace.push_back((self.now - EPOCH_MS, text));
    }

    /// The last events, oldest first: those of the place that the violation names, if it names one.
    pub fn story(&self) -> Vec<String> {
        let text = self.monitor.violation.as_ref().map_or("", |(_, text)| text);
        let named = (0..self.homes.len()).rev().find(|place| {
            text.contains(&format!("place {place}")) || text.contains(&format!("s{place}-"))
        });
        let concerns = |line: &str| match named {
            None => true,
            Some(place) => {
                let (word, name) = (format!("place {place}"), format!("s{place}-"));
                line.contains(&word)
                    || line.contains(&name)
                    || !line.contains("place") && !line.contains(" s")
            }
        };
        let lines: Vec<String> = self
            .trace
            .iter()
            .filter(|(_, line)| concerns(line))
            .map(|(at, line)| format!("{:>12.3}s  {line}", *at as f64 / 1000.0))
            .collect();
        lines[lines.len().saturating_sub(TOLD)..].to_vec()
    }

    pub fn broken(&mut self, rule: Broken, text: impl FnOnce() -> String) {
        if self.monitor.violation.is_none() {
            let text = text();
            self.note(|| format!("BROKEN {rule:?}: {text}"));
            self.monitor.violation = Some((rule, text));
        }
    }

    /// Tells every operator's watch that something of this place changed.
    pub fn changed(&mut self, place: Place) {
        let home = &self.homes[place];
        let versions = [
            home.stack.version(),
            home.updates.version(),
            home.workspace.version(),
        ];
        let mut concerned = vec![place];
        concerned.extend(home.dependents.iter().copied());
        for operator in self.operators.clone() {
            for &other in &concerned {
                if self.rng.chance(self.weather.event_dropped) {
                    continue;
                }
                let delay = self.rng.between(1, self.weather.max_lag.max(2));
                let versions = if other == place { versions } else { [0; 3] };
                self.later(
                    delay,
                    Event::Deliver {
                        operator,
                        place: other,
                        versions,
                    },
                );
            }
        }
    }

    /// Changes the Stack, as an API server does.
    pub fn change_stack(&mut self, place: Place, edit: impl FnOnce(&mut Stack)) {
        let version = self.number().to_string();
        let home = &mut self.homes[place];
        if home.stack.now().is_none() {
            return;
        }
        home.stack.change(|stack| {
            if let Some(stack) = stack {
                edit(stack);
                stack.metadata.resource_version = Some(version);
            }
        });
        self.changed(place);
    }

    pub fn stack(&self, place: Place) -> Option<&Stack> {
        self.homes[place].stack.now().as_ref()
    }
}
