//! A decision in the making: writes by their place in the order, tasks, and the earliest time to look again.

use windlass_api::Stack;
use windlass_api::conditions::{self, FALSE, NewCondition, READY, RECONCILING, STALLED, TRUE};
use windlass_api::run::LoginExchange;
use windlass_api::stack::StackStatus;

use crate::decision::{Activity, Decision, Event, Task, TaskKind, Write};
use crate::names::{generation, reconcile_request};
use crate::phase::Phase;
use crate::record::time;
use crate::snapshot::{InstancePhase, Snapshot};
use crate::time::Timestamp;

/// The order of the fields is the order of the writes. Dying between any two loses nothing:
/// an Update is finished before the Stack records it, and released only after; a run is recorded as started before
/// the agent is asked; the Stack's finalizer goes last.
pub struct Draft<'a> {
    snapshot: &'a Snapshot,
    pub first: Vec<Write>,
    pub finish_update: Vec<Write>,
    status: Option<Write>,
    /// Write the status even if it is the stored one.
    pub confirm: bool,
    pub after: Vec<Write>,
    workspace: Option<Write>,
    pub create: Vec<Write>,
    pub start: Vec<Write>,
    pub release: Vec<Write>,
    pub last: Vec<Write>,
    events: Vec<Write>,
    tasks: Vec<Task>,
    wake_at: Option<Timestamp>,
}

impl<'a> Draft<'a> {
    pub fn new(snapshot: &'a Snapshot) -> Draft<'a> {
        Draft {
            snapshot,
            first: Vec::new(),
            finish_update: Vec::new(),
            status: None,
            confirm: false,
            after: Vec::new(),
            workspace: None,
            create: Vec::new(),
            start: Vec::new(),
            release: Vec::new(),
            last: Vec::new(),
            events: Vec::new(),
            tasks: Vec::new(),
            wake_at: None,
        }
    }

    /// Wants a task. Asked for twice in a decision it is one.
    pub fn task(&mut self, cause: String, kind: TaskKind) {
        let task = Task { cause, kind };
        if !self.tasks.contains(&task) {
            self.tasks.push(task);
        }
    }

    /// Starts the task again when its time has come, and wakes for that otherwise.
    pub fn retry(&mut self, at: Option<Timestamp>, cause: String, kind: TaskKind) {
        match at {
            Some(at) if at <= self.snapshot.now => self.task(cause, kind),
            Some(at) => self.wake(at),
            None => {}
        }
    }

    /// Lets go of every Update that a Stack asked for, and deletes it.
    pub fn delete_updates_of_the_stack(&mut self) {
        let updates = &self.snapshot.objects.updates;
        for update in updates.iter().filter(|one| one.spec.intent.is_some()) {
            let update = update.metadata.name.clone().unwrap_or_default();
            self.release.push(Write::ReleaseUpdate {
                update: update.clone(),
            });
            self.release.push(Write::DeleteUpdate { update });
        }
    }

    /// Looks again at this time, if it lies ahead.
    pub fn wake(&mut self, at: Timestamp) {
        if at > self.snapshot.now && self.wake_at.is_none_or(|earlier| at < earlier) {
            self.wake_at = Some(at);
        }
    }

    pub fn event(&mut self, warning: bool, reason: &str, message: impl Into<String>) {
        let event = Event {
            warning,
            reason: reason.to_owned(),
            message: message.into(),
        };
        self.events.push(Write::Event { event });
    }

    /// Wants an instance of this specification: makes one, brings a fallen one back, replaces one that differs.
    /// `source_first`: its own init containers find the program in place.
    pub fn ensure_workspace(
        &mut self,
        spec_digest: &str,
        login: Option<&LoginExchange>,
        source_first: bool,
    ) {
        let ensure = Write::EnsureWorkspace {
            spec_digest: spec_digest.to_owned(),
            audience: login.map(|login| login.audience.clone()),
            source_first,
        };
        match &self.snapshot.objects.workspace.current {
            None => self.workspace = Some(ensure),
            Some(instance) if instance.spec_digest != spec_digest => self.stop_workspace(),
            Some(instance) if instance.phase == InstancePhase::Down => {
                self.workspace = Some(ensure)
            }
            Some(_) => {}
        }
    }

    /// Brings back an instance whose process is gone, as it was.
    pub fn revive_workspace(&mut self) {
        if let Some(instance) = &self.snapshot.objects.workspace.current {
            self.workspace = Some(Write::EnsureWorkspace {
                spec_digest: instance.spec_digest.clone(),
                audience: None,
                source_first: false,
            });
        }
    }

    pub fn stop_workspace(&mut self) {
        if let Some(instance) = &self.snapshot.objects.workspace.current
            && instance.phase != InstancePhase::Stopping
        {
            self.workspace = Some(Write::StopWorkspace {
                uid: instance.uid.clone(),
            });
        }
    }

    /// Stores the status with the conditions of the phase, if that changes anything.
    pub fn status(&mut self, stack: &Stack, mut status: StackStatus, phase: &Phase) {
        let stored = stack.status.clone().unwrap_or_default();
        status.observed_generation = Some(generation(stack));
        status.observed_reconcile_request = reconcile_request(stack).map(str::to_owned);
        let now = time(self.snapshot.now.0);
        let wanted = phase.conditions();
        for type_ in [READY, RECONCILING, STALLED] {
            match wanted.iter().find(|condition| condition.type_ == type_) {
                Some(condition) => {
                    let new = NewCondition {
                        type_,
                        status: if condition.status { TRUE } else { FALSE },
                        reason: condition.reason,
                        message: &condition.message,
                        observed_generation: None,
                    };
                    conditions::set(&mut status.conditions, &new, &now);
                }
                None => {
                    conditions::remove(&mut status.conditions, type_);
                }
            }
        }
        if self.confirm || status != stored {
            self.status = Some(Write::PutStatus {
                status: Box::new(status),
            });
        }
    }

    pub fn finish(self, phase: Option<Phase>, activity: Activity) -> Decision {
        let Draft {
            snapshot: _,
            first,
            finish_update,
            status,
            confirm: _,
            after,
            workspace,
            create,
            start,
            release,
            last,
            events,
            tasks,
            wake_at,
        } = self;
        let mut writes = first;
        writes.extend(finish_update);
        writes.extend(status);
        writes.extend(after);
        writes.extend(workspace);
        writes.extend(create);
        writes.extend(start);
        writes.extend(release);
        writes.extend(last);
        // Events tell what has been done: they accompany other writes and are none by themselves.
        if !writes.is_empty() {
            writes.extend(events);
        }
        let idle = writes.is_empty() && tasks.is_empty();
        let activity = match activity {
            Activity::Settled | Activity::Blocked { .. } | Activity::Retrying { .. } if !idle => {
                Activity::Busy
            }
            other => other,
        };
        Decision {
            writes,
            tasks,
            wake_at,
            phase,
            activity,
        }
    }
}
