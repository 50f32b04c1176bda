//! How far long runs are, to be written to their Updates now and then: for whoever looks at the object and knows no
//! agent. What is due is decided here; writing is the place's.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use windlass_api::Update;
use windlass_api::conditions::{COMPLETE, is_true};
use windlass_api::intent::RunProgressRecord;
use windlass_api::run::RunProgress;
use windlass_core::time::Timestamp;
use windlass_engine::Key;

/// When the progress of a run is written to its Update.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProgressPace {
    /// Runs that are shorter than this write none.
    pub after: Duration,
    /// From one write to the next.
    pub every: Duration,
}

impl Default for ProgressPace {
    fn default() -> Self {
        Self {
            after: Duration::from_secs(30),
            every: Duration::from_secs(10),
        }
    }
}

/// The last news of the runs that go on.
#[derive(Debug)]
pub struct ProgressNotes {
    pace: ProgressPace,
    latest: Mutex<HashMap<(Key, String), Noted>>,
}

/// The last news of a run.
#[derive(Debug)]
struct Noted {
    progress: RunProgress,
    heard_ms: i64,
    /// The earliest moment of the next write.
    due_ms: i64,
    /// It stands in the Update already.
    written: bool,
}

impl ProgressNotes {
    pub fn new(pace: ProgressPace) -> Self {
        Self {
            pace,
            latest: Mutex::default(),
        }
    }

    fn latest(&self) -> MutexGuard<'_, HashMap<(Key, String), Noted>> {
        self.latest.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How often to look for what is due: a write is late by a tenth of the interval.
    pub fn look(&self) -> Duration {
        (self.pace.every / 10).max(Duration::from_millis(50))
    }

    /// News of a run.
    pub fn heard(&self, key: &Key, update: &str, progress: &RunProgress, now: Timestamp) {
        let mut latest = self.latest();
        let noted = latest
            .entry((key.clone(), update.to_owned()))
            .or_insert(Noted {
                progress: RunProgress::default(),
                heard_ms: now.0,
                due_ms: now.0,
                written: false,
            });
        if noted.progress != *progress {
            noted.progress = progress.clone();
            noted.heard_ms = now.0;
            noted.written = false;
        }
    }

    /// Runs whose Updates are to be looked at now.
    pub fn due(&self, now: Timestamp) -> Vec<(Key, String)> {
        let latest = self.latest();
        let due = latest.iter().filter(|(_, noted)| noted.due_ms <= now.0);
        due.map(|(run, _)| run.clone()).collect()
    }

    /// What is to be written into a run's Update as it is now (None: it is gone). The run is forgotten once it is over.
    pub fn record(
        &self,
        run: &(Key, String),
        update: Option<&Update>,
        now: Timestamp,
    ) -> Option<RunProgressRecord> {
        let mut latest = self.latest();
        let status = update.map(|update| update.status.as_ref());
        let over =
            |status: &windlass_api::update::UpdateStatus| is_true(&status.conditions, COMPLETE);
        if status.is_none_or(|status| status.is_some_and(over)) {
            latest.remove(run);
            return None;
        }
        let noted = latest.get_mut(run)?;
        let started = status.flatten().and_then(|status| status.run.as_ref());
        let earliest = started.map_or(now.0, |run| run.at_ms + millis(self.pace.after));
        if earliest > now.0 {
            noted.due_ms = earliest;
            return None;
        }
        if noted.written {
            noted.due_ms = now.0 + millis(self.pace.every);
            return None;
        }
        let RunProgress {
            stage,
            done,
            total,
            current,
        } = noted.progress.clone();
        Some(RunProgressRecord {
            stage,
            done,
            total,
            current,
            at_ms: noted.heard_ms,
        })
    }

    /// A record stands in the Update. One that could not be written is due at the next look.
    pub fn written(&self, run: &(Key, String), record: &RunProgressRecord, now: Timestamp) {
        if let Some(noted) = self.latest().get_mut(run) {
            noted.due_ms = now.0 + millis(self.pace.every);
            // News since then is written when that is due.
            noted.written = noted.heard_ms == record.at_ms;
        }
    }
}

