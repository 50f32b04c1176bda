//! Warnings about pods that do not start: what keeps a container from being made at all, such as a volume that cannot be
//! mounted, stands in no status.

use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use k8s_openapi::api::core::v1::Event;
use kube::api::ListParams;
use windlass_core::time::Timestamp;

use crate::api::Cluster;

/// How long a pod may start before somebody asks what it waits for, and the first pause between two questions; doubled
/// up to the second. The kubelet itself repeats such an event every two minutes.
const FIRST_PAUSE: Duration = Duration::from_secs(4);
const LONGEST_PAUSE: Duration = Duration::from_secs(120);
/// Events of one pod that are looked at: the API server has them by age, and there are few in a pod's first minutes.
const MOST_EVENTS: u32 = 50;

/// What is known, by the uid of the pod.
#[derive(Debug, Default)]
pub(crate) struct Warnings(Mutex<HashMap<String, Asked>>);

#[derive(Debug)]
struct Asked {
    events: Vec<Event>,
    /// The next question is due.
    due: Timestamp,
    pause: Duration,
}

impl Warnings {
    fn known(&self) -> MutexGuard<'_, HashMap<String, Asked>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The warnings about a pod.
    pub(crate) fn of(&self, uid: &str) -> Vec<Event> {
        let known = self.known();
        known
            .get(uid)
            .map_or_else(Vec::new, |asked| asked.events.clone())
    }

    /// Keeps what is known of these pods, and no other.
    pub(crate) fn retain(&self, starting: &HashSet<String>) {
        self.known().retain(|uid, _| starting.contains(uid));
    }

    /// Whether it is time to ask about a pod that is starting. One that is new is given its time.
    fn due(&self, uid: &str, now: Timestamp) -> bool {
        let mut known = self.known();
        let asked = known.entry(uid.to_owned()).or_insert_with(|| Asked {
            events: Vec::new(),
            due: now.after(FIRST_PAUSE),
            pause: FIRST_PAUSE,
        });
        if asked.due > now {
            return false;
        }
        asked.pause = (asked.pause * 2).min(LONGEST_PAUSE);
        asked.due = now.after(asked.pause);
        true
    }

    /// Asks for the warnings about a pod that is starting, if it is time. True: they are others than before.
    pub(crate) async fn look(
        &self,
        cluster: &Cluster,
        namespace: &str,
        uid: &str,
        now: Timestamp,
    ) -> bool {
        if !self.due(uid, now) {
            return false;
        }
        let params = ListParams::default()
            .fields(&format!("involvedObject.uid={uid},type=Warning"))
            .limit(MOST_EVENTS);
        let api = cluster.api::<Event>(namespace);
        let found = match cluster.ask::<Event, _>("list", api.list(&params)).await {
            Ok(list) => list.items,
            Err(error) => {
                tracing::debug!(namespace, uid, %error, "reading the events of a pod");
                return false;
            }
        };
        let mut known = self.known();
        let Some(asked) = known.get_mut(uid) else {
            return false;
        };
        let said = |events: &[Event]| -> Vec<Option<String>> {
            events.iter().map(|event| event.message.clone()).collect()
        };
        let news = said(&asked.events) != said(&found);
        asked.events = found;
        news
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_pod_is_given_its_time_and_then_asked_about_ever_more_rarely() {
        let warnings = Warnings::default();
        let asked: Vec<i64> = (0..400)
            .filter(|second| warnings.due("pod", Timestamp(second * 1000)))
            .collect();
        assert_eq!(asked, [4, 12, 28, 60, 124, 244, 364]);
        warnings.retain(&HashSet::new());
        assert!(!warnings.due("pod", Timestamp(500_000)), "as a new one");
    }
}
