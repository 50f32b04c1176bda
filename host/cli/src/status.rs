//! `windlass status [STACK]`.

use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use serde_json::json;
use windlass_engine::Key;
use windlass_local::{StackRow, StateReader};

use crate::args::{Output, Plugins};
use crate::error::{Error, FAILED, Result};
use crate::world::{Answers, World};
use crate::{health, plugins, print, table};

/// Shows every Stack, or one.
///
/// # Errors
/// `NoStack`, and of the store.
pub async fn status(data_dir: &Path, stack: Option<&Key>, output: Output) -> Result<ExitCode> {
    let reader = StateReader::open(data_dir)?;
    if let Some(key) = stack {
        must_exist(&reader, key)?;
    }
    let mut rows: Vec<StackRow> = reader
        .rows()?
        .into_iter()
        .filter(|row| {
            stack.is_none_or(|key| row.namespace == key.namespace && row.name == key.name)
        })
        .collect();
    judge(&reader, &mut rows).await?;
    match output {
        Output::Json => print::json(&table::stacks_json(&rows))?,
        Output::Table if rows.is_empty() => {
            print::out("no Stacks; `windlass local DIR` reconciles those in a directory")?;
        }
        Output::Table => {
            print::out(&table::stacks(&rows))?;
            print::out(&table::sum(&rows))?;
            if let Some(key) = stack {
                print::out(&runs(&reader, key)?)?;
            }
        }
    }
    let well = rows.iter().all(table::is_well);
    Ok(ExitCode::from(if well { 0 } else { FAILED }))
}

/// Adds the verdicts of the health plugins, if plugins are where they usually are.
async fn judge(reader: &StateReader, rows: &mut [StackRow]) -> Result<()> {
    let outside = Arc::new(Answers::new(World::default())?);
    let loaded = match plugins::load(&Plugins::default(), outside).await {
        Ok(loaded) => loaded,
        Err(error) => {
            tracing::debug!(%error, "no verdicts on health");
            return Ok(());
        }
    };
    for stack in reader.stacks()? {
        let key = crate::world::key_of(&stack);
        let Some(row) = rows
            .iter_mut()
            .find(|row| row.namespace == key.namespace && row.name == key.name)
        else {
            continue;
        };
        let mut object = serde_json::to_value(&stack)?;
        object["apiVersion"] = json!("pulumi.com/v1");
        object["kind"] = json!("Stack");
        match health::assess(&loaded.host, &object).await.result {
            Ok(verdict) => {
                row.health = format!("{:?}", verdict.status);
                row.health_message = verdict.message;
            }
            Err(error) => tracing::debug!(%key, %error, "no verdict on health"),
        }
    }
    Ok(())
}

/// The runs that are still remembered, newest first; `logs --update` takes their names.
fn runs(reader: &StateReader, key: &Key) -> Result<String> {
    let mut updates = reader.updates(key)?;
    updates.sort_by_key(|update| {
        std::cmp::Reverse(
            update
                .spec
                .intent
                .as_ref()
                .map_or(0, |intent| intent.sequence),
        )
    });
    let lines: Vec<String> = updates
        .iter()
        .map(|update| {
            let name = update.metadata.name.as_deref().unwrap_or("?");
            let cause = update
                .spec
                .intent
                .as_ref()
                .map(|intent| intent.cause.message());
            let status = update.status.as_ref();
            let summary = status.and_then(|status| status.summary.as_ref());
            let progress = status.and_then(|status| status.progress.as_ref());
            let state = match (summary, progress) {
                (Some(summary), _) => format!("{:?}", summary.state).to_lowercase(),
                (None, Some(progress)) => {
                    format!(
                        "going on, {} of {} resources",
                        progress.done, progress.total
                    )
                }
                (None, None) => "going on".to_owned(),
            };
            format!("  {name}  {state:<10} {}", cause.unwrap_or_default())
        })
        .collect();
    if lines.is_empty() {
        return Ok("no runs yet".to_owned());
    }
    Ok(format!("runs:\n{}", lines.join("\n")))
}

/// # Errors
/// `NoStack`, with a name that was perhaps meant.
pub fn must_exist(reader: &StateReader, key: &Key) -> Result<()> {
    let keys: Vec<Key> = reader.stacks()?.iter().map(crate::world::key_of).collect();
    if keys.contains(key) {
        return Ok(());
    }
    let meant: Vec<String> = keys
        .iter()
        .filter(|other| other.name == key.name)
        .map(ToString::to_string)
        .collect();
    let hint = if meant.is_empty() {
        String::new()
    } else {
        format!("; did you mean {}?", meant.join(" or "))
    };
    Err(Error::NoStack {
        key: key.to_string(),
        hint,
    })
}
