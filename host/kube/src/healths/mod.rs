//! What Stacks wait for by `spec.healthChecks`: objects are read when a Stack asks, judged by the health plugins, and
//! followed by watches of their kinds, begun when the first Stack names one.
//!
//! A Stack learns no more than its workspace may: an object is looked at only if the Stack's service account may get it.

mod access;
mod common;
mod watch;

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use kube::Api;
use kube::api::{ApiResource, DynamicObject};
use kube::discovery::Scope;
use serde_json::Value;
use windlass_api::Stack;
use windlass_api::health_check::HealthCheck;
use windlass_core::snapshot::Verdict;
use windlass_core::time::Timestamp;
use windlass_engine::Key;
use windlass_sdk::{Health, HealthStatus, ObjectRef};
use windlass_wasm::{PluginHost, Work};

use crate::api::{ApiError, Cluster, within};
use crate::clock;
use crate::outside::group_version_kind;
use crate::world::{Followed, World};

/// How often what is followed is looked at although nothing was heard of it.
const LOOK: Duration = Duration::from_secs(60);
/// The same for what cannot be watched, or is not there.
const LOOK_BLIND: Duration = Duration::from_secs(5);

/// What was seen of objects that Stacks wait for.
pub struct Healths {
    cluster: Cluster,
    world: Arc<World>,
    plugins: PluginHost,
    access: access::Access,
    watches: watch::Watches,
    seen: Mutex<HashMap<Followed, Seen>>,
}

struct Seen {
    healthy: bool,
    message: String,
    at: Timestamp,
    /// Something was heard of it since.
    stale: bool,
    /// Who waits for it.
    asked: BTreeSet<Key>,
}

/// A kind as the API server knows it.
struct Found {
    resource: ApiResource,
    namespaced: bool,
}

impl Healths {
    pub fn new(
        cluster: Cluster,
        world: Arc<World>,
        plugins: PluginHost,
        namespaces: Vec<String>,
    ) -> Arc<Healths> {
        Arc::new_cyclic(|this| Healths {
            access: access::Access::new(cluster.clone()),
            watches: watch::Watches::new(cluster.clone(), namespaces, this.clone()),
            cluster,
            world,
            plugins,
            seen: Mutex::default(),
        })
    }

    fn seen(&self) -> MutexGuard<'_, HashMap<Followed, Seen>> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The verdicts on everything that this Stack waits for. What cannot be read is not healthy, and says why.
    pub async fn verdicts(&self, key: &Key, stack: &Stack) -> Vec<Verdict> {
        let last = stack.status.as_ref().and_then(|it| it.last_update.as_ref());
        let since = last.map_or(Timestamp(0), |last| Timestamp(last.resync_time_ms()));
        let mut verdicts = Vec::new();
        for check in &stack.spec.health_checks {
            let (healthy, message, at) = self.verdict(key, stack, check, since).await;
            verdicts.push(Verdict {
                check: check.clone(),
                healthy,
                message,
                at,
            });
        }
        verdicts
    }

    async fn verdict(
        &self,
        key: &Key,
        stack: &Stack,
        check: &HealthCheck,
        since: Timestamp,
    ) -> (bool, String, Timestamp) {
        let now = clock();
        let HealthCheck {
            api_version,
            kind,
            name,
            namespace,
        } = check.clone();
        let mut followed = Followed {
            api_version,
            kind,
            namespace: namespace.unwrap_or_else(|| key.namespace.clone()),
            name,
        };
        let found = match self.find(&followed).await {
            Ok(found) => found,
            Err(message) => return (false, message, now),
        };
        if !found.namespaced {
            followed.namespace = String::new();
        }
        match self
            .access
            .may_get(key, stack, &followed, &found.resource)
            .await
        {
            Ok(None) => {}
            Ok(Some(refusal)) => return (false, refusal, now),
            Err(error) => return (false, error.to_string(), now),
        }
        let watched = self
            .watches
            .follow(&followed, &found.resource, found.namespaced);
        let patience = if watched { LOOK } else { LOOK_BLIND };
        let rounded = since.after(Duration::from_secs(1));
        let known = self.seen().get_mut(&followed).and_then(|seen| {
            seen.asked.insert(key.clone());
            let fresh = !seen.stale && seen.at >= rounded && now < seen.at.after(patience);
            fresh.then(|| (seen.healthy, seen.message.clone(), seen.at))
        });
        match known {
            Some(known) => known,
            None => self.look(key, followed, &found).await,
        }
    }

