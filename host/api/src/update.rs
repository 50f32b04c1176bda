//! Update: one Pulumi operation in a workspace.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, ObjectMeta, Time};
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::intent::{RunIntent, RunProgressRecord, RunRecord, RunSummary};
use crate::run::{Operation, ProjectInfo};
use crate::schema::ProjectInfoSchema;

/// What to run, and where. A template of Updates has the same fields, so none is required.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "auto.pulumi.com",
    version = "v1alpha1",
    kind = "Update",
    plural = "updates",
    namespaced,
    // The definition with its schema is made in `crd`.
    schema = "disabled",
    category = "pulumi",
    status = "UpdateStatus",
    derive = "Default",
    derive = "PartialEq",
    printcolumn = r#"{"name":"Workspace","type":"string","jsonPath":".spec.workspaceName"}"#,
    printcolumn = r#"{"name":"Type","type":"string","priority":10,"jsonPath":".spec.type"}"#,
    printcolumn = r#"{"name":"Start Time","type":"date","priority":10,"jsonPath":".status.startTime"}"#,
    printcolumn = r#"{"name":"End Time","type":"date","priority":10,"jsonPath":".status.endTime"}"#,
    printcolumn = r#"{"name":"Progressing","type":"string","jsonPath":".status.conditions[?(@.type==\"Progressing\")].status"}"#,
    printcolumn = r#"{"name":"Failed","type":"string","jsonPath":".status.conditions[?(@.type==\"Failed\")].status"}"#,
    printcolumn = r#"{"name":"Complete","type":"string","jsonPath":".status.conditions[?(@.type==\"Complete\")].status"}"#,
    printcolumn = r#"{"name":"URL","type":"string","jsonPath":".status.permalink"}"#
)]
#[serde(rename_all = "camelCase")]
pub struct UpdateSpec {
    /// Workspace to run in.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workspace_name: Option<String>,
    /// Pulumi stack to run on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stack_name: Option<String>,
    /// preview, up, refresh or destroy; read strictly by [`UpdateSpec::operation`].
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub type_: Option<String>,
    /// How long the object is kept after it is complete, as in `24h`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ttl_after_completed: Option<String>,
    /// Resource operations at once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parallel: Option<i32>,
    /// Message recorded with the operation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// Fail if the operation would change anything.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expect_no_changes: Option<bool>,
    /// URNs to replace.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replace: Option<Vec<String>>,
    /// URNs to operate on; all if empty.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target: Option<Vec<String>>,
    /// Operate on what depends on the targets too.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target_dependents: Option<bool>,
    /// Refresh before the operation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refresh: Option<bool>,
    /// Go on with other resources after an error.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub continue_on_error: Option<bool>,
    /// Destroy removes the stack from the backend too.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remove: Option<bool>,
    /// Destroy and refresh run the program.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run_program: Option<bool>,
    /// Why a Stack asked for it and what it pins; absent on one that was made by hand.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub intent: Option<RunIntent>,
}

/// `type` is none of the four operations.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown type of update {0:?}; use preview, up, refresh or destroy")]
pub struct UnknownOperation(pub String);

impl UpdateSpec {
    /// The operation that `type` names.
    pub fn operation(&self) -> Result<Operation, UnknownOperation> {
        match self.type_.as_deref().unwrap_or_default() {
            "preview" => Ok(Operation::Preview),
            "up" => Ok(Operation::Up),
            "refresh" => Ok(Operation::Refresh),
            "destroy" => Ok(Operation::Destroy),
            other => Err(UnknownOperation(other.to_owned())),
        }
    }
}

/// How far an Update is, and how it ended.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct UpdateStatus {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub start_time: Option<Time>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub end_time: Option<Time>,
    /// Console page of the operation, where the backend has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub permalink: Option<String>,
    /// One line for a person: why it failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// Name of the Secret with the outputs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub outputs: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<ProjectInfoSchema>")]
    pub project_info: Option<ProjectInfo>,
    /// Where the run was started.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run: Option<RunRecord>,
    /// How far the run is, once it takes longer than half a minute; at most every ten seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub progress: Option<RunProgressRecord>,
    /// How the run ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub summary: Option<RunSummary>,
    /// Progressing, Failed, Complete.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
}

/// Merged over each Update that a Stack makes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct UpdateTemplate {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub api_version: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metadata: Option<ObjectMeta>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub spec: Option<UpdateSpec>,
    /// Part of the published schema; without effect, so it is not looked at.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<UpdateStatus>")]
    pub status: Option<Value>,
}
