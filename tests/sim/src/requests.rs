//! What must hold when a run is asked for, and when its start is recorded.

use crate::by_hand::by_hand;
use crate::monitor::Broken;
use crate::world::{Place, World};

impl World {
    /// A run is being asked for.
    pub fn check_create(&mut self, place: Place) {
        let Some(stack) = self.stack(place).cloned() else {
            return;
        };
        let edited = self.monitor.edited_at.get(&place).copied().unwrap_or(0);
        let settled = self.now - edited > self.slack();
        if stack.spec.suspend && stack.metadata.deletion_timestamp.is_none() && settled {
            self.broken(Broken::Suspended, || {
                format!("place {place} is suspended and a run is asked for")
            });
        }
        if stack.metadata.deletion_timestamp.is_some() || !settled {
            return;
        }
        for prerequisite in &stack.spec.prerequisites {
            let name = prerequisite.name.clone().unwrap_or_default();
            let ever = self
                .places
                .get(&name)
                .copied()
                .and_then(|other| self.stack(other))
                .is_some_and(|other| {
                    let uid = other.metadata.uid.clone().unwrap_or_default();
                    self.monitor.succeeded.contains_key(&uid)
                });
            let gone = self.places.get(&name).is_some_and(|&other| {
                // It was there a moment ago.
                self.monitor
                    .edited_at
                    .get(&other)
                    .is_some_and(|at| self.now - at <= self.slack())
            });
            if !ever && !gone {
                self.broken(Broken::Prerequisite, || {
                    format!("place {place} runs before {name} ever did")
                });
            }
        }
    }

    /// The start of a run is being recorded.
    pub fn check_record_start(&mut self, place: Place, update: &windlass_api::Update) {
        let Some(stack) = self.stack(place).filter(|_| !by_hand(update)) else {
            return;
        };
        let edited = self.monitor.edited_at.get(&place).copied().unwrap_or(0);
        let pinned = update.spec.intent.as_ref().map(|intent| intent.generation);
        let current = stack.metadata.generation;
        if pinned != current && self.now - edited > self.slack() {
            self.broken(Broken::StaleInputs, || {
                format!("place {place} runs generation {pinned:?}, {current:?} is asked for")
            });
        }
    }
}
