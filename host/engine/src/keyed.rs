//! What the engine remembers of one key. All of it may be forgotten at any time and is found out again.

use std::collections::BTreeMap;

use windlass_core::decision::{Slot, Task};
use windlass_core::failure::Failure;
use windlass_core::obs::{Known, Obs};
use windlass_core::retry::{self, Pauses};
use windlass_core::snapshot::Observations;
use windlass_core::time::Timestamp;

use crate::key::Key;
use crate::ports::Found;

/// The memory of one key.
#[derive(Clone, Debug, Default)]
pub struct Keyed {
    pub seen: Observations,
    /// Tasks that are out, by slot, with the question they answer.
    pub out: BTreeMap<Slot, String>,
    /// See `Snapshot::source_signal`.
    pub source_signal: u64,
}

impl Keyed {
    /// Splits what a decision wants into tasks to start and slots to abandon, and notes them as out.
    pub fn schedule(&mut self, wanted: &[Task], now: Timestamp) -> (Vec<Task>, Vec<Slot>) {
        let mut start = Vec::new();
        for task in wanted {
            let slot = task.kind.slot();
            if self.out.get(&slot) != Some(&task.cause) {
                self.out.insert(slot, task.cause.clone());
                self.pending(slot, &task.cause, now);
                start.push(task.clone());
            }
        }
        let abandoned: Vec<Slot> = self
            .out
            .keys()
            .copied()
            .filter(|slot| !wanted.iter().any(|task| task.kind.slot() == *slot))
            .collect();
        for slot in &abandoned {
            self.out.remove(slot);
            self.abandon(*slot);
        }
        (start, abandoned)
    }

    /// Takes in what a task found. False: nobody asks that question any more.
    pub fn observe(
        &mut self,
        key: &Key,
        slot: Slot,
        cause: &str,
        result: Result<Found, Failure>,
        now: Timestamp,
    ) -> bool {
        if self.out.get(&slot).map(String::as_str) != Some(cause) {
            return false;
        }
        self.out.remove(&slot);
        match result {
            Ok(Found::Source(value)) => self.seen.source = known(value, cause, now),
            Ok(Found::Tree(value)) => self.seen.tree = known(value, cause, now),
            Ok(Found::Backend(value)) => self.seen.backend = known(value, cause, now),
            Ok(Found::Run(value)) => self.seen.run = known(*value, cause, now),
            Ok(Found::Delivered) => self.seen.program = known((), cause, now),
            Ok(Found::Cancelling) => self.seen.cancel = known((), cause, now),
            Err(failure) => match slot {
                Slot::Source => fail(&mut self.seen.source, key, cause, failure, now),
                Slot::Tree => fail(&mut self.seen.tree, key, cause, failure, now),
                Slot::Backend => fail(&mut self.seen.backend, key, cause, failure, now),
                Slot::Program => fail(&mut self.seen.program, key, cause, failure, now),
                Slot::Run => fail(&mut self.seen.run, key, cause, failure, now),
                Slot::Cancel => fail(&mut self.seen.cancel, key, cause, failure, now),
            },
        }
        true
    }

    fn pending(&mut self, slot: Slot, cause: &str, now: Timestamp) {
        match slot {
            Slot::Source => wait(&mut self.seen.source, cause, now),
            Slot::Tree => wait(&mut self.seen.tree, cause, now),
            Slot::Backend => wait(&mut self.seen.backend, cause, now),
            Slot::Program => wait(&mut self.seen.program, cause, now),
            Slot::Run => wait(&mut self.seen.run, cause, now),
            Slot::Cancel => wait(&mut self.seen.cancel, cause, now),
        }
    }

    fn abandon(&mut self, slot: Slot) {
        match slot {
            Slot::Source => unwait(&mut self.seen.source),
            Slot::Tree => unwait(&mut self.seen.tree),
            Slot::Backend => unwait(&mut self.seen.backend),
            Slot::Program => unwait(&mut self.seen.program),
            Slot::Run => unwait(&mut self.seen.run),
            Slot::Cancel => unwait(&mut self.seen.cancel),
        }
    }
}

fn known<T>(value: T, cause: &str, at: Timestamp) -> Obs<T> {
    Obs::Known(Known {
        at,
        cause: cause.to_owned(),
        value,
    })
}

fn last<T>(obs: Obs<T>) -> Option<Known<T>> {
    match obs {
        Obs::Unknown => None,
        Obs::Known(known) => Some(known),
        Obs::Pending { last, .. } | Obs::Failed { last, .. } => last,
    }
}

/// The failure that an attempt follows stays in sight until the attempt is over.
fn wait<T>(obs: &mut Obs<T>, cause: &str, now: Timestamp) {
    let before = std::mem::take(obs);
    let failed = match &before {
        Obs::Failed {
            cause: asked,
            failure,
            attempts,
            ..
        } if asked == cause => Some((failure.clone(), *attempts)),
        Obs::Pending {
            cause: asked,
            failed,
            ..
        } if asked == cause => failed.clone(),
        _ => None,
    };
    *obs = Obs::Pending {
        since: now,
        cause: cause.to_owned(),
        failed,
        last: last(before),
    };
}

fn unwait<T>(obs: &mut Obs<T>) {
    if matches!(obs, Obs::Pending { .. }) {
        *obs = match last(std::mem::take(obs)) {
            Some(known) => Obs::Known(known),
            None => Obs::Unknown,
        };
    }
}

fn fail<T>(obs: &mut Obs<T>, key: &Key, cause: &str, failure: Failure, now: Timestamp) {
    let before = std::mem::take(obs);
    let attempts = match &before {
        Obs::Pending {
            cause: asked,
            failed: Some((_, attempts)),
            ..
        } if asked == cause => attempts + 1,
        _ => 1,
    };
    let retry_at = failure.class.retries().then(|| {
        retry::next_attempt(
            now,
            failure.class,
            attempts,
            Pauses::default(),
            &(key, cause),
        )
    });
    *obs = Obs::Failed {
        at: now,
        cause: cause.to_owned(),
        failure,
        attempts,
        retry_at,
        last: last(before),
    };
}
