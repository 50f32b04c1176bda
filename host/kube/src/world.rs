//! Everything that is watched, and who is to be told when it changes.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, PoisonError, RwLock};

use k8s_openapi::api::core::v1::Pod;
use windlass_api::names::{STACK_NAME_LABEL, WORKSPACE_NAME_LABEL};
use windlass_api::{Program, Stack, Update, Workspace};
use windlass_engine::{Handle, Key};

use crate::api::Kind;
use crate::cache::{Cache, Change};
use crate::links::LinkNews;
use crate::programs::Archives;

/// An object that a source provider follows: a change there asks the provider again.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Followed {
    pub api_version: String,
    pub kind: String,
    pub namespace: String,
    pub name: String,
}

/// What the watches have seen.
pub struct World {
    pub stacks: Cache<Stack>,
    pub programs: Cache<Program>,
    pub workspaces: Cache<Workspace>,
    pub updates: Cache<Update>,
    pub pods: Cache<Pod>,
    /// Stacks that wait for a Stack or use its outputs, by that Stack.
    dependents: RwLock<HashMap<Key, BTreeSet<Key>>>,
    /// Stacks whose source follows an object, by that object.
    followers: RwLock<BTreeMap<Followed, BTreeSet<Key>>>,
    /// Objects that cannot be read, and why, by kind.
    unreadable: RwLock<HashMap<(&'static str, Key), String>>,
    /// The engine, while this process leads.
    engine: RwLock<Option<Handle>>,
    /// Hears of every pod that changes.
    pod_news: tokio::sync::broadcast::Sender<Key>,
    /// Programs as archives, and the word that one has changed.
    pub archives: Archives,
    /// Stacks whose external links are to be looked at.
    pub links: LinkNews,
}

impl Default for World {
    fn default() -> World {
        World {
            stacks: Cache::new(|stack| key_of(&stack.metadata)),
            programs: Cache::new(|_| None),
            workspaces: Cache::new(|workspace| key_of(&workspace.metadata)),
            updates: Cache::new(|update| {
                Some(Key::new(
                    update.metadata.namespace.clone()?,
                    update.spec.workspace_name.clone()?,
                ))
            }),
            pods: Cache::new(|pod| {
                let labels = pod.metadata.labels.as_ref()?;
                Some(Key::new(
                    pod.metadata.namespace.clone()?,
                    labels.get(WORKSPACE_NAME_LABEL)?.clone(),
                ))
            }),
            dependents: RwLock::default(),
            followers: RwLock::default(),
            unreadable: RwLock::default(),
            engine: RwLock::default(),
            pod_news: tokio::sync::broadcast::channel(1024).0,
            archives: Archives::default(),
            links: LinkNews::default(),
        }
    }
}

fn key_of(metadata: &windlass_api::ObjectMeta) -> Option<Key> {
    Some(Key::new(
        metadata.namespace.clone()?,
        metadata.name.clone()?,
    ))
}

/// A kind that is watched.
pub trait Watched: Kind {
    const NAME: &'static str;

    fn cache(world: &World) -> &Cache<Self>;

    /// Tells whom the change concerns.
    fn changed(world: &World, change: Change<Self>);
}

impl World {
    /// From now on changes wake this engine's keys; all of them are looked at once.
    pub fn lead(&self, handle: Handle) {
        *self.engine.write().unwrap_or_else(PoisonError::into_inner) = Some(handle.clone());
        let mut keys: BTreeSet<Key> = self.stacks.names(None).into_iter().collect();
        keys.extend(self.workspaces.names(None));
        for update in self.updates.all() {
            let metadata = &update.metadata;
            keys.extend(
                metadata
                    .namespace
                    .clone()
                    .zip(update.spec.workspace_name.clone())
                    .map(|(namespace, name)| Key::new(namespace, name)),
            );
        }
        for key in keys {
            handle.wake(key);
        }
    }

    /// No engine is told of changes any more.
    pub fn follow(&self) {
        *self.engine.write().unwrap_or_else(PoisonError::into_inner) = None;
    }

