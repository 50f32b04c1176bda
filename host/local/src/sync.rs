//! Manifests into the store: what `kubectl apply --prune` would do.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use serde::Serialize;
use serde::de::DeserializeOwned;
use windlass_api::manifest::{Manifest, Manifests, ObjectKey};
use windlass_api::secret::Secret;
use windlass_api::{ConfigMap, ObjectMeta, Program, Stack};
use windlass_core::record::time;
use windlass_engine::Key;

use crate::clock;
use crate::db::{Db, DbError, Stored, kind};

/// Annotation that keeps what the manifests said last, so that an edit is told from what the engine wrote.
const APPLIED: &str = "windlass.pulumi.com/applied";

/// What a look at the manifests changed.
#[derive(Debug, Default)]
pub struct Synced {
    /// Stacks to look at.
    pub touched: BTreeSet<Key>,
    /// Stacks whose source may have changed in a way that their own object does not show.
    pub sources: BTreeSet<Key>,
    pub warnings: Vec<String>,
    /// Objects that could not be read. What is stored of them stays.
    pub errors: Vec<String>,
    /// All Stacks, those that are being deleted too.
    pub stacks: BTreeSet<Key>,
}

/// Reads the manifests and brings the store in step. With `destroy` every Stack is to be deleted, dependents first.
pub fn sync(db: &Db, paths: &[PathBuf], destroy: bool) -> Result<Synced, DbError> {
    let mut all = Manifests::default();
    for path in paths {
        all.add_path(path);
    }
    let mut synced = Synced {
        warnings: all.warnings.iter().map(ToString::to_string).collect(),
        errors: all.errors.iter().map(ToString::to_string).collect(),
        ..Synced::default()
    };
    // A known object whose manifest is broken now is not gone. A file that cannot be read could hold anything.
    let unreadable = all.errors.iter().any(|error| error.object.is_none());
    let broken: BTreeSet<String> = all
        .errors
        .iter()
        .filter_map(|e| e.object.as_ref())
        .map(id)
        .collect();
    let mut present: BTreeSet<String> = broken;
    for located in &all.objects {
        present.insert(id(&located.manifest.key()));
        apply(db, &located.manifest, destroy, &mut synced)?;
    }
    let mut deleting = false;
    for Stored { object: stack, .. } in db.list::<Stack>(kind::STACK, None)? {
        let key = key_of(&stack.metadata);
        let gone = !unreadable && !present.contains(&format!("Stack/{key}"));
        if gone || destroy {
            delete_stack(db, &key, destroy, &mut synced)?;
            deleting = true;
        }
        synced.stacks.insert(key);
    }
    // A destroy still needs its Secrets and its Program: they go when the last Stack is gone.
    if !unreadable && !deleting {
        prune(db, &present, &mut synced)?;
    }
    Ok(synced)
}

fn id(key: &ObjectKey) -> String {
    format!("{}/{}/{}", key.kind, key.namespace, key.name)
}

fn key_of(metadata: &ObjectMeta) -> Key {
    Key::new(
        metadata.namespace.as_deref().unwrap_or("default"),
        metadata.name.as_deref().unwrap_or_default(),
    )
}

fn apply(db: &Db, manifest: &Manifest, destroy: bool, synced: &mut Synced) -> Result<(), DbError> {
    match manifest {
        Manifest::Stack(stack) => {
            // What is to be taken down is not brought up first, nor forgotten: only what is stored is deleted.
            if !destroy && apply_stack(db, stack)? {
                synced.touched.insert(key_of(&stack.metadata));
            }
        }
        Manifest::Program(program) => {
            if apply_plain(db, kind::PROGRAM, &program.metadata, &**program)? {
                source_of(db, &key_of(&program.metadata), synced)?;
            }
        }
        Manifest::Secret(secret) => {
            if apply_plain(db, kind::SECRET, &secret.metadata, &**secret)? {
                touch_namespace(db, &key_of(&secret.metadata).namespace, synced)?;
            }
        }
        Manifest::ConfigMap(map) => {
            if apply_plain(db, kind::CONFIG_MAP, &map.metadata, &**map)? {
                touch_namespace(db, &key_of(&map.metadata).namespace, synced)?;
            }
        }
        Manifest::Workspace(object) => synced.warnings.push(ignored("Workspace", &object.metadata)),
        Manifest::Update(object) => synced.warnings.push(ignored("Update", &object.metadata)),
    }
    Ok(())
}

