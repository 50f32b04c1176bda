//! `windlass plugin run FILE FUNCTION INPUT`: one call, with everything that production puts around it.

use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use serde::Serialize;
use serde_json::{Value, json};
use windlass_api::Stack;
use windlass_wasm::{Evaluated, Outside, PluginError, PluginHost, PluginStatus, Transcript, Work};

use crate::args::Output;
use crate::error::{AtPath, Error, FAILED, Result};
use crate::plugin::list::refusal;
use crate::plugin_args::{CallArgs, Function, RunArgs};
use crate::plugins::{Loaded, Setting};
use crate::script::Script;
use crate::world::{self, Answers, World};
use crate::{plugins, print, replay};

/// Calls the function and prints what it answered.
///
/// # Errors
/// Of the input, the plugin's loading and the machine. What the plugin itself refuses is printed, with exit code 1.
pub async fn run(args: RunArgs) -> Result<ExitCode> {
    if args.function == Function::Replay {
        let recorded: Transcript = parse(&args.input, &world::read(&args.input)?)?;
        let (loaded, _) = load(&args.file, &args.call, World::default()).await?;
        return replay::transcript(&loaded.host, &recorded, args.output).await;
    }
    let called = call(&args.file, args.function, &args.input, &args.call).await?;
    finish(&args, called)
}

/// A call that was made.
pub struct Called {
    pub loaded: Loaded,
    pub status: PluginStatus,
    pub result: std::result::Result<Value, PluginError>,
    pub transcript: Option<Box<Transcript>>,
}

/// Loads the file and makes one call of it.
///
/// # Errors
/// Of the input, the plugin's loading and the machine.
pub async fn call(
    file: &Path,
    function: Function,
    input: &Path,
    args: &CallArgs,
) -> Result<Called> {
    let of_a_stack = !matches!(function, Function::Classify | Function::Assess);
    let world = match of_a_stack {
        true => World::read(input)?,
        false => World::default(),
    };
    let subject = match of_a_stack {
        true => Some(world.stack(input, args.stack.as_ref())?.clone()),
        false => None,
    };
    let (loaded, status) = load(file, args, world).await?;
    let asked = Asked {
        function,
        input,
        args,
        status: &status,
    };
    let host = &loaded.host;
    let done = match (function, &subject) {
        (Function::Classify, _) => {
            let outcome: windlass_sdk::Outcome = parse(input, &world::read(input)?)?;
            let url = format!("{}://", asked.provided("backend")?);
            plain(host.classify(&url, &outcome, &work(None)?).await)?
        }
        (Function::Assess, _) => asked.assess(host).await?,
        (_, Some(stack)) => asked.of_stack(host, stack).await?,
        (_, None) => return Err(Error::Arguments("this function needs a Stack".to_owned())),
    };
    let Evaluated { result, transcript } = done;
    Ok(Called {
        loaded,
        status,
        result,
        transcript,
    })
}

/// Loads the file for a call, and refuses what is not served.
async fn load(file: &Path, args: &CallArgs, world: World) -> Result<(Loaded, PluginStatus)> {
    let script = args.answers.as_deref().map(Script::read).transpose()?;
    let outside: Arc<dyn Outside> = match &script {
        Some(script) => Arc::new(script.clone()),
        None => Arc::new(Answers::new(world)?),
    };
    let setting = Setting {
        policy: args.policy.as_deref(),
        script: script.as_ref(),
        ..Setting::default()
    };
    let (loaded, status) = plugins::load_file(file, &setting, outside).await?;
    if let Some(error) = &status.error {
        return Err(Error::BadFile {
            path: file.to_owned(),
            message: format!("refused: {}", refusal(error)),
        });
    }
    Ok((loaded, status))
}

/// The answer as data.
fn plain<T: Serialize>(done: Evaluated<T>) -> Result<Evaluated<Value>> {
    let Evaluated { result, transcript } = done;
    let result = match result {
        Ok(value) => Ok(serde_json::to_value(&value)?),
        Err(error) => Err(error),
    };
    Ok(Evaluated { result, transcript })
}

