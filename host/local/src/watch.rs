//! Looks for changes of the manifests, and for what other processes have written.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use windlass_engine::{Handle, Key};

use crate::config::{LocalConfig, LocalObserver};
use crate::db::{Db, kind};
use crate::outside::LocalOutside;
use crate::store::LocalStore;
use crate::sync::{Synced, sync};
use crate::workspaces::Workspaces;

/// How often manifests and requests of other processes are looked for.
const LOOK: Duration = Duration::from_millis(300);

/// Looks for changes of the manifests, and for what other processes have written.
pub struct Watcher {
    pub config: LocalConfig,
    pub db: Arc<Db>,
    pub store: Arc<LocalStore>,
    pub outside: Arc<LocalOutside>,
    pub workspaces: Arc<Workspaces>,
    pub handle: Handle,
    pub observer: Arc<dyn LocalObserver>,
    pub known: BTreeSet<Key>,
    pub complaints: Vec<String>,
}

impl Watcher {
    pub async fn watch(mut self) {
        let mut version = self.db.data_version().unwrap_or_default();
        let mut stamp = stamp(&self.config);
        loop {
            tokio::time::sleep(LOOK).await;
            let now = self.db.data_version().unwrap_or_default();
            if now != version {
                version = now;
                self.wake_all();
            }
            let seen = stamp_of(&self.config).await;
            // A deletion goes on in steps: dependents first, then what they needed.
            let deleting = self.config.destroy || !self.gone().is_empty();
            if seen != stamp || deleting {
                stamp = seen;
                self.look();
            }
        }
    }

    fn wake_all(&self) {
        for key in &self.known {
            self.handle.wake(key.clone());
        }
    }

    /// Known Stacks that are no longer stored.
    fn gone(&self) -> Vec<Key> {
        let stored = |key: &Key| {
            self.db
                .get::<serde_json::Value>(kind::STACK, &key.namespace, &key.name)
                .is_ok_and(|found| found.is_some())
        };
        self.known
            .iter()
            .filter(|key| !stored(key))
            .cloned()
            .collect()
    }

    fn look(&mut self) {
        for key in self.gone() {
            self.outside.subscriptions.forget(&key);
            if let Err(error) = self.workspaces.forget(&key) {
                self.observer.problem(Some(&key), &error.to_string());
            }
            self.known.remove(&key);
            self.handle.wake(key);
        }
        match sync(&self.db, &self.config.manifests, self.config.destroy) {
            Ok(synced) => {
                let Synced {
                    touched,
                    sources,
                    warnings,
                    errors,
                    stacks,
                } = synced;
                let complaints: Vec<String> = errors.into_iter().chain(warnings).collect();
                for complaint in complaints
                    .iter()
                    .filter(|text| !self.complaints.contains(text))
                {
                    self.observer.problem(None, complaint);
                }
                self.complaints = complaints;
                self.known.extend(stacks);
                for key in touched {
                    if self.store.collect(&key).is_ok() {
                        self.handle.wake(key);
                    }
                }
                for key in sources {
                    self.handle.source_changed(key);
                }
            }
            Err(error) => self.observer.problem(None, &error.to_string()),
        }
    }
}

/// Changes whenever a manifest does: paths, sizes, times.
fn stamp(config: &LocalConfig) -> String {
    let mut seen = Vec::new();
    for path in &config.manifests {
        let listed = std::fs::read_dir(path)
            .map(|entries| entries.flatten().map(|entry| entry.path()).collect());
        let mut files: Vec<_> = listed.unwrap_or_else(|_| vec![path.clone()]);
        files.sort();
        for file in files {
            if let Ok(meta) = std::fs::metadata(&file) {
                let modified = meta
                    .modified()
                    .ok()
                    .and_then(|time| time.duration_since(std::time::UNIX_EPOCH).ok());
                seen.push((
                    file,
                    meta.len(),
                    modified.map(|time| time.as_nanos().to_string()),
                ));
            }
        }
    }
    windlass_core::digest::digest(&seen)
}

async fn stamp_of(config: &LocalConfig) -> String {
    let config = config.clone();
    tokio::task::spawn_blocking(move || stamp(&config))
        .await
        .unwrap_or_default()
}
