//! Watches of the kinds that source providers follow, each begun when the first Stack names one.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, PoisonError};

use futures::StreamExt;
use kube::api::DynamicObject;
use kube::runtime::watcher::{Config, Event};
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, ResourceExt};
use windlass_engine::Key;
use windlass_sdk::ObjectRef;

use crate::api::{Cluster, within};
use crate::outside::group_version_kind;
use crate::secrets::{Secrets, is_secret};
use crate::world::{Followed, World};

/// What is watched: `apiVersion`, kind, and the namespace where not all are looked after.
type Watch = (String, String, Option<String>);

/// The watches.
pub struct Follow {
    cluster: Cluster,
    world: Arc<World>,
    namespaces: Vec<String>,
    running: Mutex<HashMap<Watch, tokio::task::AbortHandle>>,
    secrets: Arc<Secrets>,
    secrets_task: tokio::task::AbortHandle,
}

impl Follow {
    /// Needs a runtime: what cannot be watched is looked at from time to time.
    pub fn new(cluster: Cluster, world: Arc<World>, namespaces: Vec<String>) -> Follow {
        let secrets = Arc::new(Secrets::default());
        let keep = Arc::clone(&secrets).keep(cluster.clone(), Arc::clone(&world));
        Follow {
            cluster,
            world,
            namespaces,
            running: Mutex::default(),
            secrets,
            secrets_task: tokio::spawn(keep).abort_handle(),
        }
    }

    /// A Stack follows these objects from now on, and no others.
    pub fn set(&self, key: &Key, objects: BTreeSet<Followed>) {
        for new in self.world.set_followed(key, objects) {
            // Watched in any case.
            if new.kind == "Program" && new.api_version.starts_with("pulumi.com/") {
                continue;
            }
            if is_secret(&new) {
                self.secrets.follow();
                continue;
            }
            let namespace = (!self.namespaces.is_empty()).then(|| new.namespace.clone());
            let watch = (new.api_version.clone(), new.kind.clone(), namespace);
            let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
            let alive = running.get(&watch).is_some_and(|task| !task.is_finished());
            if !alive {
                let task = tokio::spawn(follow(
                    self.cluster.clone(),
                    Arc::clone(&self.world),
                    watch.clone(),
                ));
                running.insert(watch, task.abort_handle());
            }
        }
    }
}

impl Drop for Follow {
    fn drop(&mut self) {
        self.secrets_task.abort();
        let running = self
            .running
            .get_mut()
            .unwrap_or_else(PoisonError::into_inner);
        for task in running.values() {
            task.abort();
        }
    }
}

async fn follow(cluster: Cluster, world: Arc<World>, watch: Watch) {
    let (api_version, kind, namespace) = watch;
    let object = ObjectRef {
        api_version: api_version.clone(),
        kind: kind.clone(),
        name: String::new(),
    };
    let Some(gvk) = group_version_kind(&object) else {
        return;
    };
    // A kind that is not installed yet is asked for again with the next question of its Stack.
    let resource = match within(kube::discovery::pinned_kind(&cluster.client, &gvk)).await {
        Ok((resource, _)) => resource,
        Err(error) => {
            tracing::info!(api_version, kind, %error, "a kind that a source follows cannot be watched");
            return;
        }
    };
    let api: Api<DynamicObject> = match &namespace {
        Some(namespace) => Api::namespaced_with(cluster.client.clone(), namespace, &resource),
        None => Api::all_with(cluster.client.clone(), &resource),
    };
    let mut seen: HashMap<Key, String> = HashMap::new();
    let mut events = watcher(api, Config::default()).default_backoff().boxed();
    while let Some(event) = events.next().await {
        let (object, gone) = match event {
            Ok(Event::Apply(object) | Event::InitApply(object)) => (object, false),
            Ok(Event::Delete(object)) => (object, true),
            Ok(Event::Init | Event::InitDone) => continue,
            Err(error) => {
                tracing::debug!(api_version, kind, %error, "watching what sources follow");
                continue;
            }
        };
        let key = Key::new(object.namespace().unwrap_or_default(), object.name_any());
        // What a source is made of; the rest of a status changes all the time.
        let shown = windlass_core::digest::digest(&(
            object.metadata.generation,
            object.data.pointer("/status/artifact"),
            object.data.pointer("/status/conditions"),
        ));
        let known = if gone {
            seen.remove(&key)
        } else {
            seen.insert(key.clone(), shown.clone())
        };
        if gone || known.is_none_or(|known| known != shown) {
            world.followed_changed(&Followed {
                api_version: api_version.clone(),
                kind: kind.clone(),
                namespace: key.namespace,
                name: key.name,
            });
        }
    }
}
