//! Starts the CLI under its supervisor, or finds it again, and listens until it has ended.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustix::process::Signal;
use tokio::process::{Child, Command};
use tokio::sync::watch;
use tokio::time::Instant;
use windlass_api::run::{InterruptCause, RunProgress};

use super::context::{Context, RunError};
use super::tail::{Tail, without_escapes};
use crate::events::Digest;
use crate::procs::{ProcessId, end_session};
use crate::slot::Taken;
use crate::supervise::{self, Claim, CommandLine, Exit, read_json};

/// How often the files of a run are looked at.
const LOOK: Duration = Duration::from_millis(60);

/// Whoever hears of a run while it goes on. Texts are redacted.
pub trait Listener: Send + Sync {
    fn progress(&self, progress: RunProgress);
    fn log(&self, stderr: bool, line: String);
    /// Must be on disk before this returns: a signal is about to be sent.
    fn interrupting(&self, cause: InterruptCause);
    /// Must be on disk before this returns: the CLI is about to be started.
    fn starting(&self);
}

/// Tells a run to stop; the first cause counts.
pub type Orders = watch::Receiver<Option<InterruptCause>>;

/// What was heard.
#[derive(Debug)]
pub struct Heard {
    /// None when nobody saw the CLI's end.
    pub exit: Option<Exit>,
    pub digest: Digest,
    /// Last 4 KiB, redacted.
    pub stderr: String,
    pub interrupted: Option<InterruptCause>,
}

pub fn now_ms() -> i64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |d| d.as_millis() as i64)
}

/// Starts the supervisor with the CLI's arguments. The slot's lock goes with it.
pub fn launch(context: &Context, args: Vec<String>, slot: &Taken) -> Result<Child, RunError> {
    for name in [
        supervise::CLAIM,
        supervise::CLI,
        supervise::EXIT,
        supervise::STDOUT,
        supervise::STDERR,
        supervise::EVENTS,
        supervise::LOG,
    ] {
        match std::fs::remove_file(context.dir.join(name)) {
            Err(e) if e.kind() != std::io::ErrorKind::NotFound => return Err(e.into()),
            _ => {}
        }
    }
    let line = CommandLine {
        program: context.cli.program.clone(),
        args,
        cwd: context.project.dir.clone(),
    };
    supervise::write_synced(
        &context.dir.join(supervise::COMMAND),
        &serde_json::to_vec(&line).unwrap_or_default(),
    )?;
    let mut command = std::process::Command::new(&context.workspace.supervisor);
    // A person who looks at the process list should know what it is.
    command
        .arg0("windlass-agent")
        .arg("supervise")
        .arg(&context.dir);
    command.env_clear().envs(&context.env);
    command
        .stdin(slot.0.try_clone()?)
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    Ok(Command::from(command).spawn()?)
}

/// Waits for the end of the supervisor, then of the CLI should it have lived on.
async fn ended(dir: &Path, child: Option<Child>) -> Option<Exit> {
    let supervisor = match child {
        Some(mut child) => {
            let pid = child.id();
            let _ = child.wait().await;
            pid.and_then(|p| i32::try_from(p).ok())
        }
        None => match read_json::<Claim>(&dir.join(supervise::CLAIM)) {
            Some(Claim::Supervisor(id)) => {
                let _ = id.ended().await;
                Some(id.pid)
            }
            _ => None,
        },
    };
    if let Some(exit) = read_json::<Exit>(&dir.join(supervise::EXIT)) {
        return Some(exit);
    }
    // The supervisor was killed. The CLI may go on; its session ends with it.
    if let Some(cli) = read_json::<ProcessId>(&dir.join(supervise::CLI)) {
        let _ = cli.ended().await;
    }
    if let Some(session) = supervisor {
        let _ = tokio::task::spawn_blocking(move || end_session(session)).await;
    }
    None
}

/// The one who sends signals: the first when asked, the second after the grace, the last a minute later.
struct Interrupter {
    cause: Option<InterruptCause>,
    sent: u8,
    next_at: Option<Instant>,
}

impl Interrupter {
    fn send_if_due(&mut self, context: &Context) {
        if self.cause.is_none() || self.next_at.is_some_and(|at| Instant::now() < at) {
            return;
        }
        // Not started yet, or gone: the next look tells.
        let Some(cli) = read_json::<ProcessId>(&context.dir.join(supervise::CLI)) else {
            return;
        };
        let signal = if self.sent < 2 {
            Signal::INT
        } else {
            Signal::KILL
        };
        if cli.signal(signal).is_ok() {
            tracing::warn!(run = %context.request.id, number = self.sent + 1, "signalled pulumi");
            self.sent += 1;
            let pause = if self.sent == 1 {
                context.workspace.grace
            } else {
                Duration::from_secs(60)
            };
            self.next_at = Some(Instant::now() + pause);
        }
    }
}

