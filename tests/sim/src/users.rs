//! Users: they make Stacks, edit them, ask for runs, suspend, delete, cancel, lose Secrets and push.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::json;
use windlass_api::Stack;
use windlass_api::stack::{StackSpec, StackStatus};
use windlass_core::record;
use windlass_core::run::{CANCEL_ANNOTATION, ours};
use windlass_core::snapshot::{Reference, ReferenceKind, WorkspaceView};
use windlass_engine::ports::Fence;

use windlass_api::run::LockInfo;

use crate::backend::Lock;
use crate::git::Git;
use crate::history::History;
use crate::plan::{HOUR, MINUTE};
use crate::world::{Event, Home, NAMESPACE, Place, World};

/// Holder of a lock that no workspace took.
pub const PERSON: &str = "a person";

/// Names of the Stacks that this one waits for or takes outputs from.
pub fn looks_at(spec: &StackSpec) -> Vec<String> {
    let mut names: Vec<String> = spec
        .prerequisites
        .iter()
        .filter_map(|it| it.name.clone())
        .collect();
    let checked = spec
        .env_refs
        .values()
        .filter_map(|reference| reference.selector(NAMESPACE).ok());
    for selector in checked {
        if let windlass_api::reference::Selector::StackOutput { stack, .. } = selector {
            names.push(stack.to_owned());
        }
    }
    names
}

/// The backend's name of a Stack's stack.
pub fn canonical(stack: &Stack) -> String {
    format!("organization/project/{}", stack.spec.stack)
}

impl World {
    /// The fleet as it is at first: what a Stack is like follows from the seed.
    pub fn settle_in(&mut self) {
        let stacks = self.plan.stacks + self.plan.workshops;
        for place in 0..stacks {
            let name = format!("s{place}");
            self.places.insert(name.clone(), place);
            self.homes.push(Home {
                name,
                stack: History::new(None),
                updates: History::new(Vec::new()),
                workspace: History::new(WorkspaceView::default()),
                by_hand: History::new(None),
                pods: Vec::new(),
                ended: Vec::new(),
                dependents: Vec::new(),
                made: 0,
            });
        }
        for repository in 0..stacks.div_ceil(4) {
            self.git.push(&Git::url(repository), false);
            let reference = secret(repository);
            let version = self.number().to_string();
            self.references.insert(reference, Some(version));
        }
        for place in 0..stacks {
            if self.plan.taken_over {
                self.create(place);
                self.as_left_by_pko(place);
            } else {
                let delay = self.rng.between(0, (self.plan.live / 20).min(2 * HOUR));
                self.later(delay, Event::Recreate { place });
            }
        }
    }

    pub fn create(&mut self, place: Place) {
        if self.is_workshop(place) {
            return self.make_workspace(place);
        }
        if self.stack(place).is_some() {
            return;
        }
        let number = self.number();
        let spec = self.spec(place);
        for other in looks_at(&spec) {
            if let Some(&other) = self.places.get(&other)
                && !self.homes[other].dependents.contains(&place)
            {
                self.homes[other].dependents.push(place);
            }
        }
        let metadata = ObjectMeta {
            name: Some(self.homes[place].name.clone()),
            namespace: Some(NAMESPACE.to_owned()),
            uid: Some(format!("stack-{number}")),
            generation: Some(1),
            resource_version: Some(number.to_string()),
            ..ObjectMeta::default()
        };
        let stack = Stack {
            metadata,
            spec,
            status: None,
        };
        self.homes[place].made = number;
        self.homes[place]
            .stack
            .change(|stored| *stored = Some(stack));
        self.monitor.edited_at.insert(place, self.now);
        self.note(|| format!("a user makes the Stack of place {place}"));
        self.changed(place);
    }

    fn spec(&mut self, place: Place) -> StackSpec {
        let mut spec = json!({
            "stack": format!("dev{place}"),
            "backend": "s3://state",
            "projectRepo": Git::url(place / 4),
            "branch": "main",
            "repoDir": format!("infra/{place}"),
            "destroyOnFinalize": self.rng.chance(0.6),
            "resyncFrequencySeconds": self.weather.poll_seconds,
            "config": {"region": "eu"},
        });
        if self.plan.taken_over {
            return serde_json::from_value(spec).unwrap_or_default();
        }
        if self.rng.chance(0.3) {
            spec["continueResyncOnCommitMatch"] = json!(true);
        }
        if self.rng.chance(0.3) {
            spec["timeoutSeconds"] = json!(1800);
        }
        if self.rng.chance(0.2) {
            spec["workspaceReclaimPolicy"] = json!("Delete");
        } else if self.rng.chance(0.3) {
            spec["workspaceIdleSeconds"] = json!(600);
        }
        if self.rng.chance(0.3) {
            let Reference { name, key, .. } = secret(place / 4);
            spec["secretsRef"] =
                json!({"password": {"type": "Secret", "secret": {"name": name, "key": key}}});
        }
        if self.rng.chance(0.2) {
            let prepare = json!([{"name": "prepare", "image": "tools"}]);
            spec["workspaceTemplate"] =
                json!({"spec": {"podTemplate": {"spec": {"initContainers": prepare}}}});
        }
        // Only on earlier places, so that nothing waits in a circle.
        if !place.is_multiple_of(4) && self.rng.chance(0.4) {
            let mut prerequisite = json!({"name": format!("s{}", place - 1)});
            if self.rng.chance(0.3) {
                prerequisite["requirement"] = json!({"succeededWithinDuration": "2h"});
            }
            spec["prerequisites"] = json!([prerequisite]);
        }
        if place % 4 >= 2 && self.rng.chance(0.4) {
            let from = format!("s{}", place - 2);
            spec["envRefs"] =
                json!({"ZONE": {"type": "StackOutput", "stack": from, "output": "zone"}});
        }
        serde_json::from_value(spec).unwrap_or_default()
    }