    pub fn engine(&self) -> Option<Handle> {
        self.engine
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    pub fn wake(&self, key: Key) {
        if let Some(handle) = self.engine() {
            handle.wake(key);
        }
    }

    /// Something about a workspace's pod or its agent is new.
    pub fn tell(&self, key: Key) {
        // Nobody may be listening.
        let _ = self.pod_news.send(key.clone());
        self.wake(key);
    }

    /// The keys of workspaces whose pods or agents have news, from now on.
    pub fn pod_news(&self) -> tokio::sync::broadcast::Receiver<Key> {
        self.pod_news.subscribe()
    }

    /// Takes what a write was answered with, and tells whom it concerns.
    pub fn took<K: Watched>(&self, object: K) {
        if let Some(change) = K::cache(self).put(object) {
            K::changed(self, change);
        }
    }

    /// Forgets an object that is known to be gone.
    pub fn lost<K: Watched>(&self, namespace: &str, name: &str, uid: Option<&str>) {
        if let Some(change) = K::cache(self).remove(namespace, name, uid) {
            K::changed(self, change);
        }
    }

    /// Remembers why an object cannot be read; none: it can.
    pub fn unreadable(&self, kind: &'static str, key: Key, why: Option<String>) {
        let mut unreadable = self
            .unreadable
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        match why {
            Some(why) => {
                if unreadable.insert((kind, key.clone()), why.clone()).as_ref() != Some(&why) {
                    tracing::warn!(kind, %key, %why, "an object cannot be read; it is left alone until it is edited");
                }
            }
            None => {
                unreadable.remove(&(kind, key));
            }
        }
    }

    /// How many objects of each kind cannot be read.
    pub fn unreadable_by_kind(&self) -> BTreeMap<&'static str, usize> {
        let unreadable = self
            .unreadable
            .read()
            .unwrap_or_else(PoisonError::into_inner);
        let mut counts = BTreeMap::new();
        for (kind, _) in unreadable.keys() {
            *counts.entry(*kind).or_default() += 1;
        }
        counts
    }

    /// The objects that this Stack's source follows from now on. Answers those that nobody followed before.
    pub fn set_followed(&self, key: &Key, objects: BTreeSet<Followed>) -> Vec<Followed> {
        let mut followers = self
            .followers
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        followers.retain(|followed, keys| {
            if !objects.contains(followed) {
                keys.remove(key);
            }
            !keys.is_empty()
        });
        let mut new = Vec::new();
        for followed in objects {
            let keys = followers.entry(followed.clone()).or_default();
            if keys.is_empty() {
                new.push(followed);
            }
            keys.insert(key.clone());
        }
        new
    }

    /// All objects that sources follow.
    pub fn followed(&self) -> Vec<Followed> {
        let followers = self
            .followers
            .read()
            .unwrap_or_else(PoisonError::into_inner);
        followers.keys().cloned().collect()
    }

    /// Asks the sources again that follow this object.
    pub fn followed_changed(&self, followed: &Followed) {
        let Some(handle) = self.engine() else { return };
        let followers = self
            .followers
            .read()
            .unwrap_or_else(PoisonError::into_inner);
        for key in followers.get(followed).into_iter().flatten() {
            handle.source_changed(key.clone());
        }
    }

