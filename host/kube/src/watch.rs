//! Watches: one stream per kind and namespace, each with a backoff of its own, none stopped by an object that cannot be
//! read.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures::StreamExt;
use kube::runtime::watcher::{Config, Event};
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, Resource as _, ResourceExt};
use tokio::sync::Notify;
use tokio::task::JoinSet;
use windlass_api::lenient::{FromObject, Lenient};
use windlass_engine::Key;

use crate::api::Cluster;
use crate::metrics::{Counters, KindLabels};
use crate::world::{Watched, World};

/// Counts the watches that have not listed yet.
#[derive(Default)]
pub struct Readiness {
    pending: AtomicUsize,
    changed: Notify,
}

impl Readiness {
    fn expect(&self) {
        self.pending.fetch_add(1, Ordering::SeqCst);
    }

    fn listed(&self) {
        self.pending.fetch_sub(1, Ordering::SeqCst);
        self.changed.notify_waiters();
    }

    /// Whether every watch has listed.
    pub fn is_ready(&self) -> bool {
        self.pending.load(Ordering::SeqCst) == 0
    }

    /// Returns once every watch has listed.
    pub async fn ready(&self) {
        loop {
            let changed = self.changed.notified();
            if self.is_ready() {
                return;
            }
            changed.await;
        }
    }
}

/// Starts the watches of one kind: one for all namespaces, or one for each that is named.
pub fn start<K: Watched + FromObject + Send + Sync + 'static>(
    tasks: &mut JoinSet<()>,
    world: &Arc<World>,
    cluster: &Cluster,
    namespaces: &[String],
    labels: Option<&str>,
    readiness: &Arc<Readiness>,
) {
    let scopes: Vec<Option<String>> = if namespaces.is_empty() {
        vec![None]
    } else {
        namespaces.iter().cloned().map(Some).collect()
    };
    for namespace in scopes {
        readiness.expect();
        let api: Api<Lenient<K>> = match &namespace {
            Some(namespace) => Api::namespaced(cluster.client.clone(), namespace),
            None => Api::all(cluster.client.clone()),
        };
        let mut config = Config::default();
        if let Some(labels) = labels {
            config = config.labels(labels);
        }
        tasks.spawn(watch(
            Arc::clone(world),
            api,
            config,
            namespace,
            Arc::clone(readiness),
            cluster.counters.clone(),
        ));
    }
}

async fn watch<K: Watched + FromObject + Send + Sync + 'static>(
    world: Arc<World>,
    api: Api<Lenient<K>>,
    config: Config,
    namespace: Option<String>,
    readiness: Arc<Readiness>,
    counters: Counters,
) {
    let labels = KindLabels { kind: K::NAME };
    let mut events = watcher(api, config).default_backoff().boxed();
    let mut listed: HashSet<Key> = HashSet::new();
    let mut listing = true;
    let mut complained = false;
    while let Some(event) = events.next().await {
        match event {
            Ok(Event::Init) => {
                // The first list is no restart.
                if !listing {
                    counters.watch_restarts.get_or_create(&labels).inc();
                }
                listed.clear();
            }
            Ok(Event::InitApply(object)) => {
                if let Some(key) = take(&world, object) {
                    listed.insert(key);
                }
            }
            Ok(Event::InitDone) => {
                // What was here and is not listed went while nobody looked.
                for key in K::cache(&world).names(namespace.as_deref()) {
                    if !listed.contains(&key) {
                        world.lost::<K>(&key.namespace, &key.name, None);
                    }
                }
                listed.clear();
                complained = false;
                if std::mem::take(&mut listing) {
                    readiness.listed();
                }
            }
            Ok(Event::Apply(object)) => {
                complained = false;
                take(&world, object);
            }
            Ok(Event::Delete(object)) => {
                let uid = object.meta().uid.clone();
                let (namespace, name) = (object.namespace().unwrap_or_default(), object.name_any());
                world.unreadable(K::NAME, Key::new(&namespace, &name), None);
                world.lost::<K>(&namespace, &name, uid.as_deref());
            }
            Err(error) => {
                counters.watch_errors.get_or_create(&labels).inc();
                if std::mem::replace(&mut complained, true) {
                    tracing::debug!(kind = K::NAME, %error, "watching");
                } else {
                    tracing::warn!(kind = K::NAME, %error, "watching; tried again until it works");
                }
            }
        }
    }
}

fn take<K: Watched + FromObject>(world: &World, object: Lenient<K>) -> Option<Key> {
    let key = Key::new(object.namespace()?, object.name_any());
    match object.0 {
        Ok(mut object) => {
            // Half of an object's weight, and nobody here asks who wrote which field.
            object.meta_mut().managed_fields = None;
            world.unreadable(K::NAME, key.clone(), None);
            world.took(object);
        }
        Err(invalid) => world.unreadable(K::NAME, key.clone(), Some(invalid.error.to_string())),
    }
    Some(key)
}
