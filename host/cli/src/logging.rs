//! Log lines on stderr, above the progress bars if there are some.

use std::io::Write;

use indicatif::MultiProgress;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::MakeWriter;

use crate::args::{LogFormat, Logging};

/// Starts logging. Called once, before anything is done.
pub fn start(logging: &Logging, screen: &MultiProgress) {
    let filter = match std::env::var("RUST_LOG") {
        Ok(wanted) if !wanted.is_empty() => EnvFilter::new(wanted),
        _ => EnvFilter::new(match logging.verbose {
            0 => logging.filter.unwrap_or("warn"),
            1 => "warn,windlass=debug,windlass_local=debug,windlass_engine=debug",
            _ => "debug",
        }),
    };
    let builder = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_ansi(crate::print::colours())
        .with_writer(AboveBars(screen.clone()));
    // Fails only if somebody has started logging before.
    let _ = match logging.log_format {
        LogFormat::Text => builder.with_target(false).try_init(),
        LogFormat::Json => builder.json().try_init(),
    };
}

struct AboveBars(MultiProgress);

impl<'a> MakeWriter<'a> for AboveBars {
    type Writer = Line;

    fn make_writer(&'a self) -> Line {
        Line {
            screen: self.0.clone(),
            bytes: Vec::new(),
        }
    }
}

/// One log line: collected, then written while the bars stand aside.
struct Line {
    screen: MultiProgress,
    bytes: Vec<u8>,
}

impl Write for Line {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.bytes.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        self.screen.suspend(|| {
            // Nowhere is left to tell that stderr is closed.
            let _ = std::io::stderr().write_all(&self.bytes);
        });
    }
}
