//! The state behind one instance: answers so far, limits, what it logged.

use std::sync::Arc;

use wasmtime::ResourceLimiter;
use wasmtime::component::ResourceTable;
use windlass_sdk::{Answer, Asked, Fault, Level, LogLine, Question, Recipe, SecretName};

use crate::error::PluginError;
use crate::limits::Limits;

/// Handles that a guest can hold, and values that it can seal.
const HANDLES: usize = 1024;

/// Entries that a guest can put into the cache in one call.
const PUTS: usize = 256;

/// Values that a guest can derive, sign and join, and signatures among them: an RSA signature takes a millisecond or
/// more, and whoever may ask for any number of them has an oracle.
const MADE: usize = 256;
const SIGNATURES: usize = 16;

/// Longest question, as JSON; questions are kept for the whole evaluation.
const QUESTION_BYTES: usize = 6 << 20;

/// What a guest made of what it knows and of secrets that it named.
#[derive(Debug, Default)]
pub struct Made {
    /// By index of [`SecretName::Sealed`].
    pub sealed: Vec<Vec<u8>>,
    /// By index of [`SecretName::Made`].
    pub recipes: Vec<Recipe>,
}

/// A secret for the cache, by name.
#[derive(Clone, Debug)]
pub struct SecretPut {
    pub key: String,
    pub origin: SecretName,
    pub value: SecretName,
    pub ttl_ms: u64,
}

/// What a guest put into the cache.
#[derive(Debug, Default)]
pub struct Puts {
    /// Key, JSON, time to live.
    pub values: Vec<(String, String, u64)>,
    pub secrets: Vec<SecretPut>,
}

/// One round. Dropped with its instance.
pub struct Round {
    pub table: ResourceTable,
    asked: Arc<Vec<Asked>>,
    used: Vec<bool>,
    /// The question that ended the round.
    pub question: Option<Question>,
    pub config: Arc<str>,
    pub now_ms: u64,
    pub random: u64,
    pub made: Made,
    made_bytes: usize,
    /// Capturing requests so far.
    pub exchanges: u32,
    pub puts: Puts,
    pub logs: Vec<LogLine>,
    log_count: usize,
    pub output: Vec<u8>,
    output_count: usize,
    memory: usize,
    tables: usize,
    pub limits: Arc<Limits>,
    /// The limit that ended the round.
    pub tripped: Option<PluginError>,
}

impl Round {
    pub fn new(asked: Arc<Vec<Asked>>, config: Arc<str>, now_ms: u64, limits: Arc<Limits>) -> Self {
        let mut table = ResourceTable::new();
        table.set_max_capacity(HANDLES);
        let used = vec![false; asked.len()];
        Round {
            table,
            asked,
            used,
            question: None,
            config,
            now_ms,
            random: now_ms,
            made: Made::default(),
            made_bytes: 0,
            exchanges: 0,
            puts: Puts::default(),
            logs: Vec::new(),
            log_count: 0,
            output: Vec::new(),
            output_count: 0,
            memory: 0,
            tables: 0,
            limits,
            tripped: None,
        }
    }

    /// All memories of the instance together, bytes.
    pub fn memory(&self) -> usize {
        self.memory
    }

    /// The answer to this occurrence of the question; without one the round ends here.
    pub fn answer(&mut self, question: Question) -> wasmtime::Result<Result<Answer, Fault>> {
        for (asked, used) in self.asked.iter().zip(self.used.iter_mut()) {
            if !*used && asked.question == question {
                *used = true;
                return Ok(asked.answer.clone());
            }
        }
        if serde_json::to_string(&question)?.len() > QUESTION_BYTES {
            return self.trip(PluginError::TransferExceeded {
                limit_bytes: QUESTION_BYTES,
            });
        }
        self.question = Some(question);
        Err(wasmtime::Error::msg(
            "a question without an answer ends the round",
        ))
    }

    /// Takes a value to the others that were sealed.
    pub fn seal(&mut self, value: Vec<u8>) -> wasmtime::Result<SecretName> {
        let index = u32::try_from(self.made.sealed.len())?;
        self.made_bytes = self.made_bytes.saturating_add(value.len());
        // A handle can be dropped and its value stays, so that handles alone do not bound them.
        if self.made.sealed.len() >= HANDLES || self.made_bytes > self.limits.transfer_bytes {
            return self.trip(PluginError::TransferExceeded {
                limit_bytes: self.limits.transfer_bytes,
            });
        }
        self.made.sealed.push(value);
        Ok(SecretName::Sealed { index })
    }

