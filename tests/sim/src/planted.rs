//! Faults that somebody could have built in. Each is a switch: the simulator must find every one.

use windlass_api::conditions::{self, FALSE, NewCondition, READY};
use windlass_api::intent::Cause;
use windlass_api::run::RunState;
use windlass_api::stack::UpdateState;
use windlass_core::decision::{Activity, Task, TaskKind, UpdateOutcome, Write};
use windlass_core::obs::Obs;
use windlass_core::{Decision, Snapshot, decide, record};

use crate::monitor::Broken;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Planted {
    /// The agent is asked before the start is on record.
    RecordAfterStart,
    /// The finalizer goes without waiting for the destroy.
    FinalizerDroppedEarly,
    /// A started Update moves to whatever workspace there is.
    InstanceIgnored,
    /// Agents obey a deposed leader.
    EpochIgnored,
    /// The lease is taken without waiting for its end.
    LeaseTakenEarly,
    /// A leader goes on although it cannot renew its lease.
    LeaseHeldOn,
    /// Who takes the lease keeps the epoch of who had it.
    EpochKept,
    /// Every lock counts as stale.
    LiveLockReleased,
    /// A revision, once known, is never asked for again.
    ObservationTrustedForEver,
    /// Updates are named by the moment instead of the Stack and the sequence.
    NameByMoment,
    /// The number of the last Update is taken again.
    SequenceReused,
    /// The status is stored without looking whether it changed.
    StatusUnfenced,
    /// The Update is let go before the Stack has recorded it.
    ReleasedBeforeRecorded,
    /// A lost run counts as success.
    LostIsSuccess,
    /// A workspace that is not to be seen counts as dead.
    AbsenceIsProof,
    /// Failures are tried again at once.
    BackoffIgnored,
    /// Prerequisites are not waited for.
    PrerequisitesIgnored,
    /// A resync shows as work in progress.
    ResyncFlips,
    /// Nobody tells the agent that the run is to end.
    CancelIgnored,
    /// What is made for a destroy belongs to the Stack that is being deleted.
    OwnedWhileDeleting,
    /// Nobody sends the program to init containers that wait for it.
    ProgramWithheld,
    /// `spec.suspend` is not looked at.
    SuspendIgnored,
    /// An Update runs although what it pins has changed.
    StaleInputsRun,
    /// What has been deployed is forgotten: the same revision is new again.
    CauseForgotten,
    /// The agent forgets its journal when it restarts.
    JournalForgotten,
    /// Nobody looks at Updates that were made by hand.
    HandMadeForgotten,
    /// Nothing holds an Update that was made by hand while its run goes on.
    HandMadeUnheld,
    /// Secret outputs go to the status as they are.
    OutputsUnmasked,
    /// The wake-up time is now.
    WakesNow,
}

impl Planted {
    pub const ALL: [Planted; 29] = [
        Planted::RecordAfterStart,
        Planted::FinalizerDroppedEarly,
        Planted::InstanceIgnored,
        Planted::EpochIgnored,
        Planted::LeaseTakenEarly,
        Planted::LeaseHeldOn,
        Planted::EpochKept,
        Planted::LiveLockReleased,
        Planted::ObservationTrustedForEver,
        Planted::NameByMoment,
        Planted::SequenceReused,
        Planted::StatusUnfenced,
        Planted::ReleasedBeforeRecorded,
        Planted::LostIsSuccess,
        Planted::AbsenceIsProof,
        Planted::BackoffIgnored,
        Planted::PrerequisitesIgnored,
        Planted::ResyncFlips,
        Planted::CancelIgnored,
        Planted::OwnedWhileDeleting,
        Planted::ProgramWithheld,
        Planted::SuspendIgnored,
        Planted::StaleInputsRun,
        Planted::CauseForgotten,
        Planted::JournalForgotten,
        Planted::HandMadeForgotten,
        Planted::HandMadeUnheld,
        Planted::OutputsUnmasked,
        Planted::WakesNow,
    ];

