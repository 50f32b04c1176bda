//! Requests for the same thing that are made at the same time become one.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex, PoisonError};

use futures::FutureExt as _;
use futures::future::{BoxFuture, Shared};

use crate::error::FetchError;

type Running<V> = Shared<BoxFuture<'static, Result<V, FetchError>>>;

/// Work that is going on, by key.
pub(crate) struct Joined<K, V> {
    running: Arc<Mutex<HashMap<K, Running<V>>>>,
}

impl<K, V> Default for Joined<K, V> {
    fn default() -> Self {
        Joined {
            running: Arc::default(),
        }
    }
}

impl<K, V> Joined<K, V>
where
    K: Eq + Hash + Clone + Send + 'static,
    V: Clone + Send + Sync + 'static,
{
    /// Waits for the work under this key, starting it if it is not going on. It
    /// goes on even if whoever started it no longer waits.
    pub async fn run<F>(&self, key: K, work: impl FnOnce() -> F) -> Result<V, FetchError>
    where
        F: Future<Output = Result<V, FetchError>> + Send + 'static,
    {
        let running = {
            let mut map = self.running.lock().unwrap_or_else(PoisonError::into_inner);
            match map.get(&key) {
                Some(running) => running.clone(),
                None => {
                    let running = self.start(key.clone(), work());
                    map.insert(key, running.clone());
                    running
                }
            }
        };
        running.await
    }

    fn start<F>(&self, key: K, work: F) -> Running<V>
    where
        F: Future<Output = Result<V, FetchError>> + Send + 'static,
    {
        let forget = Forget {
            running: Arc::clone(&self.running),
            key,
        };
        let task = tokio::spawn(async move {
            let _forget = forget;
            work.await
        });
        async move {
            task.await.unwrap_or_else(|err| {
                Err(FetchError::WorkerFailed {
                    detail: format!("a task failed: {err}"),
                })
            })
        }
        .boxed()
        .shared()
    }
}

/// Removes finished work from the map, also when it panicked.
struct Forget<K: Eq + Hash, V> {
    running: Arc<Mutex<HashMap<K, Running<V>>>>,
    key: K,
}

impl<K: Eq + Hash, V> Drop for Forget<K, V> {
    fn drop(&mut self) {
        self.running
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .remove(&self.key);
    }
}
