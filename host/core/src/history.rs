//! What earlier Updates say: the next number, locks left behind, and which of them may go.

use windlass_api::intent::Cause;

use crate::decide::Live;
use crate::decision::Write;
use crate::run;
use crate::snapshot::Tree;

impl Live<'_> {
    /// Finished and recorded Updates beyond what is kept go.
    pub(crate) fn prune_updates(&mut self) {
        const DAY_MS: i64 = 24 * 3600 * 1000;
        let recorded = self
            .status
            .last_update
            .as_ref()
            .map_or(0, |last| last.sequence);
        let mut finished: Vec<_> = run::ours(self.stack, &self.s.objects.updates)
            .filter(|update| update.finished() && update.intent.sequence <= recorded)
            .collect();
        finished.sort_by_key(|update| std::cmp::Reverse(update.intent.sequence));
        for update in finished.into_iter().skip(self.s.config.keep_updates.max(1)) {
            let old = update
                .ended_at()
                .is_none_or(|ended| self.s.now.0.saturating_sub(ended.0) > DAY_MS);
            if old {
                self.draft.after.push(Write::DeleteUpdate {
                    update: update.name.to_owned(),
                });
            }
        }
    }

    /// A number that no Update of this Stack has had.
    pub(crate) fn next_sequence(&self) -> u64 {
        let recorded = self
            .status
            .last_update
            .as_ref()
            .map_or(0, |last| last.sequence);
        run::ours(self.stack, &self.s.objects.updates)
            .map(|update| update.intent.sequence)
            .fold(recorded, u64::max)
            + 1
    }

    /// Locks that the last run met and the backend adapter judged stale.
    pub(crate) fn stale_locks(&self) -> Vec<String> {
        let recorded = self
            .status
            .last_update
            .as_ref()
            .map_or(0, |last| last.sequence);
        run::ours(self.stack, &self.s.objects.updates)
            .find(|update| update.intent.sequence == recorded)
            .and_then(|update| update.summary())
            .map(|summary| summary.stale_locks.clone())
            .unwrap_or_default()
    }

    pub(crate) fn only_elsewhere(&self, cause: &Cause, tree: &Tree) -> bool {
        let last = self.status.last_update.as_ref();
        self.stack.spec.only_when_changed
            && matches!(cause, Cause::NewRevision { .. })
            && last.is_some_and(|last| {
                last.succeeded() && last.subtree.as_deref() == Some(tree.subtree.as_str())
            })
    }
}
