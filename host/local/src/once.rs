//! What `--once` adds: failed Stacks are tried again at its beginning, agents without a run end with it.

use std::collections::BTreeSet;

use windlass_api::Stack;
use windlass_engine::Key;

use crate::db::{Db, kind};
use crate::error::LocalError;
use crate::objects;
use crate::store::LocalStore;

/// Whoever asks once more wants another attempt now, whatever the pause after the last failure.
pub fn retry_failed(store: &LocalStore, stacks: &BTreeSet<Key>) -> Result<(), LocalError> {
    let fatal = |error| store.db.fatal(error);
    for key in stacks {
        let stored = store
            .db
            .get::<Stack>(kind::STACK, &key.namespace, &key.name)
            .map_err(fatal)?;
        let status = stored.and_then(|stored| stored.object.status);
        let Some(last) = status
            .and_then(|status| status.last_update)
            .filter(|last| last.failed())
        else {
            continue;
        };
        let request = format!("once-after-{}", last.name.unwrap_or_default());
        if let Err(error) = store.request(key, &request) {
            tracing::warn!(%key, %error, "asking a failed Stack again");
        }
    }
    Ok(())
}

/// Stacks without a run that goes on: their agents are of no use to a process that ends.
pub fn idle(db: &Db, known: &BTreeSet<Key>) -> Result<Vec<Key>, crate::db::DbError> {
    let mut idle = Vec::new();
    for key in known {
        let open = objects::updates(db, key)?.iter().any(|update| {
            let conditions = update
                .status
                .as_ref()
                .map(|status| status.conditions.as_slice())
                .unwrap_or_default();
            !windlass_api::conditions::is_true(conditions, windlass_api::conditions::COMPLETE)
        });
        if !open {
            idle.push(key.clone());
        }
    }
    Ok(idle)
}
