//! Writes of Updates: one object per run, created, started, finished, released, deleted.

use std::sync::Arc;

use serde_json::{Value, json};
use windlass_api::intent::{RunIntent, RunRecord};
use windlass_api::names::{
    ARGOCD_IGNORE_UPDATES_ANNOTATION, ARGOCD_LINK_ANNOTATION, FINALIZER, MANAGER,
    STACK_FINALIZER_MANAGER, UPDATE_STATUS_MANAGER, outputs_secret_name,
};
use windlass_api::run::Operation;
use windlass_api::{Stack, Update};
use windlass_core::decision::UpdateOutcome;
use windlass_core::update_object;
use windlass_engine::{Fence, Key, StoreError};

use crate::api::ApiError;
use crate::clock;
use crate::store::KubeStore;
use crate::write::{add_finalizer, owner, remove_finalizer, set_annotation};

impl KubeStore {
    pub(crate) async fn create_update(
        &self,
        key: &Key,
        stack: &Stack,
        name: &str,
        operation: Operation,
        intent: &RunIntent,
    ) -> Result<(), ApiError> {
        let mut spec = update_object::templated(stack, operation, intent.cause.message());
        spec.intent = Some(intent.clone());
        let mut update = Update::new(name, spec);
        let mut metadata = update_object::metadata(&key.namespace, &key.name, name);
        metadata.finalizers = Some(vec![FINALIZER.to_owned()]);
        metadata.annotations = Some(
            [(
                ARGOCD_IGNORE_UPDATES_ANNOTATION.to_owned(),
                "true".to_owned(),
            )]
            .into(),
        );
        metadata.owner_references = owner(stack, true).map(|owner| vec![owner]);
        update.metadata = metadata;
        match self.cluster.create(&key.namespace, &update, MANAGER).await {
            Ok(created) => {
                self.world.took::<Update>(created);
                Ok(())
            }
            // It is there: created by a step that saw no more than that.
            Err(ApiError::AlreadyExists) => {
                if let Some(update) = self.cluster.get::<Update>(&key.namespace, name).await? {
                    self.world.took(update);
                }
                Ok(())
            }
            Err(error) => Err(error),
        }
    }

    fn stored_update(&self, key: &Key, name: &str) -> Result<Arc<Update>, StoreError> {
        let stored = self.world.updates.get(&key.namespace, name);
        stored.ok_or(StoreError::NotFound)
    }

    /// What a write was answered with: the step goes on from there.
    fn wrote(&self, update: Update, name: &str, fence: &mut Fence) {
        if let Some(version) = &update.metadata.resource_version {
            fence.updates.insert(name.to_owned(), version.clone());
        }
        self.world.took(update);
    }

    /// Writes the status of an Update, if it is still what the step has seen.
    pub(crate) async fn put_update_status(
        &self,
        key: &Key,
        name: &str,
        fence: &mut Fence,
        edit: impl FnOnce(&mut Update),
    ) -> Result<(), StoreError> {
        let stored = self.stored_update(key, name)?;
        let mut update = (*stored).clone();
        let version = fence
            .updates
            .get(name)
            .cloned()
            .or_else(|| stored.metadata.resource_version.clone());
        edit(&mut update);
        let object = json!({
            "apiVersion": "auto.pulumi.com/v1alpha1",
            "kind": "Update",
            "metadata": {"name": name, "resourceVersion": version},
            "status": update.status,
        });
        let update: Update = self
            .cluster
            .apply_status(&key.namespace, name, &object, UPDATE_STATUS_MANAGER)
            .await?;
        self.wrote(update, name, fence);
        Ok(())
    }

    pub(crate) async fn record_start(
        &self,
        key: &Key,
        name: &str,
        record: &RunRecord,
        fence: &mut Fence,
    ) -> Result<(), StoreError> {
        if record.intent.is_some() {
            self.hold_update(key, name, fence).await?;
        }
        self.put_update_status(key, name, fence, |update| {
            update_object::start(update, record, clock());
        })
        .await
    }

