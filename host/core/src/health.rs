//! Health checks: objects that must be healthy before a Stack is Ready, whoever made them.
//!
//! A Stack whose objects are not healthy is on its way, not stalled: they may become so by themselves, and nothing that
//! waits for the Stack has to be told otherwise when they do.

use std::time::Duration;

use windlass_api::conditions::{READY, is_true};

use crate::decide::Live;
use crate::decision::Activity;
use crate::phase::Phase;
use crate::time::Timestamp;

/// Times of runs are stored in whole seconds: what was seen in the second of the end may have been seen before it.
const ROUNDED: Duration = Duration::from_secs(1);

impl Live<'_> {
    /// What the Stack waits for although its last run did all that is asked for; none if all is well.
    pub(crate) fn unhealthy(&mut self) -> Option<(Phase, Activity)> {
        let checks = &self.stack.spec.health_checks;
        if checks.is_empty() || self.deleting {
            return None;
        }
        let ended = self.status.last_update.as_ref();
        let since = ended.map(|last| Timestamp(last.resync_time_ms()).after(ROUNDED));
        // A resync that changes nothing does not make a healthy Stack doubtful.
        let shown = self.stack.status.as_ref();
        let was_ready = shown.is_some_and(|status| is_true(&status.conditions, READY));
        let mut wanting = Vec::new();
        for check in checks {
            let verdicts = &self.s.objects.health;
            let found = verdicts.iter().find(|verdict| verdict.check == *check);
            let current = |at: Timestamp| was_ready || since.is_none_or(|since| at >= since);
            match found.filter(|verdict| current(verdict.at)) {
                Some(verdict) if verdict.healthy => {}
                Some(verdict) => wanting.push(format!("{check}: {}", verdict.message)),
                None => {
                    wanting.push(format!("{check}: not looked at since the last run"));
                    if let Some(since) = since {
                        self.draft.wake(since);
                    }
                }
            }
        }
        (!wanting.is_empty()).then(|| {
            let phase = Phase::Unhealthy {
                message: format!("waiting for what must be healthy: {}", wanting.join("; ")),
            };
            (phase, Activity::Blocked { on: wanting })
        })
    }
}
