//! Versions of the Secrets and ConfigMaps that Stacks refer to. Secrets are looked at by their metadata alone, one by one:
//! the operator neither lists nor watches them.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use windlass_api::ConfigMap;
use windlass_core::snapshot::{Reference, ReferenceKind};
use windlass_engine::{Key, StoreError};

use crate::api::{ApiError, Cluster};
use crate::world::World;

/// How long what was seen is taken for what is.
const FRESH: Duration = Duration::from_secs(20);
/// How often what is missing is looked for.
const LOOK: Duration = Duration::from_secs(5);

type Name = (String, Reference);

/// What was seen of references.
pub struct References {
    cluster: Cluster,
    world: Arc<World>,
    seen: Mutex<HashMap<Name, Seen>>,
}

struct Seen {
    version: Option<String>,
    at: Instant,
    /// Who asked for it: they are woken when it appears.
    asked: BTreeSet<Key>,
}

impl References {
    pub fn new(cluster: Cluster, world: Arc<World>) -> References {
        References {
            cluster,
            world,
            seen: Mutex::default(),
        }
    }

    fn seen(&self) -> MutexGuard<'_, HashMap<Name, Seen>> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The versions of these references; none for what is missing.
    ///
    /// # Errors
    /// The API server does not answer, or refuses.
    pub async fn versions(
        &self,
        key: &Key,
        references: BTreeSet<Reference>,
    ) -> Result<BTreeMap<Reference, Option<String>>, StoreError> {
        let mut versions = BTreeMap::new();
        for reference in references {
            let name = (key.namespace.clone(), reference.clone());
            let known = self.seen().get_mut(&name).and_then(|seen| {
                seen.asked.insert(key.clone());
                (seen.at.elapsed() < FRESH).then(|| seen.version.clone())
            });
            let version = match known {
                Some(version) => version,
                None => self.look(&name, Some(key)).await?,
            };
            versions.insert(reference, version);
        }
        Ok(versions)
    }

    async fn look(&self, name: &Name, key: Option<&Key>) -> Result<Option<String>, ApiError> {
        let (namespace, reference) = name;
        let version = match reference.kind {
            // The keys of a Secret cannot be seen without its values: a missing one shows when the pod starts.
            ReferenceKind::Secret => self
                .cluster
                .metadata::<k8s_openapi::api::core::v1::Secret>(namespace, &reference.name)
                .await?
                .and_then(|found| found.metadata.resource_version),
            ReferenceKind::ConfigMap => self
                .cluster
                .get::<ConfigMap>(namespace, &reference.name)
                .await?
                .filter(|map| holds(map, reference.key.as_deref()))
                .and_then(|map| map.metadata.resource_version),
        };
        let mut seen = self.seen();
        let entry = seen.entry(name.clone()).or_insert_with(|| Seen {
            version: None,
            at: Instant::now(),
            asked: BTreeSet::new(),
        });
        entry.version.clone_from(&version);
        entry.at = Instant::now();
        entry.asked.extend(key.cloned());
        Ok(version)
    }

    /// The Stack is gone: what only it asked for is forgotten.
    pub fn forget(&self, key: &Key) {
        self.seen().retain(|_, seen| {
            seen.asked.remove(key);
            !seen.asked.is_empty()
        });
    }

    /// Looks for what is missing and wakes whoever waits for it. Never returns; meant to be spawned.
    pub async fn look_for_missing(&self) {
        loop {
            tokio::time::sleep(LOOK).await;
            let missing: Vec<Name> = self
                .seen()
                .iter()
                .filter(|(_, seen)| seen.version.is_none())
                .map(|(name, _)| name.clone())
                .collect();
            for name in missing {
                match self.look(&name, None).await {
                    Ok(Some(_)) => {
                        let asked = self.seen().get(&name).map(|seen| seen.asked.clone());
                        for key in asked.into_iter().flatten() {
                            self.world.wake(key);
                        }
                    }
                    Ok(None) => {}
                    Err(error) => {
                        tracing::debug!(%error, reference = %name.1, "looking for what is missing")
                    }
                }
            }
        }
    }
}

fn holds(map: &ConfigMap, key: Option<&str>) -> bool {
    let Some(key) = key else { return true };
    map.data.as_ref().is_some_and(|data| data.contains_key(key))
        || map
            .binary_data
            .as_ref()
            .is_some_and(|data| data.contains_key(key))
}
