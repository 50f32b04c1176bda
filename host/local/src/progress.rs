//! Progress on its way to another observer, written to the Updates of long runs when it is due.

use std::sync::Arc;

use windlass_api::Update;
use windlass_api::run::RunProgress;
use windlass_core::Decision;
use windlass_core::decision::Event;
use windlass_core::snapshot::Snapshot;
use windlass_core::time::Timestamp;
use windlass_engine::Key;
use windlass_tasks::{ProgressNotes, ProgressPace};

use crate::config::LocalObserver;
use crate::db::{Db, DbError, Stored, kind};

/// Hears of progress on its way to another observer, and writes what is due.
pub struct Progress {
    db: Arc<Db>,
    next: Arc<dyn LocalObserver>,
    notes: ProgressNotes,
    clock: fn() -> Timestamp,
}

impl Progress {
    pub fn new(
        db: Arc<Db>,
        next: Arc<dyn LocalObserver>,
        pace: ProgressPace,
        clock: fn() -> Timestamp,
    ) -> Progress {
        Progress {
            db,
            next,
            notes: ProgressNotes::new(pace),
            clock,
        }
    }

    /// Writes what is due, for ever.
    pub async fn keep(self: Arc<Self>) {
        loop {
            tokio::time::sleep(self.notes.look()).await;
            for run in self.notes.due((self.clock)()) {
                match self.write(&run) {
                    // Somebody else wrote in between: the next look tries again.
                    Ok(()) | Err(DbError::Conflict) => {}
                    Err(error) => {
                        tracing::warn!(key = %run.0, update = run.1, %error, "writing the progress of a run");
                    }
                }
            }
        }
    }

    fn write(&self, run: &(Key, String)) -> Result<(), DbError> {
        let (key, name) = run;
        let now = (self.clock)();
        let stored = self.db.get::<Update>(kind::UPDATE, &key.namespace, name)?;
        let seen = stored.as_ref().map(|stored| &stored.object);
        let Some(record) = self.notes.record(run, seen, now) else {
            return Ok(());
        };
        if let Some(Stored {
            version,
            object: mut update,
        }) = stored
        {
            update.status.get_or_insert_default().progress = Some(record.clone());
            let place = (key.namespace.as_str(), name.as_str());
            self.db
                .put(kind::UPDATE, place, &key.name, Some(version), &update)?;
            self.notes.written(run, &record, now);
        }
        Ok(())
    }
}

impl LocalObserver for Progress {
    fn stepped(&self, key: &Key, snapshot: &Snapshot, decision: &Decision) {
        self.next.stepped(key, snapshot, decision);
    }

    fn progress(&self, key: &Key, update: &str, progress: &RunProgress) {
        self.notes.heard(key, update, progress, (self.clock)());
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