    fn as_left_by_pko(&mut self, place: Place) {
        let head = self.git.head(&Git::url(place / 4));
        let status = json!({
            "observedGeneration": 1,
            "conditions": [{"type": "Ready", "status": "True", "reason": "ProcessingCompleted",
                "message": "the stack has been processed and is up to date",
                "lastTransitionTime": "2025-12-01T00:00:00Z"}],
            "outputs": {"zone": "a"},
            "lastUpdate": {"generation": 1, "name": format!("s{place}-0a1b2c"), "type": "up", "state": "succeeded",
                "lastAttemptedCommit": head, "lastSuccessfulCommit": head,
                "lastResyncTime": "2025-12-01T00:00:00Z"},
        });
        let status: Option<StackStatus> = serde_json::from_value(status).ok();
        self.change_stack(place, |stack| {
            stack.status = status;
            stack.metadata.finalizers = Some(vec![windlass_api::names::FINALIZER.to_owned()]);
        });
    }

    /// A user does something, to any Stack.
    pub fn user(&mut self) {
        let place = self.rng.below(self.homes.len());
        self.user_acts(place);
    }

    pub fn user_acts(&mut self, place: Place) {
        if self.is_workshop(place) {
            return self.tinker(place);
        }
        let action = self.rng.below(15);
        self.monitor.actions += 1;
        self.note(|| format!("user action {action} on place {place}"));
        match action {
            0..=2 => self.edit(place, |spec, number| {
                spec.config.insert("size".into(), json!(number));
            }),
            3 => self.edit(place, |spec, number| {
                let literal = json!({"type": "Literal", "literal": {"value": number.to_string()}});
                if let Ok(reference) = serde_json::from_value(literal) {
                    spec.env_refs.insert("SIZE".into(), reference);
                }
            }),
            4 => self.edit(place, |spec, _| {
                spec.destroy_on_finalize = !spec.destroy_on_finalize;
            }),
            5 | 6 => {
                let value = format!("please-{}", self.number());
                self.annotate(place, &value);
            }
            7 => {
                self.edit(place, |spec, _| spec.suspend = true);
                let delay = self.rng.between(10 * MINUTE, 6 * HOUR);
                self.later(delay, Event::Resume { place });
            }
            8 => {
                self.delete(place);
                let delay = self.rng.between(MINUTE, 6 * HOUR);
                self.later(delay, Event::Recreate { place });
            }
            9 => self.lose_secret(place),
            10 => self.cancel(place),
            11 => self.by_hand(place),
            12 => self.make_update(place),
            13 => self.cancel_by_hand(place),
            _ => self.remove_an_update(place),
        }
    }

    /// A new specification is a new generation.
    pub fn edit(&mut self, place: Place, change: impl FnOnce(&mut StackSpec, u64)) {
        let number = self.number();
        self.monitor.edited_at.insert(place, self.now);
        self.change_stack(place, |stack| {
            let before = stack.spec.clone();
            change(&mut stack.spec, number);
            if stack.spec != before {
                stack.metadata.generation = stack.metadata.generation.map(|it| it + 1);
            }
        });
    }

    pub fn delete(&mut self, place: Place) {
        let now = self.now;
        let Some(stack) = self.stack(place) else {
            return;
        };
        if stack.metadata.deletion_timestamp.is_some() {
            return;
        }
        let held = stack
            .metadata
            .finalizers
            .as_ref()
            .is_some_and(|all| !all.is_empty());
        self.monitor.edited_at.insert(place, now);
        if !held {
            self.homes[place].stack.change(|stack| *stack = None);
            self.changed(place);
            return;
        }
        self.change_stack(place, |stack| {
            stack.metadata.deletion_timestamp = Some(record::time(now));
            stack.metadata.generation = stack.metadata.generation.map(|it| it + 1);
        });
        if self.rng.chance(0.4) {
            self.collect_soon(place);
        }
    }

