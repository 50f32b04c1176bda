//! `windlass plugin list`.

use std::process::ExitCode;
use std::sync::Arc;

use comfy_table::{Cell, Color};
use serde_json::{Value, json};
use windlass_wasm::PluginStatus;

use crate::args::{Output, Plugins};
use crate::error::{FAILED, Result};
use crate::world::{Answers, World};
use crate::{plugins, print, table};

/// Lists what lies in the plugin directories.
///
/// # Errors
/// Of the directories, the policy and the machine.
pub async fn list(args: &Plugins, output: Output) -> Result<ExitCode> {
    let outside = Arc::new(Answers::new(World::default())?);
    let loaded = plugins::load(args, outside).await?;
    let plugins = loaded.host.list();
    match output {
        Output::Json => {
            let list: Vec<Value> = plugins.iter().map(status_json).collect();
            print::json(&json!({ "plugins": list }))?;
        }
        Output::Table if plugins.is_empty() => {
            let dirs: Vec<String> = args
                .dirs()?
                .iter()
                .map(|dir| dir.display().to_string())
                .collect();
            print::out(&format!("no plugins (*.wasm) in {}", dirs.join(", ")))?;
        }
        Output::Table => print::out(&rows(&plugins))?,
    }
    let refused = plugins.iter().any(|plugin| plugin.error.is_some());
    Ok(ExitCode::from(if refused { FAILED } else { 0 }))
}

fn rows(plugins: &[PluginStatus]) -> String {
    let mut table = table::new(&["PLUGIN", "VERSION", "STATE", "PROVIDES", "SUMMARY"]);
    for plugin in plugins {
        let (state, colour) = match (plugin.serving, &plugin.error) {
            (true, None) if plugin.paused => ("paused", Color::Yellow),
            (true, None) if plugin.builtin => ("built in", Color::Green),
            (true, None) => ("served", Color::Green),
            (true, Some(_)) => ("older version", Color::Yellow),
            (false, None) if plugin.idle => ("not configured", Color::DarkGrey),
            (false, _) => ("refused", Color::Red),
        };
        table.add_row(vec![
            Cell::new(&plugin.name),
            Cell::new(&plugin.version),
            Cell::new(state).fg(colour),
            Cell::new(plugin.claims.join("\n")),
            Cell::new(print::printable(&plugin.summary)),
        ]);
    }
    let mut text = table.trim_fmt();
    for plugin in plugins {
        if let Some(error) = &plugin.error {
            text.push_str(&format!("\n{}: {}", plugin.name, refusal(error)));
        }
    }
    text
}

/// Why a file is not served, and what to do.
pub fn refusal(error: &windlass_wasm::LoadError) -> String {
    format!("{} ({}); {}", error, error.reason(), plugins::advice(error))
}

/// A status for programs.
pub fn status_json(status: &PluginStatus) -> Value {
    let PluginStatus {
        name,
        file,
        serving,
        builtin,
        idle,
        digest,
        version,
        summary,
        claims,
        cached,
        paused,
        error,
    } = status;
    json!({
        "name": name, "file": file, "serving": serving, "builtin": builtin, "idle": idle, "digest": digest,
        "version": version, "summary": summary, "provides": claims, "cached": cached, "paused": paused,
        "error": error.as_ref().map(|error| json!({
            "reason": error.reason(), "message": error.to_string(), "advice": plugins::advice(error),
        })),
    })
}
