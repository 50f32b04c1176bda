//! Status of a Stack.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::run::{Operation, ProjectInfo};
use crate::schema::{ProjectInfoSchema, is_zero};

/// What is known about a Stack.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StackStatus {
    /// Generation that this status speaks of.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Value of the reconcile-request annotation that this status speaks of.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_reconcile_request: Option<String>,
    /// Ready, Reconciling, Stalled.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
    /// Outputs of the stack; a secret one reads `"[secret]"`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::any_map")]
    pub outputs: Option<BTreeMap<String, Value>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_update: Option<LastUpdate>,
    /// The Update that is planned or running.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub current_update: Option<CurrentUpdate>,
    /// Of the last successful operation; enough to destroy without the source.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<ProjectInfoSchema>")]
    pub project_info: Option<ProjectInfo>,
    /// Whether a run that could have made resources was started and not undone. Absent before Windlass ran it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mutated: Option<bool>,
    /// The verdict of a health component.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub health: Option<Health>,
}

/// The last Update that ended.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LastUpdate {
    /// Generation of the Stack that it ran for.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub generation: i64,
    /// Value of the reconcile-request annotation that it ran for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reconcile_request: Option<String>,
    /// Name of the Update.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Its operation.
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub type_: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state: Option<UpdateState>,
    /// Why it failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_attempted_commit: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_successful_commit: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub permalink: Option<String>,
    /// When it was recorded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_resync_time: Option<Time>,
    /// Failures in a row.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub failures: i64,
    /// Number of this Update among the Stack's; the next one's name follows from it.
    #[serde(default, skip_serializing_if = "sequence_is_zero")]
    #[schemars(with = "i64")]
    pub sequence: u64,
    /// When the failed operation is tried again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_attempt: Option<Time>,
    /// What kind of failure it was: program, policy, unavailable, conflict, lost, invalid or cancelled.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure_class: Option<String>,
    /// CamelCase reason of the failure.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure_reason: Option<String>,
    /// Digest over the outputs of other Stacks that it used.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stack_outputs: Option<String>,
    /// Digest of the program's directory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subtree: Option<String>,
    /// Digest that the source states of its content.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source_digest: Option<String>,
    /// Resources in the stack afterwards.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resources: Option<u32>,
}

impl LastUpdate {
    /// The operation that `type` names, if it names one.
    pub fn operation(&self) -> Option<Operation> {
        [
            Operation::Preview,
            Operation::Up,
            Operation::Refresh,
            Operation::Destroy,
        ]
        .into_iter()
        .find(|operation| self.type_.as_deref() == Some(operation.as_str()))
    }

    /// `lastResyncTime` in milliseconds since the epoch; 0 where it is missing.
    pub fn resync_time_ms(&self) -> i64 {
        self.last_resync_time
            .as_ref()
            .map_or(0, |time| time.0.as_millisecond())
    }

    pub fn succeeded(&self) -> bool {
        self.state == Some(UpdateState::Succeeded)
    }

    pub fn failed(&self) -> bool {
        self.state == Some(UpdateState::Failed)
    }
}

fn sequence_is_zero(value: &u64) -> bool {
    *value == 0
}

/// How an Update ended. What another version wrote is kept as it is.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(from = "String", into = "String")]
#[schemars(with = "String")]
pub enum UpdateState {
    Succeeded,
    Failed,
    Other(String),
}

impl From<String> for UpdateState {
    fn from(text: String) -> Self {
        match text.as_str() {
            "succeeded" => Self::Succeeded,
            "failed" => Self::Failed,
            _ => Self::Other(text),
        }
    }
}

impl From<UpdateState> for String {
    fn from(state: UpdateState) -> Self {
        match state {
            UpdateState::Succeeded => "succeeded".to_owned(),
            UpdateState::Failed => "failed".to_owned(),
            UpdateState::Other(text) => text,
        }
    }
}

/// The Update that is planned or running.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CurrentUpdate {
    #[serde(default, skip_serializing_if = "is_zero")]
    pub generation: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reconcile_request: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub commit: Option<String>,
}

/// Health in Argo CD's sense.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Health {
    pub status: HealthStatus,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
}

/// Argo CD's words for health.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub enum HealthStatus {
    Healthy,
    Progressing,
    Degraded,
    Suspended,
    Missing,
    Unknown,
}
