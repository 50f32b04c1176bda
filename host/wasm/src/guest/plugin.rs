//! A compiled component, and one round of it in an instance of its own.

use wasmtime::component::{Component, Linker};
use wasmtime::{Engine, PoolConcurrencyLimitError, Store, Trap};
use windlass_sdk::{Level, LogLine, Question};

use super::bindings::backend::BackendPluginPre;
use super::bindings::health::HealthPluginPre;
use super::bindings::source::SourcePluginPre;
use super::convert;
use super::round::{Made, Puts, Round};
use crate::call::{Call, Output};
use crate::engine::ticks;
use crate::error::{LoadError, PluginError};
use crate::load::Exports;

/// How a round ended.
pub enum RoundEnd {
    Done(Box<Done>),
    /// A question without an answer, with what was made so far.
    Ask {
        question: Question,
        made: Made,
    },
    Failed {
        error: PluginError,
        logs: Vec<LogLine>,
        output: Vec<u8>,
        /// For the cache, if it is the plugin's own error: what it has paid for is kept.
        left: Option<Box<(Made, Puts)>>,
    },
}

/// What a finished call leaves behind.
pub struct Done {
    pub output: Output,
    pub logs: Vec<LogLine>,
    pub made: Made,
    pub puts: Puts,
    /// Memory that the instance had at its end, bytes. It never shrinks.
    pub memory_bytes: usize,
}

/// A component that can be instantiated at once.
pub struct Compiled {
    engine: Engine,
    source: Option<SourcePluginPre<Round>>,
    backend: Option<BackendPluginPre<Round>>,
    health: Option<HealthPluginPre<Round>>,
}

impl Compiled {
    /// # Errors
    /// `Invalid` if what it exports is not what the contract says.
    pub fn new(
        linker: &Linker<Round>,
        component: &Component,
        exports: Exports,
    ) -> Result<Self, LoadError> {
        let invalid = |error: wasmtime::Error| LoadError::Invalid(format!("{error:#}"));
        let pre = linker.instantiate_pre(component).map_err(invalid)?;
        let Exports {
            source,
            backend,
            health,
        } = exports;
        let source = source
            .then(|| SourcePluginPre::new(pre.clone()))
            .transpose()
            .map_err(invalid)?;
        let backend = backend
            .then(|| BackendPluginPre::new(pre.clone()))
            .transpose()
            .map_err(invalid)?;
        let health = health
            .then(|| HealthPluginPre::new(pre))
            .transpose()
            .map_err(invalid)?;
        if source.is_none() && backend.is_none() && health.is_none() {
            return Err(LoadError::NoExports);
        }
        Ok(Compiled {
            engine: component.engine().clone(),
            source,
            backend,
            health,
        })
    }

    /// Runs one round to its end. Blocks: belongs on a thread for computing.
    pub fn run(&self, call: &Call, round: Round) -> RoundEnd {
        let limits = round.limits.clone();
        let mut store = Store::new(&self.engine, round);
        store.limiter(|round| round);
        store.set_epoch_deadline(ticks(limits.cpu_ms));
        store.set_hostcall_fuel(limits.transfer_bytes);
        let result = self.call(call, &mut store);
        // The instance lives in the store and goes with it; only plain data is taken along.
        match result {
            Ok(Ok(output)) => {
                let round = store.into_data();
                let memory_bytes = round.memory();
                let Round {
                    logs, made, puts, ..
                } = round;
                RoundEnd::Done(Box::new(Done {
                    output,
                    logs,
                    made,
                    puts,
                    memory_bytes,
                }))
            }
            Ok(Err(error)) => {
                let Round {
                    logs,
                    output,
                    made,
                    puts,
                    ..
                } = store.into_data();
                let left = matches!(error, PluginError::Fault(_)).then(|| Box::new((made, puts)));
                RoundEnd::Failed {
                    error,
                    logs,
                    output,
                    left,
                }
            }
            Err(error) => {
                let Round {
                    question,
                    tripped,
                    logs,
                    output,
                    made,
                    ..
                } = store.into_data();
                if let Some(question) = question {
                    return RoundEnd::Ask { question, made };
                }
                let error = tripped.unwrap_or_else(|| explain(&error, &output, &logs, &limits));
                RoundEnd::Failed {
                    error,
                    logs,
                    output,
                    left: None,
                }
            }
        }
    }

    /// The outer error is wasmtime's, the inner one the plugin's.
    fn call(
        &self,
        call: &Call,
        store: &mut Store<Round>,
    ) -> wasmtime::Result<Result<Output, PluginError>> {
        match call {
            Call::Describe => self.describe(store),
            Call::Validate { .. } | Call::Watches { .. } | Call::Resolve { .. } => {
                self.source(call, store)
            }
            Call::Open { .. } | Call::Classify { .. } | Call::StaleLock { .. } => {
                self.backend(call, store)
            }
            Call::Assess { object, context } => {
                let Some(pre) = &self.health else {
                    return missing("health-check");
                };
                let instance = pre.instantiate(&mut *store)?;
                let verdict = instance.windlass_plugin_health_check().call_assess(
                    &mut *store,
                    object,
                    context,
                )?;
                Ok(Ok(Output::Health(convert::health(verdict))))
            }
        }
    }