    /// Notes how a secret is made. Nothing is computed before it is spent.
    pub fn make(&mut self, recipe: Recipe) -> wasmtime::Result<SecretName> {
        let index = u32::try_from(self.made.recipes.len())?;
        let signs = |recipe: &Recipe| matches!(recipe, Recipe::Sign { .. });
        let signed = self.made.recipes.iter().filter(|made| signs(made)).count();
        if signs(&recipe) && signed >= SIGNATURES {
            return self.trip(PluginError::TooManySecretsMade { limit: SIGNATURES });
        }
        if self.made.recipes.len() >= MADE {
            return self.trip(PluginError::TooManySecretsMade { limit: MADE });
        }
        self.made_bytes = self.made_bytes.saturating_add(recipe.size());
        if self.made_bytes > self.limits.transfer_bytes {
            return self.trip(PluginError::TransferExceeded {
                limit_bytes: self.limits.transfer_bytes,
            });
        }
        self.made.recipes.push(recipe);
        Ok(SecretName::Made { index })
    }

    /// Notes an entry for the cache.
    pub fn put(&mut self, key: String, value: String, ttl_ms: u64) -> wasmtime::Result<()> {
        self.room_for_put()?;
        self.puts.values.push((key, value, ttl_ms));
        Ok(())
    }

    /// Notes a secret for the cache.
    pub fn put_secret(&mut self, put: SecretPut) -> wasmtime::Result<()> {
        self.room_for_put()?;
        self.puts.secrets.push(put);
        Ok(())
    }

    fn room_for_put(&mut self) -> wasmtime::Result<()> {
        if self.puts.values.len() + self.puts.secrets.len() >= PUTS {
            return self.trip(PluginError::TransferExceeded {
                limit_bytes: self.limits.transfer_bytes,
            });
        }
        Ok(())
    }

    /// Keeps a line, or counts it.
    pub fn log(&mut self, level: Level, mut message: String) -> wasmtime::Result<()> {
        self.log_count += 1;
        if self.log_count > self.limits.log_lines.saturating_mul(10) {
            return self.trip(PluginError::LogFlood {
                limit_lines: self.limits.log_lines,
            });
        }
        if self.logs.len() < self.limits.log_lines {
            truncate(&mut message, self.limits.log_line_bytes);
            self.logs.push(LogLine { level, message });
        }
        Ok(())
    }

    /// Keeps the last bytes of standard output and error.
    pub fn write(&mut self, bytes: &[u8]) -> wasmtime::Result<()> {
        self.output_count = self.output_count.saturating_add(bytes.len());
        if self.output_count > self.limits.output_bytes.saturating_mul(8) {
            return self.trip(PluginError::LogFlood {
                limit_lines: self.limits.log_lines,
            });
        }
        let room = self.limits.output_bytes.saturating_sub(self.output.len());
        // The beginning is kept: a panic message is the last thing, but short where it matters.
        self.output
            .extend_from_slice(&bytes[..bytes.len().min(room)]);
        Ok(())
    }

    /// Ends the round with an error of its own.
    pub fn trip<T>(&mut self, error: PluginError) -> wasmtime::Result<T> {
        let text = error.to_string();
        self.tripped = Some(error);
        Err(wasmtime::Error::msg(text))
    }

    /// Deterministic: the same request sees the same numbers.
    pub fn next_random(&mut self) -> u64 {
        // splitmix64
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.random;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }
}

fn truncate(text: &mut String, longest: usize) {
    if text.len() > longest {
        let mut end = longest;
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        text.truncate(end);
    }
}

// wasmtime's own limits are per memory; a component has several.
impl ResourceLimiter for Round {
    fn memory_growing(
        &mut self,
        current: usize,
        desired: usize,
        _: Option<usize>,
    ) -> wasmtime::Result<bool> {
        let total = self.memory.saturating_add(desired.saturating_sub(current));
        if total > self.limits.memory_bytes {
            return self.trip(PluginError::MemoryExceeded {
                limit_bytes: self.limits.memory_bytes,
            });
        }
        self.memory = total;
        Ok(true)
    }

    fn table_growing(
        &mut self,
        current: usize,
        desired: usize,
        _: Option<usize>,
    ) -> wasmtime::Result<bool> {
        let total = self.tables.saturating_add(desired.saturating_sub(current));
        if total > self.limits.table_elements {
            return self.trip(PluginError::MemoryExceeded {
                limit_bytes: self.limits.memory_bytes,
            });
        }
        self.tables = total;
        Ok(true)
    }

    fn memories(&self) -> usize {
        4
    }

    /// What componentize-py makes of Python has more than 32.
    fn instances(&self) -> usize {
        64
    }
}