    /// The rules that this fault breaks. Found is found by one of these.
    pub fn breaks(self) -> &'static [Broken] {
        match self {
            Planted::RecordAfterStart => &[Broken::StartedUnrecorded],
            Planted::FinalizerDroppedEarly => &[Broken::Finalizer],
            Planted::InstanceIgnored => &[Broken::StartedUnrecorded, Broken::StartedTwice],
            Planted::EpochIgnored => &[Broken::DeposedLeader],
            Planted::LeaseTakenEarly | Planted::LeaseHeldOn => &[Broken::TwoLeaders],
            Planted::EpochKept => &[Broken::EpochReused],
            Planted::LiveLockReleased => &[Broken::LiveLock],
            Planted::ObservationTrustedForEver
            | Planted::CancelIgnored
            | Planted::OwnedWhileDeleting
            | Planted::ProgramWithheld => &[Broken::Converges],
            Planted::NameByMoment | Planted::SequenceReused => {
                &[Broken::Bounded, Broken::Converges]
            }
            Planted::StatusUnfenced => &[Broken::RecordedBackwards],
            Planted::ReleasedBeforeRecorded => &[Broken::ReleasedUnrecorded],
            Planted::LostIsSuccess => &[Broken::TrueOutcome],
            Planted::AbsenceIsProof => &[Broken::TrueOutcome, Broken::OneRunAtATime],
            Planted::BackoffIgnored => &[Broken::Backoff],
            Planted::PrerequisitesIgnored => &[Broken::Prerequisite],
            Planted::ResyncFlips => &[Broken::Flaps],
            Planted::SuspendIgnored => &[Broken::Suspended],
            Planted::StaleInputsRun => &[Broken::StaleInputs],
            Planted::CauseForgotten => &[Broken::CauseServedTwice],
            Planted::JournalForgotten => &[Broken::StartedTwice],
            Planted::HandMadeForgotten => &[Broken::Converges],
            Planted::HandMadeUnheld => &[Broken::TrueOutcome],
            Planted::OutputsUnmasked => &[Broken::Secret],
            Planted::WakesNow => &[Broken::WakeInFuture],
        }
    }
}

/// The decision as a core with this fault would make it. Faults of the ports are in the ports.
pub fn decide_with(planted: Option<Planted>, snapshot: &Snapshot) -> Decision {
    let Some(planted) = planted else {
        return decide(snapshot);
    };
    let mut seen = snapshot.clone();
    blind(planted, &mut seen);
    let mut decision = decide(&seen);
    spoil(planted, snapshot, &mut decision);
    decision
}

/// Faults that are a wrong look at what is known.
fn blind(planted: Planted, seen: &mut Snapshot) {
    let now = seen.now;
    let current = seen.objects.workspace.current.clone();
    match planted {
        Planted::InstanceIgnored => {
            for update in &mut seen.objects.updates {
                if let Some(run) = update.status.as_mut().and_then(|s| s.run.as_mut())
                    && let Some(instance) = &current
                {
                    run.instance = instance.uid.clone();
                }
            }
        }
        Planted::AbsenceIsProof => {
            let started: Vec<String> = seen
                .objects
                .updates
                .iter()
                .filter_map(|update| Some(update.status.as_ref()?.run.as_ref()?.instance.clone()))
                .filter(|uid| current.as_ref().is_none_or(|instance| instance.uid != *uid))
                .collect();
            seen.objects.workspace.ended.extend(started);
        }
        Planted::ObservationTrustedForEver => {
            if let Obs::Known(known) = &mut seen.seen.source {
                known.at = now;
            }
        }
        Planted::HandMadeForgotten => {
            let all = &mut seen.objects.updates;
            all.retain(|update| update.spec.intent.is_some());
        }
        Planted::StaleInputsRun => {
            let Some(stack) = seen.objects.stack.clone() else {
                return;
            };
            if let Ok(checked) = windlass_core::spec::check(&stack, seen.config.workspace_path) {
                let inputs = checked.inputs_digest(&stack, &seen.objects);
                for update in &mut seen.objects.updates {
                    if let Some(intent) = &mut update.spec.intent {
                        intent.inputs = inputs.clone();
                    }
                }
            }
        }
        _ => {}
    }
    let Some(stack) = &mut seen.objects.stack else {
        return;
    };
    let last = stack.status.as_mut().and_then(|s| s.last_update.as_mut());
    match (planted, last) {
        (Planted::BackoffIgnored, Some(last)) => last.last_resync_time = Some(record::time(0)),
        (Planted::CauseForgotten, Some(last)) => last.last_successful_commit = None,
        (Planted::PrerequisitesIgnored, _) => stack.spec.prerequisites.clear(),
        (Planted::SuspendIgnored, _) => stack.spec.suspend = false,
        _ => {}
    }
}

