//! Reading what one step looks at: a Stack, its Updates, and the Stacks, Secrets and ConfigMaps that it names.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use windlass_api::run::ProgramSource;
use windlass_api::secret::Secret;
use windlass_api::{ConfigMap, Stack, Update};
use windlass_core::digest::digest;
use windlass_core::snapshot::{
    Objects, Reference, ReferenceKind, StackView, Verdict, WorkspaceView,
};
use windlass_core::spec;
use windlass_core::time::Timestamp;
use windlass_engine::Key;

use crate::db::{Db, DbError, Stored, kind};

/// Everything stored that concerns the key.
pub fn load(db: &Db, key: &Key, workspace: WorkspaceView) -> Result<Objects, DbError> {
    let stack = db
        .get::<Stack>(kind::STACK, &key.namespace, &key.name)?
        .map(versioned_stack);
    let updates = updates(db, key)?;
    let (mut stacks, mut references) = (BTreeMap::new(), BTreeMap::new());
    // What a broken specification refers to is of no use: it is not run.
    if let Some(stack) = &stack
        && let Ok(checked) = spec::check(stack, false)
    {
        let mut wanted: BTreeSet<String> = checked
            .prerequisites
            .iter()
            .map(|p| p.name.clone())
            .collect();
        wanted.extend(
            checked
                .stack_outputs
                .values()
                .map(|(stack, _)| stack.clone()),
        );
        stacks = reachable(db, &key.namespace, wanted)?;
        for reference in checked.references {
            let version = version_of(db, &key.namespace, &reference)?;
            references.insert(reference, version);
        }
    }
    let health = stack.iter().flat_map(unseen).collect();
    Ok(Objects {
        stack,
        by_hand: None,
        updates,
        workspace,
        stacks,
        references,
        health,
        refusal: None,
    })
}

/// There is no cluster to look at: what a Stack waits for there does not hold it up here.
fn unseen(stack: &Stack) -> impl Iterator<Item = Verdict> + '_ {
    stack.spec.health_checks.iter().map(|check| Verdict {
        check: check.clone(),
        healthy: true,
        message: String::new(),
        at: Timestamp(i64::MAX),
    })
}

/// The Updates of a Stack, with their versions.
pub fn updates(db: &Db, key: &Key) -> Result<Vec<Update>, DbError> {
    let stored = db.list::<Update>(kind::UPDATE, Some((&key.namespace, &key.name)))?;
    Ok(stored
        .into_iter()
        .map(
            |Stored {
                 version,
                 mut object,
             }| {
                object.metadata.resource_version = Some(version.to_string());
                object
            },
        )
        .collect())
}

/// Digests of the trees that Updates name.
pub fn trees_in_use(db: &Db) -> Result<HashSet<String>, DbError> {
    let updates = db.list::<Update>(kind::UPDATE, None)?;
    Ok(updates
        .into_iter()
        .filter_map(|stored| match stored.object.spec.intent?.program {
            ProgramSource::Tree { digest, .. } => Some(digest),
            ProgramSource::WorkspacePath { .. } | ProgramSource::ProjectOnly { .. } => None,
        })
        .collect())
}

fn versioned_stack(
    Stored {
        version,
        mut object,
    }: Stored<Stack>,
) -> Stack {
    object.metadata.resource_version = Some(version.to_string());
    object
}

fn reachable(
    db: &Db,
    namespace: &str,
    mut wanted: BTreeSet<String>,
) -> Result<BTreeMap<String, StackView>, DbError> {
    let mut views = BTreeMap::new();
    while let Some(name) = wanted.pop_first() {
        if views.contains_key(&name) {
            continue;
        }
        if let Some(Stored { object, .. }) = db.get::<Stack>(kind::STACK, namespace, &name)? {
            let outputs = outputs_secret(db, namespace, &object)?;
            let stored = |name: &str| {
                let bytes = outputs
                    .as_ref()?
                    .get(&windlass_api::names::output_key(name))?;
                Some(digest(&(name, bytes)))
            };
            let view = windlass_core::view::of(&object, &stored);
            wanted.extend(view.prerequisites.iter().cloned());
            views.insert(name, view);
        }
    }
    Ok(views)
}

/// The Secret with the values of a Stack's outputs.
pub fn outputs_secret(db: &Db, namespace: &str, stack: &Stack) -> Result<Option<Secret>, DbError> {
    let name = outputs_secret_name(stack.metadata.name.as_deref().unwrap_or_default());
    Ok(db
        .get::<Secret>(kind::SECRET, namespace, &name)?
        .map(|stored| stored.object))
}

/// One Secret per Stack, of the last run that reported outputs: it outlives the Updates.
pub fn outputs_secret_name(stack: &str) -> String {
    format!("{stack}-outputs")
}

fn version_of(db: &Db, namespace: &str, reference: &Reference) -> Result<Option<String>, DbError> {
    let found = match reference.kind {
        ReferenceKind::Secret => db
            .get::<Secret>(kind::SECRET, namespace, &reference.name)?
            .map(|stored| {
                let has = reference
                    .key
                    .as_ref()
                    .is_none_or(|key| stored.object.data.contains_key(key));
                (stored.version, has)
            }),
        ReferenceKind::ConfigMap => db
            .get::<ConfigMap>(kind::CONFIG_MAP, namespace, &reference.name)?
            .map(|stored| {
                let has = reference.key.as_ref().is_none_or(|key| {
                    stored
                        .object
                        .data
                        .as_ref()
                        .is_some_and(|data| data.contains_key(key))
                        || stored
                            .object
                            .binary_data
                            .as_ref()
                            .is_some_and(|data| data.contains_key(key))
                });
                (stored.version, has)
            }),
    };
    Ok(found
        .filter(|(_, has)| *has)
        .map(|(version, _)| version.to_string()))
}
