//! One machine as the place where workspaces live.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use windlass_agent::AgentClient;
use windlass_api::Stack;
use windlass_api::run::{LockInfo, RunProgress};
use windlass_core::failure::{Failure, FailureClass};
use windlass_core::request::Mounts;
use windlass_engine::{Key, TaskInput};
use windlass_sdk::{LockHolder, ObjectRef};
use windlass_tasks::{PULUMI_CLOUD, Place, unavailable};

use crate::config::LocalObserver;
use crate::db::Db;
use crate::environment::{CONFIG_MAPS, SECRETS, environment, write_mounts};
use crate::outside::LocalOutside;
use crate::process;
use crate::workspaces::Workspaces;

/// Agent processes of this machine, values from the embedded store.
pub struct LocalPlace {
    pub db: Arc<Db>,
    pub workspaces: Arc<Workspaces>,
    pub observer: Arc<dyn LocalObserver>,
    pub outside: Arc<LocalOutside>,
}

impl Place for LocalPlace {
    const WORKSPACE_PATH: bool = false;

    async fn client(&self, key: &Key, instance: &str) -> Result<AgentClient, Failure> {
        self.workspaces
            .client(key, instance)
            .await
            .map_err(|error| unavailable(&error))
    }

    async fn backend_url(&self, stack: &Stack) -> Result<String, Failure> {
        if let Some(url) = &stack.spec.backend {
            return Ok(url.clone());
        }
        let mut environment =
            environment(&self.db, stack).map_err(|error| unavailable(&error.to_string()))?;
        Ok(environment
            .remove("PULUMI_BACKEND_URL")
            .unwrap_or_else(|| PULUMI_CLOUD.to_owned()))
    }

    async fn mounts(&self, key: &Key, stack: &Stack) -> Result<Mounts<'static>, Failure> {
        let dir = self.workspaces.dir(key).join("files");
        write_mounts(&self.db, stack, &dir).map_err(|error| {
            Failure::new(FailureClass::Unavailable, "MountFailed", error.to_string())
        })?;
        Ok(Mounts {
            config_maps: CONFIG_MAPS,
            secrets: SECRETS,
        })
    }

    /// This machine is all there is: a holder is dead if its process is gone.
    async fn holders(&self, _input: &TaskInput, locks: &[LockInfo]) -> Vec<LockHolder> {
        let own = self.workspaces.hostname();
        let dead = |lock: &LockInfo| {
            let created = millis(&lock.created);
            lock.hostname == own && !process::may_live_since(lock.pid, created)
        };
        // They cannot be told apart by anything but their name.
        locks
            .iter()
            .map(|lock| LockHolder {
                hostname: lock.hostname.clone(),
                dead: locks
                    .iter()
                    .filter(|other| other.hostname == lock.hostname)
                    .all(dead),
            })
            .collect()
    }

    /// Every change of a manifest asks whoever may follow it.
    fn follows(&self, _key: &Key, _objects: Vec<ObjectRef>) {}

    fn polls(&self, key: &Key, interval: Option<Duration>) {
        self.outside.subscriptions.pace(key, interval);
    }

    fn look_afresh(&self, key: &Key) {
        self.outside.subscriptions.look_afresh(key);
    }

    fn progress(&self, key: &Key, update: &str, progress: &RunProgress) {
        self.observer.progress(key, update, progress);
    }

    fn log(&self, key: &Key, line: &str) {
        self.observer.log(key, line);
    }
}

/// Milliseconds since the epoch of an RFC 3339 time; the end of time if it cannot be read, so that nothing looks stale.
fn millis(text: &str) -> i64 {
    serde_json::from_value::<windlass_api::Time>(json!(text))
        .map_or(i64::MAX, |time| time.0.as_millisecond())
}
