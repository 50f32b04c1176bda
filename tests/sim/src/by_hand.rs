//! Workspaces and Updates that people make by hand: beside a Stack, and where there is none.

use k8s_openapi::api::core::v1::EnvVar;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use windlass_api::update::UpdateSpec;
use windlass_api::workspace::{GitSource, WorkspaceSpec};
use windlass_api::{Update, Workspace};
use windlass_core::record;
use windlass_core::run::CANCEL_ANNOTATION;
use windlass_engine::ports::Fence;

use crate::git::Git;
use crate::plan::{HOUR, MINUTE};
use crate::world::{Event, NAMESPACE, Place, World};

/// Updates made by hand that are not over, of one place: nobody makes more.
const AT_ONCE: usize = 3;

/// Whether nobody's Stack asked for this Update.
pub fn by_hand(update: &Update) -> bool {
    update.spec.intent.is_none()
}

impl World {
    /// Whether this place is for a Workspace that somebody makes, and never for a Stack.
    pub fn is_workshop(&self, place: Place) -> bool {
        place >= self.plan.stacks
    }

    /// A person makes the Workspace of a workshop, with a program from Git or one that is in its image.
    pub fn make_workspace(&mut self, place: Place) {
        if self.homes[place].by_hand.now().is_some() {
            return;
        }
        let number = self.number();
        let mut spec = WorkspaceSpec {
            env: vec![variable("PULUMI_BACKEND_URL", "s3://state")],
            ..WorkspaceSpec::default()
        };
        if self.rng.chance(0.7) {
            spec.git = Some(GitSource {
                url: Some(Git::url(place / 4)),
                ref_: Some("main".to_owned()),
                dir: Some(format!("infra/{place}")),
                ..GitSource::default()
            });
        }
        let metadata = ObjectMeta {
            name: Some(self.homes[place].name.clone()),
            namespace: Some(NAMESPACE.to_owned()),
            uid: Some(format!("workspace-{number}")),
            generation: Some(1),
            resource_version: Some(number.to_string()),
            ..ObjectMeta::default()
        };
        let workspace = Workspace {
            metadata,
            spec,
            status: None,
        };
        self.note(|| format!("a person makes the Workspace of place {place}"));
        self.homes[place]
            .by_hand
            .change(|stored| *stored = Some(workspace));
        self.changed(place);
    }

    /// A person asks for an operation, on a Stack's workspace or on one of their own.
    pub fn make_update(&mut self, place: Place) {
        let open = self.homes[place].updates.now().iter();
        let open = open.filter(|it| by_hand(it) && !windlass_core::run::finished(it));
        if open.count() >= AT_ONCE {
            return;
        }
        let number = self.number();
        let home = self.homes[place].name.clone();
        // What they deploy beside a Stack would be what it ran last; nobody could tell afterwards who did.
        let operations: &[&str] = if self.is_workshop(place) {
            &["up", "preview", "refresh", "destroy"]
        } else {
            &["preview", "refresh"]
        };
        let operation = operations[self.rng.below(operations.len())];
        let name = format!("{home}-hand-{number}");
        let kept = self.rng.chance(0.5);
        let update = Update {
            metadata: ObjectMeta {
                name: Some(name.clone()),
                namespace: Some(NAMESPACE.to_owned()),
                uid: Some(format!("update-{number}")),
                generation: Some(1),
                resource_version: Some(number.to_string()),
                creation_timestamp: Some(record::time(self.now)),
                ..ObjectMeta::default()
            },
            spec: UpdateSpec {
                workspace_name: Some(home),
                stack_name: self.is_workshop(place).then(|| format!("hand{place}")),
                type_: Some(operation.to_owned()),
                ttl_after_completed: (!kept).then(|| "1h".to_owned()),
                ..UpdateSpec::default()
            },
            status: None,
        };
        self.note(|| format!("a person makes the Update {name} ({operation}) of place {place}"));
        self.homes[place].updates.change(|all| all.push(update));
        self.changed(place);
    }

    /// What people do to a Workspace of their own.
    pub fn tinker(&mut self, place: Place) {
        match self.rng.below(8) {
            0..=3 => self.make_update(place),
            4 => self.cancel_by_hand(place),
            5 => self.remove_an_update(place),
            6 => {
                let value = self.number().to_string();
                self.homes[place].by_hand.change(|stored| {
                    if let Some(workspace) = stored {
                        workspace.spec.env.truncate(1);
                        workspace.spec.env.push(variable("SIZE", &value));
                        workspace.metadata.generation =
                            workspace.metadata.generation.map(|it| it + 1);
                    }
                });
                self.changed(place);
            }
            _ => {
                self.note(|| format!("a person deletes the Workspace of place {place}"));
                self.homes[place].by_hand.change(|stored| *stored = None);
                self.changed(place);
                let delay = self.rng.between(MINUTE, 2 * HOUR);
                self.later(delay, Event::Recreate { place });
            }
        }
    }

    /// Cancels an Update that somebody made by hand and that is not over.
    pub fn cancel_by_hand(&mut self, place: Place) {
        let open = self.homes[place].updates.now().iter();
        let open = open.filter(|it| by_hand(it) && !windlass_core::run::finished(it));
        // The one that goes on, if there is one.
        let going_on = |it: &&Update| it.status.as_ref().is_some_and(|it| it.run.is_some());
        let name = open
            .max_by_key(going_on)
            .and_then(|it| it.metadata.name.clone());
        if let Some(name) = name {
            let mut fence = Fence::default();
            let _gone = self.change_update(place, &name, &mut fence, |update| {
                let annotations = update.metadata.annotations.get_or_insert_default();
                annotations.insert(CANCEL_ANNOTATION.to_owned(), "now".to_owned());
            });
        }
    }

    /// Why the Updates that people made are not where they should be, if they are not.
    pub fn unfinished_by_hand(&self, place: Place) -> Option<String> {
        let home = &self.homes[place];
        let wanted = home.stack.now().is_some() || home.by_hand.now().is_some();
        let mut all = home.updates.now().iter().filter(|it| by_hand(it));
        let open = all.find(|it| !windlass_core::run::finished(it))?;
        // It waits for a workspace that nobody makes.
        let started = open.status.as_ref().is_some_and(|it| it.run.is_some());
        (wanted || started).then(|| {
            let name = open.metadata.name.as_deref().unwrap_or_default();
            format!("{name}, made by hand, is open: {:?}", open.status)
        })
    }
}

fn variable(name: &str, value: &str) -> EnvVar {
    EnvVar {
        name: name.to_owned(),
        value: Some(value.to_owned()),
        value_from: None,
    }
}
