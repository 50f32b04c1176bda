//! The engine's store on a cluster: reading from the watches, writing to the API server, each write fenced by what the
//! step has seen.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use windlass_api::conditions::{COMPLETE, is_true};
use windlass_api::lenient::Lenient;
use windlass_api::{Stack, Update};
use windlass_core::decision::{Event, Write};
use windlass_core::snapshot::{NAMESPACE_TERMINATING, Objects, Refusal, StackView};
use windlass_core::spec;
use windlass_engine::{Fence, Key, Store, StoreError};
use windlass_tasks::HeldOutputs;

use crate::api::{ApiError, Cluster, readable};
use crate::clock;
use crate::digests::OutputDigests;
use crate::events::{Events, update_ended, update_expired};
use crate::healths::Healths;
use crate::instances::Instances;
use crate::references::References;
use crate::world::World;
use crate::write::workspace::{Unmade, Wanted, is_ours};

/// Objects on a cluster, workspaces as pods.
pub struct KubeStore {
    pub cluster: Cluster,
    pub world: Arc<World>,
    pub references: Arc<References>,
    pub healths: Arc<Healths>,
    pub digests: OutputDigests,
    pub outputs: Arc<HeldOutputs>,
    pub instances: Arc<Instances>,
    pub events: Events,
}

impl Store for KubeStore {
    async fn load(&self, key: &Key) -> Result<Objects, StoreError> {
        let stack = self.world.stacks.get(&key.namespace, &key.name);
        let by_hand = self
            .world
            .workspaces
            .get(&key.namespace, &key.name)
            .filter(|workspace| stack.is_none() && !is_ours(workspace));
        let updates: Vec<_> = self
            .world
            .updates
            .group(key)
            .iter()
            .map(|update| (**update).clone())
            .collect();
        let workspace = self.instances.view(key, &updates);
        let refusal = stack
            .as_ref()
            .and_then(|stack| self.instances.refusal(key, stack));
        let (mut stacks, mut references) = (BTreeMap::new(), BTreeMap::new());
        // What a broken specification refers to is of no use: it is not run.
        if let Some(stack) = &stack
            && let Ok(checked) = spec::check(stack, true)
        {
            let outputs_of: BTreeSet<String> = checked
                .stack_outputs
                .values()
                .map(|(stack, _)| stack.clone())
                .collect();
            let mut wanted = outputs_of.clone();
            wanted.extend(checked.prerequisites.iter().map(|p| p.name.clone()));
            stacks = self.reachable(&key.namespace, wanted, &outputs_of).await?;
            references = self.references.versions(key, checked.references).await?;
        }
        let health = match &stack {
            Some(stack) if !stack.spec.health_checks.is_empty() => {
                self.healths.verdicts(key, stack).await
            }
            _ => Vec::new(),
        };
        Ok(Objects {
            stack: stack.map(|stack| (*stack).clone()),
            by_hand: by_hand.map(|workspace| (*workspace).clone()),
            updates,
            workspace,
            stacks,
            references,
            health,
            refusal,
        })
    }

    async fn write(
        &self,
        key: &Key,
        write: &Write,
        objects: &Objects,
        fence: &mut Fence,
    ) -> Result<(), StoreError> {
        let done = self.perform(key, write, objects, fence).await;
        if matches!(done, Err(StoreError::Conflict | StoreError::NotFound)) {
            // The watch is behind: looking again at once would only find the same.
            self.refresh(key, write).await;
        }
        done
    }
}

