//! A Stack as one row of a table.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::Value;
use windlass_api::conditions::{self, READY, RECONCILING, STALLED, stack_reason};
use windlass_api::intent::RunProgressRecord;
use windlass_api::{Stack, Update};
use windlass_engine::Key;

/// What a person wants to know of a Stack at a glance.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct StackRow {
    pub namespace: String,
    pub name: String,
    /// The source in short, as in `main@1a2b3c4` or `program greet`.
    pub source: String,
    /// The revision that the last run was for.
    pub revision: String,
    /// Ready, Failed, Running, Waiting, Suspended, Deleting or Deleted.
    pub state: String,
    /// Reason of the condition that says so.
    pub reason: String,
    pub message: String,
    /// The health component's verdict, in Argo CD's words.
    pub health: String,
    pub health_message: String,
    pub resources: Option<u32>,
    /// Secret ones read `[secret]`.
    pub outputs: BTreeMap<String, Value>,
    pub last_run_seconds: Option<f64>,
    pub last_run_type: Option<String>,
    /// How far the run that goes on is, if it takes its time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub progress: Option<RunProgressRecord>,
    pub ready: bool,
}

impl StackRow {
    /// A row without a verdict on health.
    pub fn of(stack: &Stack, updates: &[Update]) -> StackRow {
        let metadata = &stack.metadata;
        let status = stack.status.clone().unwrap_or_default();
        let last = status.last_update.clone().unwrap_or_default();
        let condition = [STALLED, RECONCILING, READY]
            .into_iter()
            .find_map(|type_| conditions::get(&status.conditions, type_).filter(|_| true));
        let (reason, message) = condition
            .map(|c| (c.reason.clone(), c.message.clone()))
            .unwrap_or_default();
        let ready = conditions::is_true(&status.conditions, READY)
            && status.observed_generation == metadata.generation
            && metadata.deletion_timestamp.is_none();
        let state = if ready {
            "Ready"
        } else if conditions::is_true(&status.conditions, STALLED) || last.failed() {
            "Failed"
        } else if metadata.deletion_timestamp.is_some() {
            "Deleting"
        } else if reason == windlass_core::phase::SUSPENDED {
            "Suspended"
        } else if reason == stack_reason::PREREQUISITE_NOT_SATISFIED
            || message.starts_with("waiting for ")
        {
            "Waiting"
        } else if reason == stack_reason::SOURCE_UNAVAILABLE {
            "Failed"
        } else {
            "Running"
        };
        let revision = last.last_attempted_commit.clone().unwrap_or_default();
        let run = updates
            .iter()
            .find(|update| update.metadata.name == last.name)
            .and_then(|update| {
                let summary = update.status.as_ref()?.summary.as_ref()?;
                Some((summary.ended_at_ms - summary.started_at_ms) as f64 / 1000.0)
            });
        StackRow {
            namespace: metadata.namespace.clone().unwrap_or_default(),
            name: metadata.name.clone().unwrap_or_default(),
            source: source(stack, &revision),
            revision,
            state: state.to_owned(),
            reason,
            message,
            health: String::new(),
            health_message: String::new(),
            resources: last.resources,
            outputs: status.outputs.unwrap_or_default(),
            last_run_seconds: run,
            last_run_type: last.type_,
            progress: updates
                .iter()
                .find_map(|update| update.status.as_ref()?.progress.clone()),
            ready,
        }
    }

    /// A Stack that was there and is gone, as asked.
    pub fn deleted(key: &Key) -> StackRow {
        StackRow {
            namespace: key.namespace.clone(),
            name: key.name.clone(),
            source: String::new(),
            revision: String::new(),
            state: "Deleted".to_owned(),
            reason: String::new(),
            message: String::new(),
            health: String::new(),
            health_message: String::new(),
            resources: None,
            outputs: BTreeMap::new(),
            last_run_seconds: None,
            last_run_type: None,
            progress: None,
            ready: true,
        }
    }
}

fn source(stack: &Stack, revision: &str) -> String {
    let spec = &stack.spec;
    let short = if revision.len() >= 40 && revision.bytes().all(|b| b.is_ascii_hexdigit()) {
        &revision[..7]
    } else {
        revision
    };
    if let Some(program) = &spec.program_ref {
        return match short {
            "" => format!("program {}", program.name),
            _ => format!("program {}@{short}", program.name),
        };
    }
    let name = spec
        .branch
        .as_deref()
        .map(|branch| branch.trim_start_matches("refs/heads/"))
        .or(spec.commit.as_ref().map(|_| "commit"))
        .or(spec.source.as_ref().map(|source| source.type_.as_str()))
        .unwrap_or_default();
    if short.is_empty() {
        name.to_owned()
    } else {
        format!("{name}@{short}")
    }
}
