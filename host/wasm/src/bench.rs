//! What a recorded evaluation costs: its last round again, with all answers at hand.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::error::PluginError;
use crate::guest::plugin::RoundEnd;
use crate::guest::round::Round;
use crate::host::PluginHost;
use crate::transcript::Transcript;

/// One round, measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Measured {
    /// From a fresh instance to its result, computing alone.
    pub took: Duration,
    /// Linear memory of the instance at its end, bytes.
    pub memory_bytes: usize,
}

impl PluginHost {
    /// Runs the last round of a recorded evaluation `times` times, one after the other, and measures each. Nothing is
    /// asked outside.
    ///
    /// # Errors
    /// `Unknown` if no such plugin is served, `Diverged` if it now asks something else, and what the plugin fails with.
    pub async fn measure(
        &self,
        recorded: &Transcript,
        times: usize,
    ) -> Result<Vec<Measured>, PluginError> {
        let plugin =
            self.0
                .set
                .load()
                .by_name(&recorded.plugin)
                .ok_or_else(|| PluginError::Unknown {
                    claim: recorded.plugin.clone(),
                })?;
        let (asked, call) = (Arc::new(recorded.asked.clone()), recorded.call.clone());
        let now_ms = recorded.now_ms;
        let all = tokio::task::spawn_blocking(move || {
            (0..times)
                .map(|_| {
                    let begun = Instant::now();
                    let round = Round::new(
                        asked.clone(),
                        plugin.config.clone(),
                        now_ms,
                        plugin.limits.clone(),
                    );
                    match plugin.compiled.run(&call, round) {
                        RoundEnd::Done(done) => Ok(Measured {
                            took: begun.elapsed(),
                            memory_bytes: done.memory_bytes,
                        }),
                        RoundEnd::Failed { error, .. } => Err(error),
                        RoundEnd::Ask { question, .. } => Err(PluginError::Diverged {
                            question: serde_json::to_string(&question).unwrap_or_default(),
                        }),
                    }
                })
                .collect()
        });
        all.await
            .unwrap_or_else(|error| Err(PluginError::Host(error.to_string())))
    }
}
