//! What one evaluation may cost.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// Limits of a plugin. The administrator may change them per plugin, up to [`Limits::CEILING`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct Limits {
    /// Size of the file, bytes.
    pub file_bytes: u64,
    /// All memories of an instance together, bytes.
    pub memory_bytes: usize,
    /// All tables of an instance together, elements.
    pub table_elements: usize,
    /// Computing in one round, milliseconds.
    pub cpu_ms: u64,
    /// The whole evaluation with everything it waits for, milliseconds.
    pub wall_ms: u64,
    /// Questions of one evaluation.
    pub rounds: u32,
    /// What crosses between host and guest in one call, bytes.
    pub transfer_bytes: usize,
    /// Log lines that are kept; ten times as many end the call.
    pub log_lines: usize,
    /// Longest part of a log line that is kept, bytes.
    pub log_line_bytes: usize,
    /// Standard output and error that is kept, bytes; eight times as much ends the call.
    pub output_bytes: usize,
    /// Bodies of all HTTP responses of one evaluation, bytes.
    pub response_bytes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            file_bytes: 32 << 20,
            memory_bytes: 64 << 20,
            table_elements: 20_000,
            cpu_ms: 1_000,
            wall_ms: 30_000,
            rounds: 32,
            transfer_bytes: 16 << 20,
            log_lines: 200,
            log_line_bytes: 4 << 10,
            output_bytes: 16 << 10,
            response_bytes: 8 << 20,
        }
    }
}

impl Limits {
    /// The most that a policy can give.
    pub const CEILING: Limits = Limits {
        file_bytes: 64 << 20,
        memory_bytes: 64 << 20,
        table_elements: 20_000,
        cpu_ms: 5_000,
        wall_ms: 120_000,
        rounds: 32,
        transfer_bytes: 64 << 20,
        log_lines: 2_000,
        log_line_bytes: 16 << 10,
        output_bytes: 256 << 10,
        response_bytes: 16 << 20,
    };

    /// These limits, none above the ceiling.
    #[must_use]
    pub fn capped(&self) -> Limits {
        let ceiling = Self::CEILING;
        Limits {
            file_bytes: self.file_bytes.min(ceiling.file_bytes),
            memory_bytes: self.memory_bytes.min(ceiling.memory_bytes),
            table_elements: self.table_elements.min(ceiling.table_elements),
            cpu_ms: self.cpu_ms.min(ceiling.cpu_ms),
            wall_ms: self.wall_ms.min(ceiling.wall_ms),
            rounds: self.rounds.min(ceiling.rounds),
            transfer_bytes: self.transfer_bytes.min(ceiling.transfer_bytes),
            log_lines: self.log_lines.min(ceiling.log_lines),
            log_line_bytes: self.log_line_bytes.min(ceiling.log_line_bytes),
            output_bytes: self.output_bytes.min(ceiling.output_bytes),
            response_bytes: self.response_bytes.min(ceiling.response_bytes),
        }
    }

    /// The wall-clock limit.
    pub fn wall(&self) -> Duration {
        Duration::from_millis(self.wall_ms)
    }
}
