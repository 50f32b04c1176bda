//! `windlass plugin run FILE FUNCTION INPUT`: one call, with everything that production puts around it.

use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use serde::Serialize;
use serde_json::{Value, json};
use windlass_api::Stack;
use windlass_wasm::{Evaluated, PluginError, PluginHost, PluginStatus, Transcript, Work};

use crate::args::{Function, Output, RunArgs};
use crate::error::{AtPath, Error, FAILED, Result};
use crate::plugin::list::refusal;
use crate::world::{self, Answers, World};
use crate::{plugins, print, replay};

/// Calls the function and prints what it answered.
///
/// # Errors
/// Of the input, the plugin's loading and the machine. What the plugin itself refuses is printed, with exit code 1.
pub async fn run(args: RunArgs) -> Result<ExitCode> {
    let needs_objects = !matches!(args.function, Function::Replay | Function::Classify);
    let input_is_manifest = needs_objects && args.function != Function::Assess;
    let world = if input_is_manifest {
        World::read(&args.input)?
    } else {
        World::default()
    };
    let subject = match input_is_manifest {
        true => Some(world.stack(&args.input, args.stack.as_ref())?.clone()),
        false => None,
    };
    let outside = Arc::new(Answers::new(world)?);
    let (loaded, status) = plugins::load_file(&args.file, args.policy.as_deref(), outside).await?;
    if let Some(error) = &status.error {
        return Err(Error::BadFile {
            path: args.file.clone(),
            message: format!("refused: {}", refusal(error)),
        });
    }
    let host = &loaded.host;
    match (args.function, subject) {
        (Function::Replay, _) => {
            let recorded: Transcript = parse(&args.input, &world::read(&args.input)?)?;
            replay::transcript(host, &recorded, args.output).await
        }
        (Function::Classify, _) => {
            let outcome: windlass_sdk::Outcome = parse(&args.input, &world::read(&args.input)?)?;
            let scheme = provided(&status, "backend", &args)?;
            let url = format!("{scheme}://");
            let done = host.classify(&url, &outcome, &work(None)?).await;
            finish(&args, &status, done)
        }
        (Function::Assess, _) => assess(host, &status, &args).await,
        (function, Some(stack)) => of_stack(host, &status, &args, function, &stack).await,
        (_, None) => Err(Error::Arguments("this function needs a Stack".to_owned())),
    }
}

async fn of_stack(
    host: &PluginHost,
    status: &PluginStatus,
    args: &RunArgs,
    function: Function,
    stack: &Stack,
) -> Result<ExitCode> {
    let work = work(Some(stack))?;
    match function {
        Function::Validate => {
            let source = provided(status, "source", args)?;
            finish(args, status, host.validate(&source, &work).await)
        }
        Function::Watches => {
            let source = provided(status, "source", args)?;
            finish(args, status, host.watches(&source, &work).await)
        }
        Function::Open => {
            let url = stack.spec.backend.clone().ok_or_else(|| {
                Error::Arguments(format!(
                    "{}: the Stack names no backend",
                    args.input.display()
                ))
            })?;
            let name = &stack.spec.stack;
            finish(
                args,
                status,
                host.open_backend(&url, None, name, &work).await,
            )
        }
        _ => {
            let source = provided(status, "source", args)?;
            let Evaluated { result, transcript } = host.resolve(&source, &work, None).await;
            let result = result.map(|resolved| resolved.resolution);
            finish(args, status, Evaluated { result, transcript })
        }
    }
}

async fn assess(host: &PluginHost, status: &PluginStatus, args: &RunArgs) -> Result<ExitCode> {
    let text = world::read(&args.input)?;
    let objects = world::documents(&args.input, &text)?;
    let kinds: Vec<&str> = status
        .claims
        .iter()
        .filter_map(|claim| claim.strip_prefix("health:"))
        .collect();
    let wanted = |object: &&Value| {
        let key = crate::health::key_of(object);
        host.judge_of(&crate::health::group_kind(object)).is_some()
            && args.stack.as_ref().is_none_or(|stack| stack == &key)
    };
    let Some(object) = objects.iter().find(wanted) else {
        return Err(Error::Arguments(format!(
            "{}: no object in it is of a kind that {} judges ({})",
            args.input.display(),
            status.name,
            kinds.join(", ")
        )));
    };
    let done = crate::health::assess(host, object).await;
    finish(args, status, done)
}

