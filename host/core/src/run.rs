//! A run that is asked for and not yet recorded: start it, follow it, record its end.

use windlass_api::conditions::update_reason;
use windlass_api::intent::{Cause, RunIntent, RunRecord, RunSummary};
use windlass_api::run::{Operation, RunState};
use windlass_api::{Stack, Update};

use crate::decide::Live;
use crate::decision::{Activity, TaskKind, UpdateOutcome, Write};
use crate::failure::{Failure, FailureClass};
use crate::names::uid;
use crate::obs::Answer;
use crate::phase::{Phase, StallReason};
use crate::record;
use crate::snapshot::{Instance, InstancePhase};
use crate::spec::Checked;
use crate::time::Timestamp;

/// Annotation on an Update that asks for the end of its run.
pub const CANCEL_ANNOTATION: &str = "pulumi.com/cancel";

/// Annotation on an Update by which a person says that nothing of its workspace runs any more: the proof that a cluster
/// cannot give where both the pod and its node were taken away by hand.
pub const ASSUME_LOST_ANNOTATION: &str = "windlass.pulumi.com/assume-lost";

/// An Update that a Stack asked for.
#[derive(Clone, Copy)]
pub struct Ours<'a> {
    pub name: &'a str,
    pub update: &'a Update,
    pub intent: &'a RunIntent,
    pub operation: Operation,
}

impl<'a> Ours<'a> {
    pub fn summary(&self) -> Option<&'a RunSummary> {
        self.update.status.as_ref()?.summary.as_ref()
    }

    pub fn started(&self) -> Option<&'a RunRecord> {
        self.update.status.as_ref()?.run.as_ref()
    }

    /// It ended, or never will start.
    pub fn finished(&self) -> bool {
        let conditions = self
            .update
            .status
            .iter()
            .flat_map(|status| &status.conditions);
        conditions
            .into_iter()
            .any(|c| c.type_ == windlass_api::conditions::COMPLETE && c.status == "True")
    }

    pub fn ended_at(&self) -> Option<Timestamp> {
        self.summary().map(|summary| Timestamp(summary.ended_at_ms))
    }

    fn cancel_requested(&self) -> bool {
        self.update.metadata.deletion_timestamp.is_some() || self.annotated(CANCEL_ANNOTATION)
    }

    fn assumed_lost(&self) -> bool {
        self.annotated(ASSUME_LOST_ANNOTATION)
    }

    fn annotated(&self, annotation: &str) -> bool {
        let all = self.update.metadata.annotations.iter().flatten();
        all.into_iter().any(|(name, _)| name == annotation)
    }
}

/// The Updates that this very Stack asked for (not an earlier one of its name).
pub fn ours<'a>(stack: &Stack, updates: &'a [Update]) -> impl Iterator<Item = Ours<'a>> {
    let prefix_of = |sequence| {
        windlass_api::names::update_name(crate::names::stack_name(stack), uid(stack), sequence)
    };
    updates.iter().filter_map(move |update| {
        let intent = update.spec.intent.as_ref()?;
        let name = update.metadata.name.as_deref()?;
        let operation = update.spec.operation().ok()?;
        (name == prefix_of(intent.sequence)).then_some(Ours {
            name,
            update,
            intent,
            operation,
        })
    })
}

