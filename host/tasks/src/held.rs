//! Outputs of runs, from the moment their agent reports them to the moment they are stored. Values of secrets pass here
//! and nowhere else.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Mutex, MutexGuard, PoisonError};

use windlass_api::run::OutputValue;

/// Outputs by the name of their Update.
#[derive(Default)]
pub struct HeldOutputs(Mutex<HashMap<String, BTreeMap<String, OutputValue>>>);

impl HeldOutputs {
    fn lock(&self) -> MutexGuard<'_, HashMap<String, BTreeMap<String, OutputValue>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn hold(&self, update: &str, outputs: BTreeMap<String, OutputValue>) {
        self.lock().insert(update.to_owned(), outputs);
    }

    pub fn of(&self, update: &str) -> Option<BTreeMap<String, OutputValue>> {
        self.lock().get(update).cloned()
    }

    pub fn forget(&self, update: &str) {
        self.lock().remove(update);
    }
}