fn millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use pretty_assertions::assert_eq;
    use windlass_api::intent::RunRecord;
    use windlass_api::update::{UpdateSpec, UpdateStatus};
    use windlass_core::decision::UpdateOutcome;
    use windlass_core::update_object;

    const START: Timestamp = Timestamp(1_000_000);

    fn after(seconds: i64) -> Timestamp {
        Timestamp(START.0 + seconds * 1000)
    }

    fn news(done: u32) -> RunProgress {
        RunProgress {
            stage: "running".to_owned(),
            done,
            total: 9,
            current: None,
        }
    }

    fn run() -> (Key, String) {
        (Key::new("apps", "a"), "a-1".to_owned())
    }

    /// An Update whose run started at `START`.
    fn started() -> Update {
        let mut update = Update::new("a-1", UpdateSpec::default());
        update.status = Some(UpdateStatus {
            run: Some(RunRecord {
                instance: "pod".to_owned(),
                hostname: "host".to_owned(),
                node: None,
                boot_id: "boot".to_owned(),
                at_ms: START.0,
                intent: None,
            }),
            ..UpdateStatus::default()
        });
        update
    }

    #[test]
    fn a_run_writes_nothing_before_its_time_and_then_the_last_news_at_most_so_often() {
        let notes = ProgressNotes::new(ProgressPace::default());
        let (run, update) = (run(), started());
        notes.heard(&run.0, &run.1, &news(1), after(1));
        assert_eq!(notes.due(after(1)), std::slice::from_ref(&run));
        assert_eq!(notes.record(&run, Some(&update), after(1)), None);
        assert_eq!(notes.due(after(29)), []);
        notes.heard(&run.0, &run.1, &news(2), after(28));
        assert_eq!(notes.due(after(30)), std::slice::from_ref(&run));
        let record = notes.record(&run, Some(&update), after(30)).unwrap();
        assert_eq!((record.done, record.at_ms), (2, after(28).0));

        // Until it is written, every look tries again.
        assert_eq!(notes.due(after(31)), std::slice::from_ref(&run));
        notes.written(&run, &record, after(31));
        notes.heard(&run.0, &run.1, &news(3), after(32));
        assert_eq!(notes.due(after(40)), []);
        assert_eq!(notes.due(after(41)), std::slice::from_ref(&run));
        assert_eq!(
            notes.record(&run, Some(&update), after(41)).unwrap().done,
            3
        );
    }

    #[test]
    fn what_stands_there_already_is_not_written_again() {
        let notes = ProgressNotes::new(ProgressPace::default());
        let (run, update) = (run(), started());
        notes.heard(&run.0, &run.1, &news(1), after(31));
        let record = notes.record(&run, Some(&update), after(31)).unwrap();
        notes.written(&run, &record, after(31));
        notes.heard(&run.0, &run.1, &news(1), after(35));
        assert_eq!(notes.record(&run, Some(&update), after(41)), None);
        assert_eq!(notes.due(after(50)), []);
    }

    #[test]
    fn news_that_comes_while_it_is_written_is_not_lost() {
        let notes = ProgressNotes::new(ProgressPace::default());
        let (run, update) = (run(), started());
        notes.heard(&run.0, &run.1, &news(1), after(31));
        let record = notes.record(&run, Some(&update), after(31)).unwrap();
        notes.heard(&run.0, &run.1, &news(2), after(32));
        notes.written(&run, &record, after(32));
        assert_eq!(
            notes.record(&run, Some(&update), after(42)).unwrap().done,
            2
        );
    }

    #[test]
    fn a_run_that_is_over_is_forgotten() {
        for gone in [false, true] {
            let notes = ProgressNotes::new(ProgressPace::default());
            let (run, mut update) = (run(), started());
            update_object::finish(&mut update, &UpdateOutcome::Superseded, "", after(31));
            notes.heard(&run.0, &run.1, &news(1), after(31));
            let seen = (!gone).then_some(&update);
            assert_eq!(notes.record(&run, seen, after(31)), None);
            assert_eq!(notes.due(after(100)), []);
        }
    }
}