/// Deals with the run that is not recorded yet. None: there is none (or its end has just gone into `live.status`),
/// and the decision goes on.
pub(crate) fn in_flight(
    live: &mut Live<'_>,
    checked: Option<&Checked>,
) -> Option<(Phase, Activity)> {
    let recorded = live
        .status
        .last_update
        .as_ref()
        .map_or(0, |last| last.sequence);
    let newest = ours(live.stack, &live.s.objects.updates)
        .filter(|update| update.intent.sequence > recorded)
        .max_by_key(|update| update.intent.sequence);
    // Those that are recorded and still carry the finalizer: the process ended before it could release them.
    for update in ours(live.stack, &live.s.objects.updates) {
        let held = update
            .update
            .metadata
            .finalizers
            .as_ref()
            .is_some_and(|all| !all.is_empty());
        if held
            && update.finished()
            && (update.intent.sequence <= recorded || update.summary().is_none())
        {
            live.draft.release.push(Write::ReleaseUpdate {
                update: update.name.to_owned(),
            });
        }
    }
    // Made again under a number that is used up, by a step that saw an old status: somebody had deleted the first. Its
    // cause is served.
    let again = ours(live.stack, &live.s.objects.updates)
        .find(|update| update.intent.sequence <= recorded && !update.finished());
    if let Some(update) = again {
        if let Some(record) = update.started() {
            return Some(follow(live, update, record));
        }
        live.draft.finish_update.push(Write::FinishUpdate {
            update: update.name.to_owned(),
            outcome: UpdateOutcome::Superseded,
        });
    }
    let Some(update) = newest else {
        // Planned, and never made: it was announced by a step that ended there.
        live.status.current_update = None;
        return None;
    };
    if update.finished() {
        let Some(summary) = update.summary() else {
            // Superseded: nothing ran, nothing to record.
            live.status.current_update = None;
            return None;
        };
        record_end(live, update, summary);
        return None;
    }
    Some(match update.started() {
        Some(record) => follow(live, update, record),
        None => start(live, update, checked),
    })
}

fn record_end(live: &mut Live<'_>, update: Ours<'_>, summary: &RunSummary) {
    let status = std::mem::take(&mut live.status);
    live.status = record::record(
        status,
        uid(live.stack),
        &live.stack.spec,
        update.name,
        update.operation,
        update.intent,
        summary,
    );
    live.draft.release.push(Write::ReleaseUpdate {
        update: update.name.to_owned(),
    });
    if summary.state == RunState::Succeeded {
        live.draft
            .event(false, "StackCreated", "Successfully updated stack");
    } else {
        live.draft.event(
            true,
            "StackUpdateFailure",
            format!("Failed to update Stack: {}", summary.message),
        );
    }
}

/// Not started yet: is it still what is wanted, and is there a place to run it?
fn start(live: &mut Live<'_>, update: Ours<'_>, checked: Option<&Checked>) -> (Phase, Activity) {
    let wanted = if live.deleting {
        Operation::Destroy
    } else {
        Checked::operation(&live.stack.spec)
    };
    let current = checked.is_some_and(|checked| {
        checked.inputs_digest(live.stack, &live.s.objects) == update.intent.inputs
            && checked.missing(&live.s.objects).is_empty()
    });
    let suspended = live.stack.spec.suspend && !live.deleting;
    let unneeded = live.deleting && !live.must_destroy();
    if !current || wanted != update.operation || suspended || unneeded {
        let outcome = UpdateOutcome::Superseded;
        live.draft.finish_update.push(Write::FinishUpdate {
            update: update.name.to_owned(),
            outcome,
        });
        return (
            busy(live, update, "the inputs changed before the run started"),
            Activity::Busy,
        );
    }
    if update.cancel_requested() {
        // Recorded, so that it is not asked for again at once.
        let failure = Failure::new(
            FailureClass::Cancelled,
            update_reason::CANCELED,
            "cancelled on request before it started",
        );
        finish(live, update, never_ran(live.s.now, failure));
        return (
            busy(live, update, "stack is being processed"),
            Activity::Busy,
        );
    }
    let Some(checked) = checked else {
        return (
            busy(live, update, "reading the specification"),
            Activity::Busy,
        );
    };
    if let Some(refused) = live.refused() {
        return refused;
    }
    if let Some(other) = crate::by_hand::started(&live.s.objects).next() {
        let message = format!(
            "waiting for the end of the Update {}, made by hand",
            other.name
        );
        return (busy(live, update, &message), Activity::Busy);
    }
    let login = update.intent.login.as_ref();
    let digest = checked.workspace_digest(&live.stack.spec, &live.s.objects, login);
    live.draft.ensure_workspace(&digest, login);
    let Some(instance) = &live.s.objects.workspace.current else {
        return (
            busy(live, update, "waiting for workspace readiness"),
            Activity::Busy,
        );
    };
    match &instance.phase {
        // Its place was given up while the workspace did not start, or the process that kept count of them is new.
        InstancePhase::Ready { .. } if instance.spec_digest == digest && !live.s.capacity => (
            busy(live, update, "waiting for other runs to end"),
            Activity::Queued,
        ),
        InstancePhase::Ready { boot_id } if instance.spec_digest == digest => {
            let record = RunRecord {
                instance: instance.uid.clone(),
                hostname: instance.hostname.clone(),
                node: instance.node.clone(),
                boot_id: boot_id.clone(),
                at_ms: live.s.now.0,
                intent: None,
            };
            live.draft.start.push(Write::RecordStart {
                update: update.name.to_owned(),
                record,
            });
            (
                busy(live, update, "stack is being processed"),
                Activity::Busy,
            )
        }
        InstancePhase::Failing { reason, message } => {
            let phase =
                Phase::stalled(StallReason::WorkspaceFailed, format!("{reason}: {message}"));
            (
                phase,
                Activity::Blocked {
                    on: vec!["the workspace to start".into()],
                },
            )
        }
        InstancePhase::Starting { message } if !message.is_empty() => (
            busy(
                live,
                update,
                &format!("waiting for workspace readiness: {message}"),
            ),
            Activity::Busy,
        ),
        _ => (
            busy(live, update, "waiting for workspace readiness"),
            Activity::Busy,
        ),
    }
}

