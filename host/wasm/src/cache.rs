//! Memory of plugins between evaluations. Bounded, and lost with the process.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::outside::Scope;

/// Entries of all plugins together; the one that ends first makes room.
const ENTRIES: usize = 4096;
const VALUE_BYTES: usize = 64 << 10;
const LONGEST: Duration = Duration::from_secs(24 * 3600);

/// Plugin, namespace, key.
type Key = (String, String, String);

/// Values by plugin, namespace and key.
#[derive(Default)]
pub struct Cache(Mutex<HashMap<Key, (Value, Instant)>>);

impl Cache {
    pub fn get(&self, scope: &Scope, key: &str) -> Option<Value> {
        let entries = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (value, until) = entries.get(&entry(scope, key))?;
        (*until > Instant::now()).then(|| value.clone())
    }

    /// Keeps a value; one that is no JSON or too large is forgotten at once.
    pub fn put(&self, scope: &Scope, key: &str, json: &str, ttl_ms: u64) {
        let Ok(value) = serde_json::from_str(json) else {
            return;
        };
        if json.len() + key.len() > VALUE_BYTES {
            return;
        }
        let now = Instant::now();
        let mut entries = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if entries.len() >= ENTRIES {
            entries.retain(|_, (_, until)| *until > now);
        }
        if entries.len() >= ENTRIES
            && let Some(first) = entries
                .iter()
                .min_by_key(|(_, (_, until))| *until)
                .map(|(key, _)| key.clone())
        {
            entries.remove(&first);
        }
        entries.insert(
            entry(scope, key),
            (value, now + Duration::from_millis(ttl_ms).min(LONGEST)),
        );
    }
}

fn entry(scope: &Scope, key: &str) -> Key {
    (
        scope.plugin.clone(),
        scope.namespace.clone(),
        key.to_owned(),
    )
}
