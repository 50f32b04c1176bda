//! Outputs of a run: a Secret for the Update, as users of the Pulumi Kubernetes Operator read it, and one for the Stack,
//! which outlives it.

use std::collections::BTreeMap;

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use serde_json::{Value, json};
use windlass_api::names::{
    ARGOCD_IGNORE_UPDATES_ANNOTATION, AUTO_COMPONENT_LABEL, COMPONENT_LABEL, COMPONENT_STACK,
    COMPONENT_UPDATE, MANAGER, SECRETS_ANNOTATION, STACK_NAME_LABEL, UPDATE_NAME_LABEL, output_key,
    outputs_secret_name,
};
use windlass_api::run::OutputValue;
use windlass_api::{ObjectMeta, OwnerReference, Stack};
use windlass_core::digest::digest;
use windlass_engine::{Key, StoreError};

use crate::api::ApiError;
use crate::store::KubeStore;
use crate::write::owner;

/// Annotation of a Stack's outputs Secret: the digest of each value, so that dependents see a change without reading it.
pub const DIGESTS_ANNOTATION: &str = "windlass.pulumi.com/output-digests";
/// Type of a Stack's outputs Secret.
const OUTPUTS_TYPE: &str = "pulumi.com/outputs";

/// Name of the Secret with a Stack's outputs of its last run.
pub fn stack_outputs_name(stack: &str) -> String {
    format!("{stack}-outputs")
}

impl KubeStore {
    pub(crate) async fn save_outputs(
        &self,
        key: &Key,
        stack: Option<&Stack>,
        update: &str,
    ) -> Result<(), StoreError> {
        let Some(outputs) = self.outputs.of(update) else {
            return Err(StoreError::NotAtHand);
        };
        let had = stack
            .and_then(|stack| stack.status.as_ref()?.outputs.as_ref())
            .is_some_and(|outputs| !outputs.is_empty());
        if outputs.is_empty() && !had {
            return Ok(());
        }
        self.save_update_outputs(key, update, &outputs).await?;
        match stack {
            Some(stack) => self.save_stack_outputs(key, stack, &outputs).await,
            None => Ok(()),
        }
    }

    async fn save_update_outputs(
        &self,
        key: &Key,
        update: &str,
        outputs: &BTreeMap<String, OutputValue>,
    ) -> Result<(), StoreError> {
        let owner = self
            .world
            .updates
            .get(&key.namespace, update)
            .and_then(|update| {
                Some(OwnerReference {
                    api_version: "auto.pulumi.com/v1alpha1".into(),
                    kind: "Update".into(),
                    name: update.metadata.name.clone()?,
                    uid: update.metadata.uid.clone()?,
                    controller: None,
                    block_owner_deletion: None,
                })
            });
        let data = outputs
            .iter()
            .map(|(name, output)| {
                (
                    output_key(name),
                    ByteString(output.value.to_string().into_bytes()),
                )
            })
            .collect();
        let secret = Secret {
            metadata: ObjectMeta {
                name: Some(outputs_secret_name(update)),
                namespace: Some(key.namespace.clone()),
                labels: Some(
                    [
                        (AUTO_COMPONENT_LABEL.into(), COMPONENT_UPDATE.into()),
                        (UPDATE_NAME_LABEL.into(), update.to_owned()),
                    ]
                    .into(),
                ),
                annotations: Some(
                    [
                        (SECRETS_ANNOTATION.into(), masked(outputs)),
                        (ARGOCD_IGNORE_UPDATES_ANNOTATION.into(), "true".into()),
                    ]
                    .into(),
                ),
                owner_references: owner.map(|owner| vec![owner]),
                ..ObjectMeta::default()
            },
            immutable: Some(true),
            data: Some(data),
            ..Secret::default()
        };
        match self.cluster.create(&key.namespace, &secret, MANAGER).await {
            // A run has one result: whoever saved it first saved the same.
            Ok(_) | Err(ApiError::AlreadyExists) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    async fn save_stack_outputs(
        &self,
        key: &Key,
        stack: &Stack,
        outputs: &BTreeMap<String, OutputValue>,
    ) -> Result<(), StoreError> {
        let name = stack_outputs_name(&key.name);
        let data: BTreeMap<String, ByteString> = outputs
            .iter()
            .map(|(name, output)| (output_key(name), ByteString(plain(&output.value))))
            .collect();
        let digests: BTreeMap<&String, String> = outputs
            .iter()
            .map(|(name, output)| (name, digest(&(name, &output.value))))
            .collect();
        let object = json!({
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {
                "name": name,
                "labels": {COMPONENT_LABEL: COMPONENT_STACK, STACK_NAME_LABEL: key.name},
                "annotations": {
                    SECRETS_ANNOTATION: masked(outputs),
                    DIGESTS_ANNOTATION: json!(digests).to_string(),
                    ARGOCD_IGNORE_UPDATES_ANNOTATION: "true",
                },
                "ownerReferences": owner(stack, false).map(|owner| vec![owner]),
            },
            "type": OUTPUTS_TYPE,
            "data": data,
        });
        let _: Secret = self
            .cluster
            .apply(&key.namespace, &name, &object, MANAGER)
            .await?;
        Ok(())
    }
}

/// The names of the outputs that are secret, sorted, as JSON.
fn masked(outputs: &BTreeMap<String, OutputValue>) -> String {
    let names: Vec<String> = outputs
        .iter()
        .filter(|(_, output)| output.secret)
        .map(|(name, _)| output_key(name))
        .collect();
    json!(names).to_string()
}

/// A string as it is, anything else as JSON: what an application's variable should hold.
fn plain(value: &Value) -> Vec<u8> {
    match value {
        Value::String(text) => text.clone().into_bytes(),
        other => other.to_string().into_bytes(),
    }
}
