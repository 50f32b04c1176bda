//! `windlass explain STACK`, and the words for a decision that `replay` uses too.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use serde_json::json;
use windlass_core::decision::{Activity, TaskKind, Write};
use windlass_core::obs::Obs;
use windlass_core::phase::Phase;
use windlass_core::snapshot::{InstancePhase, StackView};
use windlass_core::time::Timestamp;
use windlass_core::{Decision, Snapshot, decide};
use windlass_engine::Key;
use windlass_local::StateReader;

use crate::args::Output;
use crate::error::{AtPath, Error, Result};
use crate::{print, status};

/// Explains the state that a Stack was last seen in.
///
/// # Errors
/// `NoStack`, `NoSnapshot`, and of the store.
pub fn explain(
    data_dir: &Path,
    key: &Key,
    save: Option<PathBuf>,
    output: Output,
) -> Result<ExitCode> {
    let reader = StateReader::open(data_dir)?;
    status::must_exist(&reader, key)?;
    let snapshot = reader
        .snapshot(key)?
        .ok_or_else(|| Error::NoSnapshot(key.to_string()))?;
    if let Some(file) = &save {
        let mut text = serde_json::to_string_pretty(&snapshot.to_share())?;
        text.push('\n');
        std::fs::write(file, text).at(file)?;
        eprintln!(
            "wrote {}; run it again with `windlass replay {0}`",
            file.display()
        );
    }
    let decision = decide(&snapshot);
    match output {
        Output::Json => print::json(&json!({
            "stack": key.to_string(),
            "at": snapshot.now,
            "phase": decision.phase,
            "activity": decision.activity,
            "wakeAt": decision.wake_at,
            "wakes": wakes(&snapshot, &decision, print::now()),
            "tasks": decision.tasks,
        }))?,
        Output::Table => print::out(&words(&snapshot, &decision, print::now()))?,
    }
    Ok(ExitCode::SUCCESS)
}

/// A decision and what it rests on, for a person. Times are told from `now`.
pub fn words(snapshot: &Snapshot, decision: &Decision, now: Timestamp) -> String {
    let mut lines = vec![headline(snapshot, decision)];
    let mut fact = |label: &str, text: String| {
        if !text.is_empty() {
            lines.push(format!(
                "  {label:<10} {}",
                text.replace('\n', "\n             ")
            ));
        }
    };
    fact(
        "looked at",
        format!(
            "{} ({})",
            print::clock(snapshot.now),
            print::relative(snapshot.now, now)
        ),
    );
    let seen = &snapshot.seen;
    fact(
        "source",
        observed(&seen.source, now, |source| source.revision.clone()),
    );
    fact(
        "program",
        observed(&seen.tree, now, |tree| {
            tree.project.as_ref().map_or_else(
                || "fetched".to_owned(),
                |project| format!("{} ({})", project.name, project.runtime),
            )
        }),
    );
    fact(
        "backend",
        observed(&seen.backend, now, |session| session.stack.clone()),
    );
    fact("workspace", workspace(snapshot));
    fact("run", run(snapshot, now));
    fact("last run", last_run(snapshot, now));
    fact("missing", missing(snapshot));
    for (name, view) in &snapshot.objects.stacks {
        fact("depends on", format!("{name}: {}", other_stack(view, now)));
    }
    let tasks: Vec<&str> = decision
        .tasks
        .iter()
        .map(|task| task_words(&task.kind))
        .collect();
    fact("under way", tasks.join(", "));
    let writes: Vec<String> = decision.writes.iter().map(write_words).collect();
    fact("next", writes.join(", then "));
    for (number, wake) in wakes(snapshot, decision, now).into_iter().enumerate() {
        fact(if number == 0 { "wakes on" } else { "" }, wake);
    }
    print::printable(&lines.join("\n"))
}

fn headline(snapshot: &Snapshot, decision: &Decision) -> String {
    let name = snapshot.objects.stack.as_ref().map_or_else(
        || "The Stack".to_owned(),
        |stack| crate::world::key_of(stack).to_string(),
    );
    let state = match &decision.phase {
        None => "is gone; what it left behind is cleaned up".to_owned(),
        Some(phase) => phase_words(phase),
    };
    let activity = match &decision.activity {
        Activity::Queued => " (as many Stacks run as may run at a time)",
        _ => "",
    };
    format!("{name} {state}{activity}")
}

