//! Keys that wait for a place among the runs that may go on, and whose turn it is.
//!
//! Namespaces take turns, so that whoever asks for sixty runs at once does not keep others waiting for all sixty. Within
//! a namespace, whoever came first.

use std::collections::{BTreeMap, HashMap};

use crate::key::Key;

/// Everybody who waits.
#[derive(Debug, Default)]
pub struct Waiting {
    /// By the moment at which each came.
    namespaces: BTreeMap<String, BTreeMap<u64, Key>>,
    came: HashMap<Key, u64>,
    /// When each namespace last had its turn. Forgotten once nobody waits.
    turns: HashMap<String, u64>,
    /// Counts arrivals and turns.
    clock: u64,
}

impl Waiting {
    /// How many wait.
    pub fn len(&self) -> usize {
        self.came.len()
    }

    /// Notes that a key waits. One that waits already keeps its place.
    pub fn insert(&mut self, key: &Key) {
        if self.came.contains_key(key) {
            return;
        }
        self.clock += 1;
        self.came.insert(key.clone(), self.clock);
        let keys = self.namespaces.entry(key.namespace.clone()).or_default();
        keys.insert(self.clock, key.clone());
    }

    /// Notes that a key does not wait any more.
    pub fn remove(&mut self, key: &Key) {
        let Some(came) = self.came.remove(key) else {
            return;
        };
        if let Some(keys) = self.namespaces.get_mut(&key.namespace) {
            keys.remove(&came);
            if keys.is_empty() {
                self.namespaces.remove(&key.namespace);
            }
        }
        if self.came.is_empty() {
            self.turns.clear();
        }
    }

    /// The first of the namespace that has waited for its turn the longest; it waits no more.
    pub fn take(&mut self) -> Option<Key> {
        let last = |namespace: &String| self.turns.get(namespace).copied().unwrap_or(0);
        let (namespace, keys) = self
            .namespaces
            .iter()
            .min_by_key(|(namespace, _)| last(namespace))?;
        let key = keys.values().next()?.clone();
        self.clock += 1;
        self.turns.insert(namespace.clone(), self.clock);
        self.remove(&key);
        Some(key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pretty_assertions::assert_eq;

    fn waiting(keys: &[(&str, &str)]) -> Waiting {
        let mut waiting = Waiting::default();
        for (namespace, name) in keys {
            waiting.insert(&key(namespace, name));
        }
        waiting
    }

    fn key(namespace: &str, name: &str) -> Key {
        Key {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
        }
    }

    fn names(mut waiting: Waiting) -> Vec<String> {
        let mut names = Vec::new();
        while let Some(key) = waiting.take() {
            names.push(key.name);
        }
        assert_eq!(waiting.len(), 0);
        names
    }

    #[test]
    fn namespaces_take_turns_and_the_first_of_each_comes_first() {
        let many = [
            ("a", "a3"),
            ("a", "a1"),
            ("a", "a2"),
            ("z", "z2"),
            ("z", "z1"),
        ];
        assert_eq!(names(waiting(&many)), ["a3", "z2", "a1", "z1", "a2"]);
    }

    #[test]
    fn who_comes_later_from_elsewhere_does_not_wait_for_all_who_came_before() {
        let mut all = waiting(&[("a", "a1"), ("a", "a2"), ("a", "a3")]);
        assert_eq!(all.take(), Some(key("a", "a1")));
        all.insert(&key("z", "z1"));
        // Tried in vain: once more, behind its own.
        all.insert(&key("a", "a1"));
        assert_eq!(names(all), ["z1", "a2", "a3", "a1"]);
    }

    #[test]
    fn nobody_waits_twice_and_who_is_removed_does_not_wait() {
        let mut all = waiting(&[("a", "a1"), ("a", "a1"), ("a", "a2")]);
        assert_eq!(all.len(), 2);
        all.remove(&key("a", "a1"));
        all.remove(&key("b", "b1"));
        assert_eq!(names(all), ["a2"]);
    }
}
