//! What a run waits for, in order: its source, what it refers to, other Stacks, the tree, the backend.

use windlass_api::intent::Cause;
use windlass_api::run::{LoginExchange, ProgramSource};

use crate::decide::{Live, Stage};
use crate::decision::{Activity, TaskKind, Write};
use crate::digest::digest;
use crate::failure::FailureClass;
use crate::names::{generation, reconcile_request, stack_name};
use crate::obs::{Answer, Known};
use crate::phase::{Phase, StallReason};
use crate::prerequisites::{self, Gate};
use crate::snapshot::{NAMESPACE_TERMINATING, Refusal, Resolution, Session, Tree};
use crate::spec::{Checked, SourceKind, source_first};

/// From this many failures on a source that cannot be polled shows on a Stack that is otherwise in step.
const SOURCE_TROUBLE_FROM: i64 = 3;
/// What a Stack says before its Update exists. One text for all of it: each text would be a write of its own.
const PREPARING: &str = "looking up the source and the backend";

impl Live<'_> {
    /// The source's answer: what is known for this specification, asked again when it is time.
    pub(crate) fn source(&mut self, checked: &Checked) -> Stage<Known<Resolution>> {
        let SourceKind::Provider(provider) = &checked.source else {
            let template = self.stack.spec.workspace_template.as_ref();
            let local = template
                .and_then(|template| template.spec.as_ref())
                .and_then(|workspace| workspace.local.as_ref());
            let value = Resolution {
                revision: String::new(),
                dir: local
                    .and_then(|local| local.dir.clone())
                    .unwrap_or_default(),
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
        // An edit, or a request for a run, means the source as it is now: somebody may have pushed a moment ago.
        let asked = digest(&(generation(self.stack), reconcile_request(self.stack)));
        let cause = format!("{question}-{}-{asked}", self.s.source_signal);
        let seen = &self.s.seen.source;
        let same = |known: &Known<Resolution>| known.cause.starts_with(&question);
        let last = seen.last().filter(|known| same(known)).cloned();
        match seen.answer(&cause) {
            Answer::Ask | Answer::Waiting(_) => {
                let fresh = !self.observed() && self.status.last_update.is_some();
                self.draft.task(cause, TaskKind::Resolve { fresh });
                if !self.observed() {
                    return Stage::Stop(self.phase_without_source(), Activity::Busy);
                }
            }
            Answer::Is(known) => {
                if let Some(poll) = known.value.poll_after_ms {
                    let at = known
                        .at
                        .after(std::time::Duration::from_millis(poll.max(1)));
                    if at <= self.s.now {
                        self.draft.task(cause, TaskKind::Resolve { fresh: false });
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
                self.draft
                    .retry(retry_at, cause, TaskKind::Resolve { fresh: false });
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
    pub(crate) fn phase_without_source(&self) -> Phase {
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

    pub(crate) fn inputs_exist(&mut self, checked: &Checked) -> Stage<()> {
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

    pub(crate) fn prerequisites(&mut self, checked: &Checked) -> Stage<()> {
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

    pub(crate) fn tree(&mut self, source: &Known<Resolution>, cause: &Cause) -> Stage<Tree> {
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

    pub(crate) fn backend(&mut self, project: Option<String>, cause: &Cause) -> Stage<Session> {
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

    /// Wants the instance for a run of this program. Its digest.
    pub(crate) fn want_workspace(
        &mut self,
        checked: &Checked,
        login: Option<&LoginExchange>,
        program: &ProgramSource,
    ) -> String {
        let spec = &self.stack.spec;
        let digest = checked.workspace_digest(spec, &self.s.objects, login, program);
        let first = source_first(spec, program);
        self.draft.ensure_workspace(&digest, login, first);
        digest
    }

    /// What a run needs cannot be made, for the time being.
    pub(crate) fn refused(&self) -> Option<(Phase, Activity)> {
        let Refusal { reason, message } = self.s.objects.refusal.as_ref()?;
        let phase = if reason == NAMESPACE_TERMINATING {
            let place = self
                .status
                .last_update
                .as_ref()
                .and_then(|last| last.permalink.clone())
                .unwrap_or_else(|| "the Pulumi backend".to_owned());
            let namespace = self.stack.metadata.namespace.as_deref().unwrap_or_default();
            let name = stack_name(self.stack);
            Phase::stalled(
                StallReason::NamespaceTerminating,
                format!(
                    "nothing can be run in a namespace that is being deleted ({message}). Destroy the stack by hand \
                     (see {place}), then let the object go: kubectl patch stack {name} -n {namespace} --type=merge \
                     -p '{{\"metadata\":{{\"finalizers\":null}}}}'"
                ),
            )
        } else {
            Phase::stalled(StallReason::WorkspaceFailed, format!("{reason}: {message}"))
        };
        let on = vec!["what is refused to be accepted".to_owned()];
        Some((phase, Activity::Blocked { on }))
    }
}
