//! Memory of processes, from `/proc`.

use std::process::{Child, ExitStatus};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// A field of a process's status that is in kB (`VmHWM`, `VmRSS`, `RssAnon`), in bytes. None of a process that is gone.
pub fn of(pid: u32, field: &str) -> Option<u64> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    parse(&text, field)
}

fn parse(status: &str, field: &str) -> Option<u64> {
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix(field)?.strip_prefix(':'))?;
    let kilobytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kilobytes * 1024)
}

/// How a process ended, how long that took from here, and the most memory that it has had.
pub struct Watched {
    pub status: ExitStatus,
    pub elapsed: Duration,
    pub peak: u64,
}

/// Waits for the end of a process. The kernel keeps the peak, but only while the process lives: so it is read again and
/// again, and the last milliseconds may be missing.
///
/// # Errors
/// Waiting failed.
pub fn watch(child: &mut Child, begun: Instant) -> std::io::Result<Watched> {
    let (pid, over) = (child.id(), AtomicBool::new(false));
    std::thread::scope(|scope| {
        let looking = scope.spawn(|| {
            let mut peak = 0;
            while !over.load(Ordering::Relaxed) {
                peak = peak.max(of(pid, "VmHWM").unwrap_or(0));
                std::thread::sleep(Duration::from_millis(5));
            }
            peak
        });
        let status = child.wait();
        let elapsed = begun.elapsed();
        over.store(true, Ordering::Relaxed);
        let peak = looking.join().unwrap_or(0);
        Ok(Watched {
            status: status?,
            elapsed,
            peak,
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_is_read_by_field() {
        let text = "Name:\tx\nVmHWM:\t    2048 kB\nVmRSS:\t  1024 kB\nRssAnon:\t 12 kB\n";
        assert_eq!(parse(text, "VmHWM"), Some(2048 * 1024));
        assert_eq!(parse(text, "RssAnon"), Some(12 * 1024));
        assert_eq!((parse(text, "Vm"), parse(text, "Name")), (None, None));
        assert!(of(std::process::id(), "VmRSS").is_some_and(|bytes| bytes > 0));
    }
}