/// A phase as the rest of a sentence that begins with the Stack's name.
pub fn phase_words(phase: &Phase) -> String {
    let with = |text: &str, message: &str| {
        if message.is_empty() {
            text.to_owned()
        } else {
            format!("{text}: {message}")
        }
    };
    match phase {
        Phase::Ready => "is up to date".to_owned(),
        Phase::Processing { message } => with("is on its way", message),
        Phase::PrerequisiteNotSatisfied { message } => with("waits", message),
        Phase::Unhealthy { message } => with("is deployed and not healthy", message),
        Phase::Retrying {
            operation,
            failures,
            class,
            message,
        } => with(
            &format!(
                "failed ({operation}, {}, {})",
                print::count(usize::try_from(*failures).unwrap_or(0), "time"),
                class.as_str()
            ),
            message,
        ),
        Phase::SourceUnavailable { message } => with("cannot have its source", message),
        Phase::Suspended => "is suspended (spec.suspend)".to_owned(),
        Phase::Stalled { reason, message } => {
            with(&format!("is stuck ({})", reason.as_str()), message)
        }
    }
}

/// What would make the Stack go on, the likeliest first.
fn wakes(snapshot: &Snapshot, decision: &Decision, now: Timestamp) -> Vec<String> {
    let mut wakes = Vec::new();
    match &decision.activity {
        Activity::Busy if decision.tasks.is_empty() => {}
        Activity::Busy => wakes.push("the end of what is under way".to_owned()),
        Activity::Queued => wakes.push("the end of another Stack's run".to_owned()),
        Activity::Blocked { on } => wakes.extend(on.iter().cloned()),
        Activity::Retrying { .. } | Activity::Settled => {}
    }
    if let Some(at) = decision.wake_at {
        let what = match &decision.activity {
            Activity::Retrying { .. } => "the next attempt",
            _ => "the clock",
        };
        wakes.push(format!(
            "{what}, at {} ({})",
            print::clock(at),
            print::relative(at, now)
        ));
    }
    let Some(stack) = &snapshot.objects.stack else {
        return wakes;
    };
    if snapshot
        .seen
        .source
        .last()
        .is_some_and(|source| source.value.poll_after_ms.is_some())
    {
        wakes.push("a new revision of its source".to_owned());
    }
    let spec = &stack.spec;
    if spec.suspend {
        wakes.push("spec.suspend: false".to_owned());
    } else {
        wakes.push("an edit of its manifest, or a new value of the annotation pulumi.com/reconciliation-request".to_owned());
    }
    wakes
}

fn observed<T>(obs: &Obs<T>, now: Timestamp, show: impl Fn(&T) -> String) -> String {
    match obs {
        Obs::Unknown => String::new(),
        Obs::Pending { since, last, .. } => {
            let before = last
                .as_ref()
                .map(|known| format!("; before: {}", show(&known.value)));
            format!(
                "asked {}{}",
                print::relative(*since, now),
                before.unwrap_or_default()
            )
        }
        Obs::Known(known) => format!(
            "{} (learned {})",
            show(&known.value),
            print::relative(known.at, now)
        ),
        Obs::Failed {
            at,
            failure,
            attempts,
            retry_at,
            ..
        } => {
            let retry = retry_at.map(|at| format!(", again {}", print::relative(at, now)));
            format!(
                "{} (attempt {attempts}, {}{}): {}",
                failure.reason,
                print::relative(*at, now),
                retry.unwrap_or_default(),
                failure.message
            )
        }
    }
}

fn workspace(snapshot: &Snapshot) -> String {
    let Some(instance) = &snapshot.objects.workspace.current else {
        return String::new();
    };
    match &instance.phase {
        InstancePhase::Starting { message } => format!("starting: {message}"),
        InstancePhase::Receiving { .. } => "its init containers wait for the program".to_owned(),
        InstancePhase::Ready { .. } => "its agent answers".to_owned(),
        InstancePhase::Down => "its agent has ended; started again when needed".to_owned(),
        InstancePhase::Failing { reason, message } => {
            format!("does not start: {reason}: {message}")
        }
        InstancePhase::Unreachable { message } => format!("cannot be reached: {message}"),
        InstancePhase::Stopping => "stopping".to_owned(),
    }
}

