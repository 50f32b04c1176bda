//! The engine's store on one machine.

use std::sync::Arc;

use windlass_api::conditions::{COMPLETE, is_true};
use windlass_api::names::{self, FINALIZER, RECONCILE_REQUEST_ANNOTATION};
use windlass_api::secret::{Secret, SecretBytes};
use windlass_api::{ObjectMeta, Stack, Update};
use windlass_core::decision::Write;
use windlass_core::record::time;
use windlass_core::snapshot::Objects;
use windlass_core::update_object::{self, templated};
use windlass_engine::{Fence, Handle, Key, Store, StoreError};
use windlass_tasks::HeldOutputs;

use crate::config::LocalObserver;
use crate::db::{Db, DbError, Stored, kind};
use crate::workspaces::{WorkspaceError, Workspaces};
use crate::{clock, environment, objects};

/// Objects in the embedded store, workspaces as processes.
pub struct LocalStore {
    pub db: Arc<Db>,
    pub workspaces: Arc<Workspaces>,
    pub outputs: Arc<HeldOutputs>,
    pub observer: Arc<dyn LocalObserver>,
    pub handle: tokio::sync::OnceCell<Handle>,
    /// Everything is taken down: a Stack goes as soon as nothing depends on it any more.
    pub destroy: bool,
}

impl Store for LocalStore {
    async fn load(&self, key: &Key) -> Result<Objects, StoreError> {
        let workspace = self.workspaces.view(key)?;
        Ok(objects::load(&self.db, key, workspace)?)
    }

    async fn write(
        &self,
        key: &Key,
        write: &Write,
        objects: &Objects,
        fence: &mut Fence,
    ) -> Result<(), StoreError> {
        match write {
            Write::AddFinalizer => self.edit_stack(key, fence, |stack| {
                let finalizers = stack.metadata.finalizers.get_or_insert_default();
                if !finalizers.iter().any(|name| name == FINALIZER) {
                    finalizers.push(FINALIZER.to_owned());
                }
            }),
            Write::PutStatus { status } => {
                self.edit_stack(key, fence, |stack| stack.status = Some((**status).clone()))?;
                self.wake_dependents(key)
            }
            Write::RequestReconcile { stack, value } => {
                self.request(&Key::new(&key.namespace, stack), value)
            }
            Write::EnsureWorkspace { spec_digest, .. } => {
                let Some(stack) = &objects.stack else {
                    return Ok(());
                };
                let environment = || environment::environment(&self.db, stack);
                Ok(self.workspaces.ensure(key, spec_digest, environment)?)
            }
            Write::StopWorkspace { uid } => {
                // The decision may be older than a run that has begun since.
                let started = objects::updates(&self.db, key)?.iter().any(|update| {
                    let status = update.status.clone().unwrap_or_default();
                    let here = status.run.as_ref().is_some_and(|run| run.instance == *uid);
                    here && !is_true(&status.conditions, COMPLETE)
                });
                if started {
                    return Err(StoreError::Conflict);
                }
                Ok(self.workspaces.stop(key, uid)?)
            }
            Write::CreateUpdate {
                name,
                operation,
                intent,
            } => {
                let Some(stack) = &objects.stack else {
                    return Err(StoreError::NotFound);
                };
                let mut spec = templated(stack, *operation, intent.cause.message());
                spec.intent = Some((**intent).clone());
                let mut update = Update::new(name, spec);
                update.metadata = ObjectMeta {
                    uid: Some(self.db.new_uid()?),
                    generation: Some(1),
                    finalizers: Some(vec![FINALIZER.to_owned()]),
                    creation_timestamp: Some(time(clock().0)),
                    ..update_object::metadata(&key.namespace, &key.name, name)
                };
                match self.db.put(
                    kind::UPDATE,
                    (&key.namespace, name),
                    &key.name,
                    Some(0),
                    &update,
                ) {
                    // It is there: created by a step that saw no more than that.
                    Ok(_) | Err(DbError::Conflict) => Ok(()),
                    Err(error) => Err(error.into()),
                }
            }
            Write::RecordStart { update, record } => {
                self.edit_update(key, update, fence, |object| {
                    update_object::start(object, record, clock());
                })
            }
            Write::SaveOutputs { update } => self.save_outputs(key, update),
            Write::UpdateWaits {
                update,
                reason,
                message,
            } => Ok(self.edit_update(key, update, fence, |object| {
                update_object::waits(object, reason, message, clock());
            })?),
            Write::FinishUpdate { update, outcome } => {
                let secret = objects::outputs_secret_name(&key.name);
                self.edit_update(key, update, fence, |object| {
                    update_object::finish(object, outcome, &secret, clock());
                })?;
                Ok(self.workspaces.idle_from_now(key)?)
            }
            Write::ReleaseUpdate { update } => {
                self.outputs.forget(update);
                self.edit_update(key, update, fence, |object| {
                    object.metadata.finalizers = None
                })
            }
            Write::DeleteUpdate { update } => {
                self.workspaces.forget_run(key, update);
                Ok(self.db.delete(kind::UPDATE, &key.namespace, update)?)
            }
            Write::RemoveFinalizer => {
                self.edit_stack(key, fence, |stack| {
                    if let Some(finalizers) = &mut stack.metadata.finalizers {
                        finalizers.retain(|name| name != FINALIZER);
                    }
                })?;
                self.collect(key)?;
                if self.destroy {
                    self.take_down_next()?;
                }
                self.wake_dependents(key)
            }
            Write::Event { event } => {
                self.observer.event(key, event);
                Ok(())
            }
        }
    }
}

