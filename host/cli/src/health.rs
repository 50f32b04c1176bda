//! `windlass health FILE`: the verdict of the health plugins on objects in a file.

use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use comfy_table::{Cell, Color};
use serde_json::{Value, json};
use windlass_engine::Key;
use windlass_sdk::{Health, HealthStatus};
use windlass_wasm::{Evaluated, PluginHost, Work};

use crate::args::{Output, Plugins};
use crate::error::{Error, FAILED, Result};
use crate::world::{self, Answers, World};
use crate::{plugins, print, table};

/// Judges every object in the file that a plugin judges.
///
/// # Errors
/// Of the file, the plugin directories and the machine; a plugin that fails.
pub async fn health(file: &Path, args: &Plugins, output: Output) -> Result<ExitCode> {
    let text = world::read(file)?;
    let objects = world::documents(file, &text)?;
    for object in &objects {
        if object["kind"].as_str().is_none() || object["apiVersion"].as_str().is_none() {
            return Err(Error::BadFile {
                path: file.to_owned(),
                message: "not a Kubernetes object: apiVersion or kind is missing; \
                          `kubectl get stack NAME -o yaml` writes one"
                    .to_owned(),
            });
        }
    }
    let outside = Arc::new(Answers::new(World::default())?);
    let loaded = plugins::load(args, outside).await?;
    let judged: Vec<String> = loaded
        .host
        .list()
        .into_iter()
        .filter(|plugin| plugin.serving)
        .flat_map(|plugin| plugin.claims)
        .filter_map(|claim| claim.strip_prefix("health:").map(str::to_owned))
        .collect();
    let mut verdicts = Vec::new();
    for object in objects
        .iter()
        .filter(|object| judged.contains(&group_kind(object)))
    {
        let Evaluated { result, transcript } = assess(&loaded.host, object).await;
        let verdict = result.map_err(|error| Error::Plugin {
            plugin: transcript.map_or_else(|| group_kind(object), |transcript| transcript.plugin),
            error: Box::new(error),
        })?;
        verdicts.push((object, verdict));
    }
    if verdicts.is_empty() {
        return Err(Error::BadFile {
            path: file.to_owned(),
            message: format!(
                "no object in it is of a kind that a health plugin judges ({})",
                if judged.is_empty() {
                    "there is none".to_owned()
                } else {
                    judged.join(", ")
                }
            ),
        });
    }
    match output {
        Output::Json => print::json(&json!({ "objects": list(&verdicts) }))?,
        Output::Table => print::out(&rows(&verdicts))?,
    }
    let good = |health: &Health| {
        matches!(
            health.status,
            HealthStatus::Healthy | HealthStatus::Suspended
        )
    };
    let well = verdicts.iter().all(|(_, health)| good(health));
    Ok(ExitCode::from(if well { 0 } else { FAILED }))
}

/// Asks the plugin for the kind of `object`.
pub async fn assess(host: &PluginHost, object: &Value) -> Evaluated<Health> {
    let key = key_of(object);
    let work = Work {
        namespace: key.namespace,
        name: key.name,
        metadata: object["metadata"].clone(),
        spec: object["spec"].clone(),
        now_ms: u64::try_from(print::now().0).unwrap_or(0),
    };
    host.assess(
        &group_kind(object),
        object.to_string(),
        "{}".to_owned(),
        &work,
    )
    .await
}

/// `group/Kind`; the core group has no name.
pub fn group_kind(object: &Value) -> String {
    let version = object["apiVersion"].as_str().unwrap_or_default();
    let group = version.split_once('/').map_or("", |(group, _)| group);
    format!("{group}/{}", object["kind"].as_str().unwrap_or_default())
}

/// Namespace and name.
pub fn key_of(object: &Value) -> Key {
    let text = |field: &str| object["metadata"][field].as_str();
    Key::new(
        text("namespace").unwrap_or("default"),
        text("name").unwrap_or_default(),
    )
}

fn list(verdicts: &[(&Value, Health)]) -> Vec<Value> {
    verdicts
        .iter()
        .map(|(object, health)| {
            let key = key_of(object);
            json!({
                "kind": group_kind(object), "namespace": key.namespace, "name": key.name,
                "status": health.status, "message": health.message,
            })
        })
        .collect()
}

fn rows(verdicts: &[(&Value, Health)]) -> String {
    let mut table = table::new(&["OBJECT", "HEALTH", "MESSAGE"]);
    for (object, health) in verdicts {
        let kind = object["kind"].as_str().unwrap_or_default();
        table.add_row(vec![
            Cell::new(format!("{kind} {}", key_of(object))),
            Cell::new(format!("{:?}", health.status)).fg(colour(&format!("{:?}", health.status))),
            Cell::new(print::printable(&health.message)),
        ]);
    }
    table.trim_fmt()
}

/// The colour of a word for health, as Argo CD has it.
pub fn colour(status: &str) -> Color {
    match status {
        "Healthy" => Color::Green,
        "Progressing" | "Suspended" => Color::Blue,
        "Degraded" => Color::Red,
        "Missing" => Color::Yellow,
        _ => Color::DarkGrey,
    }
}