    /// A person runs the CLI on a machine of their own.
    fn by_hand(&mut self, place: Place) {
        let Some(stack) = self.stack(place) else {
            return;
        };
        let name = canonical(stack);
        let state = self.backends.stack(&name);
        if !state.locks.is_empty() {
            return;
        }
        state.locks.push(Lock {
            info: LockInfo {
                id: format!("by-hand-{place}"),
                user: "somebody".into(),
                hostname: "laptop".into(),
                pid: 1,
                created: "2026-01-01T00:00:00Z".into(),
                gone: false,
            },
            holder: PERSON.to_owned(),
        });
        let delay = self.rng.between(MINUTE, 40 * MINUTE);
        self.later(delay, Event::HandDone { stack: name });
    }

    fn lose_secret(&mut self, place: Place) {
        let reference = secret(place / 4);
        let version = if self.rng.chance(0.5) {
            let delay = self.rng.between(MINUTE, HOUR);
            self.later(
                delay,
                Event::SecretBack {
                    reference: reference.clone(),
                },
            );
            None
        } else {
            Some(self.number().to_string())
        };
        self.set_secret(reference, version);
    }

    pub fn set_secret(&mut self, reference: Reference, version: Option<String>) {
        let users = (0..self.homes.len()).filter(|place| secret(place / 4) == reference);
        let users: Vec<Place> = users.collect();
        self.references.insert(reference, version);
        for place in users {
            self.changed(place);
        }
    }

    /// A destroy that a person cancelled waits for a person.
    pub fn ask_again(&mut self) {
        self.later(2 * HOUR, Event::AskAgain);
        for place in 0..self.homes.len() {
            let value = format!("again-{}", self.number());
            // Others wait for what was deleted.
            self.create(place);
            let deleting = self
                .stack(place)
                .is_some_and(|stack| stack.metadata.deletion_timestamp.is_some());
            if deleting {
                self.annotate(place, &value);
            }
        }
    }

    /// Cancels the run that is asked for.
    pub fn cancel(&mut self, place: Place) {
        let Some(stack) = self.stack(place) else {
            return;
        };
        let updates = self.homes[place].updates.now();
        let open = ours(stack, updates)
            .find(|it| !it.finished())
            .map(|it| it.name.to_owned());
        if let Some(open) = open {
            let mut fence = Fence::default();
            let _gone = self.change_update(place, &open, &mut fence, |update| {
                let annotations: &mut BTreeMap<String, String> =
                    update.metadata.annotations.get_or_insert_default();
                annotations.insert(CANCEL_ANNOTATION.to_owned(), "now".to_owned());
            });
        }
    }

    pub fn remove_an_update(&mut self, place: Place) {
        let updates = self.homes[place].updates.now();
        if updates.is_empty() {
            return;
        }
        let index = self.rng.below(updates.len());
        let updates = self.homes[place].updates.now();
        let name = updates[index].metadata.name.clone().unwrap_or_default();
        self.delete_update(place, &name);
    }

    pub fn push(&mut self) {
        let repository = self.rng.below(self.homes.len().div_ceil(4));
        let bad = self.rng.chance(self.weather.bad_revision);
        self.note(|| format!("push to repository {repository}, bad: {bad}"));
        self.git.push(&Git::url(repository), bad);
    }

    /// Whatever users and faults have broken is mended; what is then asked for must come true.
    pub fn heal(&mut self) {
        self.later(2 * HOUR, Event::AskAgain);
        self.note(|| "the weather is still from here on".to_owned());
        self.git.down = false;
        self.backends.down = false;
        let poll = self.weather.poll_seconds;
        self.weather = crate::plan::Weather::still();
        self.weather.relist_every = self.plan.weather.relist_every;
        self.weather.poll_seconds = poll;
        for repository in 0..self.homes.len().div_ceil(4) {
            self.git.push(&Git::url(repository), false);
            let version = self.number().to_string();
            self.references.insert(secret(repository), Some(version));
        }
        for place in 0..self.homes.len() {
            self.edit(place, |spec, _| spec.suspend = false);
            self.create(place);
            let hangs = self.homes[place].pods.iter().any(|pod| {
                let running = pod.process.as_ref();
                running.is_some_and(|it| it.plan == crate::outcome::End::Hangs)
            });
            if hangs {
                self.cancel(place);
                self.cancel_by_hand(place);
            }
            let uids: Vec<String> = self.homes[place]
                .pods
                .iter()
                .map(|it| it.uid.clone())
                .collect();
            for uid in uids {
                self.pod_heals(place, &uid);
            }
        }
    }
}

/// The Secret that the users of a repository share.
pub fn secret(repository: usize) -> Reference {
    Reference {
        kind: ReferenceKind::Secret,
        name: format!("secret-{repository}"),
        key: Some("password".to_owned()),
    }
}