fn ignored(kind: &str, metadata: &ObjectMeta) -> String {
    format!(
        "{kind} {} is ignored: hand-made {kind}s need a cluster",
        key_of(metadata)
    )
}

/// Stores a Stack if its manifest changed. The generation moves with the spec alone.
fn apply_stack(db: &Db, wanted: &Stack) -> Result<bool, DbError> {
    let key = key_of(&wanted.metadata);
    let spec = serde_json::to_value(&wanted.spec)?;
    let fingerprint = windlass_core::digest::digest(&(
        &spec,
        &wanted.metadata.annotations,
        &wanted.metadata.labels,
    ));
    let stored = db.get::<Stack>(kind::STACK, &key.namespace, &key.name)?;
    let (mut stack, expected) = match stored {
        Some(Stored { version, object }) => {
            let same = annotation(&object.metadata, APPLIED) == Some(fingerprint.as_str());
            // One that is being deleted goes first; the manifest makes a new one afterwards.
            if same || object.metadata.deletion_timestamp.is_some() {
                return Ok(false);
            }
            (object, version)
        }
        None => {
            let mut stack = Stack::new(&key.name, wanted.spec.clone());
            stack.metadata.namespace = Some(key.namespace.clone());
            stack.metadata.uid = Some(db.new_uid()?);
            stack.metadata.creation_timestamp = Some(time(clock().0));
            (stack, 0)
        }
    };
    if expected == 0 || serde_json::to_value(&stack.spec)? != spec {
        stack.metadata.generation = Some(stack.metadata.generation.unwrap_or(0) + 1);
    }
    stack.spec = wanted.spec.clone();
    stack.metadata.labels = wanted.metadata.labels.clone();
    // Annotations that the engine set stay.
    let annotations = stack.metadata.annotations.get_or_insert_default();
    annotations.extend(wanted.metadata.annotations.clone().unwrap_or_default());
    annotations.insert(APPLIED.to_owned(), fingerprint);
    match db.put(
        kind::STACK,
        (&key.namespace, &key.name),
        "",
        Some(expected),
        &stack,
    ) {
        // The engine wrote in between: the next look applies it.
        Ok(_) | Err(DbError::Conflict | DbError::NotFound) => Ok(true),
        Err(error) => Err(error),
    }
}

fn annotation<'a>(metadata: &'a ObjectMeta, name: &str) -> Option<&'a str> {
    metadata.annotations.as_ref()?.get(name).map(String::as_str)
}

/// Stores an object that nobody but its manifest writes. True if it changed.
fn apply_plain<T>(db: &Db, kind: &str, metadata: &ObjectMeta, wanted: &T) -> Result<bool, DbError>
where
    T: Serialize + DeserializeOwned,
{
    let key = key_of(metadata);
    let mut value = serde_json::to_value(wanted)?;
    let stored = db.get::<serde_json::Value>(kind, &key.namespace, &key.name)?;
    let (generation, before) = match &stored {
        Some(Stored { object, .. }) => (
            object["metadata"]["generation"].as_i64().unwrap_or(1),
            Some(object.clone()),
        ),
        None => (0, None),
    };
    value["metadata"]["namespace"] = key.namespace.clone().into();
    value["metadata"]["generation"] = generation.into();
    if before.as_ref() == Some(&value) {
        return Ok(false);
    }
    value["metadata"]["generation"] = (generation + 1).into();
    db.put(kind, (&key.namespace, &key.name), "", None, &value)?;
    Ok(true)
}

/// Asks for the deletion of every Stack that nothing depends on. Answers which are new.
pub fn take_down(db: &Db) -> Result<BTreeSet<Key>, DbError> {
    let mut synced = Synced::default();
    for Stored { object: stack, .. } in db.list::<Stack>(kind::STACK, None)? {
        delete_stack(db, &key_of(&stack.metadata), true, &mut synced)?;
    }
    Ok(synced.touched)
}