impl LocalStore {
    fn edit_stack(
        &self,
        key: &Key,
        fence: &mut Fence,
        edit: impl FnOnce(&mut Stack),
    ) -> Result<(), StoreError> {
        let stored = self
            .db
            .get::<Stack>(kind::STACK, &key.namespace, &key.name)?
            .ok_or(StoreError::NotFound)?;
        let mut stack = stored.object;
        edit(&mut stack);
        stack.metadata.resource_version = None;
        let expected = fence
            .stack
            .as_deref()
            .and_then(|version| version.parse().ok())
            .unwrap_or(stored.version);
        let version = self.db.put(
            kind::STACK,
            (&key.namespace, &key.name),
            "",
            Some(expected),
            &stack,
        )?;
        fence.stack = Some(version.to_string());
        Ok(())
    }

    fn edit_update(
        &self,
        key: &Key,
        name: &str,
        fence: &mut Fence,
        edit: impl FnOnce(&mut Update),
    ) -> Result<(), StoreError> {
        let stored = self
            .db
            .get::<Update>(kind::UPDATE, &key.namespace, name)?
            .ok_or(StoreError::NotFound)?;
        let mut update = stored.object;
        edit(&mut update);
        update.metadata.resource_version = None;
        let expected = fence
            .updates
            .get(name)
            .and_then(|version| version.parse().ok())
            .unwrap_or(stored.version);
        let version = self.db.put(
            kind::UPDATE,
            (&key.namespace, name),
            &key.name,
            Some(expected),
            &update,
        )?;
        fence.updates.insert(name.to_owned(), version.to_string());
        Ok(())
    }

    /// Sets the annotation that asks a Stack to run again.
    pub fn request(&self, key: &Key, value: &str) -> Result<(), StoreError> {
        let Some(Stored {
            version,
            object: mut stack,
        }) = self
            .db
            .get::<Stack>(kind::STACK, &key.namespace, &key.name)?
        else {
            return Ok(());
        };
        let annotations = stack.metadata.annotations.get_or_insert_default();
        if annotations
            .get(RECONCILE_REQUEST_ANNOTATION)
            .map(String::as_str)
            == Some(value)
        {
            return Ok(());
        }
        annotations.insert(RECONCILE_REQUEST_ANNOTATION.to_owned(), value.to_owned());
        self.db.put(
            kind::STACK,
            (&key.namespace, &key.name),
            "",
            Some(version),
            &stack,
        )?;
        self.wake(key.clone());
        Ok(())
    }

