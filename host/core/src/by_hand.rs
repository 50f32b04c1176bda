//! Workspaces and Updates that somebody made by hand, as the Pulumi Kubernetes Operator lets people do.
//!
//! Such an Update runs once, on the workspace that it names: a Stack's, with what the Stack ran last, or one made by
//! hand, with its own source. Nobody wants it again; its object is its only record. What it runs is pinned in
//! `status.run` when it starts, for its `spec` is its author's. One workspace has one run at a time, whoever asked.

mod request;
mod source;

use windlass_api::conditions::{COMPLETE, PROGRESSING, get, update_reason};
use windlass_api::intent::{Cause, RunIntent, RunRecord};
use windlass_api::names::FINALIZER;
use windlass_api::run::ProgramSource;
use windlass_api::{ObjectMeta, Stack, Update, Workspace};

pub use request::request;

use crate::decide::Live;
use crate::decision::{Activity, Decision, Write};
use crate::digest::digest;
use crate::failure::{Failure, FailureClass};
use crate::run::{self, Ours};
use crate::snapshot::{InstancePhase, Objects, Refusal, Snapshot};
use crate::spec::Checked;
use crate::time::Timestamp;

use source::Source;

/// Updates that no Stack asked for.
fn updates(objects: &Objects) -> impl Iterator<Item = &Update> {
    objects
        .updates
        .iter()
        .filter(|update| update.spec.intent.is_none())
}

/// Those that were started and are not over.
pub fn started(objects: &Objects) -> impl Iterator<Item = Ours<'_>> {
    updates(objects).filter_map(|update| {
        let intent = update.status.as_ref()?.run.as_ref()?.intent.as_deref()?;
        let ours = Ours {
            name: update.metadata.name.as_deref()?,
            update,
            intent,
            operation: update.spec.operation().ok()?,
        };
        (!ours.finished()).then_some(ours)
    })
}

/// The Stack that tasks for this workspace work for: the one there is, else what the Workspace says in its words.
pub fn stack(objects: &Objects) -> Option<Stack> {
    if objects.stack.is_some() {
        return objects.stack.clone();
    }
    let named = updates(objects).find_map(|update| update.spec.stack_name.clone());
    match &objects.by_hand {
        Some(workspace) => Some(source::as_stack(workspace, named)),
        // The Workspace is gone, its last run is not.
        None => started(objects).next().map(|update| {
            let mut stack = Stack::new(
                update
                    .update
                    .spec
                    .workspace_name
                    .as_deref()
                    .unwrap_or_default(),
                Default::default(),
            );
            stack.metadata.namespace = update.update.metadata.namespace.clone();
            stack
        }),
    }
}

/// Digest over what a pod of this Workspace is made from; its stacks reach it with each run, and its source too unless
/// the pod's own init containers find it in place.
fn workspace_digest(workspace: &Workspace, first: Option<&ProgramSource>) -> String {
    let spec = &workspace.spec;
    digest(&(
        &spec.service_account_name,
        &spec.security_profile,
        &spec.image,
        &spec.image_pull_policy,
        &spec.env,
        &spec.env_from,
        &spec.resources,
        &spec.pod_template,
        &spec.pulumi_log_level,
        first,
    ))
}

/// Wants a pod of this Workspace; once its program is known, where that comes before init containers of its own.
fn ensure(live: &mut Live<'_>, workspace: &Workspace) {
    let mut first = None;
    if workspace.spec.has_init_containers() {
        match source::find(live, workspace) {
            Ok(Source::At { program, .. }) => {
                first = Some(program).filter(|p| matches!(p, ProgramSource::Tree { .. }));
            }
            // Updates say what is wrong with it.
            Ok(Source::OnItsWay) | Err(_) => return,
        }
    }
    let digest = workspace_digest(workspace, first.as_ref());
    live.draft.ensure_workspace(&digest, None, first.is_some());
    if let Some(program) = first {
        deliver(live, &digest, &program);
    }
}

/// Hands the program to a pod of this digest, if its init containers wait for it.
fn deliver(live: &mut Live<'_>, digest: &str, program: &ProgramSource) {
    if let Some(instance) = &live.s.objects.workspace.current
        && let InstancePhase::Receiving { boot_id } = &instance.phase
        && instance.spec_digest == digest
    {
        run::deliver(live, program, instance, boot_id);
    }
}

