//! Stored objects in memory, with versions.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Mutex;

use windlass_api::Stack;
use windlass_api::conditions::{self, COMPLETE, NewCondition, TRUE};
use windlass_api::names::FINALIZER;
use windlass_api::{ObjectMeta, Update};
use windlass_core::decision::{UpdateOutcome, Write};
use windlass_core::request::update_spec;
use windlass_core::snapshot::{Instance, InstancePhase, Objects};
use windlass_engine::{Fence, Key, Store, StoreError};

use super::clock;

#[derive(Default)]
pub struct FakeStore {
    all: Mutex<BTreeMap<Key, Objects>>,
    /// Writes that were tried, by name.
    pub tried: Mutex<Vec<String>>,
    /// What the next loads answer.
    pub load_errors: Mutex<VecDeque<StoreError>>,
    /// What the next write of this name answers.
    pub write_errors: Mutex<Vec<(&'static str, StoreError)>>,
    /// The next workspace of this Stack becomes this.
    broken: Mutex<BTreeMap<String, Instance>>,
}

/// The name of a write, as its JSON has it.
pub fn name_of(write: &Write) -> String {
    let json = serde_json::to_value(write).unwrap();
    json["write"].as_str().unwrap().to_owned()
}

impl FakeStore {
    pub fn put(&self, stack: Stack) {
        let key = Key::new("apps", stack.metadata.name.clone().unwrap());
        self.all.lock().unwrap().entry(key).or_default().stack = Some(stack);
    }

    pub fn keys(&self) -> Vec<Key> {
        self.all.lock().unwrap().keys().cloned().collect()
    }

    pub fn objects(&self, key: &Key) -> Objects {
        self.all
            .lock()
            .unwrap()
            .get(key)
            .cloned()
            .unwrap_or_default()
    }

    pub fn change(&self, key: &Key, change: impl FnOnce(&mut Objects)) {
        change(self.all.lock().unwrap().entry(key.clone()).or_default());
    }

    pub fn breaks(&self, name: &str, instance: Instance) {
        self.broken
            .lock()
            .unwrap()
            .insert(name.to_owned(), instance);
    }

    pub fn tried(&self, name: &str) -> usize {
        self.tried
            .lock()
            .unwrap()
            .iter()
            .filter(|n| *n == name)
            .count()
    }

    fn apply(&self, key: &Key, write: &Write, fence: &mut Fence) -> Result<(), StoreError> {
        let mut all = self.all.lock().unwrap();
        let objects = all.entry(key.clone()).or_default();
        let at = |objects: &Objects, name: &String| {
            let mut all = objects.updates.iter();
            all.position(|u| u.metadata.name.as_ref() == Some(name))
        };
        match write {
            Write::AddFinalizer => {
                let stack = objects.stack.as_mut().ok_or(StoreError::NotFound)?;
                stack.metadata.finalizers = Some(vec![FINALIZER.into()]);
                fence.stack = Some(bump(&mut stack.metadata));
            }
            Write::PutStatus { status } => {
                let stack = objects.stack.as_mut().ok_or(StoreError::NotFound)?;
                if stack.metadata.resource_version != fence.stack {
                    return Err(StoreError::Conflict);
                }
                stack.status = Some((**status).clone());
                fence.stack = Some(bump(&mut stack.metadata));
            }
            Write::EnsureWorkspace { spec_digest, .. } => {
                let broken = self.broken.lock().unwrap().remove(&key.name);
                let broken = broken.map(|instance| Instance {
                    spec_digest: spec_digest.clone(),
                    ..instance
                });
                let current = &mut objects.workspace.current;
                current.get_or_insert_with(|| {
                    broken.unwrap_or(Instance {
                        uid: format!("instance-{key}"),
                        hostname: key.to_string(),
                        node: None,
                        spec_digest: spec_digest.clone(),
                        phase: InstancePhase::Ready {
                            boot_id: "boot".into(),
                        },
                        idle_since: clock(),
                    })
                });
            }
            Write::StopWorkspace { .. } => objects.workspace.current = None,
            Write::CreateUpdate {
                name,
                operation,
                intent,
            } if at(objects, name).is_none() => {
                let stack = objects.stack.as_ref().ok_or(StoreError::NotFound)?;
                let mut spec = update_spec(stack, *operation, String::new());
                spec.intent = Some((**intent).clone());
                let mut metadata = ObjectMeta {
                    name: Some(name.clone()),
                    finalizers: Some(vec![FINALIZER.into()]),
                    ..ObjectMeta::default()
                };
                fence.updates.insert(name.clone(), bump(&mut metadata));
                objects.updates.push(Update {
                    metadata,
                    spec,
                    status: None,
                });
            }
            Write::RecordStart { update, record } => {
                let at = at(objects, update).ok_or(StoreError::NotFound)?;
                let found = &mut objects.updates[at];
                found.status.get_or_insert_default().run = Some(record.clone());
                fence
                    .updates
                    .insert(update.clone(), bump(&mut found.metadata));
            }
            Write::UpdateWaits { .. } => {
                unreachable!("nobody makes Updates by hand here")
            }
            Write::FinishUpdate { update, outcome } => {
                let at = at(objects, update).ok_or(StoreError::NotFound)?;
                let found = &mut objects.updates[at];
                if found.metadata.resource_version.as_ref() != fence.updates.get(update) {
                    return Err(StoreError::Conflict);
                }
                let status = found.status.get_or_insert_default();
                if let UpdateOutcome::Ended { summary } = outcome {
                    status.summary = Some(summary.clone());
                }
                let complete = NewCondition {
                    type_: COMPLETE,
                    status: TRUE,
                    reason: "Complete",
                    message: "",
                    observed_generation: None,
                };
                let now = windlass_core::record::time(clock().0);
                conditions::set(&mut status.conditions, &complete, &now);
                fence
                    .updates
                    .insert(update.clone(), bump(&mut found.metadata));
            }
            Write::ReleaseUpdate { update } => {
                if let Some(at) = at(objects, update) {
                    objects.updates[at].metadata.finalizers = None;
                    bump(&mut objects.updates[at].metadata);
                }
            }
            Write::DeleteUpdate { update } => {
                objects
                    .updates
                    .retain(|u| u.metadata.name.as_ref() != Some(update));
            }
            Write::RemoveFinalizer => objects.stack = None,
            Write::CreateUpdate { .. }
            | Write::RequestReconcile { .. }
            | Write::SaveOutputs { .. }
            | Write::Event { .. } => {}
        }
        Ok(())
    }
}

fn bump(metadata: &mut ObjectMeta) -> String {
    let version: u64 = metadata
        .resource_version
        .as_deref()
        .unwrap_or("0")
        .parse()
        .unwrap();
    let next = (version + 1).to_string();
    metadata.resource_version = Some(next.clone());
    next
}

impl Store for FakeStore {
    async fn load(&self, key: &Key) -> Result<Objects, StoreError> {
        match self.load_errors.lock().unwrap().pop_front() {
            Some(error) => Err(error),
            None => Ok(self.objects(key)),
        }
    }

    async fn write(
        &self,
        key: &Key,
        write: &Write,
        _objects: &Objects,
        fence: &mut Fence,
    ) -> Result<(), StoreError> {
        let name = name_of(write);
        self.tried.lock().unwrap().push(name.clone());
        {
            let mut errors = self.write_errors.lock().unwrap();
            if let Some(at) = errors.iter().position(|(of, _)| *of == name) {
                return Err(errors.remove(at).1);
            }
        }
        self.apply(key, write, fence)
    }
}
