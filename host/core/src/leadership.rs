//! Who leads, as one process judges it from the lease alone: without a clock of its own, without the network.
//!
//! Times are those of a clock of the process that only goes forward, counted from any moment: the clocks of other
//! machines are not trusted, so nothing that another process wrote is compared with the time here. What is watched is
//! how long the lease has stayed the same.

use std::time::Duration;

/// The name under which a process holds the lease: its pod's, and what tells it from others in that pod.
pub fn identity(pod: &str, suffix: &str) -> String {
    format!("{pod}_{suffix}")
}

/// Whether a holder was a process in this pod. It is gone when another one asks: a pod's container runs once at a time.
pub fn in_pod(pod: &str, holder: &str) -> bool {
    holder.rsplit_once('_').is_some_and(|(name, _)| name == pod)
}

/// The epoch of whoever takes a lease after so many changes of hands. Agents refuse a lower one.
pub fn next_epoch(transitions: u64) -> u64 {
    transitions.saturating_add(1)
}

/// A process that waits for the lease. `L` is the lease as it is stored: it differs with every word of its holder.
#[derive(Clone, Debug)]
pub struct Candidate<L> {
    pod: String,
    seen: Option<(L, Duration)>,
}

impl<L: PartialEq> Candidate<L> {
    pub fn new(pod: impl Into<String>) -> Candidate<L> {
        Candidate {
            pod: pod.into(),
            seen: None,
        }
    }

    /// Whether the lease, just read at `now`, may be taken: nobody holds it, a process of the same pod held it, or its
    /// holder has been silent for as long as the lease `lasts`, all of it under the eyes of this process.
    pub fn may_take(&mut self, lease: L, holder: &str, lasts: Duration, now: Duration) -> bool {
        if holder.is_empty() || in_pod(&self.pod, holder) {
            return true;
        }
        let since = match &self.seen {
            Some((before, since)) if *before == lease => *since,
            _ => {
                self.seen = Some((lease, now));
                now
            }
        };
        now.saturating_sub(since) >= lasts
    }

    /// When to look again, from now on: the lease that was seen may be taken then. None before anything was seen.
    pub fn takes_in(&self, lasts: Duration, now: Duration) -> Option<Duration> {
        let (_, since) = self.seen.as_ref()?;
        Some((*since + lasts).saturating_sub(now))
    }
}

/// The time for which a leader may believe that it leads.
#[derive(Clone, Debug)]
pub struct Tenure {
    renewed: Duration,
    lasts: Duration,
    deadline: Duration,
}

impl Tenure {
    /// Of a lease that was taken, or renewed, by a request that began at `begun`. Others wait for `lasts`; the leader
    /// goes on without renewal for `deadline`, which is less.
    pub fn new(begun: Duration, lasts: Duration, deadline: Duration) -> Tenure {
        Tenure {
            renewed: begun,
            lasts,
            deadline,
        }
    }

    /// A request that began then has renewed the lease.
    pub fn renew(&mut self, begun: Duration) {
        self.renewed = begun;
    }

    /// Nobody may have led in between, but only a renewal can tell: the process did not run for longer than the lease
    /// lasts.
    pub fn slept_through(&self, now: Duration) -> bool {
        now.saturating_sub(self.renewed) > self.lasts
    }

    /// It could not be renewed for too long: another one may take it soon.
    pub fn over(&self, now: Duration) -> bool {
        now.saturating_sub(self.renewed) > self.deadline
    }

    /// How long a renewal may take from now on.
    pub fn left(&self, now: Duration) -> Duration {
        (self.renewed + self.deadline).saturating_sub(now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LASTS: Duration = Duration::from_secs(15);

    fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn a_lease_is_taken_when_its_holder_was_silent_for_as_long_as_it_lasts() {
        let mut candidate = Candidate::new("b");
        assert!(!candidate.may_take(1, "a_1", LASTS, at(100)));
        assert!(!candidate.may_take(1, "a_1", LASTS, at(114)));
        assert_eq!(candidate.takes_in(LASTS, at(114)), Some(at(1)));
        assert!(candidate.may_take(1, "a_1", LASTS, at(115)));
    }

    #[test]
    fn every_word_of_the_holder_begins_the_wait_anew() {
        let mut candidate = Candidate::new("b");
        assert!(!candidate.may_take(1, "a_1", LASTS, at(0)));
        assert!(!candidate.may_take(2, "a_1", LASTS, at(20)));
        assert!(!candidate.may_take(2, "a_1", LASTS, at(34)));
        assert!(candidate.may_take(2, "a_1", LASTS, at(35)));
    }

    #[test]
    fn a_lease_of_nobody_or_of_the_same_pod_is_taken_at_once() {
        let mut candidate = Candidate::new("operator-0");
        assert!(candidate.may_take(1, "", LASTS, at(0)));
        assert!(candidate.may_take(1, "operator-0_17", LASTS, at(0)));
        assert!(!candidate.may_take(1, "operator-01_17", LASTS, at(0)));
        assert!(!candidate.may_take(1, "operator-0", LASTS, at(0)));
    }

    #[test]
    fn a_leader_gives_up_before_others_may_take_over() {
        let mut tenure = Tenure::new(at(0), LASTS, at(10));
        assert!(!tenure.over(at(10)));
        assert!(tenure.over(at(11)));
        assert!(!tenure.slept_through(at(15)));
        assert!(tenure.slept_through(at(16)));
        assert_eq!((tenure.left(at(4)), tenure.left(at(12))), (at(6), at(0)));
        tenure.renew(at(9));
        assert!(!tenure.over(at(19)));
    }

    #[test]
    fn an_epoch_is_above_all_before_it() {
        assert_eq!((next_epoch(0), next_epoch(7)), (1, 8));
    }
}
