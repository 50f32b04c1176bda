//! The embedded store: Kubernetes objects as JSON, with versions, in one SQLite file that several processes may open.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use rusqlite::{Connection, OptionalExtension, params};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::error::LocalError;

/// Kinds that the store keeps.
pub mod kind {
    pub const STACK: &str = "Stack";
    pub const PROGRAM: &str = "Program";
    pub const SECRET: &str = "Secret";
    pub const CONFIG_MAP: &str = "ConfigMap";
    pub const UPDATE: &str = "Update";
}

const SCHEMA: &str = "
CREATE TABLE IF NOT EXISTS objects (
    kind TEXT NOT NULL, namespace TEXT NOT NULL, name TEXT NOT NULL,
    -- The Stack that an engine's object belongs to; empty for what came from a manifest.
    owner TEXT NOT NULL DEFAULT '',
    version INTEGER NOT NULL, json TEXT NOT NULL,
    PRIMARY KEY (kind, namespace, name)
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS owned ON objects (namespace, owner, kind);
CREATE TABLE IF NOT EXISTS counter (id INTEGER PRIMARY KEY CHECK (id = 0), value INTEGER NOT NULL);
INSERT OR IGNORE INTO counter VALUES (0, 0);
CREATE TABLE IF NOT EXISTS workspaces (
    namespace TEXT NOT NULL, name TEXT NOT NULL, json TEXT NOT NULL, PRIMARY KEY (namespace, name)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS snapshots (
    namespace TEXT NOT NULL, name TEXT NOT NULL, json TEXT NOT NULL, PRIMARY KEY (namespace, name)
) WITHOUT ROWID;
";

/// The store. Calls take microseconds to a few milliseconds and block.
pub struct Db {
    path: PathBuf,
    connection: Mutex<Connection>,
}

/// An object with its version.
pub struct Stored<T> {
    pub version: i64,
    pub object: T,
}

/// Why a write did not happen.
#[derive(Debug, thiserror::Error)]
pub enum DbError {
    #[error("the object has another version")]
    Conflict,
    #[error("no such object")]
    NotFound,
    #[error(transparent)]
    Sql(#[from] rusqlite::Error),
    #[error("{0}")]
    Json(#[from] serde_json::Error),
}

impl Db {
    /// Opens the store, or makes it. Readable by this user alone: it holds Secrets.
    pub fn open(path: &Path) -> Result<Db, LocalError> {
        use std::os::unix::fs::OpenOptionsExt;
        let io = |source| LocalError::Io {
            path: path.to_owned(),
            source,
        };
        std::fs::OpenOptions::new()
            .create(true)
            .append(true)
            .mode(0o600)
            .open(path)
            .map_err(io)?;
        let fail = |source| LocalError::Store {
            path: path.to_owned(),
            source,
        };
        let connection = Connection::open(path).map_err(fail)?;
        connection
            .busy_timeout(std::time::Duration::from_secs(10))
            .map_err(fail)?;
        connection
            .pragma_update(None, "journal_mode", "WAL")
            .map_err(fail)?;
        connection
            .pragma_update(None, "synchronous", "NORMAL")
            .map_err(fail)?;
        connection.execute_batch(SCHEMA).map_err(fail)?;
        Ok(Db {
            path: path.to_owned(),
            connection: Mutex::new(connection),
        })
    }

    fn lock(&self) -> MutexGuard<'_, Connection> {
        // A panic in another thread leaves no half-done transaction behind: SQLite rolls back.
        self.connection
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// A number that changes when another process has written.
    pub fn data_version(&self) -> Result<i64, DbError> {
        Ok(self
            .lock()
            .pragma_query_value(None, "data_version", |row| row.get(0))?)
    }

    /// A random identity, as Kubernetes gives objects.
    pub fn new_uid(&self) -> Result<String, DbError> {
        let hex: String =
            self.lock()
                .query_row("SELECT lower(hex(randomblob(16)))", [], |row| row.get(0))?;
        Ok(format!(
            "{}-{}-{}-{}-{}",
            &hex[..8],
            &hex[8..12],
            &hex[12..16],
            &hex[16..20],
            &hex[20..]
        ))
    }

    pub fn get<T: DeserializeOwned>(
        &self,
        kind: &str,
        namespace: &str,
        name: &str,
    ) -> Result<Option<Stored<T>>, DbError> {
        let connection = self.lock();
        let mut statement = connection.prepare_cached(
            "SELECT version, json FROM objects WHERE kind = ?1 AND namespace = ?2 AND name = ?3",
        )?;
        let row: Option<(i64, String)> = statement
            .query_row(params![kind, namespace, name], |row| {
                Ok((row.get(0)?, row.get(1)?))
            })
            .optional()?;
        row.map(|(version, json)| {
            Ok(Stored {
                version,
                object: serde_json::from_str(&json)?,
            })
        })
        .transpose()
    }

    /// All objects of a kind, or those that belong to one Stack.
    pub fn list<T: DeserializeOwned>(
        &self,
        kind: &str,
        owner: Option<(&str, &str)>,
    ) -> Result<Vec<Stored<T>>, DbError> {
        let rows: Vec<(i64, String)> = {
            let connection = self.lock();
            let read = |row: &rusqlite::Row<'_>| Ok((row.get(0)?, row.get(1)?));
            match owner {
                Some((namespace, owner)) => connection
                    .prepare_cached(
                        "SELECT version, json FROM objects WHERE namespace = ?1 AND owner = ?2 AND kind = ?3 ORDER BY name",
                    )?
                    .query_map(params![namespace, owner, kind], read)?
                    .collect::<Result<_, _>>()?,
                None => connection
                    .prepare_cached("SELECT version, json FROM objects WHERE kind = ?1 ORDER BY namespace, name")?
                    .query_map(params![kind], read)?
                    .collect::<Result<_, _>>()?,
            }
        };
        rows.into_iter()
            .map(|(version, json)| {
                Ok(Stored {
                    version,
                    object: serde_json::from_str(&json)?,
                })
            })
            .collect()
    }

    /// Stores an object. `expected`: the version it must have now, 0 for none; None stores whatever is there.
    pub fn put<T: Serialize>(
        &self,
        kind: &str,
        (namespace, name): (&str, &str),
        owner: &str,
        expected: Option<i64>,
        object: &T,
    ) -> Result<i64, DbError> {
        let json = serde_json::to_string(object)?;
        let mut connection = self.lock();
        let transaction =
            connection.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate)?;
        if let Some(expected) = expected {
            let found: Option<i64> = transaction
                .query_row(
                    "SELECT version FROM objects WHERE kind = ?1 AND namespace = ?2 AND name = ?3",
                    params![kind, namespace, name],
                    |row| row.get(0),
                )
                .optional()?;
            match found {
                None if expected != 0 => return Err(DbError::NotFound),
                found if found.unwrap_or(0) != expected => return Err(DbError::Conflict),
                _ => {}
            }
        }
        let version: i64 = transaction.query_row(
            "UPDATE counter SET value = value + 1 RETURNING value",
            [],
            |row| row.get(0),
        )?;
        transaction.execute(
            "INSERT INTO objects VALUES (?1, ?2, ?3, ?4, ?5, ?6)
             ON CONFLICT DO UPDATE SET owner = ?4, version = ?5, json = ?6",
            params![kind, namespace, name, owner, version, json],
        )?;
        transaction.commit()?;
        Ok(version)
    }

    pub fn delete(&self, kind: &str, namespace: &str, name: &str) -> Result<(), DbError> {
        self.lock().execute(
            "DELETE FROM objects WHERE kind = ?1 AND namespace = ?2 AND name = ?3",
            params![kind, namespace, name],
        )?;
        Ok(())
    }

    /// A row of one of the two side tables.
    pub fn side<T: DeserializeOwned>(
        &self,
        table: Side,
        namespace: &str,
        name: &str,
    ) -> Result<Option<T>, DbError> {
        let sql = format!(
            "SELECT json FROM {} WHERE namespace = ?1 AND name = ?2",
            table.name()
        );
        let json: Option<String> = self
            .lock()
            .query_row(&sql, params![namespace, name], |row| row.get(0))
            .optional()?;
        json.map(|json| Ok(serde_json::from_str(&json)?))
            .transpose()
    }

    pub fn put_side<T: Serialize>(
        &self,
        table: Side,
        namespace: &str,
        name: &str,
        value: &T,
    ) -> Result<(), DbError> {
        let sql = format!(
            "INSERT OR REPLACE INTO {} VALUES (?1, ?2, ?3)",
            table.name()
        );
        self.lock().execute(
            &sql,
            params![namespace, name, serde_json::to_string(value)?],
        )?;
        Ok(())
    }

    pub fn delete_side(&self, table: Side, namespace: &str, name: &str) -> Result<(), DbError> {
        let sql = format!(
            "DELETE FROM {} WHERE namespace = ?1 AND name = ?2",
            table.name()
        );
        self.lock().execute(&sql, params![namespace, name])?;
        Ok(())
    }

    /// Turns an error of the store into one that ends the program.
    pub fn fatal(&self, error: DbError) -> LocalError {
        match error {
            DbError::Sql(source) => LocalError::Store {
                path: self.path.clone(),
                source,
            },
            other => LocalError::Damaged {
                path: self.path.clone(),
                message: other.to_string(),
            },
        }
    }
}

/// What is stored beside the objects.
#[derive(Clone, Copy)]
pub enum Side {
    Workspaces,
    Snapshots,
}

impl Side {
    fn name(self) -> &'static str {
        match self {
            Side::Workspaces => "workspaces",
            Side::Snapshots => "snapshots",
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use serde_json::{Value, json};

    #[test]
    fn a_write_with_an_old_version_is_a_conflict_also_from_another_process() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("store.db");
        let (one, other) = (Db::open(&path).unwrap(), Db::open(&path).unwrap());
        let name = ("default", "a");
        let first = one
            .put(kind::STACK, name, "", Some(0), &json!({"n": 1}))
            .unwrap();
        let before = one.data_version().unwrap();
        let second = other
            .put(kind::STACK, name, "", Some(first), &json!({"n": 2}))
            .unwrap();
        assert!(second > first);
        assert_ne!(one.data_version().unwrap(), before);
        assert!(matches!(
            one.put(kind::STACK, name, "", Some(first), &json!({})),
            Err(DbError::Conflict)
        ));
        assert!(matches!(
            one.put(kind::STACK, name, "", Some(0), &json!({})),
            Err(DbError::Conflict)
        ));
        assert!(matches!(
            one.put(kind::STACK, ("default", "b"), "", Some(7), &json!({})),
            Err(DbError::NotFound)
        ));
        let stored = one
            .get::<Value>(kind::STACK, "default", "a")
            .unwrap()
            .unwrap();
        assert_eq!((stored.version, stored.object), (second, json!({"n": 2})));
    }

    #[test]
    fn the_store_is_its_owners_alone() {
        use std::os::unix::fs::PermissionsExt;
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("store.db");
        Db::open(&path).unwrap();
        assert_eq!(
            std::fs::metadata(&path).unwrap().permissions().mode() & 0o777,
            0o600
        );
    }
}