    fn describe(&self, store: &mut Store<Round>) -> wasmtime::Result<Result<Output, PluginError>> {
        let json = if let Some(pre) = &self.source {
            pre.instantiate(&mut *store)?
                .windlass_plugin_plugin()
                .call_describe(&mut *store)?
        } else if let Some(pre) = &self.backend {
            pre.instantiate(&mut *store)?
                .windlass_plugin_plugin()
                .call_describe(&mut *store)?
        } else if let Some(pre) = &self.health {
            pre.instantiate(&mut *store)?
                .windlass_plugin_plugin()
                .call_describe(&mut *store)?
        } else {
            return missing("plugin");
        };
        Ok(convert::json_value("a descriptor", &json)
            .map(|descriptor| Output::Descriptor(Box::new(descriptor))))
    }

    fn source(
        &self,
        call: &Call,
        store: &mut Store<Round>,
    ) -> wasmtime::Result<Result<Output, PluginError>> {
        let Some(pre) = &self.source else {
            return missing("source-provider");
        };
        let instance = pre.instantiate(&mut *store)?;
        let guest = instance.windlass_plugin_source_provider();
        Ok(match call {
            Call::Validate { spec } => Ok(Output::FieldErrors(convert::field_errors(
                guest.call_validate(&mut *store, spec)?,
            ))),
            Call::Watches { spec } => {
                let objects = guest.call_watches(&mut *store, spec)?;
                Ok(Output::Objects(
                    objects.into_iter().map(convert::object_ref).collect(),
                ))
            }
            Call::Resolve { request } => match guest.call_resolve(&mut *store, request)? {
                Ok(resolution) => {
                    convert::resolution(&store.data().table, resolution).map(Output::Resolution)
                }
                Err(error) => Err(PluginError::Fault(convert::from_guest(error))),
            },
            _ => return missing("source-provider"),
        })
    }

    fn backend(
        &self,
        call: &Call,
        store: &mut Store<Round>,
    ) -> wasmtime::Result<Result<Output, PluginError>> {
        let Some(pre) = &self.backend else {
            return missing("backend");
        };
        let instance = pre.instantiate(&mut *store)?;
        let guest = instance.windlass_plugin_backend();
        Ok(match call {
            Call::Open { request } => match guest.call_open(&mut *store, request)? {
                Ok(json) => convert::json_value("a session", &json).map(Output::Session),
                Err(error) => Err(PluginError::Fault(convert::from_guest(error))),
            },
            Call::Classify { outcome } => Ok(Output::Failure(convert::failure(
                guest.call_classify(&mut *store, outcome)?,
            ))),
            Call::StaleLock { locks, holders } => {
                let verdict = guest.call_stale_lock(&mut *store, locks, holders)?;
                Ok(Output::LockVerdict(convert::lock_verdict(verdict)))
            }
            _ => return missing("backend"),
        })
    }
}

fn missing(interface: &str) -> wasmtime::Result<Result<Output, PluginError>> {
    Ok(Err(PluginError::Host(format!(
        "the component does not export {interface}"
    ))))
}

/// wasmtime's error as one of ours.
fn explain(
    error: &wasmtime::Error,
    output: &[u8],
    logs: &[LogLine],
    limits: &crate::Limits,
) -> PluginError {
    if error.downcast_ref::<PoolConcurrencyLimitError>().is_some() {
        return PluginError::Busy;
    }
    match error.downcast_ref::<Trap>() {
        Some(Trap::Interrupt) => {
            return PluginError::CpuExceeded {
                limit_ms: limits.cpu_ms,
            };
        }
        Some(Trap::StackOverflow) => return PluginError::StackOverflow,
        Some(Trap::UnreachableCodeReached) => {
            if let Some(message) = last_words(output, logs) {
                return PluginError::Panic { message };
            }
        }
        _ => {}
    }
    // wasmtime has no type for this one; the test with the huge result sees to it that the words stay the same.
    let text = format!("{error:#}");
    if text.contains("fuel allocated for hostcalls") {
        return PluginError::TransferExceeded {
            limit_bytes: limits.transfer_bytes,
        };
    }
    let cause = error
        .downcast_ref::<Trap>()
        .map_or_else(|| error.root_cause().to_string(), ToString::to_string);
    PluginError::Trap {
        message: first_chars(&cause),
    }
}

/// What a guest said before it gave up: the message of a panic in Rust; else its last error in the log, which is where the
/// templates of languages put an exception that would leave no other trace.
fn last_words(output: &[u8], logs: &[LogLine]) -> Option<String> {
    let output = String::from_utf8_lossy(output);
    let panic = output.split_once("panicked at ").map(|(_, words)| words);
    let words = panic.or_else(|| {
        let last = logs.iter().rfind(|line| line.level == Level::Error);
        last.map(|line| line.message.as_str())
    })?;
    Some(first_chars(words.trim()))
}

fn first_chars(text: &str) -> String {
    text.chars().take(500).collect()
}
