//! Writes, as the API server carries them out.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use windlass_api::names::{FINALIZER, RECONCILE_REQUEST_ANNOTATION};
use windlass_api::{Stack, Update};
use windlass_core::decision::{UpdateOutcome, Write};
use windlass_core::request::update_spec;
use windlass_core::snapshot::Objects;
use windlass_core::time::Timestamp;
use windlass_core::{record, update_object};
use windlass_engine::ports::{Fence, StoreError};

use crate::by_hand::by_hand;
use crate::planted::Planted;
use crate::store::Mind;
use crate::world::{Place, World};

/// Updates of one Stack beyond what is kept.
const UPDATES_SPARE: usize = 4;

fn owner_reference(uid: String) -> Vec<OwnerReference> {
    vec![OwnerReference {
        uid,
        controller: Some(true),
        block_owner_deletion: Some(true),
        ..OwnerReference::default()
    }]
}

impl World {
    pub fn perform(
        &mut self,
        mind: &Mind,
        place: Place,
        write: &Write,
        objects: &Objects,
        fence: &mut Fence,
    ) -> Result<(), StoreError> {
        if !matches!(write, Write::Event { .. }) {
            self.count_write(place);
        }
        match write {
            Write::AddFinalizer => self.add_finalizer(place, objects, fence),
            Write::PutStatus { status } => {
                let stored = self
                    .same_stack(place, objects)?
                    .metadata
                    .resource_version
                    .clone();
                let unfenced = self.plan.planted == Some(Planted::StatusUnfenced);
                if stored != fence.stack && !unfenced {
                    return Err(StoreError::Conflict);
                }
                self.check_status(place, status);
                self.check_secrets(place, status);
                let status = status.clone();
                self.change_stack(place, |stack| stack.status = Some(*status));
                fence.stack = self.version_of(place);
                Ok(())
            }
            Write::RequestReconcile { stack, value } => {
                let Some(&other) = self.places.get(stack) else {
                    return Err(StoreError::NotFound);
                };
                self.annotate(other, value);
                Ok(())
            }
            Write::EnsureWorkspace {
                spec_digest,
                source_first,
                ..
            } => {
                if self.plan.taken_over {
                    self.broken(crate::monitor::Broken::Takeover, || {
                        format!("place {place} gets a workspace")
                    });
                }
                let owner = self.owner(objects);
                self.ensure_pod(place, spec_digest, *source_first, owner);
                Ok(())
            }
            Write::StopWorkspace { uid } => {
                self.stop_pod(place, uid);
                Ok(())
            }
            Write::CreateUpdate {
                name,
                operation,
                intent,
            } => {
                let stack = self.same_stack(place, objects)?.clone();
                if self.update(place, name).is_some() {
                    return Ok(());
                }
                self.check_create(place);
                let mut spec = update_spec(&stack, *operation, intent.cause.message());
                spec.intent = Some((**intent).clone());
                let version = self.number().to_string();
                let metadata = ObjectMeta {
                    name: Some(name.clone()),
                    uid: Some(format!("update-{version}")),
                    resource_version: Some(version.clone()),
                    creation_timestamp: Some(record::time(self.now)),
                    finalizers: Some(vec![FINALIZER.to_owned()]),
                    owner_references: self.owner(objects).map(owner_reference),
                    ..ObjectMeta::default()
                };
                let update = Update {
                    metadata,
                    spec,
                    status: None,
                };
                self.homes[place].updates.change(|all| all.push(update));
                fence.updates.insert(name.clone(), version);
                self.check_updates(place);
                self.changed(place);
                Ok(())
            }
            Write::RecordStart { update, record } => {
                self.fenced(place, update, fence)?;
                if let Some(stored) = self.update(place, update).cloned() {
                    self.check_record_start(place, &stored);
                }
                let now = Timestamp(self.now);
                // One that was made by hand is not to vanish while its run goes on.
                let held = self.plan.planted != Some(Planted::HandMadeUnheld);
                self.change_update(place, update, fence, |stored| {
                    update_object::start(stored, record, now);
                    if held && by_hand(stored) {
                        stored.metadata.finalizers = Some(vec![FINALIZER.to_owned()]);
                    }
                })
            }
            Write::SaveOutputs { update } => {
                if !mind.outputs.contains(update) {
                    return Err(StoreError::NotAtHand);
                }
                Ok(())
            }
            Write::UpdateWaits {
                update,
                reason,
                message,
            } => {
                self.fenced(place, update, fence)?;
                let now = Timestamp(self.now);
                self.change_update(place, update, fence, |stored| {
                    update_object::waits(stored, reason, message, now);
                })
            }
            Write::FinishUpdate { update, outcome } => {
                self.fenced(place, update, fence)?;
                if let UpdateOutcome::Ended { summary } = outcome {
                    self.check_secrets(place, summary);
                    self.check_made_by_hand(place, update, summary);
                }
                let now = Timestamp(self.now);
                self.change_update(place, update, fence, |stored| {
                    update_object::finish(stored, outcome, "", now);
                })
            }
            Write::ReleaseUpdate { update } => {
                let Some(stored) = self.update(place, update).cloned() else {
                    return Ok(());
                };
                self.check_update_release(place, &stored);
                if stored.metadata.deletion_timestamp.is_some() {
                    self.remove_update(place, update);
                    return Ok(());
                }
                self.change_update(place, update, fence, |stored| {
                    stored.metadata.finalizers = None;
                })
            }
            Write::DeleteUpdate { update } => {
                self.delete_update(place, update);
                Ok(())
            }
            Write::RemoveFinalizer => {
                // Somebody may just have asked for a destroy.
                let stored = self
                    .same_stack(place, objects)?
                    .metadata
                    .resource_version
                    .clone();
                if stored != fence.stack {
                    return Err(StoreError::Conflict);
                }
                self.check_finalizer(place);
                self.remove_finalizer(place);
                Ok(())
            }
            Write::Event { event } => {
                self.check_secrets(place, event);
                Ok(())
            }
        }
    }

