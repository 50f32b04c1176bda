//! A run that is asked for and not started.

use windlass_api::conditions::update_reason;
use windlass_api::intent::RunRecord;
use windlass_api::run::Operation;

use super::deliver::deliver;
use super::end::{finish, never_ran};
use super::{Ours, busy, cancel_requested};
use crate::by_hand;
use crate::decide::Live;
use crate::decision::{Activity, UpdateOutcome, Write};
use crate::failure::{Failure, FailureClass};
use crate::phase::{Phase, StallReason};
use crate::snapshot::InstancePhase;
use crate::spec::Checked;

/// Not started yet: is it still what is wanted, and is there a place to run it?
pub(super) fn start(
    live: &mut Live<'_>,
    update: Ours<'_>,
    checked: Option<&Checked>,
) -> (Phase, Activity) {
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
    if cancel_requested(update.update) {
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
    if let Some(other) = by_hand::started(&live.s.objects).next() {
        let message = format!(
            "waiting for the end of the Update {}, made by hand",
            other.name
        );
        return (busy(live, update, &message), Activity::Busy);
    }
    let login = update.intent.login.as_ref();
    let digest = live.want_workspace(checked, login, &update.intent.program);
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
        InstancePhase::Receiving { boot_id } if instance.spec_digest == digest => {
            let message = deliver(live, &update.intent.program, instance, boot_id);
            (busy(live, update, &message), Activity::Busy)
        }
        _ => (
            busy(live, update, "waiting for workspace readiness"),
            Activity::Busy,
        ),
    }
}
