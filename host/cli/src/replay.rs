//! `windlass replay FILE`: a saved snapshot decided again, a plugin's transcript run again.

use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use serde_json::{Value, json};
use windlass_core::{Snapshot, decide};
use windlass_wasm::{PluginHost, Transcript};

use crate::args::{Output, Plugins};
use crate::error::{Error, FAILED, Result};
use crate::world::{self, Answers, World};
use crate::{explain, plugins, print};

/// Finds out what the file is, and runs it.
///
/// # Errors
/// `BadFile` for anything that is neither a snapshot nor a transcript.
pub async fn replay(file: &Path, args: &Plugins, output: Output) -> Result<ExitCode> {
    let text = world::read(file)?;
    let bad = |message: String| Error::BadFile {
        path: file.to_owned(),
        message,
    };
    let value: Value =
        serde_json::from_str(&text).map_err(|error| bad(format!("not JSON: {error}")))?;
    if value.get("objects").is_some() && value.get("now").is_some() {
        let snapshot: Snapshot = serde_json::from_value(value)
            .map_err(|error| bad(format!("a snapshot of another version: {error}")))?;
        return self::snapshot(&snapshot, output);
    }
    if value.get("plugin").is_some() && value.get("call").is_some() {
        let recorded: Transcript = serde_json::from_value(value)
            .map_err(|error| bad(format!("a transcript of another version: {error}")))?;
        let outside = Arc::new(Answers::new(World::default())?);
        let loaded = plugins::load(args, outside).await?;
        return transcript(&loaded.host, &recorded, output).await;
    }
    Err(bad(
        "neither a snapshot (`windlass explain STACK --snapshot FILE`) nor a transcript \
         (`windlass plugin run ... --save FILE`)"
            .to_owned(),
    ))
}

fn snapshot(snapshot: &Snapshot, output: Output) -> Result<ExitCode> {
    let decision = decide(snapshot);
    match output {
        Output::Json => print::json(&decision)?,
        // The saved moment is this decision's present.
        Output::Table => print::out(&explain::words(snapshot, &decision, snapshot.now))?,
    }
    Ok(ExitCode::SUCCESS)
}

/// Runs a transcript again and compares the ends.
///
/// # Errors
/// `Plugin` if the plugin is not there.
pub async fn transcript(
    host: &PluginHost,
    recorded: &Transcript,
    output: Output,
) -> Result<ExitCode> {
    let replayed = host.replay(recorded).await.map_err(|error| Error::Plugin {
        plugin: recorded.plugin.clone(),
        error: Box::new(error),
    })?;
    let same = replayed.result == recorded.result;
    let same_component = replayed.digest == recorded.digest;
    if output == Output::Json {
        print::json(&json!({
            "same": same, "sameComponent": same_component, "recorded": recorded.result, "replayed": replayed.result,
        }))?;
    } else {
        let mut text = conversation(&replayed)?;
        text.push_str(&format!("\nanswered {}", answer(&replayed)?));
        if !same_component {
            text.push_str("\nthe component is another than the recorded one");
        }
        if same {
            text.push_str("\nsame result as recorded");
        } else {
            text.push_str(&format!("\nDIFFERENT: recorded was {}", answer(recorded)?));
        }
        print::out(&text)?;
    }
    Ok(ExitCode::from(if same { 0 } else { FAILED }))
}

/// The questions, their answers and the log lines of an evaluation, one a line.
///
/// # Errors
/// `Json`, which does not happen.
pub fn conversation(transcript: &Transcript) -> Result<String> {
    let mut lines = vec![format!(
        "{} was asked to {}",
        transcript.plugin,
        function(transcript)?
    )];
    for asked in &transcript.asked {
        let question = serde_json::to_string(&asked.question)?;
        let answer = match &asked.answer {
            Ok(answer) => serde_json::to_string(answer)?,
            Err(fault) => format!("{}: {}", fault.reason, fault.message),
        };
        lines.push(format!("  asks    {}", print::shorten(&question, 160)));
        lines.push(format!("  learns  {}", print::shorten(&answer, 160)));
    }
    for line in &transcript.logs {
        lines.push(format!("  logs    {}", line.message));
    }
    if !transcript.output.is_empty() {
        lines.push(format!("  prints  {}", transcript.output.trim_end()));
    }
    Ok(print::printable(&lines.join("\n")))
}

fn function(transcript: &Transcript) -> Result<String> {
    let call = serde_json::to_value(&transcript.call)?;
    Ok(call["function"].as_str().unwrap_or("?").to_owned())
}

fn answer(transcript: &Transcript) -> Result<String> {
    Ok(match &transcript.result {
        Ok(output) => {
            let mut shown = serde_json::to_value(output)?;
            print::bytes_as_text(&mut shown);
            serde_json::to_string_pretty(&shown)?
        }
        Err(failed) => format!("with an error: {}: {}", failed.reason, failed.message),
    })
}
