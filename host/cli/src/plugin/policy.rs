//! `windlass plugin policy FILE`: the policy under which a file would be served.

use std::path::Path;
use std::process::ExitCode;

use serde_json::json;
use windlass_wasm::{Examined, PluginPolicy};

use crate::args::Output;
use crate::error::{AtPath, Error, Result};
use crate::plugin::list::refusal;
use crate::{plugins, print};

/// Prints the policy file that grants the plugin all that it asks for.
///
/// # Errors
/// Of the file, if no policy would have it served; of the key.
pub async fn policy(
    file: &Path,
    name: Option<&str>,
    signed_by: Option<&Path>,
    output: Output,
) -> Result<ExitCode> {
    let name = name.map_or_else(|| plugins::installed_name(file), str::to_owned);
    let examined = examined(file, &name).await?;
    let mut wanted = PluginPolicy::wanted(&examined);
    if let Some(key) = signed_by {
        let text = std::fs::read_to_string(key).at(key)?;
        wanted.digest = None;
        wanted.public_key = Some(text.trim().to_owned());
    }
    match output {
        Output::Json => print::json(&json!({ "plugins": { name: wanted } }))?,
        Output::Table => print::out(&entry(&name, &wanted, &examined))?,
    }
    Ok(ExitCode::SUCCESS)
}

/// What the file says of itself.
///
/// # Errors
/// `BadFile` with the reason and what to do, if it would be refused under every policy.
pub async fn examined(file: &Path, name: &str) -> Result<Examined> {
    plugins::examine(file, name)
        .await?
        .map_err(|error| Error::BadFile {
            path: file.to_owned(),
            message: format!("refused: {}", refusal(&error)),
        })
}

/// A whole policy file with this one entry. Lists are JSON, which is YAML too, so that nothing needs other quotes.
pub fn entry(name: &str, policy: &PluginPolicy, examined: &Examined) -> String {
    let list = |items: &[String]| json!(items).to_string().replace("\",\"", "\", \"");
    let mut lines = vec!["plugins:".to_owned(), format!("  {name}:")];
    let mut field = |name: &str, value: String| lines.push(format!("    {name}: {value}"));
    if let Some(digest) = &policy.digest {
        field("digest", digest.clone());
    }
    if let Some(key) = &policy.public_key {
        field("publicKey", key.clone());
    }
    for (name, items) in [
        ("interfaces", &policy.interfaces),
        ("kinds", &policy.kinds),
        ("hosts", &policy.hosts),
        ("audiences", &policy.audiences),
    ] {
        if !items.is_empty() {
            field(name, list(items));
        }
    }
    for (name, wanted) in [("anyHost", policy.any_host), ("fileUrls", policy.file_urls)] {
        if wanted {
            field(name, "true".to_owned());
        }
    }
    if let Some(limits) = &policy.limits {
        field("limits", format!("{{fileBytes: {}}}", limits.file_bytes));
    }
    let wants = &examined.descriptor.wants;
    if wants.kinds.iter().any(|kind| kind == "*") {
        lines.push(
            "    # and under kinds, one by one, the GROUP/KIND that users may name".to_owned(),
        );
    }
    if examined.descriptor.config_schema.is_some() {
        lines.push("    # and its config, as its README has it".to_owned());
    }
    lines.join("\n")
}