/// Faults that are a wrong answer.
fn spoil(planted: Planted, snapshot: &Snapshot, decision: &mut Decision) {
    let deleting = snapshot
        .objects
        .stack
        .as_ref()
        .is_some_and(|stack| stack.metadata.deletion_timestamp.is_some());
    match planted {
        Planted::RecordAfterStart => start_first(snapshot, decision),
        Planted::FinalizerDroppedEarly if deleting => {
            decision.writes = vec![Write::RemoveFinalizer];
            decision.tasks.clear();
            decision.activity = Activity::Busy;
        }
        Planted::NameByMoment => {
            for write in &mut decision.writes {
                if let Write::CreateUpdate { name, .. } = write {
                    name.push_str(&format!("-{}", snapshot.now.0));
                }
            }
        }
        Planted::SequenceReused => {
            for write in &mut decision.writes {
                if let Write::CreateUpdate { name, intent, .. } = write
                    && let Some(stack) = &snapshot.objects.stack
                {
                    intent.sequence = intent.sequence.saturating_sub(1).max(1);
                    *name = windlass_api::names::update_name(
                        windlass_core::names::stack_name(stack),
                        windlass_core::names::uid(stack),
                        intent.sequence,
                    );
                }
            }
        }
        Planted::ReleasedBeforeRecorded => {
            decision
                .writes
                .sort_by_key(|write| !matches!(write, Write::ReleaseUpdate { .. }));
        }
        Planted::LostIsSuccess => {
            for write in &mut decision.writes {
                if let Write::FinishUpdate {
                    outcome: UpdateOutcome::Ended { summary },
                    ..
                } = write
                    && summary.state == RunState::Lost
                {
                    summary.state = RunState::Succeeded;
                }
            }
        }
        Planted::ResyncFlips => flip(snapshot, decision),
        Planted::CancelIgnored => decision
            .tasks
            .retain(|task| !matches!(task.kind, TaskKind::Cancel { .. })),
        Planted::ProgramWithheld => decision
            .tasks
            .retain(|task| !matches!(task.kind, TaskKind::Deliver { .. })),
        Planted::WakesNow => {
            if let Some(at) = &mut decision.wake_at {
                *at = snapshot.now;
            }
        }
        _ => {}
    }
}

fn start_first(snapshot: &Snapshot, decision: &mut Decision) {
    let recording = decision
        .writes
        .iter()
        .position(|write| matches!(write, Write::RecordStart { .. }));
    let Some(at) = recording else { return };
    if let Obs::Pending { .. } = snapshot.seen.run {
        return;
    }
    if let Write::RecordStart { update, record } = decision.writes.remove(at) {
        decision.tasks.push(Task {
            cause: format!("{update}/{}", record.boot_id),
            kind: TaskKind::Run {
                update,
                instance: record.instance,
            },
        });
    }
}

fn flip(snapshot: &Snapshot, decision: &mut Decision) {
    let resync = decision.writes.iter().any(
        |write| matches!(write, Write::CreateUpdate { intent, .. } if intent.cause == Cause::Resync),
    );
    let Some(stack) = &snapshot.objects.stack else {
        return;
    };
    let mut status = stack.status.clone().unwrap_or_default();
    let succeeded = status
        .last_update
        .as_ref()
        .is_some_and(|last| last.state == Some(UpdateState::Succeeded));
    if !resync || !succeeded {
        return;
    }
    let condition = NewCondition {
        type_: READY,
        status: FALSE,
        reason: "NotReadyInProgress",
        message: "reconciliation is in progress",
        observed_generation: None,
    };
    conditions::set(
        &mut status.conditions,
        &condition,
        &record::time(snapshot.now.0),
    );
    decision.writes.push(Write::PutStatus {
        status: Box::new(status),
    });
}