    fn stack_changed(&self, before: Option<&Stack>, now: Option<&Stack>) {
        let Some(key) = now.or(before).and_then(|stack| key_of(&stack.metadata)) else {
            return;
        };
        let (was, is) = (
            before.map(needs).unwrap_or_default(),
            now.map(needs).unwrap_or_default(),
        );
        let mut dependents = self
            .dependents
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        for name in was.difference(&is) {
            if let Some(keys) = dependents.get_mut(&Key::new(&key.namespace, name)) {
                keys.remove(&key);
            }
        }
        for name in is.difference(&was) {
            dependents
                .entry(Key::new(&key.namespace, name))
                .or_default()
                .insert(key.clone());
        }
        let waiting: Vec<Key> = dependents
            .get(&key)
            .into_iter()
            .flatten()
            .cloned()
            .collect();
        drop(dependents);
        if now.is_none() {
            self.set_followed(&key, BTreeSet::new());
        }
        self.links.changed(&key, before, now);
        self.wake(key);
        // Only what they look at: how the last run went, what was asked for, the outputs.
        let shown = |stack: Option<&Stack>| {
            stack.map(|stack| {
                let status = stack.status.as_ref();
                (
                    stack.metadata.generation,
                    stack.metadata.annotations.clone(),
                    stack.metadata.deletion_timestamp.is_some(),
                    status.and_then(|status| status.last_update.clone()),
                    status.and_then(|status| status.outputs.clone()),
                )
            })
        };
        if !waiting.is_empty() && shown(before) != shown(now) {
            for dependent in waiting {
                self.wake(dependent);
            }
        }
    }
}

/// The names of the Stacks that a Stack waits for or takes outputs from.
fn needs(stack: &Stack) -> BTreeSet<String> {
    let spec = &stack.spec;
    spec.prerequisites
        .iter()
        .filter_map(|p| Some(p.normalize().ok()?.name))
        .chain(spec.env_refs.values().filter_map(|r| r.stack.clone()))
        .collect()
}

impl Watched for Stack {
    const NAME: &'static str = "Stack";

    fn cache(world: &World) -> &Cache<Stack> {
        &world.stacks
    }

    fn changed(world: &World, change: Change<Stack>) {
        world.stack_changed(change.before.as_deref(), change.now.as_deref());
    }
}

impl Watched for Program {
    const NAME: &'static str = "Program";

    fn cache(world: &World) -> &Cache<Program> {
        &world.programs
    }

    fn changed(world: &World, change: Change<Program>) {
        world
            .archives
            .changed(change.before.as_deref(), change.now.as_deref());
        // What it is, and the archive that says so: some sources read the one, some the other.
        let shown = |program: &Option<Arc<Program>>| {
            program.as_ref().map(|program| {
                let status = program.status.as_ref();
                let artifact = status.and_then(|status| status.artifact.clone());
                (
                    program.metadata.uid.clone(),
                    program.metadata.generation,
                    artifact,
                )
            })
        };
        if shown(&change.before) == shown(&change.now) {
            return;
        }
        let metadata = change.now.or(change.before);
        let Some(key) = metadata.and_then(|program| key_of(&program.metadata)) else {
            return;
        };
        world.followed_changed(&Followed {
            api_version: "pulumi.com/v1".into(),
            kind: "Program".into(),
            namespace: key.namespace,
            name: key.name,
        });
    }
}

impl Watched for Workspace {
    const NAME: &'static str = "Workspace";

    fn cache(world: &World) -> &Cache<Workspace> {
        &world.workspaces
    }

    fn changed(world: &World, change: Change<Workspace>) {
        let object = change.now.or(change.before);
        if let Some(key) = object.and_then(|workspace| key_of(&workspace.metadata)) {
            world.wake(key);
        }
    }
}

impl Watched for Update {
    const NAME: &'static str = "Update";

    fn cache(world: &World) -> &Cache<Update> {
        &world.updates
    }

    fn changed(world: &World, change: Change<Update>) {
        let Some(update) = change.now.or(change.before) else {
            return;
        };
        let metadata = &update.metadata;
        if let Some((namespace, name)) = metadata
            .namespace
            .clone()
            .zip(update.spec.workspace_name.clone())
        {
            world.wake(Key::new(namespace, name));
        }
    }
}

impl Watched for Pod {
    const NAME: &'static str = "Pod";

    fn cache(world: &World) -> &Cache<Pod> {
        &world.pods
    }

    fn changed(world: &World, change: Change<Pod>) {
        let Some(pod) = change.now.or(change.before) else {
            return;
        };
        let metadata = &pod.metadata;
        let workspace = metadata.labels.as_ref().and_then(|labels| {
            labels
                .get(WORKSPACE_NAME_LABEL)
                .or(labels.get(STACK_NAME_LABEL))
        });
        if let Some((namespace, name)) = metadata.namespace.clone().zip(workspace.cloned()) {
            world.tell(Key::new(namespace, name));
        }
    }
}
