//! The external links of Stacks whose authors ask for them. Written by the leader, without force: an annotation that
//! somebody else has set is never fought over.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde_json::json;
use tokio::sync::Notify;
use windlass_api::Stack;
use windlass_api::lenient::Lenient;
use windlass_api::names::{ARGOCD_LINK_ANNOTATION, EXTERNAL_LINK_MANAGER};
use windlass_core::link::{ExternalLink, external_link, has_link};
use windlass_engine::Key;

use crate::api::{ApiError, Cluster, readable};
use crate::world::World;

/// How long to wait after a write that failed.
const PAUSE: Duration = Duration::from_secs(15);

/// Stacks whose links are to be looked at.
#[derive(Default)]
pub struct LinkNews {
    keys: Mutex<BTreeSet<Key>>,
    changed: Notify,
}

impl LinkNews {
    fn keys(&self) -> MutexGuard<'_, BTreeSet<Key>> {
        self.keys.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A Stack was `before` and is `now`.
    pub fn changed(&self, key: &Key, before: Option<&Stack>, now: Option<&Stack>) {
        if before.is_some_and(has_link) || now.is_some_and(has_link) {
            self.keys().insert(key.clone());
            self.changed.notify_waiters();
        }
    }
}

/// Keeps the links of all Stacks right.
pub struct Links {
    cluster: Cluster,
    /// What was tried and is somebody else's to do, by Stack and its uid.
    left: HashMap<Key, (Option<String>, ExternalLink)>,
}

impl Links {
    pub fn new(cluster: Cluster) -> Links {
        Links {
            cluster,
            left: HashMap::new(),
        }
    }

    /// Looks at every Stack that is, and that changes. Never returns.
    pub async fn keep(mut self, world: &World) {
        for key in world.stacks.names(None) {
            let stack = world.stacks.get(&key.namespace, &key.name);
            world.links.changed(&key, None, stack.as_deref());
        }
        loop {
            let news = world.links.changed.notified();
            let keys = std::mem::take(&mut *world.links.keys());
            let mut failed = BTreeSet::new();
            for key in keys {
                if let Err(error) = self.look(world, &key).await {
                    tracing::warn!(stack = %key, %error, "writing the external link of a Stack");
                    failed.insert(key);
                }
            }
            if failed.is_empty() {
                news.await;
            } else {
                world.links.keys().extend(failed);
                tokio::time::sleep(PAUSE).await;
            }
        }
    }

    async fn look(&mut self, world: &World, key: &Key) -> Result<(), ApiError> {
        let Some(stack) = world.stacks.get(&key.namespace, &key.name) else {
            self.left.remove(key);
            return Ok(());
        };
        let step = external_link(&stack);
        // Whatever this manager has set and leaves out goes; what others have set stays.
        let annotations = match &step {
            ExternalLink::Leave => {
                self.left.remove(key);
                return Ok(());
            }
            ExternalLink::Set(page) => json!({ARGOCD_LINK_ANNOTATION: page}),
            ExternalLink::Withdraw => json!({}),
        };
        let uid = stack.metadata.uid.clone();
        let tried = (uid.clone(), step.clone());
        if self.left.get(key) == Some(&tried) {
            return Ok(());
        }
        let object = json!({
            "apiVersion": "pulumi.com/v1",
            "kind": "Stack",
            "metadata": {"name": key.name, "uid": uid, "annotations": annotations},
        });
        let answer: Result<Lenient<Stack>, ApiError> = self
            .cluster
            .apply_if_unowned(&key.namespace, &key.name, &object, EXTERNAL_LINK_MANAGER)
            .await;
        match answer {
            Ok(stack) => {
                let stack = readable(stack)?;
                if external_link(&stack) == step {
                    self.left.insert(key.clone(), tried);
                }
                world.took(stack);
                Ok(())
            }
            Err(ApiError::Conflict) => {
                tracing::debug!(stack = %key, "the external link is somebody else's");
                self.left.insert(key.clone(), tried);
                Ok(())
            }
            Err(ApiError::NotFound) => Ok(()),
            Err(error) => Err(error),
        }
    }
}
