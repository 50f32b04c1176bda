//! The garbage collector of a foreground deletion: it deletes what belongs to an object that is being deleted, and what
//! is made to belong to it meanwhile.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use windlass_core::snapshot::Objects;

use crate::plan::SECOND;
use crate::planted::Planted;
use crate::world::{Event, Place, World};

impl World {
    /// Uid of the Stack as the owner of what a step makes. None once the step has seen that it is being deleted.
    pub fn owner(&self, objects: &Objects) -> Option<String> {
        let metadata = &objects.stack.as_ref()?.metadata;
        let always = self.plan.planted == Some(Planted::OwnedWhileDeleting);
        (metadata.deletion_timestamp.is_none() || always)
            .then(|| metadata.uid.clone())
            .flatten()
    }

    /// Begins to collect what belongs to the Stack, which is being deleted.
    pub fn collect_soon(&mut self, place: Place) {
        let stack = self.stack(place);
        if let Some(uid) = stack.and_then(|stack| stack.metadata.uid.clone()) {
            let delay = self.rng.between(10, 30 * SECOND);
            self.later(delay, Event::Collect { place, owner: uid });
        }
    }

    /// Deletes what belongs to the Stack, and looks again as long as it is there.
    pub fn collect(&mut self, place: Place, owner: &str) {
        let there = self.stack(place).is_some_and(|stack| {
            stack.metadata.uid.as_deref() == Some(owner)
                && stack.metadata.deletion_timestamp.is_some()
        });
        if !there {
            return;
        }
        let home = &self.homes[place];
        let owned =
            |all: &Option<Vec<OwnerReference>>| all.iter().flatten().any(|it| it.uid == owner);
        let updates: Vec<String> = home
            .updates
            .now()
            .iter()
            .filter(|it| owned(&it.metadata.owner_references))
            .filter(|it| it.metadata.deletion_timestamp.is_none())
            .filter_map(|it| it.metadata.name.clone())
            .collect();
        let pods = home.pods.iter().filter(|pod| pod.visible);
        let pods: Vec<String> = pods
            .filter(|pod| pod.owner.as_deref() == Some(owner))
            .map(|pod| pod.uid.clone())
            .collect();
        for update in updates {
            self.note(|| format!("the garbage collector deletes {update}"));
            self.delete_update(place, &update);
        }
        for pod in pods {
            self.stop_pod(place, &pod);
        }
        let delay = self.rng.between(SECOND, 30 * SECOND);
        let owner = owner.to_owned();
        self.later(delay, Event::Collect { place, owner });
    }
}