/// Started: follow it where it was started, and nowhere else.
pub(crate) fn follow(
    live: &mut Live<'_>,
    update: Ours<'_>,
    started: &RunRecord,
) -> (Phase, Activity) {
    let place = &live.s.objects.workspace;
    if place.ended.contains(&started.instance) {
        let message = "the workspace ended while the run was under way; what it did is found out by the next run";
        finish(live, update, lost_summary(live.s.now, started, message));
        return (
            busy(live, update, "the workspace of the run is lost"),
            Activity::Busy,
        );
    }
    let instance = match &place.current {
        Some(instance) if instance.uid == started.instance => instance,
        _ if update.assumed_lost() => {
            let message = "a person has said that the workspace ended while the run was under way; what it did is \
                           found out by the next run";
            finish(live, update, lost_summary(live.s.now, started, message));
            return (
                busy(live, update, "the workspace of the run is lost"),
                Activity::Busy,
            );
        }
        _ => {
            let node = started.node.as_deref().unwrap_or("unknown");
            let message = format!(
                "waiting for proof that workspace instance {} has ended: its node ({node}) reports back, is deleted, \
                 or is tainted out-of-service. If you know that nothing of it runs any more: kubectl annotate update \
                 {} {ASSUME_LOST_ANNOTATION}=true",
                started.instance, update.name
            );
            return (
                busy(live, update, &message),
                Activity::Blocked {
                    on: vec!["the workspace's node".into()],
                },
            );
        }
    };
    match &instance.phase {
        InstancePhase::Down => {
            live.draft.revive_workspace();
            (busy(live, update, "restarting the agent"), Activity::Busy)
        }
        InstancePhase::Ready { boot_id } => watch(live, update, instance, boot_id),
        InstancePhase::Unreachable { message } => (
            busy(
                live,
                update,
                &format!("the workspace cannot be reached: {message}"),
            ),
            Activity::Busy,
        ),
        InstancePhase::Starting { .. }
        | InstancePhase::Stopping
        | InstancePhase::Failing { .. } => (
            busy(live, update, "waiting for the workspace of the run"),
            Activity::Busy,
        ),
    }
}

