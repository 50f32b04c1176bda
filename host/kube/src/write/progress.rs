//! Writes how far long runs are into their Updates.

use windlass_core::time::Timestamp;
use windlass_engine::{Fence, Key, StoreError};
use windlass_tasks::ProgressNotes;

use crate::clock;
use crate::store::KubeStore;

impl KubeStore {
    /// Writes what is due, for ever.
    pub(crate) async fn keep_progress(&self, notes: &ProgressNotes) {
        loop {
            tokio::time::sleep(notes.look()).await;
            for run in notes.due(clock()) {
                match self.write_progress(notes, &run, clock()).await {
                    // Somebody else wrote in between, or it is gone: the next look sees.
                    Ok(()) | Err(StoreError::Conflict | StoreError::NotFound) => {}
                    Err(error) => {
                        tracing::debug!(key = %run.0, update = run.1, %error, "writing the progress of a run");
                    }
                }
            }
        }
    }

    async fn write_progress(
        &self,
        notes: &ProgressNotes,
        run: &(Key, String),
        now: Timestamp,
    ) -> Result<(), StoreError> {
        let (key, name) = run;
        let seen = self.world.updates.get(&key.namespace, name);
        let Some(record) = notes.record(run, seen.as_deref(), now) else {
            return Ok(());
        };
        self.put_update_status(key, name, &mut Fence::default(), |update| {
            update.status.get_or_insert_default().progress = Some(record.clone());
        })
        .await?;
        notes.written(run, &record, now);
        Ok(())
    }
}