    /// An Update that was made by hand is not to vanish while its run goes on.
    async fn hold_update(
        &self,
        key: &Key,
        name: &str,
        fence: &mut Fence,
    ) -> Result<(), StoreError> {
        let stored = self.stored_update(key, name)?;
        let present = stored.metadata.finalizers.clone().unwrap_or_default();
        if present.iter().any(|finalizer| finalizer == FINALIZER) {
            return Ok(());
        }
        let version = fence.updates.get(name).map(String::as_str);
        let patch = add_finalizer(&present, FINALIZER, version);
        let update: Update = self
            .cluster
            .json_patch(&key.namespace, name, &patch, STACK_FINALIZER_MANAGER)
            .await?;
        self.wrote(update, name, fence);
        Ok(())
    }

    pub(crate) async fn update_waits(
        &self,
        key: &Key,
        name: &str,
        reason: &str,
        message: &str,
        fence: &mut Fence,
    ) -> Result<(), StoreError> {
        self.put_update_status(key, name, fence, |update| {
            update_object::waits(update, reason, message, clock());
        })
        .await
    }

    pub(crate) async fn finish_update(
        &self,
        key: &Key,
        name: &str,
        outcome: &UpdateOutcome,
        fence: &mut Fence,
    ) -> Result<(), StoreError> {
        let secret = outputs_secret_name(name);
        self.put_update_status(key, name, fence, |update| {
            update_object::finish(update, outcome, &secret, clock());
        })
        .await
    }

    /// The end of the run is recorded in the Stack: the Update may go.
    pub(crate) async fn release_update(&self, key: &Key, name: &str) -> Result<(), StoreError> {
        self.outputs.forget(name);
        let Some(stored) = self.world.updates.get(&key.namespace, name) else {
            return Ok(());
        };
        let present = stored.metadata.finalizers.clone().unwrap_or_default();
        let Some(mut patch) = remove_finalizer(&present, FINALIZER, None) else {
            return Ok(());
        };
        // In the same write: the status that it is taken from was the one before.
        let link = stored
            .status
            .as_ref()
            .and_then(|status| status.permalink.as_deref());
        if let (Some(link), Value::Array(patch)) = (link, &mut patch) {
            let annotations = stored.metadata.annotations.as_ref();
            patch.extend(set_annotation(annotations, ARGOCD_LINK_ANNOTATION, link));
        }
        let released: Result<Update, ApiError> = self
            .cluster
            .json_patch(&key.namespace, name, &patch, STACK_FINALIZER_MANAGER)
            .await;
        match released {
            Ok(update) => {
                self.took_or_lost(update);
                Ok(())
            }
            Err(ApiError::NotFound) => {
                self.world.lost::<Update>(&key.namespace, name, None);
                Ok(())
            }
            Err(error) => Err(error.into()),
        }
    }

    pub(crate) async fn delete_update(&self, key: &Key, name: &str) -> Result<(), StoreError> {
        let Some(stored) = self.world.updates.get(&key.namespace, name) else {
            return Ok(());
        };
        let uid = stored.metadata.uid.as_deref();
        self.cluster
            .delete::<Update>(&key.namespace, name, uid)
            .await?;
        let held = stored
            .metadata
            .finalizers
            .as_ref()
            .is_some_and(|all| !all.is_empty());
        if !held {
            self.world.lost::<Update>(&key.namespace, name, uid);
        }
        Ok(())
    }

    fn took_or_lost(&self, update: Update) {
        let metadata = &update.metadata;
        let held = metadata
            .finalizers
            .as_ref()
            .is_some_and(|all| !all.is_empty());
        if metadata.deletion_timestamp.is_some() && !held {
            let (namespace, name) = (metadata.namespace.clone(), metadata.name.clone());
            let uid = metadata.uid.clone();
            self.world.lost::<Update>(
                namespace.as_deref().unwrap_or_default(),
                name.as_deref().unwrap_or_default(),
                uid.as_deref(),
            );
        } else {
            self.world.took(update);
        }
    }

    /// The Updates of a workspace as the API server has them now.
    pub(crate) async fn live_updates(&self, key: &Key) -> Result<Vec<Update>, StoreError> {
        let api = self.cluster.api::<Update>(&key.namespace);
        let params = kube::api::ListParams::default();
        let list = self
            .cluster
            .ask::<Update, _>("list", api.list(&params))
            .await?;
        Ok(list
            .items
            .into_iter()
            .filter(|update| update.spec.workspace_name.as_deref() == Some(&key.name))
            .collect())
    }
}
