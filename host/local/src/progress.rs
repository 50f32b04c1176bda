//! How far long runs are, written to their Updates now and then: for whoever looks at the object and knows no agent.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use windlass_api::Update;
use windlass_api::conditions::{COMPLETE, is_true};
use windlass_api::intent::RunProgressRecord;
use windlass_api::run::RunProgress;
use windlass_core::Decision;
use windlass_core::decision::Event;
use windlass_core::snapshot::Snapshot;
use windlass_core::time::Timestamp;
use windlass_engine::Key;

use crate::config::{LocalObserver, ProgressPace};
use crate::db::{Db, DbError, Stored, kind};

/// Hears of progress on its way to another observer, and writes what is due.
pub struct ProgressNotes {
    db: Arc<Db>,
    next: Arc<dyn LocalObserver>,
    pace: ProgressPace,
    clock: fn() -> Timestamp,
    latest: Mutex<HashMap<(Key, String), Noted>>,
}

/// The last news of a run.
struct Noted {
    progress: RunProgress,
    heard_ms: i64,
    /// The earliest moment of the next write.
    due_ms: i64,
    /// It stands in the Update already.
    written: bool,
}

impl ProgressNotes {
    pub fn new(
        db: Arc<Db>,
        next: Arc<dyn LocalObserver>,
        pace: ProgressPace,
        clock: fn() -> Timestamp,
    ) -> ProgressNotes {
        ProgressNotes {
            db,
            next,
            pace,
            clock,
            latest: Mutex::default(),
        }
    }

    fn latest(&self) -> MutexGuard<'_, HashMap<(Key, String), Noted>> {
        self.latest.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes what is due, for ever.
    pub async fn keep(self: Arc<Self>) {
        // Often enough that a write is late by a tenth of the interval.
        let look = (self.pace.every / 10).max(Duration::from_millis(50));
        loop {
            tokio::time::sleep(look).await;
            self.write_due();
        }
    }

    fn write_due(&self) {
        let now = (self.clock)().0;
        self.latest().retain(|(key, update), noted| {
            if noted.due_ms > now {
                return true;
            }
            match self.write(key, update, noted, now) {
                Ok(goes_on) => goes_on,
                // Somebody else wrote in between: the next look tries again.
                Err(DbError::Conflict) => true,
                Err(error) => {
                    tracing::warn!(%key, update, %error, "writing the progress of a run");
                    true
                }
            }
        });
    }

    /// Writes the news into the Update. False: the run is over.
    fn write(&self, key: &Key, name: &str, noted: &mut Noted, now: i64) -> Result<bool, DbError> {
        let Some(Stored {
            version,
            object: mut update,
        }) = self.db.get::<Update>(kind::UPDATE, &key.namespace, name)?
        else {
            return Ok(false);
        };
        let status = update.status.get_or_insert_default();
        if is_true(&status.conditions, COMPLETE) {
            return Ok(false);
        }
        if let Some(run) = &status.run {
            let earliest = run.at_ms + millis(self.pace.after);
            if earliest > now {
                noted.due_ms = earliest;
                return Ok(true);
            }
        }
        noted.due_ms = now + millis(self.pace.every);
        if noted.written {
            return Ok(true);
        }
        let RunProgress {
            stage,
            done,
            total,
            current,
        } = noted.progress.clone();
        status.progress = Some(RunProgressRecord {
            stage,
            done,
            total,
            current,
            at_ms: noted.heard_ms,
        });
        let place = (key.namespace.as_str(), name);
        self.db
            .put(kind::UPDATE, place, &key.name, Some(version), &update)?;
        noted.written = true;
        Ok(true)
    }
}

fn millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}

impl LocalObserver for ProgressNotes {
    fn stepped(&self, key: &Key, snapshot: &Snapshot, decision: &Decision) {
        self.next.stepped(key, snapshot, decision);
    }

    fn progress(&self, key: &Key, update: &str, progress: &RunProgress) {
        let now = (self.clock)().0;
        let mut latest = self.latest();
        let noted = latest
            .entry((key.clone(), update.to_owned()))
            .or_insert(Noted {
                progress: RunProgress::default(),
                heard_ms: now,
                due_ms: now,
                written: false,
            });
        if noted.progress != *progress {
            noted.progress = progress.clone();
            noted.heard_ms = now;
            noted.written = false;
        }
        drop(latest);
        self.next.progress(key, update, progress);
    }

    fn log(&self, key: &Key, line: &str) {
        self.next.log(key, line);
    }

    fn event(&self, key: &Key, event: &Event) {
        self.next.event(key, event);
    }

    fn problem(&self, key: Option<&Key>, message: &str) {
        self.next.problem(key, message);
    }
}
