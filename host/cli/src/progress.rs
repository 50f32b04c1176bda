//! What a person sees while `local` works: on a terminal a bar per running Stack below the news, elsewhere the news
//! alone with the time in front.

use std::collections::BTreeMap;
use std::io::{IsTerminal, Write};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use indicatif::{MultiProgress, ProgressBar, ProgressStyle};
use windlass_api::run::RunProgress;
use windlass_core::decision::{Event, TaskKind};
use windlass_core::phase::Phase;
use windlass_core::{Decision, Snapshot};
use windlass_engine::Key;
use windlass_local::LocalObserver;

use crate::{explain, print};

/// Tells what happens, on stderr.
pub struct Progress {
    screen: MultiProgress,
    bars: bool,
    colours: bool,
    /// Tell only problems.
    quiet: bool,
    shown: Mutex<Shown>,
}

#[derive(Default)]
struct Shown {
    phases: BTreeMap<Key, String>,
    bars: BTreeMap<Key, ProgressBar>,
    running: BTreeMap<Key, String>,
}

impl Progress {
    pub fn new(screen: MultiProgress, quiet: bool) -> Progress {
        let terminal = std::io::stderr().is_terminal();
        let plain = std::env::var_os("NO_COLOR").is_some_and(|it| !it.is_empty())
            || std::env::var_os("TERM").is_some_and(|it| it == "dumb");
        Progress {
            screen,
            bars: terminal && !quiet,
            colours: terminal && !plain,
            quiet,
            shown: Mutex::default(),
        }
    }

    /// Stacks whose run goes on.
    pub fn running(&self) -> Vec<Key> {
        self.shown().running.keys().cloned().collect()
    }

    /// Takes the bars off the screen.
    pub fn clear(&self) {
        for (_, bar) in std::mem::take(&mut self.shown().bars) {
            bar.finish_and_clear();
        }
    }

    /// A line for a person that is told in any case.
    pub fn tell(&self, text: &str) {
        let text = print::printable(text);
        self.screen.suspend(|| {
            // Nowhere is left to tell that stderr is closed.
            let _ = writeln!(std::io::stderr(), "{text}");
        });
    }

    fn shown(&self) -> MutexGuard<'_, Shown> {
        // What is shown stays usable whatever panicked in between.
        self.shown.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn news(&self, key: &Key, phase: &Phase, text: &str) {
        let (sign, colour) = match phase {
            Phase::Ready => ("✓", "32"),
            Phase::Retrying { .. } | Phase::Stalled { .. } => ("✗", "31"),
            Phase::SourceUnavailable { .. } => ("!", "33"),
            Phase::PrerequisiteNotSatisfied { .. } | Phase::Unhealthy { .. } | Phase::Suspended => {
                ("…", "34")
            }
            Phase::Processing { .. } => ("·", "90"),
        };
        if self.bars {
            let sign = if self.colours {
                format!("\u{1b}[{colour}m{sign}\u{1b}[0m")
            } else {
                sign.to_owned()
            };
            // The sign's own escapes pass, nobody else's.
            let text = print::printable(&format!("{key} {text}"));
            let line = format!("{sign} {text}");
            self.screen.suspend(|| {
                let _ = writeln!(std::io::stderr(), "{line}");
            });
        } else {
            self.tell(&format!(
                "{} {sign} {key} {text}",
                print::clock(print::now())
            ));
        }
    }

    fn bar(&self) -> ProgressBar {
        let bar = self.screen.add(ProgressBar::new(0));
        bar.enable_steady_tick(Duration::from_millis(120));
        bar
    }
}

/// A bar once there is something to count.
fn style(total: u32) -> ProgressStyle {
    let template = if total == 0 {
        "{spinner} {prefix} {wide_msg} {elapsed}"
    } else {
        "{spinner} {prefix} {bar:20} {pos}/{len} {wide_msg} {elapsed}"
    };
    ProgressStyle::with_template(template)
        .unwrap_or_else(|_| ProgressStyle::default_bar())
        .progress_chars("━╸─")
}