fn watch(
    live: &mut Live<'_>,
    update: Ours<'_>,
    instance: &Instance,
    boot_id: &str,
) -> (Phase, Activity) {
    let cause = format!("{}/{}", update.name, boot_id);
    let (name, uid) = (update.name.to_owned(), instance.uid.clone());
    if let Some(known) = live.s.seen.run.last()
        && known.value.update == update.name
    {
        let end = &known.value;
        if end.has_outputs {
            live.draft.finish_update.push(Write::SaveOutputs {
                update: update.name.to_owned(),
            });
        }
        finish(live, update, end.summary.clone());
        return (
            busy(live, update, "stack is being processed"),
            Activity::Busy,
        );
    }
    if update.cancel_requested() {
        let task = TaskKind::Cancel {
            update: name.clone(),
            instance: uid.clone(),
        };
        let asked = format!("cancel/{cause}");
        match live.s.seen.cancel.answer(&asked) {
            Answer::Ask | Answer::Waiting(_) => live.draft.task(asked, task),
            // The agent knows: what is left is the end of the run.
            Answer::Is(_) => {}
            Answer::Failed { retry_at, .. } => live.draft.retry(retry_at, asked, task),
        }
    }
    let task = TaskKind::Run {
        update: name,
        instance: uid,
    };
    match live.s.seen.run.answer(&cause) {
        Answer::Ask | Answer::Waiting(_) | Answer::Is(_) => live.draft.task(cause, task),
        // The agent was never able to start it: the run ends here, unless time may help.
        Answer::Failed { failure, .. } if !failure.class.retries() => {
            let summary = never_ran(live.s.now, failure.clone());
            finish(live, update, summary);
        }
        Answer::Failed {
            failure, retry_at, ..
        } => {
            let message = format!("the agent of the workspace: {}", failure.message);
            live.draft.retry(retry_at, cause, task);
            return (busy(live, update, &message), Activity::Busy);
        }
    }
    (
        busy(live, update, "stack is being processed"),
        Activity::Busy,
    )
}

/// Ends an Update that never started.
pub(crate) fn finish_unrun(live: &mut Live<'_>, update: String, failure: Failure) {
    let summary = never_ran(live.s.now, failure);
    let outcome = UpdateOutcome::Ended { summary };
    live.draft
        .finish_update
        .push(Write::FinishUpdate { update, outcome });
}

fn finish(live: &mut Live<'_>, update: Ours<'_>, summary: RunSummary) {
    let outcome = UpdateOutcome::Ended { summary };
    live.draft.finish_update.push(Write::FinishUpdate {
        update: update.name.to_owned(),
        outcome,
    });
}

/// The end of a run that no agent has begun.
fn never_ran(now: Timestamp, failure: Failure) -> RunSummary {
    let Failure {
        class,
        reason,
        message,
    } = failure;
    RunSummary {
        state: match class {
            FailureClass::Cancelled => RunState::Cancelled,
            _ => RunState::Failed,
        },
        class: Some(class.as_str().to_owned()),
        reason: Some(reason),
        message,
        changes: Default::default(),
        resources: None,
        outputs: None,
        permalink: None,
        project: None,
        reached_engine: false,
        stale_locks: Vec::new(),
        started_at_ms: now.0,
        ended_at_ms: now.0,
    }
}

fn lost_summary(now: Timestamp, started: &RunRecord, message: &str) -> RunSummary {
    RunSummary {
        state: RunState::Lost,
        class: Some(FailureClass::Lost.as_str().to_owned()),
        reason: Some(update_reason::WORKSPACE_LOST.to_owned()),
        message: message.to_owned(),
        changes: Default::default(),
        resources: None,
        outputs: None,
        permalink: None,
        project: None,
        // It may have been.
        reached_engine: true,
        stale_locks: Vec::new(),
        started_at_ms: started.at_ms,
        ended_at_ms: now.0,
    }
}

fn busy(live: &Live<'_>, update: Ours<'_>, message: &str) -> Phase {
    let cause: &Cause = &update.intent.cause;
    live.busy_phase(cause, message)
}
