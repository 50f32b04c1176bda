//! This process as the kernel sees it, under the names that every Prometheus client uses.

use std::fmt::Error;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;

use crate::metrics::samples::{counter, gauge, number};

/// Units of time in `/proc`: a hundred a second on every platform that Linux runs on.
const TICKS: f64 = 100.0;

/// Reads `/proc/self`. What cannot be read is left out.
#[derive(Debug)]
pub struct Process;

impl Collector for Process {
    fn encode(&self, mut encoder: DescriptorEncoder) -> Result<(), Error> {
        let encoder = &mut encoder;
        let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
        if let Some(usage) = Usage::read(&stat) {
            counter(
                encoder,
                "process_cpu_seconds",
                "Total user and system CPU time spent in seconds",
                usage.cpu_seconds,
            )?;
            gauge(
                encoder,
                "process_virtual_memory_bytes",
                "Virtual memory size in bytes",
                usage.virtual_bytes,
            )?;
            let boot = std::fs::read_to_string("/proc/stat").unwrap_or_default();
            if let Some(boot) = boot_time(&boot) {
                gauge(
                    encoder,
                    "process_start_time_seconds",
                    "Start time of the process since unix epoch in seconds",
                    boot + usage.started,
                )?;
            }
        }
        let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        if let Some(bytes) = resident(&status) {
            gauge(
                encoder,
                "process_resident_memory_bytes",
                "Resident memory size in bytes",
                bytes,
            )?;
        }
        if let Ok(open) = std::fs::read_dir("/proc/self/fd") {
            gauge(
                encoder,
                "process_open_fds",
                "Number of open file descriptors",
                number(open.count()),
            )?;
        }
        let limits = std::fs::read_to_string("/proc/self/limits").unwrap_or_default();
        if let Some(max) = max_files(&limits) {
            gauge(
                encoder,
                "process_max_fds",
                "Maximum number of open file descriptors",
                max,
            )?;
        }
        Ok(())
    }
}

struct Usage {
    cpu_seconds: f64,
    virtual_bytes: f64,
    /// Seconds after the machine's start.
    started: f64,
}

impl Usage {
    /// Of `/proc/PID/stat`. The name of the program is in brackets and may hold anything.
    fn read(stat: &str) -> Option<Usage> {
        let (_, fields) = stat.rsplit_once(')')?;
        // The first of them is field 3 of proc(5).
        let fields: Vec<&str> = fields.split_whitespace().collect();
        let field = |number: usize| fields.get(number - 3)?.parse::<f64>().ok();
        Some(Usage {
            cpu_seconds: (field(14)? + field(15)?) / TICKS,
            started: field(22)? / TICKS,
            virtual_bytes: field(23)?,
        })
    }
}

fn boot_time(stat: &str) -> Option<f64> {
    let line = stat.lines().find_map(|line| line.strip_prefix("btime "))?;
    line.trim().parse().ok()
}

fn resident(status: &str) -> Option<f64> {
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kilobytes: f64 = line.split_whitespace().next()?.parse().ok()?;
    Some(kilobytes * 1024.0)
}

fn max_files(limits: &str) -> Option<f64> {
    let line = limits
        .lines()
        .find_map(|line| line.strip_prefix("Max open files"))?;
    line.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_program_may_be_called_anything() {
        let stat = "7 (a) b (c) S 1 7 7 0 -1 4194560 9 0 0 0 250 50 0 0 20 0 9 0 1200 8192 3 0";
        let usage = Usage::read(stat).unwrap();
        assert_eq!(usage.cpu_seconds, 3.0);
        assert_eq!(usage.started, 12.0);
        assert_eq!(usage.virtual_bytes, 8192.0);
    }

    #[test]
    fn lines_are_found_by_their_names() {
        assert_eq!(
            boot_time("cpu 1 2\nbtime 1700000000\n"),
            Some(1_700_000_000.0)
        );
        assert_eq!(resident("Name:\tx\nVmRSS:\t  2048 kB\n"), Some(2_097_152.0));
        let limits = "Limit  Soft Limit  Hard Limit  Units\nMax open files  1024  4096  files\n";
        assert_eq!(max_files(limits), Some(1024.0));
        assert_eq!(
            max_files("Max open files  unlimited  unlimited  files\n"),
            None
        );
    }
}