impl LocalObserver for Progress {
    fn stepped(&self, key: &Key, snapshot: &Snapshot, decision: &Decision) {
        let mut shown = self.shown();
        let running = decision.tasks.iter().find_map(|task| match &task.kind {
            TaskKind::Run { update, .. } | TaskKind::Cancel { update, .. } => Some(update.clone()),
            TaskKind::Resolve { .. }
            | TaskKind::Fetch { .. }
            | TaskKind::OpenBackend { .. }
            | TaskKind::Deliver { .. } => None,
        });
        match running {
            Some(update) => {
                shown.running.insert(key.clone(), update);
            }
            None => {
                shown.running.remove(key);
                if let Some(bar) = shown.bars.remove(key) {
                    bar.finish_and_clear();
                }
            }
        }
        let Some(phase) = &decision.phase else {
            if shown.phases.remove(key).is_some() && !self.quiet {
                drop(shown);
                self.news(key, &Phase::Ready, "is gone");
            }
            return;
        };
        let text = explain::phase_words(phase);
        let before = shown.phases.insert(key.clone(), text.clone());
        drop(shown);
        let unchanged = before.as_ref() == Some(&text);
        // A fleet that is in step when it is first looked at is no news.
        let nothing_done = before.is_none() && *phase == Phase::Ready;
        // On a terminal the bar shows that something is on its way.
        let shown_by_bar = self.bars && matches!(phase, Phase::Processing { .. });
        // The next news is that it is gone.
        let leaving = *phase == Phase::Ready
            && snapshot
                .objects
                .stack
                .as_ref()
                .is_some_and(|stack| stack.metadata.deletion_timestamp.is_some());
        if unchanged || nothing_done || shown_by_bar || leaving || self.quiet {
            return;
        }
        let text = match phase {
            Phase::Ready => format!("{text}{}", what_ran(snapshot)),
            _ => text,
        };
        self.news(key, phase, &text);
    }

    fn progress(&self, key: &Key, update: &str, progress: &RunProgress) {
        tracing::debug!(%key, update, ?progress, "progress");
        if !self.bars {
            return;
        }
        let RunProgress {
            stage,
            done,
            total,
            current,
        } = progress;
        let mut shown = self.shown();
        let bar = shown.bars.entry(key.clone()).or_insert_with(|| self.bar());
        if bar.prefix().is_empty() || (bar.length() == Some(0)) != (*total == 0) {
            bar.set_style(style(*total));
        }
        bar.set_prefix(key.to_string());
        bar.set_length(u64::from(*total));
        bar.set_position(u64::from(*done));
        let message = match current {
            Some(resource) => short_urn(resource),
            None => stage.clone(),
        };
        bar.set_message(print::printable(&message));
    }

    fn log(&self, key: &Key, line: &str) {
        tracing::debug!(target: "windlass::run", %key, "{}", print::printable(line));
    }

    fn event(&self, key: &Key, event: &Event) {
        let Event {
            warning,
            reason,
            message,
        } = event;
        tracing::debug!(%key, warning, reason, "{}", print::printable(message));
    }

    fn problem(&self, key: Option<&Key>, message: &str) {
        match key {
            Some(key) => self.tell(&format!("warning: {key}: {message}")),
            None => self.tell(&format!("warning: {message}")),
        }
    }
}

/// What the run that just ended was, from the status before it is written anew.
fn what_ran(snapshot: &Snapshot) -> String {
    let Some(update) = snapshot
        .objects
        .updates
        .iter()
        .filter_map(|update| {
            Some((
                update.spec.intent.as_ref()?.sequence,
                update.status.as_ref()?.summary.as_ref()?,
                update,
            ))
        })
        .max_by_key(|(sequence, _, _)| *sequence)
    else {
        return String::new();
    };
    let (_, summary, update) = update;
    let operation = update.spec.type_.as_deref().unwrap_or("run");
    let changed: Vec<String> = summary
        .changes
        .iter()
        .filter(|(name, number)| name.as_str() != "same" && **number > 0)
        .map(|(name, number)| format!("{number} {name}"))
        .collect();
    let changed = if changed.is_empty() {
        "no changes".to_owned()
    } else {
        changed.join(", ")
    };
    format!(" ({operation}: {changed})")
}

/// Type and name of a resource; its URN is too long for a line.
fn short_urn(urn: &str) -> String {
    let mut parts = urn.rsplit("::");
    match (parts.next(), parts.next()) {
        (Some(name), Some(types)) => {
            let kind = types.rsplit('$').next().unwrap_or(types);
            format!("{kind} {name}")
        }
        _ => urn.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_resource_is_told_by_type_and_name() {
        assert_eq!(
            short_urn("urn:pulumi:dev::app::my:Parent$pulumi:index:Stash::login"),
            "pulumi:index:Stash login"
        );
        assert_eq!(short_urn("login"), "login");
    }
}
