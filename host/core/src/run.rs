//! A run that is asked for and not yet recorded: start it, follow it, record its end.
//!
//! `start` and `follow` are the two halves of its life, `end` the summaries of those that no agent has told of.

mod deliver;
mod end;
mod follow;
mod start;

use windlass_api::conditions::{COMPLETE, is_true};
use windlass_api::intent::{Cause, RunIntent, RunRecord, RunSummary};
use windlass_api::run::{Operation, RunState};
use windlass_api::{Stack, Update};

pub(crate) use deliver::deliver;
pub(crate) use end::finish_unrun;
pub(crate) use follow::follow;

use crate::decide::Live;
use crate::decision::{Activity, UpdateOutcome, Write};
use crate::names::uid;
use crate::phase::Phase;
use crate::record;
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

    pub fn finished(&self) -> bool {
        finished(self.update)
    }

    pub fn ended_at(&self) -> Option<Timestamp> {
        self.summary().map(|summary| Timestamp(summary.ended_at_ms))
    }
}

/// It ended, or never will start.
pub fn finished(update: &Update) -> bool {
    let status = update.status.as_ref();
    status.is_some_and(|status| is_true(&status.conditions, COMPLETE))
}

/// Somebody has asked for its end.
pub(crate) fn cancel_requested(update: &Update) -> bool {
    update.metadata.deletion_timestamp.is_some() || annotated(update, CANCEL_ANNOTATION)
}

/// Somebody has said that nothing of its workspace runs any more.
fn assumed_lost(update: &Update) -> bool {
    annotated(update, ASSUME_LOST_ANNOTATION)
}

fn annotated(update: &Update, annotation: &str) -> bool {
    let all = update.metadata.annotations.as_ref();
    all.is_some_and(|all| all.contains_key(annotation))
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
        None => start::start(live, update, checked),
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

fn busy(live: &Live<'_>, update: Ours<'_>, message: &str) -> Phase {
    let cause: &Cause = &update.intent.cause;
    live.busy_phase(cause, message)
}
