//! Who has read what lately: a tree is served only to a credential that has
//! itself read the repository, though the tree is stored once for all.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::address::Address;
use crate::credential::Fingerprint;

/// A repository as one credential sees it.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(crate) struct Reader {
    pub address: Address,
    pub credential: Fingerprint,
}

/// Proofs of read access and when they were given.
pub(crate) struct Proofs {
    ttl: Duration,
    given: Mutex<HashMap<Reader, Instant>>,
}

impl Proofs {
    pub fn new(ttl: Duration) -> Self {
        Proofs {
            ttl,
            given: Mutex::default(),
        }
    }

    /// Notes that a server has just let this reader read.
    pub fn record(&self, reader: Reader) {
        let now = Instant::now();
        let mut given = self.given.lock().unwrap_or_else(PoisonError::into_inner);
        given.retain(|_, at| now.duration_since(*at) < self.ttl);
        given.insert(reader, now);
    }

    /// Forgets a proof: the server has just refused.
    pub fn revoke(&self, reader: &Reader) {
        self.given
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .remove(reader);
    }

    /// Whether a proof still holds.
    pub fn holds(&self, reader: &Reader) -> bool {
        let given = self.given.lock().unwrap_or_else(PoisonError::into_inner);
        given.get(reader).is_some_and(|at| at.elapsed() < self.ttl)
    }
}
