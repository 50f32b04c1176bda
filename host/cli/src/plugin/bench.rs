//! `windlass plugin bench FILE`: what loading and a call cost.

use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use comfy_table::Cell;
use serde_json::json;
use windlass_wasm::{Call, Measured, Transcript, Work};

use crate::args::Output;
use crate::error::{Error, Result};
use crate::plugin::list::refusal;
use crate::plugin::run::{Called, call};
use crate::plugin_args::{BenchArgs, Function};
use crate::plugins::{Loaded, Setting};
use crate::script::Script;
use crate::{plugins, print, table};

/// Measures and prints.
///
/// # Errors
/// Of the input, the plugin's loading and its call.
pub async fn bench(args: BenchArgs) -> Result<ExitCode> {
    let folder = tempfile::tempdir()?;
    // Made by the host, for its owner alone.
    let cache = folder.path().join("code");
    let (cold, _) = timed_load(&args, &cache).await?;
    let (cached, loaded) = timed_load(&args, &cache).await?;
    let (loaded, transcript, first) = match (args.function, &args.input) {
        (Some(Function::Replay), _) => {
            return Err(Error::Arguments(
                "bench makes a call of its own: name another function than replay".to_owned(),
            ));
        }
        (Some(function), Some(input)) => {
            let begun = Instant::now();
            let called = call(&args.file, function, input, &args.call).await?;
            let took = begun.elapsed();
            let (loaded, transcript) = of_call(called)?;
            (loaded, transcript, Some(took))
        }
        _ => {
            let name = plugins::installed_name(&args.file);
            let done = loaded
                .host
                .run(&name, Call::Describe, &Work::default())
                .await;
            (loaded, *recorded(&name, done.transcript)?, None)
        }
    };
    let failed = |error| Error::Plugin {
        plugin: transcript.plugin.clone(),
        error: Box::new(error),
    };
    let mut measured = loaded
        .host
        .measure(&transcript, args.times)
        .await
        .map_err(failed)?;
    measured.sort_by_key(|one| one.took);
    let figures = Figures {
        bytes: std::fs::metadata(&args.file)?.len(),
        cold,
        cached,
        function: transcript.call.function(),
        first,
        questions: transcript.asked.len(),
        times: args.times,
        p50: percentile(&measured, 50),
        p99: percentile(&measured, 99),
        memory: measured
            .iter()
            .map(|one| one.memory_bytes)
            .max()
            .unwrap_or(0),
    };
    figures.print(args.output)?;
    Ok(ExitCode::SUCCESS)
}

/// What was measured.
struct Figures {
    bytes: u64,
    cold: Duration,
    cached: Duration,
    function: &'static str,
    /// The real call with its loading, where there was one.
    first: Option<Duration>,
    questions: usize,
    times: usize,
    p50: Duration,
    p99: Duration,
    memory: usize,
}

impl Figures {
    fn print(&self, output: Output) -> Result<()> {
        let micros = |duration: Duration| duration.as_secs_f64() * 1e6;
        if output == Output::Json {
            return print::json(&json!({
                "fileBytes": self.bytes,
                "loadColdMicros": micros(self.cold),
                "loadCachedMicros": micros(self.cached),
                "function": self.function,
                "questions": self.questions,
                "times": self.times,
                "p50Micros": micros(self.p50),
                "p99Micros": micros(self.p99),
                "memoryBytes": self.memory,
            }));
        }
        let mut table = table::new(&["MEASURED", "FIGURE", "LIMIT"]);
        let limits = windlass_wasm::Limits::default();
        let mut row = |what: String, figure: String, limit: String| {
            table.add_row([what, figure, limit].map(Cell::new));
        };
        row("file".into(), bytes(self.bytes), bytes(limits.file_bytes));
        row("load, compiling".into(), small(self.cold), String::new());
        row(
            "load, machine code at hand".into(),
            small(self.cached),
            String::new(),
        );
        if let Some(first) = self.first {
            let what = format!(
                "{} with loading and {} answers",
                self.function, self.questions
            );
            row(what, small(first), format!("{} ms", limits.wall_ms));
        }
        let cpu = format!("{} ms", limits.cpu_ms);
        row(
            format!("{}, p50 of {}", self.function, self.times),
            small(self.p50),
            cpu.clone(),
        );
        row(format!("{}, p99", self.function), small(self.p99), cpu);
        row(
            "memory of an instance".into(),
            bytes(self.memory as u64),
            bytes(limits.memory_bytes as u64),
        );
        print::out(&table.trim_fmt())
    }
}

/// Sets a host up over an empty directory, so that only the load of the file is timed.
async fn timed_load(args: &BenchArgs, cache: &std::path::Path) -> Result<(Duration, Loaded)> {
    let script = match &args.call.answers {
        Some(file) => Script::read(file)?,
        None => Script::default(),
    };
    let setting = Setting {
        policy: args.call.policy.as_deref(),
        script: Some(&script),
        cache: Some(cache),
        ..Setting::default()
    };
    let (loaded, status) =
        plugins::load_file(&args.file, &setting, Arc::new(script.clone())).await?;
    match &status.error {
        Some(error) => Err(Error::BadFile {
            path: args.file.clone(),
            message: format!("refused: {}", refusal(error)),
        }),
        None => Ok((loaded.took, loaded)),
    }
}

fn of_call(called: Called) -> Result<(Loaded, Transcript)> {
    let Called {
        loaded,
        status,
        result,
        transcript,
    } = called;
    if let Err(error) = result {
        return Err(Error::Plugin {
            plugin: status.name,
            error: Box::new(error),
        });
    }
    Ok((loaded, *recorded(&status.name, transcript)?))
}

fn recorded(name: &str, transcript: Option<Box<Transcript>>) -> Result<Box<Transcript>> {
    transcript.ok_or_else(|| Error::Arguments(format!("{name} could not be asked")))
}

/// Of sorted measurements, the one that so many per cent do not exceed.
fn percentile(sorted: &[Measured], percent: usize) -> Duration {
    let index = (sorted.len() * percent).div_ceil(100).saturating_sub(1);
    sorted.get(index).map_or(Duration::ZERO, |one| one.took)
}

fn small(duration: Duration) -> String {
    let micros = duration.as_secs_f64() * 1e6;
    match micros {
        ..1e3 => format!("{micros:.0} µs"),
        ..1e6 => format!("{:.1} ms", micros / 1e3),
        _ => format!("{:.2} s", micros / 1e6),
    }
}

fn bytes(bytes: u64) -> String {
    match bytes {
        ..1_048_576 => format!("{} KiB", bytes.div_ceil(1024)),
        _ => format!("{:.1} MiB", bytes as f64 / 1_048_576.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_percentile_is_one_of_the_measurements() {
        let sorted: Vec<Measured> = (1..=200)
            .map(|millis| Measured {
                took: Duration::from_millis(millis),
                memory_bytes: 0,
            })
            .collect();
        assert_eq!(percentile(&sorted, 50), Duration::from_millis(100));
        assert_eq!(percentile(&sorted, 99), Duration::from_millis(198));
        assert_eq!(percentile(&sorted[..1], 99), Duration::from_millis(1));
        assert_eq!(percentile(&[], 50), Duration::ZERO);
    }
}
