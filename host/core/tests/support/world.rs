//! The world around one Stack: what is stored, who answers tasks, and what the agent has run.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use serde_json::Value;
use windlass_api::intent::{Cause, RunIntent, RunSummary};
use windlass_api::run::{LoginExchange, Operation, ProgramSource};
use windlass_api::stack::{LastUpdate, StackStatus};
use windlass_api::{Stack, Time, Update};
use windlass_core::decide;
use windlass_core::decision::{Decision, Slot, Write};
use windlass_core::failure::Failure;
use windlass_core::snapshot::{
    Config, InstancePhase, LastRunView, Objects, Observations, Snapshot, StackView, WorkspaceView,
};
use windlass_core::time::Timestamp;

use super::T0;

/// `(type, status, reason, message)` of each condition, by type.
pub type Conditions = Vec<(String, String, String, String)>;

/// A run that an agent has started.
#[derive(Clone, Debug, PartialEq)]
pub struct Run {
    pub update: String,
    pub operation: Operation,
    pub cause: Cause,
    pub revision: String,
}

#[derive(Clone)]
pub struct World {
    pub s: Snapshot,
    pub revision: String,
    pub subtree: String,
    /// What the source states as the digest of its content.
    pub content: Option<String>,
    /// How the backend is entered.
    pub login: Option<LoginExchange>,
    /// Tasks of these slots fail so.
    pub trouble: BTreeMap<Slot, Failure>,
    /// Tasks of these slots stay out.
    pub held: BTreeSet<Slot>,
    /// How the next runs end; with success once there is none left.
    pub ends: VecDeque<RunSummary>,
    /// What becomes of a workspace that is made.
    pub new_workspace: InstancePhase,
    /// Everything that was written, in order.
    pub log: Vec<Write>,
    /// Every run that an agent was asked to start, in order.
    pub runs: Vec<Run>,
    /// What was put in place for init containers, in order.
    pub delivered: Vec<ProgramSource>,
    /// What the agent knows of its runs: a run asked for twice is one run.
    pub(super) journal: BTreeMap<String, RunSummary>,
    pub(super) version: u64,
    /// How often an instance of the workspace was made or brought back.
    pub(super) starts: u64,
}

impl World {
    pub fn new(stack: Stack) -> World {
        let mut world = World {
            s: Snapshot {
                now: Timestamp(T0),
                epoch: 1,
                config: Config {
                    default_idle_seconds: None,
                    keep_updates: 10,
                    workspace_path: false,
                },
                capacity: true,
                objects: Objects {
                    stack: Some(stack),
                    by_hand: None,
                    updates: Vec::new(),
                    workspace: WorkspaceView::default(),
                    stacks: BTreeMap::new(),
                    references: BTreeMap::new(),
                    health: Vec::new(),
                    refusal: None,
                },
                seen: Observations::default(),
                source_signal: 0,
            },
            revision: "r1".into(),
            subtree: "t1".into(),
            content: None,
            login: None,
            trouble: BTreeMap::new(),
            held: BTreeSet::new(),
            ends: VecDeque::new(),
            new_workspace: InstancePhase::Ready {
                boot_id: "boot-1".into(),
            },
            log: Vec::new(),
            runs: Vec::new(),
            delivered: Vec::new(),
            journal: BTreeMap::new(),
            version: 0,
            starts: 0,
        };
        world.touch_stack();
        world
    }

    // ---- Time and steps.

    pub fn decide(&self) -> Decision {
        decide(&self.s)
    }

    /// Decides, and does all that is asked for.
    pub fn step(&mut self) -> Decision {
        let from = self.s.clone();
        let decision = decide(&from);
        self.perform(&decision, &from.objects);
        self.answer(&decision.tasks);
        decision
    }

    /// Steps until nothing changes any more; the last decision. The time stands still.
    pub fn settle(&mut self) -> Decision {
        for _ in 0..60 {
            let before = self.s.seen.clone();
            let decision = self.step();
            if decision.writes.is_empty() && same(&before, &self.s.seen) {
                return decision;
            }
        }
        panic!("no end of steps at {:?}: {:#?}", self.s.now, self.decide());
    }

    pub fn settled(mut self) -> World {
        self.settle();
        self
    }

    /// Lets time pass without looking.
    pub fn pass(&mut self, seconds: u64) -> &mut World {
        self.s.now = self.s.now.after(Duration::from_secs(seconds));
        self
    }

    /// Lets time pass until the decision wants to look again, and settles.
    pub fn wake(&mut self) -> Decision {
        let decision = self.settle();
        self.s.now = decision
            .wake_at
            .expect("nothing would ever wake this Stack");
        self.settle()
    }

    /// Steps until an Update is created and returns what it asks for.
    pub fn next_intent(&mut self) -> Option<(Operation, RunIntent)> {
        for _ in 0..20 {
            let decision = self.step();
            for write in &decision.writes {
                if let Write::CreateUpdate {
                    operation, intent, ..
                } = write
                {
                    return Some((*operation, (**intent).clone()));
                }
            }
        }
        None
    }

    // ---- What people do.

    pub fn stack(&self) -> &Stack {
        self.s.objects.stack.as_ref().expect("the Stack is gone")
    }

    pub fn stack_mut(&mut self) -> &mut Stack {
        self.touch_stack();
        self.s.objects.stack.as_mut().expect("the Stack is gone")
    }

