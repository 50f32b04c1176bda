//! What Windlass adds to an Update and to a Stack's status so that nothing it must remember lives in its memory.
//!
//! An Update made for a Stack pins everything its run depends on ([`RunIntent`]); its status says where the run was
//! started ([`RunRecord`]) and how it ended ([`RunSummary`]). All of it is optional in the API: objects written by the
//! Pulumi Kubernetes Operator have none.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::run::{LoginExchange, ProgramSource, ProjectInfo, RunState};

/// Why a run was asked for. Served once each: see `due` in the core.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", tag = "type")]
pub enum Cause {
    /// The Stack was never run.
    Initial,
    /// The Stack's specification changed.
    #[serde(rename_all = "camelCase")]
    NewGeneration { generation: i64 },
    /// The annotation `pulumi.com/reconciliation-request` has a new value.
    #[serde(rename_all = "camelCase")]
    ReconcileRequest { value: String },
    /// The source has a new revision.
    #[serde(rename_all = "camelCase")]
    NewRevision { revision: String },
    /// An output of another Stack, used here, changed.
    InputsChanged,
    /// `continueResyncOnCommitMatch`, and the interval is over.
    Resync,
    /// The last attempt failed.
    #[serde(rename_all = "camelCase")]
    Retry { attempt: i64 },
    /// The Stack is being deleted and its resources shall go.
    Deletion,
    /// Somebody made the Update.
    ByHand,
}

impl Cause {
    /// The text that goes to the event and to the backend's history; the Pulumi Kubernetes Operator's words.
    pub fn message(&self) -> String {
        match self {
            Cause::Initial => "Initial stack update".to_owned(),
            Cause::NewGeneration { generation } => format!("New stack generation: {generation}"),
            Cause::ReconcileRequest { value } => format!("Sync request: \"{value}\""),
            Cause::NewRevision { revision } => format!("New commit detected: \"{revision}\""),
            Cause::InputsChanged => "Outputs of another stack changed".to_owned(),
            Cause::Resync => "Resync time elapsed".to_owned(),
            Cause::Retry { attempt } => format!("Backoff time elapsed: attempt {attempt}"),
            Cause::Deletion => "Stack marked for deletion".to_owned(),
            Cause::ByHand => "Update made by hand".to_owned(),
        }
    }
}

/// What an Update pins: the run is a function of this and of nothing that can still change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RunIntent {
    /// Counts the runs of a Stack, from 1.
    pub sequence: u64,
    #[schemars(schema_with = "crate::schema::typed_free_object")]
    pub cause: Cause,
    /// Generation of the Stack.
    pub generation: i64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reconcile_request: Option<String>,
    /// Revision of the source; empty where there is none.
    pub revision: String,
    #[schemars(schema_with = "crate::schema::typed_free_object")]
    pub program: ProgramSource,
    /// Digest of the program's directory alone, if it was fetched.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subtree: Option<String>,
    /// Digest that the source states of its content.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source_digest: Option<String>,
    /// Canonical stack name, as the backend adapter gave it.
    pub stack: String,
    /// Plain variables from the backend adapter.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub env: BTreeMap<String, String>,
    /// How the workspace gets the backend's token, where its environment has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub login: Option<LoginExchange>,
    /// Digest over the specification, the revision and the versions of everything referred to.
    pub inputs: String,
    /// Digest over the outputs of other Stacks that this one uses; empty where it uses none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub stack_outputs: String,
    /// Backend locks judged stale, to be released before the operation.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub release_locks: Vec<String>,
}

/// Where a run was started. Written before the agent is asked; no other workspace instance ever gets this Update.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RunRecord {
    /// Identity of the workspace instance (the pod's uid).
    pub instance: String,
    /// Its host name, by which a backend lock names it.
    pub hostname: String,
    /// The node that it is on; its end proves the instance's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// Boot of the agent that was to start the run.
    pub boot_id: String,
    /// Milliseconds since the epoch.
    pub at_ms: i64,
    /// What runs, of an Update that was made by hand: its specification pins nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub intent: Option<Box<RunIntent>>,
}

/// How far a run that takes its time is. Written now and then, gone with the run's end.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct RunProgressRecord {
    /// What the agent is doing: `preparing`, `installing`, `running`, `finishing`.
    pub stage: String,
    /// Resources whose step is done.
    pub done: u32,
    /// Resources known so far; grows while the program runs.
    pub total: u32,
    /// URN of the resource under work, if one is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub current: Option<String>,
    /// When it was so: milliseconds since the epoch.
    pub at_ms: i64,
}

/// The end of a run as the Update keeps it: no secret, nothing large.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RunSummary {
    pub state: RunState,
    /// `program`, `policy`, `unavailable`, `conflict`, `lost`, `invalid` or `cancelled`; none on success.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub class: Option<String>,
    /// CamelCase reason of the failure; none on success.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub changes: BTreeMap<String, u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resources: Option<u32>,
    /// Outputs, secret ones as the string `[secret]`; none where the operation reported none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::any_map")]
    pub outputs: Option<BTreeMap<String, Value>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub permalink: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub project: Option<ProjectInfo>,
    /// Resources or state may have changed.
    #[serde(default, skip_serializing_if = "crate::schema::is_false")]
    pub reached_engine: bool,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stale_locks: Vec<String>,
    /// Milliseconds since the epoch.
    pub started_at_ms: i64,
    /// Milliseconds since the epoch.
    pub ended_at_ms: i64,
}