impl KubeStore {
    async fn perform(
        &self,
        key: &Key,
        write: &Write,
        objects: &Objects,
        fence: &mut Fence,
    ) -> Result<(), StoreError> {
        match write {
            Write::AddFinalizer => self.add_stack_finalizer(key, fence).await,
            Write::PutStatus { status } => self.put_stack_status(key, status, fence).await,
            Write::RequestReconcile { stack, value } => {
                self.request_reconcile(key, stack, value).await
            }
            Write::EnsureWorkspace {
                spec_digest,
                audience,
                source_first,
            } => {
                let wanted = Wanted {
                    spec_digest,
                    audience: audience.as_deref(),
                    source_first: *source_first,
                };
                if let Some(workspace) = &objects.by_hand {
                    let made = self.ensure_pod(key, workspace, None, &wanted).await;
                    return made.map_err(|unmade| ApiError::from(unmade).into());
                }
                let Some(stack) = &objects.stack else {
                    return Ok(());
                };
                let made = self.ensure_workspace(key, stack, &wanted).await;
                self.or_refused(key, stack, made.map_err(Unmade::into))
            }
            Write::StopWorkspace { uid } => {
                // The decision may be older than a run that has begun since.
                let started = self.live_updates(key).await?.iter().any(|update| {
                    let status = update.status.as_ref();
                    let here = status
                        .and_then(|status| status.run.as_ref())
                        .is_some_and(|run| run.instance == *uid);
                    here && !status.is_some_and(|status| is_true(&status.conditions, COMPLETE))
                });
                if started {
                    return Err(StoreError::Conflict);
                }
                self.stop_workspace(key, uid).await
            }
            Write::CreateUpdate {
                name,
                operation,
                intent,
            } => {
                let stack = objects.stack.as_ref().ok_or(StoreError::NotFound)?;
                let created = self
                    .create_update(key, stack, name, *operation, intent)
                    .await;
                self.or_refused(key, stack, created)
            }
            Write::RecordStart { update, record } => {
                self.record_start(key, update, record, fence).await
            }
            Write::SaveOutputs { update } => {
                // An Update made by hand leaves the Stack's own outputs as they are.
                let by_hand =
                    windlass_core::by_hand::started(objects).any(|ours| ours.name == update);
                let stack = objects.stack.as_ref().filter(|_| !by_hand);
                self.save_outputs(key, stack, update).await
            }
            Write::UpdateWaits {
                update,
                reason,
                message,
            } => self.update_waits(key, update, reason, message, fence).await,
            Write::FinishUpdate { update, outcome } => {
                self.finish_update(key, update, outcome, fence).await?;
                self.tell(objects, update, |update| update_ended(update, outcome));
                self.instances.release_if_over(key).await;
                Ok(())
            }
            Write::ReleaseUpdate { update } => self.release_update(key, update).await,
            Write::DeleteUpdate { update } => {
                self.instances.forget_run(key, update);
                self.delete_update(key, update).await?;
                self.tell(objects, update, |update| update_expired(update, clock()));
                Ok(())
            }
            Write::RemoveFinalizer => self.remove_stack_finalizer(key, fence).await,
            Write::Event { event } => {
                if let Some(stack) = &objects.stack {
                    self.events.stack(stack, event);
                }
                Ok(())
            }
        }
    }

    /// An event about one of the step's Updates.
    fn tell(&self, objects: &Objects, name: &str, news: impl FnOnce(&Update) -> Option<Event>) {
        let named = |update: &&Update| update.metadata.name.as_deref() == Some(name);
        if let Some(update) = objects.updates.iter().find(named)
            && let Some(event) = news(update)
        {
            self.events.update(update, &event);
        }
    }

    /// What is refused is no fault of the store: the Stack is told, and it is tried again after a rest.
    fn or_refused(
        &self,
        key: &Key,
        stack: &Stack,
        done: Result<(), ApiError>,
    ) -> Result<(), StoreError> {
        let refusal = match done {
            Ok(()) => {
                self.instances.forget_refusal(key);
                return Ok(());
            }
            Err(ApiError::Refused { reason, message }) => Refusal { reason, message },
            Err(ApiError::NamespaceTerminating(message)) => Refusal {
                reason: NAMESPACE_TERMINATING.to_owned(),
                message,
            },
            Err(error) => return Err(error.into()),
        };
        self.instances.refused(key, stack, refusal);
        Ok(())
    }

    /// Reads again what a write found changed.
    async fn refresh(&self, key: &Key, write: &Write) {
        let update = match write {
            Write::RecordStart { update, .. }
            | Write::UpdateWaits { update, .. }
            | Write::FinishUpdate { update, .. }
            | Write::ReleaseUpdate { update } => Some(update),
            _ => None,
        };
        let read = async {
            match update {
                Some(name) => match self.cluster.get(&key.namespace, name).await? {
                    Some(update) => self.world.took::<windlass_api::Update>(update),
                    None => self
                        .world
                        .lost::<windlass_api::Update>(&key.namespace, name, None),
                },
                None => match self
                    .cluster
                    .get::<Lenient<Stack>>(&key.namespace, &key.name)
                    .await?
                {
                    Some(stack) => self.world.took(readable(stack)?),
                    None => self.world.lost::<Stack>(&key.namespace, &key.name, None),
                },
            }
            Ok::<(), crate::api::ApiError>(())
        };
        if let Err(error) = read.await {
            tracing::debug!(%key, %error, "reading again after a conflict");
        }
    }

    /// The Stacks that are reached by prerequisites and outputs.
    async fn reachable(
        &self,
        namespace: &str,
        mut wanted: BTreeSet<String>,
        outputs_of: &BTreeSet<String>,
    ) -> Result<BTreeMap<String, StackView>, StoreError> {
        let mut views = BTreeMap::new();
        while let Some(name) = wanted.pop_first() {
            if views.contains_key(&name) {
                continue;
            }
            let Some(stack) = self.world.stacks.get(namespace, &name) else {
                continue;
            };
            // Only the outputs of Stacks that are used directly are looked at.
            let digests = if outputs_of.contains(&name) {
                self.digests.of(&Key::new(namespace, &name), &stack).await?
            } else {
                BTreeMap::new()
            };
            let view =
                windlass_core::view::of(&stack, &|output: &str| digests.get(output).cloned());
            wanted.extend(view.prerequisites.iter().cloned());
            views.insert(name, view);
        }
        Ok(views)
    }
}
