//! Memory of plugins between evaluations. Bounded, and lost with the process.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use aws_lc_rs::hmac::{self, HMAC_SHA256};
use aws_lc_rs::rand::SystemRandom;
use serde_json::Value;
use zeroize::Zeroizing;

use crate::outside::Scope;

/// Entries of all plugins together; the one that ends first makes room.
const ENTRIES: usize = 4096;
const VALUE_BYTES: usize = 64 << 10;
const LONGEST: Duration = Duration::from_secs(24 * 3600);

#[derive(Clone, PartialEq, Eq, Hash)]
struct Key {
    plugin: String,
    namespace: String,
    key: String,
    /// For a secret: a hash of what it was obtained with, under a key of this process.
    origin: Option<[u8; 32]>,
}

enum Kept {
    Json(Value),
    Secret(Zeroizing<Vec<u8>>),
}

/// Values by plugin, namespace and key; secrets by what they were obtained with, too, so that nobody is served what
/// somebody else's key has opened.
pub struct Cache {
    entries: Mutex<HashMap<Key, (Kept, Instant)>>,
    /// None where the system gives no random numbers; no secrets are kept then.
    hashing: Option<hmac::Key>,
}

impl Default for Cache {
    fn default() -> Self {
        Cache {
            entries: Mutex::default(),
            hashing: hmac::Key::generate(HMAC_SHA256, &SystemRandom::new()).ok(),
        }
    }
}

impl Cache {
    pub fn get(&self, scope: &Scope, key: &str) -> Option<Value> {
        self.find(&entry(scope, key, None), |kept| match kept {
            Kept::Json(value) => Some(value.clone()),
            Kept::Secret(_) => None,
        })
    }

    /// Keeps a value; one that is no JSON or too large is forgotten at once.
    pub fn put(&self, scope: &Scope, key: &str, json: &str, ttl_ms: u64) {
        let Ok(value) = serde_json::from_str(json) else {
            return;
        };
        if json.len() + key.len() <= VALUE_BYTES {
            self.keep(entry(scope, key, None), Kept::Json(value), ttl_ms);
        }
    }

    /// A secret that was obtained with `origin`.
    pub fn get_secret(
        &self,
        scope: &Scope,
        key: &str,
        origin: &[u8],
    ) -> Option<Zeroizing<Vec<u8>>> {
        let origin = self.hash(origin)?;
        self.find(&entry(scope, key, Some(origin)), |kept| match kept {
            Kept::Json(_) => None,
            Kept::Secret(value) => Some(value.clone()),
        })
    }

    /// Keeps a secret for whoever has `origin`; one that is too large is forgotten at once.
    pub fn put_secret(
        &self,
        scope: &Scope,
        key: &str,
        origin: &[u8],
        value: Zeroizing<Vec<u8>>,
        ttl_ms: u64,
    ) {
        let Some(origin) = self.hash(origin) else {
            return;
        };
        if value.len() + key.len() <= VALUE_BYTES {
            self.keep(entry(scope, key, Some(origin)), Kept::Secret(value), ttl_ms);
        }
    }

    fn hash(&self, origin: &[u8]) -> Option<[u8; 32]> {
        let tag = hmac::sign(self.hashing.as_ref()?, origin);
        tag.as_ref().try_into().ok()
    }

    fn find<T>(&self, key: &Key, pick: impl FnOnce(&Kept) -> Option<T>) -> Option<T> {
        let entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        let (kept, until) = entries.get(key)?;
        if *until > Instant::now() {
            pick(kept)
        } else {
            None
        }
    }

    fn keep(&self, key: Key, kept: Kept, ttl_ms: u64) {
        let now = Instant::now();
        let mut entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        if ttl_ms == 0 {
            entries.remove(&key);
            return;
        }
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
            key,
            (kept, now + Duration::from_millis(ttl_ms).min(LONGEST)),
        );
    }
}

fn entry(scope: &Scope, key: &str, origin: Option<[u8; 32]>) -> Key {
    Key {
        plugin: scope.plugin.clone(),
        namespace: scope.namespace.clone(),
        key: key.to_owned(),
        origin,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scope(plugin: &str, namespace: &str) -> Scope {
        Scope {
            plugin: plugin.into(),
            namespace: namespace.into(),
            object: "any".into(),
        }
    }

    #[test]
    fn a_secret_is_found_only_with_its_origin_in_its_own_place() {
        let cache = Cache::default();
        let here = scope("a", "x");
        let value = || Zeroizing::new(b"canary".to_vec());
        cache.put_secret(&here, "k", b"origin", value(), 60_000);
        let found = |scope: &Scope, key, origin: &[u8]| cache.get_secret(scope, key, origin);
        assert_eq!(found(&here, "k", b"origin"), Some(value()));
        assert_eq!(found(&here, "k", b"another"), None);
        assert_eq!(found(&here, "l", b"origin"), None);
        assert_eq!(found(&scope("b", "x"), "k", b"origin"), None);
        assert_eq!(found(&scope("a", "y"), "k", b"origin"), None);
        // It is no plain value, whatever the key.
        assert_eq!(cache.get(&here, "k"), None);
        cache.put_secret(&here, "k", b"origin", value(), 0);
        assert_eq!(found(&here, "k", b"origin"), None);
    }
}