    /// Changes the specification: a new generation.
    pub fn edit(&mut self, fields: Value) -> &mut World {
        let stack = self.stack_mut();
        let mut spec = serde_json::to_value(&stack.spec).unwrap();
        for (key, value) in fields.as_object().unwrap() {
            spec[key] = value.clone();
        }
        stack.spec = serde_json::from_value(spec).unwrap();
        *stack.metadata.generation.as_mut().unwrap() += 1;
        self
    }

    pub fn request(&mut self, value: &str) -> &mut World {
        let annotations = &mut self.stack_mut().metadata.annotations;
        annotations
            .get_or_insert_default()
            .insert("pulumi.com/reconciliation-request".into(), value.to_owned());
        self
    }

    pub fn delete(&mut self) -> &mut World {
        let now = windlass_core::record::time(self.s.now.0);
        let metadata = &mut self.stack_mut().metadata;
        if metadata.deletion_timestamp.is_none() {
            metadata.deletion_timestamp = Some(now);
            *metadata.generation.as_mut().unwrap() += 1;
            // The store itself removes what nobody holds.
            if metadata.finalizers.as_ref().is_none_or(Vec::is_empty) {
                self.s.objects.stack = None;
            }
        }
        self
    }

    /// A new commit, and the source says so.
    pub fn push(&mut self, revision: &str, subtree: &str) -> &mut World {
        self.revision = revision.to_owned();
        self.subtree = subtree.to_owned();
        self.s.source_signal += 1;
        self
    }

    /// Another Stack that ran so long ago, or never.
    pub fn other(&mut self, name: &str, ran_seconds_ago: Option<u64>) -> &mut StackView {
        let at = |ago: u64| Timestamp(self.s.now.0 - i64::try_from(ago).unwrap() * 1000);
        let last = ran_seconds_ago.map(|ago| LastRunView {
            name: format!("{name}-1"),
            generation: 1,
            reconcile_request: None,
            succeeded: true,
            at: at(ago),
        });
        let view = StackView {
            generation: 1,
            last,
            ..StackView::default()
        };
        self.s.objects.stacks.insert(name.to_owned(), view);
        self.s.objects.stacks.get_mut(name).unwrap()
    }

    // ---- What goes wrong.

    pub fn hold_run(&mut self) {
        self.held.insert(Slot::Run);
    }

    /// The runs that were held end, as the world says.
    pub fn let_run_end(&mut self) -> Decision {
        self.held.remove(&Slot::Run);
        self.settle()
    }

    /// The workspace's process is gone; with proof or without.
    pub fn kill_workspace(&mut self, proof: bool) -> &mut World {
        let workspace = &mut self.s.objects.workspace;
        if let Some(instance) = workspace.current.take()
            && proof
        {
            workspace.ended.push(instance.uid);
        }
        self
    }

    pub fn workspace_phase(&mut self, phase: InstancePhase) -> &mut World {
        self.s.objects.workspace.current.as_mut().unwrap().phase = phase;
        self
    }

    /// Forgets everything that is only remembered.
    pub fn amnesia(&mut self) -> &mut World {
        self.s.seen = Observations::default();
        self
    }

    // ---- What is to be seen.

    pub fn status(&self) -> StackStatus {
        self.stack().status.clone().unwrap_or_default()
    }

    pub fn last(&self) -> LastUpdate {
        self.status().last_update.expect("no run is recorded")
    }

    pub fn conditions(&self) -> Conditions {
        let mut all: Conditions = self
            .status()
            .conditions
            .into_iter()
            .map(|c| (c.type_, c.status, c.reason, c.message))
            .collect();
        all.sort();
        all
    }

    /// The reason of the condition that says most: Stalled, else Reconciling, else Ready.
    pub fn reason(&self) -> String {
        let all = self.status().conditions;
        let of = |wanted: &str| all.iter().find(|c| c.type_ == wanted);
        of("Stalled")
            .or_else(|| of("Reconciling"))
            .or_else(|| of("Ready"))
            .map(|c| c.reason.clone())
            .unwrap_or_default()
    }

    /// The message beside [`World::reason`].
    pub fn message(&self) -> String {
        let reason = self.reason();
        let all = self.status().conditions;
        all.into_iter()
            .find(|c| c.reason == reason)
            .map(|c| c.message)
            .unwrap_or_default()
    }

    pub fn operations(&self) -> Vec<Operation> {
        self.runs.iter().map(|run| run.operation).collect()
    }

    pub fn newest_update(&self) -> &Update {
        self.s.objects.updates.last().expect("there is no Update")
    }

    pub fn gone(&self) -> bool {
        self.s.objects.stack.is_none()
    }

    pub fn update(&self, name: &str) -> &Update {
        let mut all = self.s.objects.updates.iter();
        all.find(|u| u.metadata.name.as_deref() == Some(name))
            .expect("there is no such Update")
    }

    pub fn now(&self) -> Time {
        windlass_core::record::time(self.s.now.0)
    }
}

fn same(before: &Observations, after: &Observations) -> bool {
    let Observations {
        source,
        tree,
        backend,
        program,
        run,
        cancel,
    } = before;
    *source == after.source
        && *tree == after.tree
        && *backend == after.backend
        && *program == after.program
        && *run == after.run
        && *cancel == after.cancel
}
