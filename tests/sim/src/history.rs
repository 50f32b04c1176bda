//! A value and its last few versions, so that readers can be shown an older one.

use std::collections::VecDeque;
use std::sync::Arc;

const KEPT: usize = 12;

#[derive(Clone, Debug)]
pub struct History<T> {
    newest: u64,
    versions: VecDeque<Arc<T>>,
}

impl<T: Clone> History<T> {
    pub fn new(value: T) -> History<T> {
        History {
            newest: 1,
            versions: VecDeque::from([Arc::new(value)]),
        }
    }

    /// Number of the newest version.
    pub fn version(&self) -> u64 {
        self.newest
    }

    pub fn now(&self) -> &T {
        // There is always one.
        let last = self.versions.len() - 1;
        &self.versions[last]
    }

    /// The version with this number, or the one nearest to it that is still kept.
    pub fn seen(&self, version: u64) -> (u64, Arc<T>) {
        let back = usize::try_from(self.newest.saturating_sub(version)).unwrap_or(usize::MAX);
        let index = (self.versions.len() - 1).saturating_sub(back);
        let number = self.newest - (self.versions.len() - 1 - index) as u64;
        (number, Arc::clone(&self.versions[index]))
    }

    /// Stores a new version made from the newest.
    pub fn change<R>(&mut self, edit: impl FnOnce(&mut T) -> R) -> R {
        let mut value = self.now().clone();
        let answer = edit(&mut value);
        self.versions.push_back(Arc::new(value));
        self.newest += 1;
        if self.versions.len() > KEPT {
            self.versions.pop_front();
        }
        answer
    }
}
