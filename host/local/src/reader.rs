//! Looking at a data directory from another process, and leaving requests there.

use std::path::{Path, PathBuf};

use windlass_api::{Stack, Update};
use windlass_core::run::CANCEL_ANNOTATION;
use windlass_core::snapshot::Snapshot;
use windlass_engine::Key;

use crate::db::{Db, Side, kind};
use crate::error::LocalError;
use crate::rows::StackRow;
use crate::{objects, workspaces};

/// Reads what `windlass local` has stored, while it runs or afterwards.
pub struct StateReader {
    db: Db,
    data_dir: PathBuf,
}

impl StateReader {
    /// # Errors
    /// There is no store in this directory, or it cannot be read.
    pub fn open(data_dir: &Path) -> Result<StateReader, LocalError> {
        let path = data_dir.join("store.db");
        if !path.exists() {
            return Err(LocalError::Missing {
                what: "the store of `windlass local`",
                path,
            });
        }
        Ok(StateReader {
            db: Db::open(&path)?,
            data_dir: data_dir.to_owned(),
        })
    }

    /// # Errors
    /// The store cannot be read.
    pub fn stacks(&self) -> Result<Vec<Stack>, LocalError> {
        let stored = self
            .db
            .list::<Stack>(kind::STACK, None)
            .map_err(|error| self.db.fatal(error))?;
        Ok(stored.into_iter().map(|stored| stored.object).collect())
    }

    /// # Errors
    /// The store cannot be read.
    pub fn updates(&self, key: &Key) -> Result<Vec<Update>, LocalError> {
        objects::updates(&self.db, key).map_err(|error| self.db.fatal(error))
    }

    /// One row for each Stack, without verdicts on health.
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn rows(&self) -> Result<Vec<StackRow>, LocalError> {
        self.stacks()?
            .iter()
            .map(|stack| {
                let metadata = &stack.metadata;
                let key = Key::new(
                    metadata.namespace.clone().unwrap_or_default(),
                    metadata.name.clone().unwrap_or_default(),
                );
                Ok(StackRow::of(stack, &self.updates(&key)?))
            })
            .collect()
    }

    /// What the last decision about a Stack was made from.
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn snapshot(&self, key: &Key) -> Result<Option<Snapshot>, LocalError> {
        self.db
            .side(Side::Snapshots, &key.namespace, &key.name)
            .map_err(|error| self.db.fatal(error))
    }

    /// Asks for the end of the run that goes on; a `windlass local` that watches this directory, or the next one, sees
    /// to it. None: nothing runs.
    ///
    /// # Errors
    /// The store cannot be written.
    pub fn request_cancel(&self, key: &Key) -> Result<Option<String>, LocalError> {
        let open = self.updates(key)?.into_iter().find(|update| {
            let conditions = update
                .status
                .as_ref()
                .map(|status| status.conditions.as_slice())
                .unwrap_or_default();
            !windlass_api::conditions::is_true(conditions, windlass_api::conditions::COMPLETE)
        });
        let Some(mut update) = open else {
            return Ok(None);
        };
        let name = update.metadata.name.clone().unwrap_or_default();
        let version = update
            .metadata
            .resource_version
            .take()
            .and_then(|version| version.parse().ok());
        update
            .metadata
            .annotations
            .get_or_insert_default()
            .insert(CANCEL_ANNOTATION.to_owned(), "true".to_owned());
        self.db
            .put(
                kind::UPDATE,
                (&key.namespace, &name),
                &key.name,
                version,
                &update,
            )
            .map_err(|error| self.db.fatal(error))?;
        Ok(Some(name))
    }

    /// The socket of a Stack's agent, if it runs.
    pub fn agent_socket(&self, key: &Key) -> Option<PathBuf> {
        workspaces::agent_socket(&self.db, key)
    }

    /// The file in which a Stack's agent keeps what the CLI printed in a run, redacted. It may not be there.
    pub fn run_log(&self, key: &Key, run: &str) -> PathBuf {
        self.data_dir
            .join("workspaces")
            .join(format!("{}.{}", key.namespace, key.name))
            .join("state/runs")
            .join(run)
            .join("log")
    }
}
