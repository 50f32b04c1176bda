//! Watches of the kinds that Stacks wait for, by metadata alone: an event says that something is new, not what.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError, Weak};

use futures::StreamExt;
use kube::api::{ApiResource, DynamicObject};
use kube::core::PartialObjectMeta;
use kube::runtime::watcher::{Config, Event};
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, ResourceExt};
use tokio::task::AbortHandle;

use super::{Found, Healths};
use crate::api::Cluster;
use crate::world::Followed;

/// `apiVersion`, kind, and the namespace where not all are looked after.
type Name = (String, String, Option<String>);

struct Running {
    task: AbortHandle,
    resource: ApiResource,
    namespaced: bool,
}

pub struct Watches {
    cluster: Cluster,
    namespaces: Vec<String>,
    healths: Weak<Healths>,
    running: Mutex<HashMap<Name, Running>>,
}

impl Watches {
    pub fn new(cluster: Cluster, namespaces: Vec<String>, healths: Weak<Healths>) -> Watches {
        Watches {
            cluster,
            namespaces,
            healths,
            running: Mutex::default(),
        }
    }

    fn running(&self) -> MutexGuard<'_, HashMap<Name, Running>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What the API server said of a kind that is watched.
    pub fn known(&self, api_version: &str, kind: &str) -> Option<Found> {
        let running = self.running();
        let mut all = running.iter();
        let (_, found) = all.find(|(name, _)| name.0 == api_version && name.1 == kind)?;
        Some(Found {
            resource: found.resource.clone(),
            namespaced: found.namespaced,
        })
    }

    /// Sees to it that the object's kind is watched where the object is. True if it has been for a while.
    pub fn follow(&self, followed: &Followed, resource: &ApiResource, namespaced: bool) -> bool {
        let one = namespaced && !self.namespaces.is_empty();
        let namespace = one.then(|| followed.namespace.clone());
        let name = (
            followed.api_version.clone(),
            followed.kind.clone(),
            namespace,
        );
        let mut running = self.running();
        if let Some(there) = running.get(&name) {
            return !there.task.is_finished();
        }
        let client = self.cluster.client.clone();
        let api: Api<PartialObjectMeta<DynamicObject>> = match &name.2 {
            Some(namespace) => Api::namespaced_with(client, namespace, resource),
            None => Api::all_with(client, resource),
        };
        let task = tokio::spawn(watch(api, name.clone(), self.healths.clone()));
        let found = Running {
            task: task.abort_handle(),
            resource: resource.clone(),
            namespaced,
        };
        running.insert(name, found);
        false
    }
}

impl Drop for Watches {
    fn drop(&mut self) {
        for (_, watch) in self.running().drain() {
            watch.task.abort();
        }
    }
}

async fn watch(api: Api<PartialObjectMeta<DynamicObject>>, name: Name, healths: Weak<Healths>) {
    let (api_version, kind, _) = name;
    let mut events = watcher(api, Config::default()).default_backoff().boxed();
    while let Some(event) = events.next().await {
        let object = match event {
            Ok(Event::Apply(object) | Event::InitApply(object) | Event::Delete(object)) => object,
            Ok(Event::Init | Event::InitDone) => continue,
            Err(error) => {
                tracing::debug!(api_version, kind, %error, "watching what Stacks wait for");
                continue;
            }
        };
        let Some(healths) = healths.upgrade() else {
            return;
        };
        healths.heard(&Followed {
            api_version: api_version.clone(),
            kind: kind.clone(),
            namespace: object.namespace().unwrap_or_default(),
            name: object.name_any(),
        });
    }
}