/// What the plugin is asked about.
fn work(stack: Option<&Stack>) -> Result<Work> {
    let now_ms = u64::try_from(print::now().0).unwrap_or(0);
    let Some(stack) = stack else {
        return Ok(Work {
            namespace: "default".to_owned(),
            now_ms,
            ..Work::default()
        });
    };
    let key = world::key_of(stack);
    let mut metadata = serde_json::to_value(&stack.metadata)?;
    metadata["namespace"] = json!(key.namespace);
    Ok(Work {
        namespace: key.namespace,
        name: key.name,
        metadata,
        spec: serde_json::to_value(&stack.spec)?,
        now_ms,
    })
}

/// The one name of this sort that the plugin provides, or the one that was asked for.
fn provided(status: &PluginStatus, sort: &str, args: &RunArgs) -> Result<String> {
    let names: Vec<&str> = status
        .claims
        .iter()
        .filter_map(|claim| claim.strip_prefix(sort)?.strip_prefix(':'))
        .collect();
    let chosen = match (&args.provides, names.as_slice()) {
        (Some(wanted), names) => names.iter().find(|name| *name == wanted),
        (None, [only]) => Some(only),
        (None, _) => None,
    };
    chosen.map(|name| (*name).to_owned()).ok_or_else(|| {
        let name = &status.name;
        Error::Arguments(match (names.as_slice(), &args.provides) {
            ([], _) => format!(
                "{name} provides no {sort}; it provides {}",
                status.claims.join(", ")
            ),
            (some, Some(wanted)) => {
                format!(
                    "{name} does not provide {sort} {wanted}; choose one of {}",
                    some.join(", ")
                )
            }
            (some, None) => format!(
                "{name} provides several; choose with --provides: {}",
                some.join(", ")
            ),
        })
    })
}

fn parse<T: serde::de::DeserializeOwned>(file: &Path, text: &str) -> Result<T> {
    serde_json::from_str(text).map_err(|error| Error::BadFile {
        path: file.to_owned(),
        message: error.to_string(),
    })
}

/// Prints the answer and the questions on the way to it; keeps the transcript.
fn finish<T: Serialize>(
    args: &RunArgs,
    status: &PluginStatus,
    done: Evaluated<T>,
) -> Result<ExitCode> {
    let Evaluated { result, transcript } = done;
    if let (Some(file), Some(transcript)) = (&args.save, &transcript) {
        let mut text = serde_json::to_string_pretty(transcript)?;
        text.push('\n');
        std::fs::write(file, text).at(file)?;
    }
    if args.output == Output::Json {
        print::json(&json!({
            "plugin": status.name,
            "result": result.as_ref().ok(),
            "error": result.as_ref().err().map(failure),
            "asked": transcript.as_ref().map(|transcript| transcript.asked.len()),
        }))?;
        return Ok(ExitCode::from(if result.is_ok() { 0 } else { FAILED }));
    }
    if let Some(transcript) = &transcript {
        print::out(&replay::conversation(transcript)?)?;
    }
    match result {
        Ok(value) => {
            let mut shown = serde_json::to_value(&value)?;
            print::bytes_as_text(&mut shown);
            print::out(&serde_json::to_string_pretty(&shown)?)?;
            Ok(ExitCode::SUCCESS)
        }
        Err(error) => Err(Error::Plugin {
            plugin: status.name.clone(),
            error: Box::new(error),
        }),
    }
}

fn failure(error: &PluginError) -> Value {
    json!({ "class": error.class(), "reason": error.reason(), "message": error.to_string() })
}
