//! The decision: from everything that is known about one Stack to what to do next.
//!
//! The order of the questions is the order of this file: a run that is not over yet comes before everything; then
//! deletion, suspension, the specification, the source, whether a run is due, what it still waits for, and the Update
//! that asks for it.

use windlass_api::Stack;
use windlass_api::intent::{Cause, RunIntent};
use windlass_api::run::{Operation, ProgramSource};
use windlass_api::stack::{CurrentUpdate, ReclaimPolicy, StackStatus};

use crate::by_hand;
use crate::decision::{Activity, Decision, Write};
use crate::draft::Draft;
use crate::due::{self, Due, Question};
use crate::failure::FailureClass;
use crate::names::{generation, reconcile_request, stack_name, uid};
use crate::obs::Known;
use crate::phase::{Phase, StallReason};
use crate::record;
use crate::run;
use crate::snapshot::{Resolution, Snapshot};
use crate::spec::{self, Checked};
use crate::time::Timestamp;

/// Decides what to do next for one Stack. Pure: no IO, no clock, no chance, no memory.
pub fn decide(snapshot: &Snapshot) -> Decision {
    match &snapshot.objects.stack {
        None => by_hand::decide(snapshot),
        Some(stack) => Live::new(snapshot, stack).decide(),
    }
}

/// The Stack is gone: what it left behind goes too.
fn gone(snapshot: &Snapshot) -> Decision {
    let mut draft = Draft::new(snapshot);
    draft.delete_updates_of_the_stack();
    draft.stop_workspace();
    draft.finish(None, Activity::Settled)
}

/// A Stack that exists, and what has been worked out about it so far.
pub(crate) struct Live<'a> {
    pub s: &'a Snapshot,
    pub stack: &'a Stack,
    pub status: StackStatus,
    pub deleting: bool,
    /// An Update that was made by hand waits for the workspace: it is not idle.
    pub waited_for: bool,
    pub draft: Draft<'a>,
}

/// What a stage answers: go on with a value, or stop here in this state.
pub(crate) enum Stage<T> {
    Go(T),
    Stop(Phase, Activity),
}

macro_rules! go {
    ($self:ident, $stage:expr) => {
        match $stage {
            Stage::Go(value) => value,
            Stage::Stop(phase, activity) => return $self.finish(phase, activity),
        }
    };
}

