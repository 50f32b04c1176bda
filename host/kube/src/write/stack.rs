//! Writes of the Stack itself.

use k8s_openapi::api::core::v1::Secret;
use serde_json::json;
use windlass_api::lenient::Lenient;
use windlass_api::names::{
    FINALIZER, MANAGER, PREREQUISITE_REQUEST_MANAGER, RECONCILE_REQUEST_ANNOTATION,
    STACK_FINALIZER_MANAGER, STACK_STATUS_MANAGER,
};
use windlass_api::stack::StackStatus;
use windlass_api::{Stack, Workspace};
use windlass_engine::{Fence, Key, StoreError};

use crate::api::readable;
use crate::store::KubeStore;
use crate::write::outputs::stack_outputs_name;
use crate::write::workspace::{is_ours, tls_secret_name};
use crate::write::{add_finalizer, remove_finalizer};

/// Finalizer by which the garbage collector is asked to leave the children of what is deleted.
const ORPHAN: &str = "orphan";

impl KubeStore {
    fn stored(&self, key: &Key) -> Result<std::sync::Arc<Stack>, StoreError> {
        self.world
            .stacks
            .get(&key.namespace, &key.name)
            .ok_or(StoreError::NotFound)
    }

    /// Puts the finalizer on, if the Stack is still what the step has seen.
    pub(crate) async fn add_stack_finalizer(
        &self,
        key: &Key,
        fence: &mut Fence,
    ) -> Result<(), StoreError> {
        let stack = self.stored(key)?;
        let present = stack.metadata.finalizers.clone().unwrap_or_default();
        if present.iter().any(|name| name == FINALIZER) {
            return Ok(());
        }
        let patch = add_finalizer(&present, FINALIZER, fence.stack.as_deref());
        let answer: Lenient<Stack> = self
            .cluster
            .json_patch(&key.namespace, &key.name, &patch, MANAGER)
            .await?;
        let stack = readable(answer)?;
        fence.stack.clone_from(&stack.metadata.resource_version);
        self.world.took(stack);
        Ok(())
    }

    /// Writes the status, if the Stack is still what the step has seen.
    pub(crate) async fn put_stack_status(
        &self,
        key: &Key,
        status: &StackStatus,
        fence: &mut Fence,
    ) -> Result<(), StoreError> {
        let object = json!({
            "apiVersion": "pulumi.com/v1",
            "kind": "Stack",
            "metadata": {"name": key.name, "resourceVersion": fence.stack},
            "status": status,
        });
        let answer: Lenient<Stack> = self
            .cluster
            .apply_status(&key.namespace, &key.name, &object, STACK_STATUS_MANAGER)
            .await?;
        let stack = readable(answer)?;
        fence.stack.clone_from(&stack.metadata.resource_version);
        self.world.took(stack);
        Ok(())
    }

    /// Asks another Stack to run again. Idempotent by its value.
    pub(crate) async fn request_reconcile(
        &self,
        key: &Key,
        stack: &str,
        value: &str,
    ) -> Result<(), StoreError> {
        let Some(other) = self.world.stacks.get(&key.namespace, stack) else {
            return Ok(());
        };
        if windlass_core::names::reconcile_request(&other) == Some(value) {
            return Ok(());
        }
        let object = json!({
            "apiVersion": "pulumi.com/v1",
            "kind": "Stack",
            "metadata": {
                "name": stack,
                // Another Stack of the name was not asked.
                "uid": other.metadata.uid,
                "annotations": {RECONCILE_REQUEST_ANNOTATION: value},
            },
        });
        let answer: Lenient<Stack> = self
            .cluster
            .apply(&key.namespace, stack, &object, PREREQUISITE_REQUEST_MANAGER)
            .await?;
        let stack = readable(answer)?;
        self.world.took(stack);
        Ok(())
    }

    /// What nobody else takes away: made after the deletion had begun, it has no owner; and of a Stack that is deleted
    /// with its children orphaned, nothing has. Neither is of use to anybody.
    async fn delete_unowned(&self, key: &Key, stack: &Stack) -> Result<(), StoreError> {
        let workspace = self
            .world
            .workspaces
            .get(&key.namespace, &key.name)
            .filter(|workspace| is_ours(workspace));
        let finalizers = stack.metadata.finalizers.iter().flatten();
        let orphans = finalizers.into_iter().any(|name| name == ORPHAN);
        let ran = stack
            .status
            .as_ref()
            .is_some_and(|status| status.last_update.is_some());
        let collected = match &workspace {
            Some(workspace) => {
                let owners = workspace.metadata.owner_references.as_ref();
                !owners.is_none_or(Vec::is_empty)
            }
            // Deleted by somebody; without a run there never was one.
            None => !ran,
        };
        if collected && !orphans {
            return Ok(());
        }
        let namespace = &key.namespace;
        if let Some(workspace) = workspace {
            self.cluster
                .delete::<Workspace>(namespace, &key.name, workspace.metadata.uid.as_deref())
                .await?;
        }
        for name in [tls_secret_name(&key.name), stack_outputs_name(&key.name)] {
            self.cluster
                .delete::<Secret>(namespace, &name, None)
                .await?;
        }
        Ok(())
    }

    /// Lets the Stack go, if it is still what the step has seen.
    pub(crate) async fn remove_stack_finalizer(
        &self,
        key: &Key,
        fence: &mut Fence,
    ) -> Result<(), StoreError> {
        let stack = self.stored(key)?;
        let present = stack.metadata.finalizers.clone().unwrap_or_default();
        let Some(patch) = remove_finalizer(&present, FINALIZER, fence.stack.as_deref()) else {
            return Ok(());
        };
        if stack.metadata.deletion_timestamp.is_some() {
            self.delete_unowned(key, &stack).await?;
        }
        let answer: Lenient<Stack> = self
            .cluster
            .json_patch(&key.namespace, &key.name, &patch, STACK_FINALIZER_MANAGER)
            .await?;
        let stack = readable(answer)?;
        let held = stack
            .metadata
            .finalizers
            .as_ref()
            .is_some_and(|all| !all.is_empty());
        if stack.metadata.deletion_timestamp.is_some() && !held {
            let uid = stack.metadata.uid.clone();
            self.world
                .lost::<Stack>(&key.namespace, &key.name, uid.as_deref());
            self.references.forget(key);
            self.healths.forget(key);
        } else {
            fence.stack.clone_from(&stack.metadata.resource_version);
            self.world.took(stack);
        }
        Ok(())
    }
}
