//! What writes do to stored objects, and which of them are refused when the objects have changed in the meantime.

use std::collections::BTreeMap;

use windlass_api::conditions::{self, COMPLETE, FAILED, NewCondition, TRUE};
use windlass_api::names::FINALIZER;
use windlass_api::update::UpdateStatus;
use windlass_api::{ObjectMeta, Update};
use windlass_core::decision::{Decision, UpdateOutcome, Write};
use windlass_core::request::update_spec;
use windlass_core::snapshot::{Instance, InstancePhase, Objects};

use super::World;

/// Versions that a step has seen, kept up with its own writes.
struct Fence {
    stack: Option<String>,
    updates: BTreeMap<String, String>,
}

impl World {
    /// Does the writes of a decision that was taken from these objects, up to the first that is refused.
    pub fn perform(&mut self, decision: &Decision, from: &Objects) -> bool {
        self.perform_some(decision, from, usize::MAX)
    }

    /// The first `count` of them only: then the process died.
    pub fn perform_some(&mut self, decision: &Decision, from: &Objects, count: usize) -> bool {
        let mut fence = Fence {
            stack: from
                .stack
                .as_ref()
                .and_then(|s| s.metadata.resource_version.clone()),
            updates: from
                .updates
                .iter()
                .map(|u| {
                    let m = &u.metadata;
                    (m.name.clone().unwrap(), m.resource_version.clone().unwrap())
                })
                .collect(),
        };
        for write in decision.writes.iter().take(count) {
            if !self.write(write, &mut fence) {
                return false;
            }
            self.log.push(write.clone());
        }
        true
    }

    fn write(&mut self, write: &Write, fence: &mut Fence) -> bool {
        match write {
            Write::AddFinalizer => {
                if self.s.objects.stack.is_none() {
                    return false;
                }
                let all = self.stack_mut().metadata.finalizers.get_or_insert_default();
                if !all.iter().any(|f| f == FINALIZER) {
                    all.push(FINALIZER.into());
                }
                fence.stack = self.stack_version();
            }
            Write::PutStatus { status } => {
                if self.s.objects.stack.is_none() || self.stack_version() != fence.stack {
                    return false;
                }
                self.stack_mut().status = Some((**status).clone());
                fence.stack = self.stack_version();
            }
            Write::RequestReconcile { stack, value } => {
                let Some(view) = self.s.objects.stacks.get_mut(stack) else {
                    return false;
                };
                view.reconcile_request = Some(value.clone());
            }
            Write::EnsureWorkspace {
                spec_digest,
                source_first,
                ..
            } => self.ensure(spec_digest, *source_first),
            Write::StopWorkspace { uid } => return self.stop(uid),
            Write::CreateUpdate {
                name,
                operation,
                intent,
            } => {
                let all = &self.s.objects.updates;
                if all.iter().any(|u| u.metadata.name.as_ref() == Some(name)) {
                    return true;
                }
                if self.s.objects.stack.is_none() {
                    return false;
                }
                let mut spec = update_spec(self.stack(), *operation, intent.cause.message());
                spec.intent = Some((**intent).clone());
                self.version += 1;
                self.s.objects.updates.push(Update {
                    metadata: ObjectMeta {
                        name: Some(name.clone()),
                        namespace: Some("apps".into()),
                        finalizers: Some(vec![FINALIZER.into()]),
                        resource_version: Some(self.version.to_string()),
                        ..ObjectMeta::default()
                    },
                    spec,
                    status: None,
                });
                fence.updates.insert(name.clone(), self.version.to_string());
            }
            Write::RecordStart { update, record } => {
                return self.fenced(update, fence, |update, _| {
                    update.status.get_or_insert_default().run = Some(record.clone());
                });
            }
            Write::SaveOutputs { update } => return self.find(update).is_some(),
            Write::UpdateWaits {
                update,
                reason,
                message,
            } => {
                let at = self.s.now;
                return self.fenced(update, fence, |update, _| {
                    windlass_core::update_object::waits(update, reason, message, at);
                });
            }
            Write::FinishUpdate { update, outcome } => {
                return self.fenced(update, fence, |update, now| {
                    let status = update.status.get_or_insert_default();
                    finish(status, outcome, now);
                });
            }
            Write::ReleaseUpdate { update } => {
                if let Some(at) = self.find(update) {
                    self.s.objects.updates[at].metadata.finalizers = None;
                    self.touch_update(at);
                    if self.s.objects.updates[at]
                        .metadata
                        .deletion_timestamp
                        .is_some()
                    {
                        self.s.objects.updates.remove(at);
                    }
                }
            }
            Write::DeleteUpdate { update } => {
                if let Some(at) = self.find(update) {
                    let held = &self.s.objects.updates[at].metadata.finalizers;
                    if held.as_ref().is_some_and(|all| !all.is_empty()) {
                        let now = self.now();
                        self.s.objects.updates[at].metadata.deletion_timestamp = Some(now);
                        self.touch_update(at);
                    } else {
                        self.s.objects.updates.remove(at);
                    }
                }
            }
            Write::RemoveFinalizer => {
                if self.s.objects.stack.is_some() {
                    let metadata = &mut self.stack_mut().metadata;
                    metadata.finalizers = None;
                    if metadata.deletion_timestamp.is_some() {
                        self.s.objects.stack = None;
                    }
                }
            }
            Write::Event { .. } => {}
        }
        true
    }

