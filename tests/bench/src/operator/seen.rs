//! Every version of every Stack, with the moment at which a watch saw it.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use futures::StreamExt as _;
use kube::Api;
use kube::api::DynamicObject;
use kube::runtime::watcher::{self, Event, watcher};
use serde_json::Value;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::setup::{Trouble, failed};

/// One version of one object.
#[derive(Clone)]
pub struct Version {
    pub at: Instant,
    pub name: String,
    pub object: Value,
}

/// A watch that goes on until this is dropped.
pub struct Seen {
    versions: Arc<Mutex<Vec<Version>>>,
    changed: watch::Receiver<()>,
    task: JoinHandle<()>,
}

impl Seen {
    /// Begins to watch.
    pub fn new(api: Api<DynamicObject>) -> Self {
        let versions = Arc::new(Mutex::new(Vec::new()));
        let (tell, changed) = watch::channel(());
        let kept = Arc::clone(&versions);
        let task = tokio::spawn(async move {
            let mut events = watcher(api, watcher::Config::default()).boxed();
            while let Some(event) = events.next().await {
                let (Ok(Event::Apply(object)) | Ok(Event::InitApply(object))) = event else {
                    continue;
                };
                let version = Version {
                    at: Instant::now(),
                    name: object.metadata.name.clone().unwrap_or_default(),
                    object: serde_json::to_value(&object).unwrap_or_default(),
                };
                lock(&kept).push(version);
                tell.send_replace(());
            }
        });
        Seen {
            versions,
            changed,
            task,
        }
    }

    /// How many versions there are so far: where `when` and `after` begin.
    pub fn mark(&self) -> usize {
        lock(&self.versions).len()
    }

    /// The versions of an object since a mark, oldest first.
    pub fn after(&self, mark: usize, name: &str) -> Vec<Version> {
        let all = lock(&self.versions);
        let mine = all.iter().skip(mark).filter(|one| one.name == name);
        mine.cloned().collect()
    }

    /// All versions since a mark.
    pub fn since(&self, mark: usize) -> Vec<Version> {
        lock(&self.versions).iter().skip(mark).cloned().collect()
    }

    /// Waits for a version after the mark that is as it should be; the first one that is.
    ///
    /// # Errors
    /// There is none in time.
    pub async fn when(
        &self,
        mark: usize,
        name: &str,
        what: &str,
        limit: Duration,
        is: impl Fn(&Value) -> bool,
    ) -> Result<Version, Trouble> {
        let mut changed = self.changed.clone();
        let mut at = mark;
        let found = async {
            loop {
                changed.mark_unchanged();
                {
                    let all = lock(&self.versions);
                    let mut new = all.iter().skip(at);
                    if let Some(found) = new.find(|one| one.name == name && is(&one.object)) {
                        return found.clone();
                    }
                    at = all.len();
                }
                if changed.changed().await.is_err() {
                    return std::future::pending().await;
                }
            }
        };
        match tokio::time::timeout(limit, found).await {
            Ok(found) => Ok(found),
            Err(_) => {
                let last = self.after(0, name).pop();
                let status = last.map(|last| last.object["status"].to_string());
                failed(format!("{name} is not {what} within {limit:?}: {status:?}"))
            }
        }
    }
}

impl Drop for Seen {
    fn drop(&mut self) {
        self.task.abort();
    }
}

fn lock(versions: &Mutex<Vec<Version>>) -> MutexGuard<'_, Vec<Version>> {
    versions.lock().unwrap_or_else(PoisonError::into_inner)
}
