//! What the watches have seen, and what our own writes were answered with: whichever is newer.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, Instant};

use kube::Resource;
use windlass_engine::Key;

/// How long a name is remembered as gone, so that news from before cannot bring it back.
const MOURNING: Duration = Duration::from_secs(120);

/// Objects of one kind.
pub struct Cache<K> {
    inner: RwLock<Inner<K>>,
    /// The queue key that an object belongs to.
    belongs: fn(&K) -> Option<Key>,
}

struct Inner<K> {
    objects: HashMap<Key, Arc<K>>,
    groups: HashMap<Key, BTreeSet<String>>,
    gone: HashMap<String, Instant>,
}

/// What an object was before, and is now.
pub struct Change<K> {
    pub before: Option<Arc<K>>,
    pub now: Option<Arc<K>>,
}

impl<K: Resource<DynamicType = ()>> Cache<K> {
    /// `belongs` names the queue key of an object; it may not change while the object lives.
    pub fn new(belongs: fn(&K) -> Option<Key>) -> Cache<K> {
        Cache {
            inner: RwLock::new(Inner {
                objects: HashMap::new(),
                groups: HashMap::new(),
                gone: HashMap::new(),
            }),
            belongs,
        }
    }

    fn read(&self) -> std::sync::RwLockReadGuard<'_, Inner<K>> {
        self.inner.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> std::sync::RwLockWriteGuard<'_, Inner<K>> {
        self.inner.write().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn get(&self, namespace: &str, name: &str) -> Option<Arc<K>> {
        self.read().objects.get(&Key::new(namespace, name)).cloned()
    }

    /// The objects that belong to a queue key, by name.
    pub fn group(&self, key: &Key) -> Vec<Arc<K>> {
        let inner = self.read();
        let Some(names) = inner.groups.get(key) else {
            return Vec::new();
        };
        names
            .iter()
            .filter_map(|name| inner.objects.get(&Key::new(&key.namespace, name)).cloned())
            .collect()
    }

    pub fn all(&self) -> Vec<Arc<K>> {
        self.read().objects.values().cloned().collect()
    }

    /// The names in a namespace, or everywhere.
    pub fn names(&self, namespace: Option<&str>) -> Vec<Key> {
        self.read()
            .objects
            .keys()
            .filter(|key| namespace.is_none_or(|namespace| key.namespace == namespace))
            .cloned()
            .collect()
    }

    /// Takes an object, unless a newer version of it is here or it is known to be gone.
    pub fn put(&self, object: K) -> Option<Change<K>> {
        let (key, uid) = identity(&object)?;
        let belongs = (self.belongs)(&object);
        let mut inner = self.write();
        if uid.as_ref().is_some_and(|uid| inner.gone.contains_key(uid)) {
            return None;
        }
        let before = inner.objects.get(&key).cloned();
        if let Some(before) = &before
            && before.meta().uid == object.meta().uid
            && version(&**before) >= version(&object)
        {
            return None;
        }
        let now = Arc::new(object);
        inner.objects.insert(key.clone(), Arc::clone(&now));
        if let Some(belongs) = belongs {
            inner.groups.entry(belongs).or_default().insert(key.name);
        }
        Some(Change {
            before,
            now: Some(now),
        })
    }

    /// Forgets an object. With a `uid`, only that one, which cannot come back.
    pub fn remove(&self, namespace: &str, name: &str, uid: Option<&str>) -> Option<Change<K>> {
        let key = Key::new(namespace, name);
        let mut inner = self.write();
        let before = inner.objects.get(&key).cloned()?;
        if uid.is_some() && before.meta().uid.as_deref() != uid {
            return None;
        }
        inner.objects.remove(&key);
        if let Some(belongs) = (self.belongs)(&before)
            && let Some(names) = inner.groups.get_mut(&belongs)
        {
            names.remove(name);
            if names.is_empty() {
                inner.groups.remove(&belongs);
            }
        }
        let now = Instant::now();
        inner
            .gone
            .retain(|_, since| now.duration_since(*since) < MOURNING);
        if let Some(uid) = &before.meta().uid {
            inner.gone.insert(uid.clone(), now);
        }
        Some(Change {
            before: Some(before),
            now: None,
        })
    }
}

fn identity<K: Resource<DynamicType = ()>>(object: &K) -> Option<(Key, Option<String>)> {
    let meta = object.meta();
    let key = Key::new(meta.namespace.clone()?, meta.name.clone()?);
    Some((key, meta.uid.clone()))
}

/// Versions of one kind of object in one cluster are numbers that grow (Kubernetes says so since 1.35, and has always
/// stored them so).
fn version<K: Resource<DynamicType = ()>>(object: &K) -> u64 {
    object
        .meta()
        .resource_version
        .as_deref()
        .and_then(|version| version.parse().ok())
        .unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use windlass_api::ConfigMap;

    fn map(name: &str, uid: &str, version: &str) -> ConfigMap {
        let mut map = ConfigMap::default();
        map.metadata.namespace = Some("ns".into());
        map.metadata.name = Some(name.into());
        map.metadata.uid = Some(uid.into());
        map.metadata.resource_version = Some(version.into());
        map
    }

    fn cache() -> Cache<ConfigMap> {
        Cache::new(|map| {
            let name = map.metadata.name.as_deref()?;
            Some(Key::new("ns", name.split('-').next()?))
        })
    }

    #[test]
    fn the_newer_version_stays() {
        let cache = cache();
        assert!(cache.put(map("a", "1", "9")).is_some());
        assert!(cache.put(map("a", "1", "10")).is_some());
        assert!(cache.put(map("a", "1", "9")).is_none());
        let kept = cache.get("ns", "a").unwrap();
        assert_eq!(kept.metadata.resource_version.as_deref(), Some("10"));
    }

    #[test]
    fn what_is_gone_stays_gone_and_a_namesake_is_another() {
        let cache = cache();
        cache.put(map("a", "1", "9"));
        assert!(cache.remove("ns", "a", Some("2")).is_none());
        assert!(cache.remove("ns", "a", Some("1")).is_some());
        assert!(
            cache.put(map("a", "1", "12")).is_none(),
            "late news of the dead"
        );
        assert!(cache.put(map("a", "2", "11")).is_some());
    }

    #[test]
    fn groups_follow_their_members() {
        let cache = cache();
        cache.put(map("a-1", "1", "1"));
        cache.put(map("a-2", "2", "2"));
        cache.put(map("b-1", "3", "3"));
        let names = |key: &str| -> Vec<String> {
            let group = cache.group(&Key::new("ns", key));
            group
                .iter()
                .filter_map(|map| map.metadata.name.clone())
                .collect()
        };
        assert_eq!(names("a"), ["a-1", "a-2"]);
        cache.remove("ns", "a-1", None);
        assert_eq!(names("a"), ["a-2"]);
        assert_eq!(names("b"), ["b-1"]);
    }
}
