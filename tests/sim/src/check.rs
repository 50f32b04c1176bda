//! Whether the fleet has come to rest where its users want it.

use windlass_api::Stack;
use windlass_api::conditions::{READY, is_true};
use windlass_api::stack::StackStatus;
use windlass_core::run::ours;

use crate::by_hand::by_hand;
use crate::world::{Place, World};

pub fn ready(status: &StackStatus) -> bool {
    is_true(&status.conditions, READY)
}

impl World {
    /// Why this place is not where it should be, if it is not.
    pub fn unsettled(&self, place: Place) -> Option<String> {
        let home = &self.homes[place];
        if let Some(pod) = home.pods.iter().find(|pod| pod.process.is_some()) {
            return Some(format!("a run goes on on {}", pod.uid));
        }
        if let Some(open) = self.unfinished_by_hand(place) {
            return Some(open);
        }
        let Some(stack) = home.stack.now() else {
            let left = home.updates.now().iter().filter(|it| !by_hand(it)).count();
            if left > 0 {
                return Some(format!("{left} Updates are left of a Stack that is gone"));
            }
            if home.by_hand.now().is_some() {
                return None;
            }
            if home.pods.iter().any(|pod| pod.visible) {
                return Some("an instance is left of a Stack that is gone".to_owned());
            }
            return None;
        };
        if stack.metadata.deletion_timestamp.is_some() {
            return Some(format!("it is still being deleted: {:?}", stack.status));
        }
        let status = stack.status.clone().unwrap_or_default();
        if status.observed_generation != stack.metadata.generation {
            return Some("its generation is not observed".to_owned());
        }
        if let Some(open) = ours(stack, home.updates.now()).find(|update| !update.finished()) {
            return Some(format!("{} is open", open.name));
        }
        if stack.spec.suspend {
            return None;
        }
        self.off_target(stack, &status)
    }

    fn off_target(&self, stack: &Stack, status: &StackStatus) -> Option<String> {
        let Some(last) = &status.last_update else {
            return Some(format!("it never ran: {:?}", status.conditions));
        };
        if !ready(status) || !last.succeeded() {
            return Some(format!("it is not Ready: {:?}", status.conditions));
        }
        if Some(last.generation) != stack.metadata.generation {
            return Some("its last run is of another generation".to_owned());
        }
        let request = windlass_core::names::reconcile_request(stack);
        if last.reconcile_request.as_deref() != request {
            return Some("a request for a run was not heard".to_owned());
        }
        let head = self
            .git
            .head(stack.spec.project_repo.as_deref().unwrap_or_default());
        if last.last_successful_commit.as_deref() != Some(head.as_str()) {
            return Some(format!(
                "it runs {:?}, the head is {head}",
                last.last_successful_commit
            ));
        }
        if stack.spec.preview || self.plan.taken_over {
            return None;
        }
        let name = crate::users::canonical(stack);
        let deployed = self
            .backends
            .stacks
            .get(&name)
            .and_then(|it| it.deployed.as_ref());
        match deployed {
            Some(it) if it.revision == head && Some(it.generation) == stack.metadata.generation => {
                None
            }
            other => Some(format!("{other:?} is deployed, the head is {head}")),
        }
    }

    /// The first place that has not settled, and why.
    pub fn first_unsettled(&self) -> Option<(Place, String)> {
        (0..self.homes.len()).find_map(|place| Some((place, self.unsettled(place)?)))
    }
}
