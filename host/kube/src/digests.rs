//! Digests of other Stacks' outputs, as the annotation on their outputs Secret tells them: no value is read.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Mutex, PoisonError};

use k8s_openapi::api::core::v1::Secret;
use windlass_api::Stack;
use windlass_engine::Key;

use crate::api::{ApiError, Cluster};
use crate::write::outputs::{DIGESTS_ANNOTATION, stack_outputs_name};

type Digests = BTreeMap<String, String>;

/// What was read, by Stack and the run that it was read after.
pub struct OutputDigests {
    cluster: Cluster,
    known: Mutex<HashMap<Key, (String, Digests)>>,
}

impl OutputDigests {
    pub fn new(cluster: Cluster) -> OutputDigests {
        OutputDigests {
            cluster,
            known: Mutex::default(),
        }
    }

    /// The digests of a Stack's outputs after its last run.
    ///
    /// # Errors
    /// The API server does not answer, or refuses.
    pub async fn of(&self, key: &Key, stack: &Stack) -> Result<Digests, ApiError> {
        let last = stack
            .status
            .as_ref()
            .and_then(|status| status.last_update.as_ref()?.name.clone())
            .unwrap_or_default();
        let known = {
            let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
            known.get(key).filter(|(run, _)| *run == last).cloned()
        };
        if let Some((_, digests)) = known {
            return Ok(digests);
        }
        let name = stack_outputs_name(&key.name);
        let secret = self
            .cluster
            .metadata::<Secret>(&key.namespace, &name)
            .await?;
        let digests: Digests = secret
            .and_then(|secret| secret.metadata.annotations?.remove(DIGESTS_ANNOTATION))
            .and_then(|text| serde_json::from_str(&text).ok())
            .unwrap_or_default();
        self.known
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(key.clone(), (last, digests.clone()));
        Ok(digests)
    }
}