    /// Reads the object and has it judged.
    async fn look(
        &self,
        key: &Key,
        followed: Followed,
        found: &Found,
    ) -> (bool, String, Timestamp) {
        // What is heard from here on is newer than what is read.
        if let Some(seen) = self.seen().get_mut(&followed) {
            seen.stale = false;
        }
        let at = clock();
        let (healthy, message) = match self.read(&followed, found).await {
            Ok(Some(object)) => self.judge(&followed, object).await,
            Ok(None) => (false, "it does not exist".to_owned()),
            Err(ApiError::Refused { message, .. }) => (
                false,
                format!("the operator may not read it; give it get, list and watch ({message})"),
            ),
            Err(error) => (false, error.to_string()),
        };
        let mut seen = self.seen();
        let entry = seen.entry(followed).or_insert_with(|| Seen {
            healthy,
            message: String::new(),
            at,
            stale: false,
            asked: BTreeSet::new(),
        });
        entry.healthy = healthy;
        entry.message.clone_from(&message);
        entry.at = at;
        entry.asked.insert(key.clone());
        (healthy, message, at)
    }

    async fn find(&self, followed: &Followed) -> Result<Found, String> {
        let Followed {
            api_version, kind, ..
        } = followed;
        let object = ObjectRef {
            api_version: api_version.clone(),
            kind: kind.clone(),
            name: String::new(),
        };
        let gvk = group_version_kind(&object)
            .ok_or_else(|| format!("{api_version:?} is no apiVersion"))?;
        if let Some(found) = self.watches.known(api_version, kind) {
            return Ok(found);
        }
        match within(kube::discovery::pinned_kind(&self.cluster.client, &gvk)).await {
            Ok((resource, capabilities)) => Ok(Found {
                resource,
                namespaced: capabilities.scope == Scope::Namespaced,
            }),
            Err(ApiError::NotFound) => {
                Err(format!("the cluster does not know {api_version} {kind}"))
            }
            Err(error) => Err(error.to_string()),
        }
    }

    async fn read(&self, followed: &Followed, found: &Found) -> Result<Option<Value>, ApiError> {
        let client = self.cluster.client.clone();
        let api: Api<DynamicObject> = if found.namespaced {
            Api::namespaced_with(client, &followed.namespace, &found.resource)
        } else {
            Api::all_with(client, &found.resource)
        };
        let object = within(api.get_opt(&followed.name)).await?;
        Ok(object.and_then(|mut object| {
            object.metadata.managed_fields = None;
            let mut value = serde_json::to_value(&object).ok()?;
            // A list of one kind leaves them out.
            value["apiVersion"] = followed.api_version.clone().into();
            value["kind"] = followed.kind.clone().into();
            Some(value)
        }))
    }

    async fn judge(&self, followed: &Followed, object: Value) -> (bool, String) {
        let group = followed
            .api_version
            .split_once('/')
            .map_or("", |(group, _)| group);
        let kind = format!("{group}/{}", followed.kind);
        let health = if self.plugins.judge_of(&kind).is_some() {
            let work = Work {
                namespace: followed.namespace.clone(),
                name: followed.name.clone(),
                metadata: object["metadata"].clone(),
                spec: object["spec"].clone(),
                now_ms: u64::try_from(clock().0).unwrap_or(0),
            };
            let done = self
                .plugins
                .assess(&kind, object.to_string(), "{}".to_owned(), &work)
                .await;
            match done.result {
                Ok(health) => health,
                Err(error) => return (false, format!("its health cannot be judged: {error}")),
            }
        } else {
            common::judge(&object)
        };
        let Health { status, message } = health;
        let word = word(&status);
        match message.as_str() {
            "" => (status == HealthStatus::Healthy, word.to_owned()),
            said => (status == HealthStatus::Healthy, format!("{word}: {said}")),
        }
    }

    /// Something was heard of an object: whoever waits for it looks again.
    fn heard(&self, followed: &Followed) {
        let asked = self.seen().get_mut(followed).map(|seen| {
            seen.stale = true;
            seen.asked.clone()
        });
        for key in asked.into_iter().flatten() {
            self.world.wake(key);
        }
    }

    /// Looks from time to time at what is not healthy, for not everything can be watched. Never returns; meant to be
    /// spawned.
    pub async fn look_again(&self) {
        loop {
            tokio::time::sleep(LOOK_BLIND).await;
            let waiting: BTreeSet<Key> = self
                .seen()
                .values()
                .filter(|seen| !seen.healthy)
                .flat_map(|seen| seen.asked.iter().cloned())
                .collect();
            for key in waiting.into_iter().chain(self.access.refused()) {
                self.world.wake(key);
            }
        }
    }

    /// The Stack is gone: what only it waited for is forgotten.
    pub fn forget(&self, key: &Key) {
        self.access.forget(key);
        self.seen().retain(|_, seen| {
            seen.asked.remove(key);
            !seen.asked.is_empty()
        });
    }
}

fn word(status: &HealthStatus) -> &'static str {
    match status {
        HealthStatus::Healthy => "healthy",
        HealthStatus::Progressing => "progressing",
        HealthStatus::Degraded => "degraded",
        HealthStatus::Suspended => "suspended",
        HealthStatus::Missing => "missing",
        _ => "unknown",
    }
}