/// Keeps a Stack's workspace for an Update that waits for it, or wants it back: it may have been idle for long.
fn keep(live: &mut Live<'_>, checked: Option<&Checked>, intent: &RunIntent) -> Result<(), Waits> {
    live.waited_for = true;
    let Some(checked) = checked else {
        return Err(not_ready("the Stack's specification is not valid"));
    };
    if let Some(Refusal { reason, message }) = &live.s.objects.refusal {
        return Err(not_ready(format!("{reason}: {message}")));
    }
    let digest = live.want_workspace(checked, intent.login.as_ref(), &intent.program);
    deliver(live, &digest, &intent.program);
    Ok(())
}

/// Without a Stack: the Workspace that is there, and every Update of it.
pub(crate) fn decide(snapshot: &Snapshot) -> Decision {
    let objects = &snapshot.objects;
    let stack = stack(objects).unwrap_or_default();
    let mut live = Live::new(snapshot, &stack);
    // What a Stack left behind goes; what people made stays.
    live.draft.delete_updates_of_the_stack();
    let open = tend(&mut live, false, None);
    match &objects.by_hand {
        Some(workspace) if workspace.metadata.deletion_timestamp.is_none() => {
            ensure(&mut live, workspace);
        }
        _ if open => {}
        _ => live.draft.stop_workspace(),
    }
    let activity = if open {
        Activity::Busy
    } else {
        Activity::Settled
    };
    live.draft.finish(None, activity)
}

/// Follows the run that was started, else starts the next, unless a Stack's own is open. True while one goes on or is
/// about to.
pub(crate) fn tend(live: &mut Live<'_>, own_open: bool, checked: Option<&Checked>) -> bool {
    let snapshot = live.s;
    let objects = &snapshot.objects;
    for update in updates(objects).filter(|update| run::finished(update)) {
        clean_up(live, update);
    }
    if let Some(update) = started(objects).next() {
        if let Some(record) = update.started() {
            run::follow(live, update, record);
        }
        return true;
    }
    let next = updates(objects)
        .filter(|update| !run::finished(update))
        .min_by_key(|update| {
            let metadata = &update.metadata;
            (
                metadata
                    .creation_timestamp
                    .as_ref()
                    .map(|time| time.0.as_millisecond()),
                metadata.name.clone(),
            )
        });
    match next {
        Some(update) => start(live, update, own_open, checked),
        None => false,
    }
}

/// A finished Update lets go at once, and goes when its time is over (`ttlAfterCompleted`).
fn clean_up(live: &mut Live<'_>, update: &Update) {
    let name = update.metadata.name.clone().unwrap_or_default();
    let held = update
        .metadata
        .finalizers
        .iter()
        .flatten()
        .any(|finalizer| finalizer == FINALIZER);
    if held {
        live.draft.release.push(Write::ReleaseUpdate {
            update: name.clone(),
        });
    }
    if update.metadata.deletion_timestamp.is_some() {
        return;
    }
    let ttl = update
        .spec
        .ttl_after_completed
        .as_deref()
        .and_then(|text| windlass_api::duration::parse(text).ok());
    let ended = update
        .status
        .as_ref()
        .and_then(|status| get(&status.conditions, COMPLETE))
        .map(|condition| condition.last_transition_time.0.as_millisecond());
    if let (Some(ttl), Some(ended)) = (ttl, ended) {
        let ttl = i64::try_from(ttl.as_millis()).unwrap_or(i64::MAX);
        let at = Timestamp(ended.saturating_add(ttl));
        if at > live.s.now {
            live.draft.wake(at);
        } else {
            live.draft
                .event(false, "UpdateExpired", format!("{name} has expired"));
            live.draft.after.push(Write::DeleteUpdate { update: name });
        }
    }
}

fn start(live: &mut Live<'_>, update: &Update, own_open: bool, checked: Option<&Checked>) -> bool {
    let name = update.metadata.name.clone().unwrap_or_default();
    if let Err(error) = update.spec.operation() {
        end_unrun(live, name, update_reason::FAILED, error.to_string());
        return true;
    }
    if run::cancel_requested(update) {
        // One that is being deleted is gone by itself: it never had a finalizer.
        if update.metadata.deletion_timestamp.is_none() {
            let message = "cancelled on request before it started";
            end_unrun(live, name, update_reason::CANCELED, message.to_owned());
        }
        return false;
    }
    match ready(live, update, own_open, checked) {
        Ok(Some(record)) => {
            live.draft.start.push(Write::RecordStart {
                update: name,
                record,
            });
            true
        }
        // Tasks are under way.
        Ok(None) => false,
        Err((reason, message)) => {
            waits(live, update, reason, &message);
            false
        }
    }
}

