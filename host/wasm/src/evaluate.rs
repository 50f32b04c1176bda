//! Evaluation by question and answer: a fresh instance per round, no instance while anything is waited for.

use std::sync::Arc;
use std::time::Instant;

use serde_json::Value;
use windlass_sdk::{Answer, Asked, LogLine};

use crate::answer::Answering;
use crate::cache::Cache;
use crate::call::{Call, Output};
use crate::egress::Network;
use crate::error::PluginError;
use crate::guest::plugin::RoundEnd;
use crate::guest::round::{Puts, Round};
use crate::load::Plugin;
use crate::outside::{Outside, Scope};
use crate::tally::Tally;
use crate::threads::Threads;
use crate::transcript::{Failed, Transcript};
use crate::vault::Vault;

/// What every evaluation shares.
pub struct Evaluator {
    pub threads: Threads,
    pub outside: Arc<dyn Outside>,
    pub cache: Cache,
    pub network: Network,
    pub tally: Tally,
}

/// One evaluation that ended: its result, the secrets it named, its record.
pub struct Evaluation {
    pub result: Result<Output, PluginError>,
    pub vault: Vault,
    pub transcript: Transcript,
}

/// What is asked, and about what.
pub struct Subject {
    pub scope: Scope,
    pub call: Call,
    /// The object under work, `{metadata, spec}`: secrets are found by their place in it.
    pub object: Value,
    pub now_ms: u64,
}

impl Evaluator {
    /// Runs a call to its end.
    pub async fn evaluate(&self, plugin: &Arc<Plugin>, subject: Subject) -> Evaluation {
        let begun = Instant::now();
        let mut record = Record::default();
        let mut vault = Vault::default();
        let call = Arc::new(subject.call.clone());
        let result = match plugin.breaker.check(Instant::now()) {
            Err(pause) => Err(PluginError::BreakerOpen { pause }),
            Ok(()) => {
                let rounds = self.rounds(plugin, &call, &subject, &mut vault, &mut record);
                let result = match tokio::time::timeout(plugin.limits.wall(), rounds).await {
                    Ok(result) => result,
                    Err(_) => Err(PluginError::Timeout {
                        limit_ms: plugin.limits.wall_ms,
                    }),
                };
                count(plugin, &result);
                result
            }
        };
        self.tally
            .count(&plugin.name, &subject.call, &result, begun.elapsed());
        let Record {
            asked,
            logs,
            output,
        } = record;
        let transcript = Transcript {
            plugin: plugin.name.clone(),
            digest: plugin.digest.clone(),
            namespace: subject.scope.namespace,
            call: subject.call,
            now_ms: subject.now_ms,
            asked: Arc::unwrap_or_clone(asked),
            logs,
            output,
            result: result.clone().map_err(|error| Failed::from(&error)),
        };
        Evaluation {
            result,
            vault,
            transcript,
        }
    }

    async fn rounds(
        &self,
        plugin: &Arc<Plugin>,
        call: &Arc<Call>,
        subject: &Subject,
        vault: &mut Vault,
        record: &mut Record,
    ) -> Result<Output, PluginError> {
        let Subject {
            scope,
            call: _,
            object,
            now_ms,
        } = subject;
        let mut answering = Answering {
            outside: &*self.outside,
            cache: &self.cache,
            network: &self.network,
            scope,
            grants: &plugin.grants,
            object,
            response_bytes: plugin.limits.response_bytes,
        };
        loop {
            let round = Round::new(
                record.asked.clone(),
                plugin.config.clone(),
                *now_ms,
                plugin.limits.clone(),
            );
            let job = {
                let (plugin, call) = (plugin.clone(), call.clone());
                move || plugin.compiled.run(&call, round)
            };
            match self.threads.run(&scope.namespace, job).await? {
                RoundEnd::Done(done) => {
                    vault.take(done.made);
                    record.logs = done.logs;
                    self.remember(scope, done.puts, vault);
                    return Ok(done.output);
                }
                RoundEnd::Failed {
                    error,
                    logs,
                    output,
                    left,
                } => {
                    if let Some(left) = left {
                        let (made, puts) = *left;
                        vault.take(made);
                        self.remember(scope, puts, vault);
                    }
                    record.logs = logs;
                    record.output = String::from_utf8_lossy(&output).into_owned();
                    return Err(error);
                }
                RoundEnd::Ask { question, made } => {
                    if record.asked.len() >= plugin.limits.rounds as usize {
                        return Err(PluginError::TooManyQuestions {
                            limit: plugin.limits.rounds,
                        });
                    }
                    vault.take(made);
                    let answer = answering.answer(&question, vault).await;
                    // One budget for all bodies of an evaluation, since all of them are kept.
                    if let Ok(Answer::Http { response } | Answer::Captured { response, .. }) =
                        &answer
                    {
                        answering.response_bytes =
                            answering.response_bytes.saturating_sub(response.body.len());
                    }
                    Arc::make_mut(&mut record.asked).push(Asked { question, answer });
                }
            }
        }
    }

    fn remember(&self, scope: &Scope, puts: Puts, vault: &mut Vault) {
        let Puts { values, secrets } = puts;
        for (key, json, ttl_ms) in values {
            self.cache.put(scope, &key, &json, ttl_ms);
        }
        for put in secrets {
            // What cannot be made was never spent, and a cache may forget at any time.
            if let (Ok(origin), Ok(value)) = (vault.value(&put.origin), vault.value(&put.value)) {
                self.cache
                    .put_secret(scope, &put.key, &origin, value, put.ttl_ms);
            }
        }
    }

    /// Runs a recorded call again with its recorded answers. Nothing is asked outside, nothing is remembered.
    pub async fn replay(&self, plugin: &Arc<Plugin>, recorded: &Transcript) -> Transcript {
        let asked = Arc::new(recorded.asked.clone());
        let round = Round::new(
            asked,
            plugin.config.clone(),
            recorded.now_ms,
            plugin.limits.clone(),
        );
        let job = {
            let (plugin, call) = (plugin.clone(), recorded.call.clone());
            move || plugin.compiled.run(&call, round)
        };
        let mut replayed = Transcript {
            digest: plugin.digest.clone(),
            logs: Vec::new(),
            ..recorded.clone()
        };
        let result = match self.threads.run(&recorded.namespace, job).await {
            Ok(RoundEnd::Done(done)) => {
                replayed.logs = done.logs;
                Ok(done.output)
            }
            Ok(RoundEnd::Failed {
                error,
                logs,
                output,
                left: _,
            }) => {
                replayed.logs = logs;
                replayed.output = String::from_utf8_lossy(&output).into_owned();
                Err(error)
            }
            Ok(RoundEnd::Ask { question, .. }) => Err(PluginError::Diverged {
                question: serde_json::to_string(&question).unwrap_or_default(),
            }),
            Err(error) => Err(error),
        };
        replayed.result = result.map_err(|error| Failed::from(&error));
        replayed
    }
}

/// What is kept of a call while it goes on; still there if it is cut off.
#[derive(Default)]
struct Record {
    asked: Arc<Vec<Asked>>,
    logs: Vec<LogLine>,
    output: String,
}

fn count(plugin: &Plugin, result: &Result<Output, PluginError>) {
    match result {
        Ok(_) => plugin.breaker.success(),
        Err(error) if error.counts() => plugin.breaker.failure(Instant::now()),
        // A plugin that says no works; one that waits too long is not to blame.
        Err(PluginError::Fault(_)) => plugin.breaker.success(),
        Err(_) => {}
    }
}
