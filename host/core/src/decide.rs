//! The decision: from everything that is known about one Stack to what to do next.
//!
//! The order of the questions is the order of this file: a run that is not over yet comes before everything; then
//! deletion, suspension, the specification, the source, whether a run is due, what it still waits for, and the Update
//! that asks for it.

use windlass_api::Stack;
use windlass_api::intent::{Cause, RunIntent};
use windlass_api::run::{Operation, ProgramSource};
use windlass_api::stack::{CurrentUpdate, ReclaimPolicy, StackStatus};

use crate::decision::{Activity, Decision, TaskKind, Write};
use crate::digest::digest;
use crate::draft::Draft;
use crate::due::{self, Due, Question};
use crate::failure::FailureClass;
use crate::names::{generation, reconcile_request, stack_name, uid};
use crate::obs::{Answer, Known};
use crate::phase::{Phase, StallReason};
use crate::prerequisites::{self, Gate};
use crate::record;
use crate::run;
use crate::snapshot::{Resolution, Session, Snapshot, Tree};
use crate::spec::{self, Checked, SourceKind};
use crate::time::Timestamp;

/// From this many failures on a program's failure is Stalled.
const STALLED_FROM: i64 = 3;
/// From this many failures on a source that cannot be polled shows on a Stack that is otherwise in step.
const SOURCE_TROUBLE_FROM: i64 = 3;
/// What a Stack says before its Update exists. One text for all of it: each text would be a write of its own.
const PREPARING: &str = "looking up the source and the backend";

/// Decides what to do next for one Stack. Pure: no IO, no clock, no chance, no memory.
pub fn decide(snapshot: &Snapshot) -> Decision {
    match &snapshot.objects.stack {
        None => gone(snapshot),
        Some(stack) => Live::new(snapshot, stack).decide(),
    }
}

/// The Stack is gone: what it left behind goes too.
fn gone(snapshot: &Snapshot) -> Decision {
    let mut draft = Draft::new(snapshot);
    for update in &snapshot.objects.updates {
        let name = update.metadata.name.clone().unwrap_or_default();
        draft.release.push(Write::ReleaseUpdate {
            update: name.clone(),
        });
        draft.release.push(Write::DeleteUpdate { update: name });
    }
    draft.stop_workspace();
    draft.finish(None, Activity::Settled)
}