    fn ensure(&mut self, spec_digest: &str, source_first: bool) {
        self.starts += 1;
        let start = self.starts;
        let now = self.s.now;
        let phase = if source_first {
            InstancePhase::Receiving {
                boot_id: format!("receive-{start}"),
            }
        } else {
            self.new_workspace.clone()
        };
        match &mut self.s.objects.workspace.current {
            Some(instance) if instance.phase == InstancePhase::Down => {
                instance.phase = InstancePhase::Ready {
                    boot_id: format!("boot-{start}"),
                };
            }
            Some(_) => {}
            none => {
                *none = Some(Instance {
                    uid: format!("instance-{start}"),
                    hostname: format!("web-{start}"),
                    node: Some("node-1".to_owned()),
                    spec_digest: spec_digest.to_owned(),
                    phase,
                    idle_since: now,
                });
            }
        }
    }

    /// An orderly end, so a proven one; refused while a run that was started there is open.
    fn stop(&mut self, uid: &str) -> bool {
        let workspace = &mut self.s.objects.workspace;
        let Some(instance) = &workspace.current else {
            return true;
        };
        if instance.uid != uid {
            return true;
        }
        let open = |update: &Update| {
            update.status.as_ref().is_some_and(|status| {
                status.run.as_ref().is_some_and(|run| run.instance == uid)
                    && !conditions::is_true(&status.conditions, COMPLETE)
            })
        };
        let wanted = self.s.objects.stack.is_some() || self.s.objects.by_hand.is_some();
        if wanted && self.s.objects.updates.iter().any(open) {
            return false;
        }
        workspace.ended.push(uid.to_owned());
        workspace.current = None;
        true
    }

    fn fenced(
        &mut self,
        name: &str,
        fence: &mut Fence,
        change: impl FnOnce(&mut Update, windlass_api::Time),
    ) -> bool {
        let now = self.now();
        let Some(at) = self.find(name) else {
            return false;
        };
        let update = &mut self.s.objects.updates[at];
        if update.metadata.resource_version.as_ref() != fence.updates.get(name) {
            return false;
        }
        change(update, now);
        let version = self.touch_update(at);
        fence.updates.insert(name.to_owned(), version);
        // An instance is idle from the end of its last run.
        if let Some(instance) = &mut self.s.objects.workspace.current {
            instance.idle_since = self.s.now;
        }
        true
    }

    fn find(&self, name: &str) -> Option<usize> {
        let mut all = self.s.objects.updates.iter();
        all.position(|u| u.metadata.name.as_deref() == Some(name))
    }

    fn stack_version(&self) -> Option<String> {
        let stack = self.s.objects.stack.as_ref()?;
        stack.metadata.resource_version.clone()
    }

    /// Somebody writes the Stack: its version moves.
    pub fn touch_stack(&mut self) {
        self.version += 1;
        let version = self.version.to_string();
        if let Some(stack) = &mut self.s.objects.stack {
            stack.metadata.resource_version = Some(version);
        }
    }

    pub fn touch_update(&mut self, at: usize) -> String {
        self.version += 1;
        let version = self.version.to_string();
        self.s.objects.updates[at].metadata.resource_version = Some(version.clone());
        version
    }
}

fn finish(status: &mut UpdateStatus, outcome: &UpdateOutcome, now: windlass_api::Time) {
    let mut set = |type_, value, reason| {
        let new = NewCondition {
            type_,
            status: value,
            reason,
            message: "",
            observed_generation: None,
        };
        conditions::set(&mut status.conditions, &new, &now);
    };
    match outcome {
        UpdateOutcome::Ended { summary } => {
            set(COMPLETE, TRUE, "Complete");
            status.message = Some(summary.message.clone());
            status.summary = Some(summary.clone());
        }
        UpdateOutcome::Superseded => {
            set(FAILED, TRUE, "Superseded");
            set(COMPLETE, TRUE, "Superseded");
        }
    }
}