/// What is asked of which plugin.
struct Asked<'a> {
    function: Function,
    input: &'a Path,
    args: &'a CallArgs,
    status: &'a PluginStatus,
}

impl Asked<'_> {
    async fn of_stack(&self, host: &PluginHost, stack: &Stack) -> Result<Evaluated<Value>> {
        let work = work(Some(stack))?;
        if self.function == Function::Open {
            let url = stack.spec.backend.clone().ok_or_else(|| {
                Error::Arguments(format!(
                    "{}: the Stack names no backend",
                    self.input.display()
                ))
            })?;
            let name = &stack.spec.stack;
            return plain(host.open_backend(&url, None, name, &work).await);
        }
        let source = self.provided("source")?;
        match self.function {
            Function::Validate => plain(host.validate(&source, &work).await),
            Function::Watches => plain(host.watches(&source, &work).await),
            _ => {
                let Evaluated { result, transcript } = host.resolve(&source, &work, None).await;
                let result = result.map(|resolved| resolved.resolution);
                plain(Evaluated { result, transcript })
            }
        }
    }

    async fn assess(&self, host: &PluginHost) -> Result<Evaluated<Value>> {
        let text = world::read(self.input)?;
        let objects = world::documents(self.input, &text)?;
        let kinds: Vec<&str> = self
            .status
            .claims
            .iter()
            .filter_map(|claim| claim.strip_prefix("health:"))
            .collect();
        let wanted = |object: &&Value| {
            let key = crate::health::key_of(object);
            host.judge_of(&crate::health::group_kind(object)).is_some()
                && self.args.stack.as_ref().is_none_or(|stack| stack == &key)
        };
        let Some(object) = objects.iter().find(wanted) else {
            return Err(Error::Arguments(format!(
                "{}: no object in it is of a kind that {} judges ({})",
                self.input.display(),
                self.status.name,
                kinds.join(", ")
            )));
        };
        plain(crate::health::assess(host, object).await)
    }

    /// The one name of this sort that the plugin provides, or the one that was asked for.
    fn provided(&self, sort: &str) -> Result<String> {
        let names: Vec<&str> = self
            .status
            .claims
            .iter()
            .filter_map(|claim| claim.strip_prefix(sort)?.strip_prefix(':'))
            .collect();
        let chosen = match (&self.args.provides, names.as_slice()) {
            (Some(wanted), names) => names.iter().find(|name| *name == wanted),
            (None, [only]) => Some(only),
            (None, _) => None,
        };
        chosen.map(|name| (*name).to_owned()).ok_or_else(|| {
            let name = &self.status.name;
            Error::Arguments(match (names.as_slice(), &self.args.provides) {
                ([], _) => format!(
                    "{name} provides no {sort}; it provides {}",
                    self.status.claims.join(", ")
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

fn parse<T: serde::de::DeserializeOwned>(file: &Path, text: &str) -> Result<T> {
    serde_json::from_str(text).map_err(|error| Error::BadFile {
        path: file.to_owned(),
        message: error.to_string(),
    })
}

/// Prints the answer and the questions on the way to it; keeps the transcript.
fn finish(args: &RunArgs, called: Called) -> Result<ExitCode> {
    let Called {
        loaded: _,
        status,
        result,
        transcript,
    } = called;
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
        Ok(mut shown) => {
            print::bytes_as_text(&mut shown);
            print::out(&serde_json::to_string_pretty(&shown)?)?;
            Ok(ExitCode::SUCCESS)
        }
        Err(error) => Err(Error::Plugin {
            plugin: status.name,
            error: Box::new(error),
        }),
    }
}

fn failure(error: &PluginError) -> Value {
    json!({ "class": error.class(), "reason": error.reason(), "message": error.to_string() })
}