    fn same_stack(&self, place: Place, objects: &Objects) -> Result<&Stack, StoreError> {
        let known = objects
            .stack
            .as_ref()
            .and_then(|it| it.metadata.uid.clone());
        match self.stack(place) {
            Some(stack) if stack.metadata.uid == known => Ok(stack),
            _ => Err(StoreError::NotFound),
        }
    }

    fn version_of(&self, place: Place) -> Option<String> {
        self.stack(place)?.metadata.resource_version.clone()
    }

    fn add_finalizer(
        &mut self,
        place: Place,
        objects: &Objects,
        fence: &mut Fence,
    ) -> Result<(), StoreError> {
        let stack = self.same_stack(place, objects)?;
        if stack.metadata.deletion_timestamp.is_some() {
            return Err(StoreError::Conflict);
        }
        let held = stack
            .metadata
            .finalizers
            .iter()
            .flatten()
            .any(|it| it == FINALIZER);
        // A patch of an object that has changed tells nothing of what changed: the fence stays where it was.
        let known = stack.metadata.resource_version == fence.stack;
        if !held {
            self.change_stack(place, |stack| {
                stack
                    .metadata
                    .finalizers
                    .get_or_insert_default()
                    .push(FINALIZER.to_owned());
            });
        }
        if known {
            fence.stack = self.version_of(place);
        }
        Ok(())
    }

    /// The object is gone once nothing holds it.
    pub fn remove_finalizer(&mut self, place: Place) {
        let deleting = self
            .stack(place)
            .is_some_and(|stack| stack.metadata.deletion_timestamp.is_some());
        if deleting {
            self.note(|| format!("Stack of place {place} is gone"));
            self.homes[place].stack.change(|stack| *stack = None);
            self.changed(place);
        } else {
            self.change_stack(place, |stack| stack.metadata.finalizers = None);
        }
    }

    pub fn annotate(&mut self, place: Place, value: &str) {
        let value = value.to_owned();
        self.change_stack(place, |stack| {
            stack
                .metadata
                .annotations
                .get_or_insert_default()
                .insert(RECONCILE_REQUEST_ANNOTATION.to_owned(), value);
        });
    }

    pub fn update(&self, place: Place, name: &str) -> Option<&Update> {
        let updates = self.homes[place].updates.now();
        updates
            .iter()
            .find(|it| it.metadata.name.as_deref() == Some(name))
    }

    fn fenced(&self, place: Place, name: &str, fence: &Fence) -> Result<(), StoreError> {
        let stored = self.update(place, name).ok_or(StoreError::NotFound)?;
        if stored.metadata.resource_version.as_ref() == fence.updates.get(name) {
            Ok(())
        } else {
            Err(StoreError::Conflict)
        }
    }

    pub fn change_update(
        &mut self,
        place: Place,
        name: &str,
        fence: &mut Fence,
        edit: impl FnOnce(&mut Update),
    ) -> Result<(), StoreError> {
        let version = self.number().to_string();
        let new = version.clone();
        let found = self.homes[place].updates.change(|all| {
            let stored = all
                .iter_mut()
                .find(|it| it.metadata.name.as_deref() == Some(name))?;
            edit(stored);
            stored.metadata.resource_version = Some(new);
            Some(())
        });
        self.changed(place);
        if found.is_none() {
            return Err(StoreError::NotFound);
        }
        fence.updates.insert(name.to_owned(), version);
        Ok(())
    }

    fn remove_update(&mut self, place: Place, name: &str) {
        self.homes[place]
            .updates
            .change(|all| all.retain(|it| it.metadata.name.as_deref() != Some(name)));
        self.changed(place);
    }

    /// As an API server deletes: what holds a finalizer waits.
    pub fn delete_update(&mut self, place: Place, name: &str) {
        let Some(stored) = self.update(place, name) else {
            return;
        };
        let held = stored
            .metadata
            .finalizers
            .as_ref()
            .is_some_and(|all| !all.is_empty());
        if !held {
            self.remove_update(place, name);
        } else if stored.metadata.deletion_timestamp.is_none() {
            let now = record::time(self.now);
            // Nobody's step: no fence moves.
            let mut fence = Fence::default();
            let _gone = self.change_update(place, name, &mut fence, |stored| {
                stored.metadata.deletion_timestamp = Some(now);
            });
        }
    }

    fn check_updates(&mut self, place: Place) {
        let day = crate::plan::DAY;
        let now = self.now;
        let updates = self.homes[place].updates.now();
        let old = updates
            .iter()
            .filter(|it| !by_hand(it))
            .filter(|it| {
                let made = it.metadata.creation_timestamp.as_ref();
                made.is_some_and(|at| now - at.0.as_millisecond() > day + crate::plan::HOUR)
            })
            .count();
        if old > crate::operator::KEEP_UPDATES + UPDATES_SPARE {
            self.broken(crate::monitor::Broken::Bounded, || {
                format!("place {place} keeps {old} old Updates")
            });
        }
    }
}
