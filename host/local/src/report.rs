//! The rows of the report, with the health component's verdict.

use std::collections::BTreeSet;

use serde_json::json;
use windlass_api::Stack;
use windlass_engine::Key;
use windlass_tasks::PlaceTasks;
use windlass_wasm::Work;

use crate::db::{Db, kind};
use crate::objects;
use crate::place::LocalPlace;
use crate::rows::StackRow;

/// One row for each Stack, with the health component's verdict.
pub async fn rows(
    db: &Db,
    tasks: &PlaceTasks<LocalPlace>,
    known: &BTreeSet<Key>,
) -> Result<Vec<StackRow>, crate::db::DbError> {
    let mut rows = Vec::new();
    let mut keys = known.clone();
    for stored in db.list::<Stack>(kind::STACK, None)? {
        let metadata = stored.object.metadata;
        keys.insert(Key::new(
            metadata.namespace.unwrap_or_default(),
            metadata.name.unwrap_or_default(),
        ));
    }
    for key in keys {
        let Some(stored) = db.get::<Stack>(kind::STACK, &key.namespace, &key.name)? else {
            rows.push(StackRow::deleted(&key));
            continue;
        };
        let stack = stored.object;
        let mut row = StackRow::of(&stack, &objects::updates(db, &key)?);
        let mut object = serde_json::to_value(&stack)?;
        object["apiVersion"] = json!("pulumi.com/v1");
        object["kind"] = json!("Stack");
        let work = Work {
            namespace: key.namespace.clone(),
            name: key.name.clone(),
            ..Work::default()
        };
        let verdict = tasks
            .plugins
            .assess(
                "pulumi.com/Stack",
                object.to_string(),
                "{}".to_owned(),
                &work,
            )
            .await
            .result;
        match verdict {
            Ok(health) => {
                row.health = format!("{:?}", health.status);
                row.health_message = health.message;
            }
            Err(error) => {
                row.health = "Unknown".to_owned();
                row.health_message = error.to_string();
            }
        }
        rows.push(row);
    }
    Ok(rows)
}