/// Why an Update cannot start yet: a reason for its condition, and a message.
type Waits = (&'static str, String);

fn not_ready(message: impl Into<String>) -> Waits {
    (update_reason::WORKSPACE_NOT_READY, message.into())
}

/// Where it starts and what; none while that is being found out.
fn ready(
    live: &mut Live<'_>,
    update: &Update,
    own_open: bool,
    checked: Option<&Checked>,
) -> Result<Option<RunRecord>, Waits> {
    let objects = &live.s.objects;
    if own_open {
        return Err(not_ready("another run goes on in this workspace"));
    }
    let planned = match &objects.by_hand {
        _ if objects.stack.is_some() => {
            let intent = beside_a_stack(live, update)?;
            keep(live, checked, &intent)?;
            Some(intent)
        }
        Some(workspace) => on_its_own(live, workspace, update)?,
        None => {
            let message = "there is no Workspace of this name".to_owned();
            return Err((update_reason::WORKSPACE_NOT_FOUND, message));
        }
    };
    let Some(intent) = planned else {
        return Ok(None);
    };
    let Some(instance) = &objects.workspace.current else {
        return Err(not_ready("the workspace has no pod yet"));
    };
    let InstancePhase::Ready { boot_id } = &instance.phase else {
        return Err(not_ready("the workspace's pod is not ready"));
    };
    if !live.s.capacity {
        return Err(not_ready("waiting for other runs to end"));
    }
    Ok(Some(RunRecord {
        instance: instance.uid.clone(),
        hostname: instance.hostname.clone(),
        node: instance.node.clone(),
        boot_id: boot_id.clone(),
        at_ms: live.s.now.0,
        intent: Some(Box::new(intent)),
    }))
}

fn intent(update: &Update, stack: String, program: ProgramSource) -> RunIntent {
    RunIntent {
        sequence: 0,
        cause: Cause::ByHand,
        generation: update.metadata.generation.unwrap_or_default(),
        reconcile_request: None,
        revision: String::new(),
        program,
        subtree: None,
        source_digest: None,
        stack,
        env: Default::default(),
        login: None,
        inputs: String::new(),
        stack_outputs: String::new(),
        release_locks: Vec::new(),
    }
}

/// What the Stack ran last, in another operation.
fn beside_a_stack(live: &Live<'_>, update: &Update) -> Result<RunIntent, Waits> {
    let last = run::ours(live.stack, &live.s.objects.updates)
        .filter(Ours::finished)
        .max_by_key(|update| update.intent.sequence)
        .ok_or_else(|| not_ready("the Stack of this workspace has not run yet"))?;
    let named = update.spec.stack_name.clone().unwrap_or_default();
    let stack = if named.is_empty() || named == live.stack.spec.stack {
        last.intent.stack.clone()
    } else {
        named
    };
    Ok(RunIntent {
        revision: last.intent.revision.clone(),
        env: last.intent.env.clone(),
        login: last.intent.login.clone(),
        ..intent(update, stack, last.intent.program.clone())
    })
}

fn on_its_own(
    live: &mut Live<'_>,
    workspace: &Workspace,
    update: &Update,
) -> Result<Option<RunIntent>, Waits> {
    let named = update.spec.stack_name.clone().unwrap_or_default();
    if named.is_empty() {
        let message = "spec.stackName is missing: it names the Pulumi stack to run";
        return Err(not_ready(message));
    }
    Ok(match source::find(live, workspace).map_err(not_ready)? {
        Source::At { program, revision } => Some(RunIntent {
            revision,
            ..intent(update, named, program)
        }),
        Source::OnItsWay => None,
    })
}

/// Says what it waits for, if that is new.
fn waits(live: &mut Live<'_>, update: &Update, reason: &str, message: &str) {
    let status = update.status.as_ref();
    let said = status
        .and_then(|status| get(&status.conditions, PROGRESSING))
        .is_some_and(|condition| condition.reason == reason && condition.message == message);
    if said {
        return;
    }
    live.draft.finish_update.push(Write::UpdateWaits {
        update: update.metadata.name.clone().unwrap_or_default(),
        reason: reason.to_owned(),
        message: message.to_owned(),
    });
}

fn end_unrun(live: &mut Live<'_>, update: String, reason: &str, message: String) {
    let failure = Failure::new(FailureClass::Cancelled, reason, message);
    run::finish_unrun(live, update, failure);
}

/// Metadata of a Stack that stands for a Workspace.
fn metadata_of(workspace: &Workspace) -> ObjectMeta {
    let ObjectMeta {
        name,
        namespace,
        uid,
        generation,
        ..
    } = workspace.metadata.clone();
    ObjectMeta {
        name,
        namespace,
        uid,
        generation,
        ..ObjectMeta::default()
    }
}
