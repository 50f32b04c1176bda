//! Archives that are at hand: of Programs as they are, made when they are asked for, and as they were one generation ago,
//! for whoever was just told of them.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;
use tokio::sync::futures::Notified;
use windlass_api::{ObjectMeta, Program};
use windlass_engine::Key;

use crate::programs::archive::{Archive, archive};

/// What is kept at most, in bytes of archives and in archives. What does not fit is made again, if it still can be.
const MOST_BYTES: usize = 8 << 20;
const MOST: usize = 256;

/// Archives, by Program and generation.
#[derive(Default)]
pub struct Archives {
    kept: Mutex<Kept>,
    changed: Notify,
}

#[derive(Default)]
struct Kept {
    entries: BTreeMap<(Key, i64), Entry>,
    bytes: usize,
    /// Grows with every use.
    clock: u64,
}

struct Entry {
    uid: Option<String>,
    archive: Archive,
    used: u64,
}

impl Archives {
    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns when a Program changes after this call.
    pub fn news(&self) -> Notified<'_> {
        self.changed.notified()
    }

    /// A Program was `before` and is `now`.
    pub fn changed(&self, before: Option<&Program>, now: Option<&Program>) {
        if let Some(before) = before
            && let Some((key, generation)) = identity(&before.metadata)
        {
            match now {
                Some(now) if now.metadata.uid == before.metadata.uid => {
                    if now.metadata.generation != Some(generation) {
                        // The last chance to make it.
                        let made = self.get(before, &key, generation);
                        let oldest = made.map_or(i64::MAX, |_| generation);
                        self.kept().forget(&key, oldest);
                    }
                }
                // It is gone, or another has its name.
                _ => self.kept().forget(&key, i64::MAX),
            }
        }
        self.changed.notify_waiters();
    }

    /// The archive of a generation of the Program that now is `current`; none if it is not to be had any more, or yet.
    pub fn get(&self, current: &Program, key: &Key, generation: i64) -> Option<Archive> {
        let uid = &current.metadata.uid;
        if let Some(archive) = self.kept().take(key, generation, uid) {
            return Some(archive);
        }
        if current.metadata.generation != Some(generation) {
            return None;
        }
        let made = archive(current).ok()?;
        self.kept().put(key, generation, uid.clone(), made.clone());
        Some(made)
    }
}

impl Kept {
    fn take(&mut self, key: &Key, generation: i64, uid: &Option<String>) -> Option<Archive> {
        self.clock += 1;
        let entry = self.entries.get_mut(&(key.clone(), generation))?;
        if entry.uid != *uid {
            return None;
        }
        entry.used = self.clock;
        Some(entry.archive.clone())
    }

    fn put(&mut self, key: &Key, generation: i64, uid: Option<String>, archive: Archive) {
        self.clock += 1;
        let size = archive.bytes.len();
        if size > MOST_BYTES {
            return;
        }
        let entry = Entry {
            uid,
            archive,
            used: self.clock,
        };
        self.bytes += size;
        if let Some(before) = self.entries.insert((key.clone(), generation), entry) {
            self.bytes -= before.archive.bytes.len();
        }
        while self.bytes > MOST_BYTES || self.entries.len() > MOST {
            let oldest = self.entries.iter().min_by_key(|(_, entry)| entry.used);
            let Some(oldest) = oldest.map(|(oldest, _)| oldest.clone()) else {
                return;
            };
            self.remove(&oldest);
        }
    }

    /// Drops what is kept of a Program from before this generation.
    fn forget(&mut self, key: &Key, generation: i64) {
        let all: Vec<_> = self
            .entries
            .range((key.clone(), i64::MIN)..(key.clone(), generation))
            .map(|(each, _)| each.clone())
            .collect();
        for each in all {
            self.remove(&each);
        }
    }

    fn remove(&mut self, which: &(Key, i64)) {
        if let Some(entry) = self.entries.remove(which) {
            self.bytes -= entry.archive.bytes.len();
        }
    }
}

fn identity(metadata: &ObjectMeta) -> Option<(Key, i64)> {
    let key = Key::new(metadata.namespace.clone()?, metadata.name.clone()?);
    Some((key, metadata.generation?))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::programs::archive::tests::program;

    fn key() -> Key {
        Key::new("ns", "web")
    }

    #[test]
    fn the_present_generation_and_the_one_before_are_served() {
        let archives = Archives::default();
        let programs: Vec<_> = (1..=3).map(|n| program("1", n, &n.to_string())).collect();
        for pair in programs.windows(2) {
            archives.changed(Some(&pair[0]), Some(&pair[1]));
        }
        let now = &programs[2];
        assert_eq!(archives.get(now, &key(), 3), archive(now).ok());
        assert_eq!(archives.get(now, &key(), 2), archive(&programs[1]).ok());
        assert_eq!(archives.get(now, &key(), 1), None);
        assert_eq!(archives.get(now, &key(), 4), None);
    }

    #[test]
    fn what_is_gone_is_gone_and_a_namesake_is_another() {
        let archives = Archives::default();
        let (old, new) = (program("1", 1, "old"), program("1", 2, "new"));
        archives.changed(Some(&old), Some(&new));
        archives.changed(Some(&new), None);
        assert!(archives.kept().entries.is_empty());
        assert_eq!(archives.kept().bytes, 0);
        let namesake = program("2", 1, "other");
        archives.get(&old, &key(), 1).unwrap();
        assert_eq!(archives.get(&namesake, &key(), 1), archive(&namesake).ok());
    }

    #[test]
    fn memory_is_bounded() {
        let mut kept = Kept::default();
        let big = Archive {
            bytes: vec![0; MOST_BYTES / 4].into(),
            digest: String::new(),
        };
        for generation in 0..10 {
            kept.put(&key(), generation, None, big.clone());
            assert!(kept.bytes <= MOST_BYTES);
        }
        assert_eq!(kept.entries.len(), 4);
        assert!(kept.take(&key(), 9, &None).is_some() && kept.take(&key(), 5, &None).is_none());
    }
}
