//! A run that was started.

use windlass_api::intent::RunRecord;

use super::deliver::deliver;
use super::end::{finish, lost_summary, never_ran};
use super::{ASSUME_LOST_ANNOTATION, Ours, assumed_lost, busy, cancel_requested};
use crate::decide::Live;
use crate::decision::{Activity, TaskKind, Write};
use crate::obs::Answer;
use crate::phase::Phase;
use crate::snapshot::{Instance, InstancePhase};

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
        _ if assumed_lost(update.update) => {
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
        // The pod's containers begin anew, its init containers first.
        InstancePhase::Receiving { boot_id } => {
            let message = deliver(live, &update.intent.program, instance, boot_id);
            (busy(live, update, &message), Activity::Busy)
        }
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
    if cancel_requested(update.update) {
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