/// Ends what the CLI has written as it is. Called once the result is on disk: until then an agent that comes back needs
/// it.
pub fn drop_raw(dir: &Path) {
    for name in [supervise::STDOUT, supervise::STDERR, supervise::EVENTS] {
        match std::fs::remove_file(dir.join(name)) {
            Err(e) if e.kind() != std::io::ErrorKind::NotFound => {
                tracing::warn!("{}: {e}", dir.join(name).display());
            }
            _ => {}
        }
    }
}

/// The log that is kept. An agent that takes up a run hears it from its beginning, and writes it from its beginning.
fn open_log(dir: &Path) -> Option<File> {
    let path = dir.join(supervise::LOG);
    let opened = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(&path);
    // A run without a log is better than none.
    opened
        .inspect_err(|e| tracing::warn!("{}: {e}", path.display()))
        .ok()
}

struct Ears {
    log: Option<File>,
    events: Tail,
    stdout: Tail,
    stderr: Tail,
    digest: Digest,
    stderr_tail: String,
    progress: RunProgress,
}

impl Ears {
    fn new(dir: &Path) -> Ears {
        Ears {
            log: open_log(dir),
            events: Tail::of_events(dir.join(supervise::EVENTS)),
            stdout: Tail::of_log(dir.join(supervise::STDOUT)),
            stderr: Tail::of_log(dir.join(supervise::STDERR)),
            digest: Digest::default(),
            stderr_tail: String::new(),
            progress: RunProgress::default(),
        }
    }

    fn hear(&mut self, context: &Context, listener: &dyn Listener, last: bool) {
        let Ears {
            log,
            events,
            stdout,
            stderr,
            digest,
            stderr_tail,
            progress,
        } = self;
        let clean = |line: &str| context.redactor.redact(&without_escapes(line));
        let mut kept = String::new();
        let keep = |kept: &mut String, line: &str| {
            kept.push_str(line);
            kept.push('\n');
        };
        let mut on_out = |line: &str| {
            let line = clean(line);
            keep(&mut kept, &line);
            listener.log(false, line);
        };
        if last {
            stdout.finish(&mut on_out);
        } else {
            stdout.poll(&mut on_out);
        }
        let mut on_err = |line: &str| {
            let line = clean(line);
            keep(&mut kept, &line);
            stderr_tail.push_str(&line);
            stderr_tail.push('\n');
            if stderr_tail.len() > 4096 {
                let cut = stderr_tail.len() - 4096;
                let cut = (cut..=stderr_tail.len())
                    .find(|i| stderr_tail.is_char_boundary(*i))
                    .unwrap_or(0);
                stderr_tail.drain(..cut);
            }
            listener.log(true, line);
        };
        if last {
            stderr.finish(&mut on_err);
            events.finish(|line| digest.take(line));
        } else {
            stderr.poll(&mut on_err);
            events.poll(|line| digest.take(line));
        }
        if let Some(file) = log
            && let Err(e) = file.write_all(kept.as_bytes())
        {
            tracing::warn!(run = %context.request.id, "writing the log: {e}");
            *log = None;
        }
        let now = digest.progress("running");
        if now != *progress {
            *progress = now.clone();
            listener.progress(now);
        }
    }
}

/// Listens to a CLI that was started now (`child`) or by an agent before this one, until it has ended.
pub async fn follow(
    context: &Context,
    child: Option<Child>,
    started_at_ms: i64,
    before: Option<InterruptCause>,
    mut orders: Orders,
    listener: &dyn Listener,
) -> Heard {
    let mut ears = Ears::new(&context.dir);
    // One signal was sent by the agent before: it counts, and the next one has its time.
    let mut interrupter = Interrupter {
        cause: before,
        sent: u8::from(before.is_some()),
        next_at: before.map(|_| Instant::now() + context.workspace.grace),
    };
    let deadline = context.request.timeout_seconds.map(|seconds| {
        let passed = Duration::from_millis((now_ms() - started_at_ms).max(0) as u64);
        Instant::now() + Duration::from_secs(seconds).saturating_sub(passed)
    });
    let end = ended(&context.dir, child);
    tokio::pin!(end);
    let mut look = tokio::time::interval(LOOK);
    look.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let exit = loop {
        tokio::select! {
            exit = &mut end => break exit,
            _ = look.tick() => {}
        }
        ears.hear(context, listener, false);
        let ordered = *orders.borrow_and_update();
        let late = deadline
            .filter(|at| Instant::now() >= *at)
            .map(|_| InterruptCause::DeadlineExceeded);
        if let (None, Some(cause)) = (interrupter.cause, ordered.or(late)) {
            listener.interrupting(cause);
            interrupter.cause = Some(cause);
        }
        interrupter.send_if_due(context);
    };
    ears.hear(context, listener, true);
    Heard {
        exit,
        digest: ears.digest,
        stderr: ears.stderr_tail,
        interrupted: interrupter.cause,
    }
}
