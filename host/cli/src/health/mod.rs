//! `windlass health OBJECT...`: the verdicts of the health plugins on objects in files, beside those of a team's own
//! scripts where there are such.

mod argocd_cm;

use std::path::{Path, PathBuf};
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

/// The plugin that runs Argo CD's scripts.
const SCRIPTS: &str = "health-lua";

/// An object and what is said about it.
struct Judged {
    object: Value,
    /// By a script of the `argocd-cm`.
    script: Option<Health>,
    /// By the plugins as they are set up.
    rule: Option<Health>,
}

impl Judged {
    /// What holds: a script of one's own beats the rule, here as in Argo CD.
    fn health(&self) -> Option<&Health> {
        self.script.as_ref().or(self.rule.as_ref())
    }
}

/// Judges every object in the files that a plugin judges, and with `argocd_cm` every one that one of its scripts judges.
///
/// # Errors
/// Of the files, the plugin directories and the machine; a plugin that fails.
pub async fn health(
    files: &[PathBuf],
    argocd_cm: Option<&Path>,
    args: &Plugins,
    output: Output,
) -> Result<ExitCode> {
    let mut objects = Vec::new();
    for file in files {
        objects.extend(read(file)?);
    }
    let scripts = match argocd_cm {
        None => None,
        Some(file) => {
            let found = argocd_cm::read(file)?;
            for warning in &found.warnings {
                eprintln!("warning: {}: {}", file.display(), print::printable(warning));
            }
            Some(load(args, Some(found.config)).await?)
        }
    };
    let rules = match scripts {
        None => load(args, None).await?,
        Some(_) => load_plain(args).await?,
    };
    let mut judged = Vec::new();
    for object in objects {
        let script = match &scripts {
            Some(scripts) => verdict(&scripts.host, &object, true).await?,
            None => None,
        };
        let rule = verdict(&rules.host, &object, false).await?;
        judged.push(Judged {
            object,
            script,
            rule,
        });
    }
    // What nobody judges is only shown beside what a script might have judged.
    if argocd_cm.is_none() {
        judged.retain(|it| it.rule.is_some());
    }
    if judged.iter().all(|it| it.health().is_none()) {
        return Err(nobody(files, argocd_cm, &rules.host));
    }
    match (output, argocd_cm) {
        (Output::Json, None) => print::json(&json!({ "objects": list(&judged) }))?,
        (Output::Json, Some(_)) => print::json(&json!({ "objects": list_beside(&judged) }))?,
        (Output::Table, None) => print::out(&rows(&judged))?,
        (Output::Table, Some(_)) => print::out(&rows_beside(&judged))?,
    }
    let good = |health: &Health| {
        matches!(
            health.status,
            HealthStatus::Healthy | HealthStatus::Suspended
        )
    };
    let well = judged.iter().filter_map(Judged::health).all(good);
    Ok(ExitCode::from(if well { 0 } else { FAILED }))
}

fn read(file: &Path) -> Result<Vec<Value>> {
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
    Ok(objects)
}

/// The plugins, with `config` for the scripts in the place of the policy's.
async fn load(args: &Plugins, config: Option<Value>) -> Result<plugins::Loaded> {
    let outside = Arc::new(Answers::new(World::default())?);
    let Some(config) = config else {
        return plugins::load(args, outside).await;
    };
    let loaded = plugins::load_with(args, outside, |policy| {
        policy.plugins.entry(SCRIPTS.into()).or_default().config = Some(config);
    })
    .await?;
    let status = loaded.host.list().into_iter().find(|it| it.name == SCRIPTS);
    match status {
        Some(status) if status.serving && status.error.is_none() => Ok(loaded),
        Some(status) => Err(Error::Arguments(format!(
            "{SCRIPTS} is not served: {}",
            status.error.map_or_else(String::new, |it| it.to_string())
        ))),
        None => Err(Error::Arguments(format!(
            "there is no {SCRIPTS}.wasm in the plugin directories; `cargo xtask plugins` makes it"
        ))),
    }
}