/// Asks for the deletion of a Stack: at once if nothing depends on it any more.
fn delete_stack(db: &Db, key: &Key, destroy: bool, synced: &mut Synced) -> Result<(), DbError> {
    let Some(Stored {
        version,
        object: mut stack,
    }) = db.get::<Stack>(kind::STACK, &key.namespace, &key.name)?
    else {
        return Ok(());
    };
    if stack.metadata.deletion_timestamp.is_some() {
        return Ok(());
    }
    if destroy {
        if has_dependents(db, key)? {
            return Ok(());
        }
        stack.spec.destroy_on_finalize = true;
        stack.spec.suspend = false;
    }
    synced.touched.insert(key.clone());
    if stack.metadata.finalizers.as_ref().is_none_or(Vec::is_empty) {
        return db.delete(kind::STACK, &key.namespace, &key.name);
    }
    stack.metadata.deletion_timestamp = Some(time(clock().0));
    stack.metadata.generation = Some(stack.metadata.generation.unwrap_or(0) + 1);
    match db.put(
        kind::STACK,
        (&key.namespace, &key.name),
        "",
        Some(version),
        &stack,
    ) {
        Ok(_) | Err(DbError::Conflict | DbError::NotFound) => Ok(()),
        Err(error) => Err(error),
    }
}

/// Whether another Stack waits for this one or uses its outputs.
fn has_dependents(db: &Db, key: &Key) -> Result<bool, DbError> {
    Ok(db
        .list::<Stack>(kind::STACK, None)?
        .into_iter()
        .map(|stored| stored.object)
        .any(|stack| {
            let other = key_of(&stack.metadata);
            let spec = &stack.spec;
            other.namespace == key.namespace
                && other != *key
                && (spec
                    .prerequisites
                    .iter()
                    .any(|p| p.normalize().is_ok_and(|meaning| meaning.name == key.name))
                    || spec
                        .env_refs
                        .values()
                        .any(|reference| reference.stack.as_deref() == Some(&key.name)))
        }))
}

fn prune(db: &Db, present: &BTreeSet<String>, synced: &mut Synced) -> Result<(), DbError> {
    let mut gone: BTreeMap<&str, Vec<Key>> = BTreeMap::new();
    for stored in db.list::<Program>(kind::PROGRAM, None)? {
        gone.entry(kind::PROGRAM)
            .or_default()
            .push(key_of(&stored.object.metadata));
    }
    for stored in db.list::<Secret>(kind::SECRET, None)? {
        // Outputs are the engine's.
        if stored.object.type_.as_deref() != Some("pulumi.com/outputs") {
            gone.entry(kind::SECRET)
                .or_default()
                .push(key_of(&stored.object.metadata));
        }
    }
    for stored in db.list::<ConfigMap>(kind::CONFIG_MAP, None)? {
        gone.entry(kind::CONFIG_MAP)
            .or_default()
            .push(key_of(&stored.object.metadata));
    }
    for (kind, keys) in gone {
        for key in keys {
            if present.contains(&format!("{kind}/{key}")) {
                continue;
            }
            db.delete(kind, &key.namespace, &key.name)?;
            match kind {
                kind::PROGRAM => source_of(db, &key, synced)?,
                _ => touch_namespace(db, &key.namespace, synced)?,
            }
        }
    }
    Ok(())
}

/// Stacks whose source is this Program.
fn source_of(db: &Db, program: &Key, synced: &mut Synced) -> Result<(), DbError> {
    for Stored { object: stack, .. } in db.list::<Stack>(kind::STACK, None)? {
        let key = key_of(&stack.metadata);
        let named = stack
            .spec
            .program_ref
            .as_ref()
            .is_some_and(|reference| reference.name == program.name);
        if named && key.namespace == program.namespace {
            synced.sources.insert(key);
        }
    }
    Ok(())
}

/// A Secret or ConfigMap changed: whoever waits for it looks again, and credentials are read again.
fn touch_namespace(db: &Db, namespace: &str, synced: &mut Synced) -> Result<(), DbError> {
    for Stored { object: stack, .. } in db.list::<Stack>(kind::STACK, None)? {
        let key = key_of(&stack.metadata);
        if key.namespace == namespace {
            if stack.spec.git_auth.is_some() || stack.spec.git_auth_secret.is_some() {
                synced.sources.insert(key.clone());
            }
            synced.touched.insert(key);
        }
    }
    Ok(())
}

#[cfg(test)]
#[path = "sync_tests.rs"]
mod tests;