    /// The outputs of the run, as the agent reported them to this process, become the Stack's outputs Secret.
    fn save_outputs(&self, key: &Key, update: &str) -> Result<(), StoreError> {
        let Some(outputs) = self.outputs.of(update) else {
            return Err(StoreError::NotAtHand);
        };
        let name = objects::outputs_secret_name(&key.name);
        let mut masked: Vec<&String> = outputs
            .iter()
            .filter(|(_, output)| output.secret)
            .map(|(name, _)| name)
            .collect();
        masked.sort();
        let mut metadata = update_object::metadata(&key.namespace, &key.name, &name);
        let list = serde_json::to_string(&masked).map_err(DbError::from)?;
        metadata.annotations = Some([(names::SECRETS_ANNOTATION.to_owned(), list)].into());
        let data = outputs
            .iter()
            .map(|(name, output)| {
                (
                    names::output_key(name),
                    SecretBytes::new(output.value.to_string()),
                )
            })
            .collect();
        let secret = Secret {
            metadata,
            type_: Some("pulumi.com/outputs".to_owned()),
            immutable: None,
            data,
        };
        self.db.put(
            kind::SECRET,
            (&key.namespace, &name),
            &key.name,
            None,
            &secret,
        )?;
        Ok(())
    }

    /// An object without finalizers that is being deleted goes, and what belongs to it with it.
    pub fn collect(&self, key: &Key) -> Result<(), StoreError> {
        let Some(Stored { object: stack, .. }) =
            self.db
                .get::<Stack>(kind::STACK, &key.namespace, &key.name)?
        else {
            return Ok(());
        };
        let held = stack
            .metadata
            .finalizers
            .as_ref()
            .is_some_and(|finalizers| !finalizers.is_empty());
        if stack.metadata.deletion_timestamp.is_some() && !held {
            self.db.delete(kind::STACK, &key.namespace, &key.name)?;
            self.db.delete(
                kind::SECRET,
                &key.namespace,
                &objects::outputs_secret_name(&key.name),
            )?;
        }
        Ok(())
    }

    fn take_down_next(&self) -> Result<(), StoreError> {
        for key in crate::sync::take_down(&self.db)? {
            self.collect(&key)?;
            self.wake(key);
        }
        Ok(())
    }

    fn wake(&self, key: Key) {
        if let Some(handle) = self.handle.get() {
            handle.wake(key);
        }
    }

    /// Stacks that wait for this one, or use its outputs, look again.
    fn wake_dependents(&self, key: &Key) -> Result<(), StoreError> {
        for stack in self.db.list::<Stack>(kind::STACK, None)? {
            let stack = stack.object;
            let metadata = &stack.metadata;
            if metadata.namespace.as_deref() != Some(&key.namespace)
                || metadata.name.as_deref() == Some(&key.name)
            {
                continue;
            }
            let waits = stack
                .spec
                .prerequisites
                .iter()
                .any(|p| p.normalize().is_ok_and(|meaning| meaning.name == key.name));
            let uses = stack
                .spec
                .env_refs
                .values()
                .any(|reference| reference.stack.as_deref() == Some(&key.name));
            if waits || uses {
                self.wake(Key::new(
                    &key.namespace,
                    metadata.name.clone().unwrap_or_default(),
                ));
            }
        }
        Ok(())
    }
}

impl From<DbError> for StoreError {
    fn from(error: DbError) -> Self {
        match error {
            DbError::Conflict => StoreError::Conflict,
            DbError::NotFound => StoreError::NotFound,
            DbError::Sql(error) => StoreError::Unavailable(error.to_string()),
            DbError::Json(error) => StoreError::Rejected(error.to_string()),
        }
    }
}

impl From<WorkspaceError> for StoreError {
    fn from(error: WorkspaceError) -> Self {
        match error {
            WorkspaceError::Io { .. } => StoreError::Unavailable(error.to_string()),
            WorkspaceError::Store(error) => error.into(),
        }
    }
}