fn run(snapshot: &Snapshot, now: Timestamp) -> String {
    let status = snapshot
        .objects
        .stack
        .as_ref()
        .and_then(|stack| stack.status.as_ref());
    let Some(current) = status.and_then(|status| status.current_update.as_ref()) else {
        return String::new();
    };
    let name = current.name.clone().unwrap_or_default();
    match &snapshot.seen.run {
        Obs::Pending { since, .. } => {
            format!("{name}, watched since {}", print::relative(*since, now))
        }
        _ => name,
    }
}

fn last_run(snapshot: &Snapshot, now: Timestamp) -> String {
    let status = snapshot
        .objects
        .stack
        .as_ref()
        .and_then(|stack| stack.status.as_ref());
    let Some(last) = status.and_then(|status| status.last_update.as_ref()) else {
        return "none yet".to_owned();
    };
    let outcome = if last.succeeded() {
        "succeeded"
    } else if last.failed() {
        "failed"
    } else {
        "ended"
    };
    let mut text = format!(
        "{} {outcome} {}",
        last.type_.as_deref().unwrap_or("run"),
        print::relative(Timestamp(last.resync_time_ms()), now)
    );
    if let Some(name) = &last.name {
        text.push_str(&format!(" ({name})"));
    }
    if last.failed() {
        if let Some(reason) = &last.failure_reason {
            text.push_str(&format!(", {reason}"));
        }
        if let Some(message) = &last.message {
            text.push_str(&format!(": {}", message.trim_end()));
        }
    }
    text
}

fn missing(snapshot: &Snapshot) -> String {
    let names: Vec<String> = snapshot
        .objects
        .references
        .iter()
        .filter(|(_, version)| version.is_none())
        .map(|(reference, _)| reference.to_string())
        .collect();
    names.join(", ")
}

fn other_stack(view: &StackView, now: Timestamp) -> String {
    match &view.last {
        None => "has not run yet".to_owned(),
        Some(last) => {
            let outcome = if last.succeeded {
                "succeeded"
            } else {
                "failed"
            };
            let stale = if last.generation == view.generation {
                ""
            } else {
                ", for an older specification"
            };
            format!("{outcome} {}{stale}", print::relative(last.at, now))
        }
    }
}

fn task_words(kind: &TaskKind) -> &'static str {
    match kind {
        TaskKind::Resolve { .. } => "asking the source for its revision",
        TaskKind::Fetch { .. } => "fetching the program",
        TaskKind::OpenBackend { .. } => "asking the backend adapter",
        TaskKind::Deliver { .. } => "putting the program into the workspace",
        TaskKind::Run { .. } => "the run",
        TaskKind::Cancel { .. } => "interrupting the run",
    }
}

fn write_words(write: &Write) -> String {
    match write {
        Write::AddFinalizer => "add the finalizer".to_owned(),
        Write::PutStatus { .. } => "write the status".to_owned(),
        Write::RequestReconcile { stack, .. } => format!("ask Stack {stack} to run again"),
        Write::EnsureWorkspace { .. } => "make the workspace ready".to_owned(),
        Write::StopWorkspace { .. } => "stop the workspace".to_owned(),
        Write::CreateUpdate {
            operation, intent, ..
        } => format!("ask for {operation} ({})", intent.cause.message()),
        Write::RecordStart { .. } => "record the start of the run".to_owned(),
        Write::SaveOutputs { .. } => "keep the outputs".to_owned(),
        Write::UpdateWaits { message, .. } => format!("say that the Update waits: {message}"),
        Write::FinishUpdate { .. } => "record the end of the run".to_owned(),
        Write::ReleaseUpdate { .. } => "release the Update".to_owned(),
        Write::DeleteUpdate { update } => format!("delete the old Update {update}"),
        Write::RemoveFinalizer => "remove the finalizer".to_owned(),
        Write::Event { event } => format!("tell: {}", event.message),
    }
}