/// The plugins without any script.
async fn load_plain(args: &Plugins) -> Result<plugins::Loaded> {
    let outside = Arc::new(Answers::new(World::default())?);
    plugins::load_with(args, outside, |policy| {
        policy.plugins.entry(SCRIPTS.into()).or_default().config = None;
    })
    .await
}

/// The verdict of whoever judges the object's kind; with `by_script` only if that is a script.
async fn verdict(host: &PluginHost, object: &Value, by_script: bool) -> Result<Option<Health>> {
    let kind = group_kind(object);
    let Some(judge) = host.judge_of(&kind) else {
        return Ok(None);
    };
    if by_script && judge != SCRIPTS {
        return Ok(None);
    }
    let verdict = assess(host, object).await.result;
    verdict.map(Some).map_err(|error| Error::Plugin {
        plugin: judge,
        error: Box::new(error),
    })
}

fn nobody(files: &[PathBuf], argocd_cm: Option<&Path>, host: &PluginHost) -> Error {
    let claims: Vec<String> = host
        .list()
        .into_iter()
        .filter(|plugin| plugin.serving)
        .flat_map(|plugin| plugin.claims)
        .filter_map(|claim| claim.strip_prefix("health:").map(str::to_owned))
        .collect();
    let judged = if claims.is_empty() {
        "there is none".to_owned()
    } else {
        claims.join(", ")
    };
    let scripts = argocd_cm.map_or_else(String::new, |file| {
        format!(" or a script in {} judges", file.display())
    });
    Error::BadFile {
        path: files.first().cloned().unwrap_or_default(),
        message: format!(
            "no object in it is of a kind that a health plugin judges ({judged}){scripts}"
        ),
    }
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

fn named(object: &Value) -> Value {
    let key = key_of(object);
    json!({ "kind": group_kind(object), "namespace": key.namespace, "name": key.name })
}

fn list(judged: &[Judged]) -> Vec<Value> {
    let one = |judged: &Judged| {
        let mut entry = named(&judged.object);
        let health = judged.health()?;
        entry["status"] = json!(health.status);
        entry["message"] = json!(health.message);
        Some(entry)
    };
    judged.iter().filter_map(one).collect()
}

fn list_beside(judged: &[Judged]) -> Vec<Value> {
    let shown = |health: &Option<Health>| {
        health
            .as_ref()
            .map(|health| json!({ "status": health.status, "message": health.message }))
    };
    let one = |judged: &Judged| {
        let mut entry = named(&judged.object);
        entry["argocdCm"] = json!(shown(&judged.script));
        entry["builtIn"] = json!(shown(&judged.rule));
        entry
    };
    judged.iter().map(one).collect()
}

fn rows(judged: &[Judged]) -> String {
    let mut table = table::new(&["OBJECT", "HEALTH", "MESSAGE"]);
    for it in judged {
        let Some(health) = it.health() else { continue };
        table.add_row(vec![
            title(&it.object),
            status(Some(health)),
            Cell::new(print::printable(&health.message)),
        ]);
    }
    table.trim_fmt()
}

fn rows_beside(judged: &[Judged]) -> String {
    let mut table = table::new(&["OBJECT", "ARGOCD-CM", "MESSAGE", "BUILT IN", "MESSAGE"]);
    let message = |health: &Option<Health>| {
        Cell::new(print::printable(
            health.as_ref().map_or("", |health| &health.message),
        ))
    };
    for it in judged {
        table.add_row(vec![
            title(&it.object),
            status(it.script.as_ref()),
            message(&it.script),
            status(it.rule.as_ref()),
            message(&it.rule),
        ]);
    }
    table.trim_fmt()
}

fn title(object: &Value) -> Cell {
    let kind = object["kind"].as_str().unwrap_or_default();
    Cell::new(format!("{kind} {}", key_of(object)))
}

fn status(health: Option<&Health>) -> Cell {
    health.map_or_else(
        || Cell::new("-"),
        |health| {
            let word = format!("{:?}", health.status);
            let colour = colour(&word);
            Cell::new(word).fg(colour)
        },
    )
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