impl<'a> Live<'a> {
    pub(crate) fn new(s: &'a Snapshot, stack: &'a Stack) -> Live<'a> {
        Live {
            s,
            stack,
            status: stack.status.clone().unwrap_or_default(),
            deleting: stack.metadata.deletion_timestamp.is_some(),
            waited_for: false,
            draft: Draft::new(s),
        }
    }

    fn decide(mut self) -> Decision {
        let ours = self.has_finalizer();
        if self.deleting && !ours {
            return gone(self.s);
        }
        if !ours {
            self.draft.first.push(Write::AddFinalizer);
        }
        let checked = spec::check(self.stack, self.s.config.workspace_path);
        let in_flight = run::in_flight(&mut self, checked.as_ref().ok());
        let deleting = self.deleting;
        let own_open = in_flight.is_some() || deleting;
        let by_hand = by_hand::tend(&mut self, own_open, checked.as_ref().ok());
        if let Some((phase, activity)) = in_flight {
            return self.finish(phase, activity);
        }
        if by_hand {
            // What the Stack has shown so far stays true meanwhile.
            let phase = self.busy_phase(&Cause::Resync, "waiting for an Update made by hand");
            return self.finish(phase, Activity::Busy);
        }
        self.prune_updates();
        if self.deleting && !self.must_destroy() {
            return self.release("nothing is left to destroy");
        }
        let checked = match checked {
            Ok(checked) => checked,
            Err(error) => {
                let phase = Phase::stalled(StallReason::SpecInvalid, error.0.clone());
                return self.finish(
                    phase,
                    Activity::Blocked {
                        on: vec!["an edit of the Stack".into()],
                    },
                );
            }
        };
        if self.stack.spec.suspend && !self.deleting {
            self.reclaim_idle();
            return self.finish(Phase::Suspended, Activity::Settled);
        }
        self.run_if_due(checked)
    }

    fn run_if_due(mut self, checked: Checked) -> Decision {
        // A destroy needs no source, unless it is asked to run the program.
        let sourceless = self.deleting && !self.stack.spec.run_program;
        let source = if sourceless {
            None
        } else {
            Some(go!(self, self.source(&checked)))
        };
        let revision = match &source {
            Some(source) => source.value.revision.clone(),
            None => String::new(),
        };
        let stack_outputs = checked.stack_outputs_digest(&self.s.objects);
        let due = due::due(&Question {
            uid: uid(self.stack),
            spec: &self.stack.spec,
            generation: generation(self.stack),
            reconcile_request: reconcile_request(self.stack),
            deleting: self.deleting,
            revision: source.as_ref().map(|_| revision.as_str()),
            source_digest: source.as_ref().and_then(|source| source.value.digest()),
            stack_outputs: &stack_outputs,
            last: self.status.last_update.as_ref(),
            now: self.s.now,
        });
        let cause = match due {
            Due::Now(cause) => cause,
            Due::Synced { .. } if self.deleting => {
                return self.release("the resources are destroyed");
            }
            Due::Synced { until } => return self.synced(until),
            Due::Backoff { until } => {
                self.draft.wake(until);
                let attempts = self.failures();
                let phase = self.failed_phase();
                // What is Stalled will hardly be mended by the next attempt, nor will a program by its second.
                let patient = !matches!(phase, Phase::Stalled { .. })
                    && self.status.last_update.as_ref().is_some_and(|last| {
                        !FailureClass::parse(last.failure_class.as_deref()).stalls()
                    });
                return self.finish(phase, Activity::Retrying { attempts, patient });
            }
            Due::GivenUp => {
                let phase = self.given_up_phase();
                return self.finish(
                    phase,
                    Activity::Blocked {
                        on: vec!["an edit, a new revision or a request".into()],
                    },
                );
            }
        };
        self.prepare(checked, source, cause, stack_outputs)
    }

    /// A run is due: wait for what it needs, then ask for it.
    fn prepare(
        mut self,
        checked: Checked,
        source: Option<Known<Resolution>>,
        cause: Cause,
        stack_outputs: String,
    ) -> Decision {
        go!(self, self.inputs_exist(&checked));
        if !self.deleting {
            go!(self, self.prerequisites(&checked));
        }
        let tree = match &source {
            Some(source) => Some(go!(self, self.tree(source, &cause))),
            None => None,
        };
        if let (Some(tree), Some(source)) = (&tree, &source)
            && self.only_elsewhere(&cause, tree)
        {
            // The revision is new, the program's directory is not.
            if let Some(last) = &mut self.status.last_update {
                last.last_successful_commit = Some(source.value.revision.clone());
                last.source_digest = source.value.digest().map(str::to_owned);
            }
            return self.synced(None);
        }
        if let Some((phase, activity)) = self.refused() {
            return self.finish(phase, activity);
        }
        if !self.s.capacity {
            let phase = self.busy_phase(&cause, "waiting for other runs to end");
            return self.finish(phase, Activity::Queued);
        }
        let project = tree
            .as_ref()
            .and_then(|tree| tree.project.clone())
            .or_else(|| self.status.project_info.clone());
        let session = go!(
            self,
            self.backend(project.as_ref().map(|p| p.name.clone()), &cause)
        );
        let program = match (&tree, project) {
            (Some(tree), _) => tree.program.clone(),
            (None, Some(project)) => ProgramSource::ProjectOnly {
                name: project.name,
                runtime: project.runtime,
            },
            // The canonical name has the project in it; the runtime is of no use to a destroy without program.
            (None, None) => ProgramSource::ProjectOnly {
                name: session
                    .stack
                    .split('/')
                    .rev()
                    .nth(1)
                    .unwrap_or(&session.stack)
                    .to_owned(),
                runtime: "yaml".to_owned(),
            },
        };
        self.want_workspace(&checked, session.login.as_ref(), &program);
        let operation = if self.deleting {
            Operation::Destroy
        } else {
            Checked::operation(&self.stack.spec)
        };
        let sequence = self.next_sequence();
        let source_digest = source
            .as_ref()
            .and_then(|source| source.value.digest())
            .map(str::to_owned);
        let revision = source
            .map(|source| source.value.revision)
            .unwrap_or_default();
        let intent = RunIntent {
            sequence,
            cause: cause.clone(),
            generation: generation(self.stack),
            reconcile_request: reconcile_request(self.stack).map(str::to_owned),
            revision: revision.clone(),
            program,
            subtree: tree.map(|tree| tree.subtree),
            source_digest,
            stack: session.stack,
            env: session.env,
            login: session.login,
            inputs: checked.inputs_digest(self.stack, &self.s.objects),
            stack_outputs,
            release_locks: self.stale_locks(),
        };
        let name =
            windlass_api::names::update_name(stack_name(self.stack), uid(self.stack), sequence);
        // It was announced and is not there: never made, or made, run and deleted since, and this status is an old one.
        // Writing the status again tells, for that is refused to whoever has an old one.
        let stored = self.stack.status.as_ref();
        let announced = stored.and_then(|status| status.current_update.as_ref());
        self.draft.confirm = announced.is_some_and(|update| update.name.as_ref() == Some(&name));
        // A resync that changes nothing is one write to the Stack, at its end: it is not announced.
        if cause != Cause::Resync {
            self.status.current_update = Some(CurrentUpdate {
                generation: intent.generation,
                reconcile_request: intent.reconcile_request.clone(),
                name: Some(name.clone()),
                commit: Some(revision),
            });
            self.draft
                .event(false, "StackUpdateDetected", cause.message());
        }
        self.draft.create.push(Write::CreateUpdate {
            name,
            operation,
            intent: Box::new(intent),
        });
        let phase = self.busy_phase(&cause, "waiting for workspace readiness");
        self.finish(phase, Activity::Busy)
    }

    /// The Stack is in step with its source: nothing to run now.
    fn synced(mut self, until: Option<Timestamp>) -> Decision {
        if let Some(until) = until {
            self.draft.wake(until);
        }
        self.reclaim_idle();
        let phase = match &self.status.last_update {
            Some(last) if last.failed() => self.failed_phase(),
            _ => match self.unhealthy() {
                Some((phase, activity)) => return self.finish(phase, activity),
                None => Phase::Ready,
            },
        };
        self.finish(phase, Activity::Settled)
    }

    /// The finalizer goes, and the workspace with it.
    fn release(mut self, why: &str) -> Decision {
        self.draft.stop_workspace();
        for update in &self.s.objects.updates {
            let name = update.metadata.name.clone().unwrap_or_default();
            if update
                .metadata
                .finalizers
                .as_ref()
                .is_some_and(|all| !all.is_empty())
            {
                self.draft
                    .release
                    .push(Write::ReleaseUpdate { update: name });
            }
        }
        self.draft.event(
            false,
            "StackDestroyed",
            format!("the Stack is released: {why}"),
        );
        self.draft.last.push(Write::RemoveFinalizer);
        self.finish(Phase::Ready, Activity::Busy)
    }

    fn reclaim_idle(&mut self) {
        let current = self.s.objects.workspace.current.as_ref();
        let Some(instance) = current.filter(|_| !self.waited_for) else {
            return;
        };
        let succeeded = self
            .status
            .last_update
            .as_ref()
            .is_some_and(|last| last.succeeded());
        if succeeded && self.stack.spec.workspace_reclaim_policy == Some(ReclaimPolicy::Delete) {
            self.draft.stop_workspace();
            return;
        }
        let own = self
            .stack
            .spec
            .workspace_idle_seconds
            .and_then(|seconds| u64::try_from(seconds).ok());
        let Some(idle) = own.or(self.s.config.default_idle_seconds) else {
            return;
        };
        let until = instance
            .idle_since
            .after(std::time::Duration::from_secs(idle));
        if until <= self.s.now {
            self.draft.stop_workspace();
        } else {
            self.draft.wake(until);
        }
    }

    fn has_finalizer(&self) -> bool {
        let finalizers = self.stack.metadata.finalizers.iter().flatten();
        finalizers
            .into_iter()
            .any(|name| name == windlass_api::names::FINALIZER)
    }

    pub(crate) fn must_destroy(&self) -> bool {
        self.stack.spec.destroy_on_finalize
            && !self.stack.spec.preview
            && record::may_have_resources(&self.status)
    }

    pub(crate) fn finish(self, phase: Phase, activity: Activity) -> Decision {
        let Live {
            s: _,
            stack,
            status,
            deleting: _,
            waited_for: _,
            mut draft,
        } = self;
        draft.status(stack, status, &phase);
        draft.finish(Some(phase), activity)
    }
}