/// A Stack that exists, and what has been worked out about it so far.
pub(crate) struct Live<'a> {
    pub s: &'a Snapshot,
    pub stack: &'a Stack,
    pub status: StackStatus,
    pub deleting: bool,
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
    fn new(s: &'a Snapshot, stack: &'a Stack) -> Live<'a> {
        Live {
            s,
            stack,
            status: stack.status.clone().unwrap_or_default(),
            deleting: stack.metadata.deletion_timestamp.is_some(),
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
        if let Some((phase, activity)) = run::in_flight(&mut self, checked.as_ref().ok()) {
            return self.finish(phase, activity);
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
                let patient = self.status.last_update.as_ref().is_some_and(|last| {
                    !FailureClass::parse(last.failure_class.as_deref()).stalls()
                });
                let phase = self.failed_phase();
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
            }
            return self.synced(None);
        }
        if !self.s.capacity {
            let phase = self.busy_phase(&cause, "waiting for other runs to end");
            return self.finish(phase, Activity::Queued);
        }
        let workspace = checked.workspace_digest(&self.stack.spec, &self.s.objects);
        self.draft.ensure_workspace(&workspace);
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
        let operation = if self.deleting {
            Operation::Destroy
        } else {
            Checked::operation(&self.stack.spec)
        };
        let sequence = self.next_sequence();
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
            stack: session.stack,
            env: session.env,
            inputs: checked.inputs_digest(self.stack, &self.s.objects),
            stack_outputs,
            release_locks: self.stale_locks(),
        };
        let name =
            windlass_api::names::update_name(stack_name(self.stack), uid(self.stack), sequence);
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

    /// The source's answer: what is known for this specification, asked again when it is time.
    fn source(&mut self, checked: &Checked) -> Stage<Known<Resolution>> {
        let SourceKind::Provider(provider) = &checked.source else {
            let value = Resolution {
                revision: String::new(),
                dir: String::new(),
                poll_after_ms: None,
                workspace_path: true,
                artifact: serde_json::Value::Null,
            };
            return Stage::Go(Known {
                at: self.s.now,
                cause: String::new(),
                value,
            });
        };
        let spec = &self.stack.spec;
        let question = digest(&(
            provider,
            (
                &spec.project_repo,
                &spec.branch,
                &spec.commit,
                &spec.repo_dir,
                &spec.shallow,
            ),
            (&spec.git_auth, &spec.git_auth_secret),
            (&spec.flux_source, &spec.program_ref, &spec.source),
        ));
        let cause = format!("{question}-{}", self.s.source_signal);
        let seen = &self.s.seen.source;
        let same = |known: &Known<Resolution>| known.cause.starts_with(&question);
        let last = seen.last().filter(|known| same(known)).cloned();
        match seen.answer(&cause) {
            Answer::Ask => self.draft.task(cause, TaskKind::Resolve),
            Answer::Waiting(_) => self.draft.task(cause, TaskKind::Resolve),
            Answer::Is(known) => {
                if let Some(poll) = known.value.poll_after_ms {
                    let at = known
                        .at
                        .after(std::time::Duration::from_millis(poll.max(1)));
                    if at <= self.s.now {
                        self.draft.task(cause, TaskKind::Resolve);
                    } else {
                        self.draft.wake(at);
                    }
                }
                return Stage::Go(known.clone());
            }
            Answer::Failed {
                failure,
                attempts,
                retry_at,
            } => {
                let failure = failure.clone();
                self.draft.retry(retry_at, cause, TaskKind::Resolve);
                let trouble = match &last {
                    Some(_) => attempts >= SOURCE_TROUBLE_FROM,
                    None => !self.in_step() || attempts >= SOURCE_TROUBLE_FROM,
                };
                if failure.class == FailureClass::Invalid {
                    let phase = Phase::stalled(StallReason::SpecInvalid, failure.message);
                    return Stage::Stop(
                        phase,
                        Activity::Blocked {
                            on: vec!["an edit of the Stack".into()],
                        },
                    );
                }
                if trouble {
                    let phase = Phase::SourceUnavailable {
                        message: failure.message,
                    };
                    return Stage::Stop(
                        phase,
                        Activity::Retrying {
                            attempts,
                            patient: true,
                        },
                    );
                }
            }
        }
        match last {
            Some(known) => Stage::Go(known),
            None => Stage::Stop(self.phase_without_source(), Activity::Busy),
        }
    }

    /// What a Stack shows while nothing is known of its source: as a rule after a restart, while it is asked again.
    fn phase_without_source(&self) -> Phase {
        let stored = self.stack.status.as_ref();
        let recorded_just_now =
            stored.and_then(|s| s.last_update.as_ref()) != self.status.last_update.as_ref();
        let told = stored.is_some_and(|s| {
            s.observed_generation == Some(generation(self.stack))
                && s.observed_reconcile_request.as_deref() == reconcile_request(self.stack)
        });
        if told
            && !recorded_just_now
            && let Some(phase) = stored.and_then(|s| Phase::read(&s.conditions))
        {
            // It was said with more knowledge than there is now.
            return phase;
        }
        match &self.status.last_update {
            Some(_) if self.in_step() => Phase::Ready,
            Some(last) if last.failed() && self.observed() => self.failed_phase(),
            _ => Phase::processing(PREPARING),
        }
    }

    fn inputs_exist(&mut self, checked: &Checked) -> Stage<()> {
        let missing = checked.missing(&self.s.objects);
        if !missing.is_empty() {
            let message = format!(
                "waiting for {}: not found in this namespace",
                missing.join(", ")
            );
            return Stage::Stop(
                Phase::processing(message),
                Activity::Blocked { on: missing },
            );
        }
        let outputs = checked.missing_outputs(&self.s.objects);
        if !outputs.is_empty() && !self.deleting {
            let names: Vec<String> = outputs
                .iter()
                .map(|(stack, output)| format!("output \"{output}\" of Stack \"{stack}\""))
                .collect();
            let on = outputs
                .iter()
                .map(|(stack, _)| format!("Stack {stack}"))
                .collect();
            let message = format!("waiting for {}", names.join(", "));
            return Stage::Stop(
                Phase::PrerequisiteNotSatisfied { message },
                Activity::Blocked { on },
            );
        }
        Stage::Go(())
    }

    fn prerequisites(&mut self, checked: &Checked) -> Stage<()> {
        let stacks = &self.s.objects.stacks;
        match prerequisites::gate(
            stack_name(self.stack),
            &checked.prerequisites,
            stacks,
            self.s.now,
        ) {
            Gate::Open => {
                if let Some(until) = prerequisites::satisfied_until(&checked.prerequisites, stacks)
                {
                    self.draft
                        .wake(until.after(std::time::Duration::from_millis(1)));
                }
                Stage::Go(())
            }
            Gate::Closed {
                message,
                on,
                requests,
            } => {
                for (stack, value) in requests {
                    self.draft
                        .after
                        .push(Write::RequestReconcile { stack, value });
                }
                let on = on.into_iter().map(|name| format!("Stack {name}")).collect();
                Stage::Stop(
                    Phase::PrerequisiteNotSatisfied { message },
                    Activity::Blocked { on },
                )
            }
            Gate::Cycle(path) => {
                let message = format!(
                    "the prerequisites form a cycle: {}; remove one of them",
                    path.join(" -> ")
                );
                let blocked = Activity::Blocked {
                    on: vec!["an edit of the prerequisites".into()],
                };
                Stage::Stop(Phase::stalled(StallReason::SpecInvalid, message), blocked)
            }
        }
    }

    fn tree(&mut self, source: &Known<Resolution>, cause: &Cause) -> Stage<Tree> {
        if source.value.workspace_path {
            let program = ProgramSource::WorkspacePath {
                dir: source.value.dir.clone(),
            };
            return Stage::Go(Tree {
                program,
                subtree: String::new(),
                project: None,
            });
        }
        let question = digest(&(
            &source.value.revision,
            &source.value.dir,
            &source.value.artifact,
        ));
        let task = TaskKind::Fetch {
            resolution: source.value.clone(),
        };
        match self.s.seen.tree.answer(&question) {
            Answer::Is(known) => Stage::Go(known.value.clone()),
            Answer::Ask | Answer::Waiting(_) => {
                self.draft.task(question, task);
                Stage::Stop(self.busy_phase(cause, PREPARING), Activity::Busy)
            }
            Answer::Failed {
                failure,
                attempts,
                retry_at,
            } => {
                let failure = failure.clone();
                self.draft.retry(retry_at, question, task);
                if failure.class == FailureClass::Invalid {
                    let blocked = Activity::Blocked {
                        on: vec!["another revision, or an edit of the Stack".into()],
                    };
                    return Stage::Stop(
                        Phase::stalled(StallReason::SpecInvalid, failure.message),
                        blocked,
                    );
                }
                Stage::Stop(
                    Phase::SourceUnavailable {
                        message: failure.message,
                    },
                    Activity::Retrying {
                        attempts,
                        patient: true,
                    },
                )
            }
        }
    }

    fn backend(&mut self, project: Option<String>, cause: &Cause) -> Stage<Session> {
        let spec = &self.stack.spec;
        let versions: Vec<_> = self.s.objects.references.iter().collect();
        let question = digest(&(
            &spec.stack,
            &spec.backend,
            &spec.env_refs,
            &project,
            versions,
            self.s.source_signal,
        ));
        let task = TaskKind::OpenBackend { project };
        match self.s.seen.backend.answer(&question) {
            Answer::Is(known) => Stage::Go(known.value.clone()),
            Answer::Ask | Answer::Waiting(_) => {
                self.draft.task(question, task);
                Stage::Stop(self.busy_phase(cause, PREPARING), Activity::Busy)
            }
            Answer::Failed {
                failure,
                attempts,
                retry_at,
            } => {
                let failure = failure.clone();
                self.draft.retry(retry_at, question, task);
                if failure.class == FailureClass::Invalid {
                    let blocked = Activity::Blocked {
                        on: vec!["an edit of the Stack".into()],
                    };
                    return Stage::Stop(
                        Phase::stalled(StallReason::SpecInvalid, failure.message),
                        blocked,
                    );
                }
                let phase =
                    Phase::processing(format!("the backend is not available: {}", failure.message));
                Stage::Stop(
                    phase,
                    Activity::Retrying {
                        attempts,
                        patient: true,
                    },
                )
            }
        }
    }

    /// The Stack is in step with its source: nothing to run now.
    fn synced(mut self, until: Option<Timestamp>) -> Decision {
        if let Some(until) = until {
            self.draft.wake(until);
        }
        self.reclaim_idle();
        let phase = match &self.status.last_update {
            Some(last) if last.failed() => self.failed_phase(),
            _ => Phase::Ready,
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
        let Some(instance) = &self.s.objects.workspace.current else {
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

    /// Finished and recorded Updates beyond what is kept go.
    fn prune_updates(&mut self) {
        const DAY_MS: i64 = 24 * 3600 * 1000;
        let recorded = self
            .status
            .last_update
            .as_ref()
            .map_or(0, |last| last.sequence);
        let mut finished: Vec<_> = run::ours(self.stack, &self.s.objects.updates)
            .filter(|update| update.finished() && update.intent.sequence <= recorded)
            .collect();
        finished.sort_by_key(|update| std::cmp::Reverse(update.intent.sequence));
        for update in finished.into_iter().skip(self.s.config.keep_updates.max(1)) {
            let old = update
                .ended_at()
                .is_none_or(|ended| self.s.now.0.saturating_sub(ended.0) > DAY_MS);
            if old {
                self.draft.after.push(Write::DeleteUpdate {
                    update: update.name.to_owned(),
                });
            }
        }
    }

    /// A number that no Update of this Stack has had.
    fn next_sequence(&self) -> u64 {
        let recorded = self
            .status
            .last_update
            .as_ref()
            .map_or(0, |last| last.sequence);
        run::ours(self.stack, &self.s.objects.updates)
            .map(|update| update.intent.sequence)
            .fold(recorded, u64::max)
            + 1
    }

    /// Locks that the last run met and the backend adapter judged stale.
    fn stale_locks(&self) -> Vec<String> {
        let recorded = self
            .status
            .last_update
            .as_ref()
            .map_or(0, |last| last.sequence);
        run::ours(self.stack, &self.s.objects.updates)
            .find(|update| update.intent.sequence == recorded)
            .and_then(|update| update.summary())
            .map(|summary| summary.stale_locks.clone())
            .unwrap_or_default()
    }

    fn only_elsewhere(&self, cause: &Cause, tree: &Tree) -> bool {
        let last = self.status.last_update.as_ref();
        self.stack.spec.only_when_changed
            && matches!(cause, Cause::NewRevision { .. })
            && last.is_some_and(|last| {
                last.succeeded() && last.subtree.as_deref() == Some(tree.subtree.as_str())
            })
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

    fn failures(&self) -> i64 {
        self.status
            .last_update
            .as_ref()
            .map_or(0, |last| last.failures.max(1))
    }

    /// The last run was for this very generation.
    fn observed(&self) -> bool {
        self.status.last_update.as_ref().is_some_and(|last| {
            last.generation == generation(self.stack)
                && last.reconcile_request.as_deref().unwrap_or_default()
                    == reconcile_request(self.stack).unwrap_or_default()
        })
    }

    /// The last run succeeded and was for this very generation: only its source can say otherwise.
    pub(crate) fn in_step(&self) -> bool {
        self.observed()
            && !self.deleting
            && self
                .status
                .last_update
                .as_ref()
                .is_some_and(|last| last.succeeded())
    }

    /// What a Stack shows while a run for this cause is under way. A resync leaves it Ready and a retry leaves the
    /// failure in sight: conditions do not flap.
    pub(crate) fn busy_phase(&self, cause: &Cause, message: &str) -> Phase {
        match cause {
            Cause::Resync if self.in_step() => Phase::Ready,
            Cause::Retry { .. } if self.status.last_update.is_some() => self.failed_phase(),
            _ => Phase::processing(message),
        }
    }

    fn failed_phase(&self) -> Phase {
        let Some(last) = &self.status.last_update else {
            return Phase::processing("stack is being processed");
        };
        let class = FailureClass::parse(last.failure_class.as_deref());
        let operation = last.operation().unwrap_or(Operation::Up);
        let message = last.message.clone().unwrap_or_default();
        let failures = last.failures.max(1);
        // A newer CLI may be put in place without an edit, so it is tried again; until then it is what it is.
        if last.failure_reason.as_deref() == Some(StallReason::PulumiVersionTooLow.as_str()) {
            return Phase::stalled(StallReason::PulumiVersionTooLow, message);
        }
        if !class.retries() {
            return self.given_up_phase();
        }
        if class.stalls() && failures >= STALLED_FROM {
            // The number of failures is in lastUpdate; here it would change the condition at every attempt.
            let text = format!(
                "{operation} failed {STALLED_FROM} times or more; trying again ever more rarely"
            );
            return Phase::stalled(StallReason::UpdateFailed, join(text, &message));
        }
        Phase::Retrying {
            operation,
            failures,
            class,
            message,
        }
    }

    fn given_up_phase(&self) -> Phase {
        let Some(last) = &self.status.last_update else {
            return Phase::processing("stack is being processed");
        };
        let message = last.message.clone().unwrap_or_default();
        if last.failure_reason.as_deref() == Some(StallReason::PulumiVersionTooLow.as_str()) {
            return Phase::stalled(StallReason::PulumiVersionTooLow, message);
        }
        let operation = last.operation().unwrap_or(Operation::Up);
        let text = match FailureClass::parse(last.failure_class.as_deref()) {
            FailureClass::Invalid => {
                format!("{operation} was refused; not retrying until the spec or source changes")
            }
            FailureClass::Cancelled => {
                format!("{operation} was cancelled; not retrying until the spec or source changes")
            }
            _ => format!(
                "{operation} failed {} times; not retrying until the spec or source changes",
                last.failures.max(1)
            ),
        };
        Phase::stalled(StallReason::UpdateFailed, join(text, &message))
    }

    pub(crate) fn finish(self, phase: Phase, activity: Activity) -> Decision {
        let Live {
            s: _,
            stack,
            status,
            deleting: _,
            mut draft,
        } = self;
        draft.status(stack, status, &phase);
        draft.finish(Some(phase), activity)
    }
}

fn join(text: String, detail: &str) -> String {
    if detail.is_empty() {
        text
    } else {
        format!("{text}: {detail}")
    }
}
