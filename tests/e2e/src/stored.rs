//! What `windlass local` has stored, read from its file as another process sees it: fast, and beside every command.

use rusqlite::{Connection, OpenFlags};
use serde_json::Value;

use crate::world::World;

/// A row of the store.
#[derive(Debug, Clone)]
pub struct Row {
    /// The object's kind, or `workspaces` or `snapshots`.
    pub kind: String,
    pub name: String,
    pub text: String,
}

impl Row {
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.text).expect("an object of the store")
    }
}

impl World {
    /// Everything that is stored; nothing before there is a store.
    pub fn stored(&self) -> Vec<Row> {
        self.query().unwrap_or_default()
    }

    fn query(&self) -> rusqlite::Result<Vec<Row>> {
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let store = Connection::open_with_flags(self.data().join("store.db"), flags)?;
        store.busy_timeout(std::time::Duration::from_secs(5))?;
        let mut statement = store.prepare(
            "SELECT kind, name, json FROM objects UNION ALL SELECT 'workspaces', name, json FROM workspaces \
             UNION ALL SELECT 'snapshots', name, json FROM snapshots",
        )?;
        statement
            .query_map([], |row| {
                Ok(Row {
                    kind: row.get(0)?,
                    name: row.get(1)?,
                    text: row.get(2)?,
                })
            })?
            .collect()
    }

    /// A Stack of the namespace `default`, with its status.
    pub fn stored_stack(&self, name: &str) -> Option<Value> {
        let rows = self.stored();
        let found = rows
            .iter()
            .find(|row| row.kind == "Stack" && row.name == name);
        found.map(Row::json)
    }

    /// The Updates of a Stack, oldest first.
    pub fn updates(&self, stack: &str) -> Vec<Value> {
        let rows = self.stored();
        let mut updates: Vec<Value> = rows
            .iter()
            .filter(|row| row.kind == "Update")
            .map(Row::json)
            .filter(|update| update["spec"]["workspaceName"] == stack)
            .collect();
        updates.sort_by_key(|update| update["spec"]["intent"]["sequence"].as_u64());
        updates
    }
}

/// Whether a condition of an object is True.
pub fn is_true(object: &Value, condition: &str) -> bool {
    let conditions = object["status"]["conditions"].as_array();
    conditions
        .into_iter()
        .flatten()
        .any(|one| one["type"] == condition && one["status"] == "True")
}

/// Whether a Stack is Ready with what its manifest asks for now.
pub fn is_ready(stack: &Value) -> bool {
    is_true(stack, "Ready")
        && stack["status"]["observedGeneration"] == stack["metadata"]["generation"]
}
