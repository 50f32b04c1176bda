//! Stack: a Pulumi stack that is to be kept in the state its program says.

use std::collections::BTreeMap;

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::health_check::HealthCheck;
use crate::prerequisite::PrerequisiteRef;
use crate::reference::{GitAuth, ResourceRef};
use crate::schema::is_false;
use crate::sensitive::SensitiveText;
pub use crate::stack_status::{
    CurrentUpdate, Health, HealthStatus, LastUpdate, StackStatus, UpdateState,
};
use crate::update::UpdateTemplate;
use crate::workspace::WorkspaceTemplate;

/// What to deploy, from where, how often, and what to do at the end. Served as v1 and v1alpha1 with the same fields.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "pulumi.com",
    version = "v1",
    kind = "Stack",
    plural = "stacks",
    namespaced,
    // The definition with its schema is made in `crd`.
    schema = "disabled",
    category = "pulumi",
    status = "StackStatus",
    derive = "Default",
    derive = "PartialEq",
    printcolumn = r#"{"name":"Stack","type":"string","priority":10,"jsonPath":".spec.stack"}"#,
    printcolumn = r#"{"name":"Last Update","type":"string","jsonPath":".status.lastUpdate.state"}"#,
    printcolumn = r#"{"name":"Age","type":"date","jsonPath":".status.lastUpdate.lastResyncTime"}"#,
    printcolumn = r#"{"name":"Last Commit","type":"string","priority":10,"jsonPath":".status.lastUpdate.lastAttemptedCommit"}"#,
    printcolumn = r#"{"name":"Ready","type":"string","jsonPath":".status.conditions[?(@.type==\"Ready\")].status"}"#,
    printcolumn = r#"{"name":"Reconciling","type":"string","jsonPath":".status.conditions[?(@.type==\"Reconciling\")].reason"}"#,
    printcolumn = r#"{"name":"Stalled","type":"string","jsonPath":".status.conditions[?(@.type==\"Stalled\")].reason"}"#,
    printcolumn = r#"{"name":"Permalink","type":"string","jsonPath":".status.lastUpdate.permalink"}"#
)]
#[serde(rename_all = "camelCase")]
pub struct StackSpec {
    /// Name of the Pulumi stack, handed to the CLI as it is.
    pub stack: String,

    /// Deprecated: Secret whose key `accessToken` becomes PULUMI_ACCESS_TOKEN.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub access_token_secret: Option<String>,
    /// Deprecated: ConfigMaps whose keys become variables.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub envs: Vec<String>,
    /// Deprecated: Secrets whose keys become variables.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub env_secrets: Vec<String>,
    /// Variables of the workspace by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub env_refs: BTreeMap<String, ResourceRef>,
    /// URL of the backend; becomes PULUMI_BACKEND_URL.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub backend: Option<String>,

    /// Configuration: any JSON value by key.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "crate::schema::any")]
    pub config: BTreeMap<String, Value>,
    /// Configuration from keys of ConfigMaps.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub config_ref: BTreeMap<String, ConfigMapKeyRef>,
    /// Deprecated: secret configuration in plain text.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub secrets: BTreeMap<String, SensitiveText>,
    /// Secret configuration from references.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub secrets_ref: BTreeMap<String, ResourceRef>,
    /// Used when the stack is created.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub secrets_provider: Option<String>,

    /// Source: URL of a Git repository.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub project_repo: Option<String>,
    /// Secret with sshPrivateKey (and password), accessToken, or username and password.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub git_auth_secret: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub git_auth: Option<GitAuth>,
    /// Directory of the project in the repository.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub repo_dir: Option<String>,
    /// Commit to deploy; excludes `branch`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub commit: Option<String>,
    /// Branch or tag to follow; excludes `commit`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub branch: Option<String>,
    /// Fetch no history.
    #[serde(default, skip_serializing_if = "is_false")]
    pub shallow: bool,
    /// Source: a Flux object.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub flux_source: Option<FluxSource>,
    /// Source: a Program of this namespace.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub program_ref: Option<ProgramReference>,
    /// Source: of a plugin, by its type.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::typed_free_object")]
    pub source: Option<PluginSource>,
    /// With `onlyWhenChanged`: the directories that matter beside `repoDir`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub paths: Vec<String>,
    /// Run for a new revision only if what lies in `repoDir` and `paths` changed.
    #[serde(default, skip_serializing_if = "is_false")]
    pub only_when_changed: bool,

    /// URNs to operate on; all if empty. Not for destroy.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub targets: Vec<String>,
    /// Operate on what depends on the targets too.
    #[serde(default, skip_serializing_if = "is_false")]
    pub target_dependents: bool,
    /// Stacks of this namespace that must have succeeded before.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub prerequisites: Vec<PrerequisiteRef>,
    /// Run again every `resyncFrequencySeconds` although nothing changed.
    #[serde(default, skip_serializing_if = "is_false")]
    pub continue_resync_on_commit_match: bool,
    /// Seconds between resyncs and between looks at a branch; less than 60 counts as 60.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resync_frequency_seconds: Option<i64>,
    /// Refresh before each operation.
    #[serde(default, skip_serializing_if = "is_false")]
    pub refresh: bool,
    /// Accepted for PKO's sake; without effect but a warning.
    #[serde(default, skip_serializing_if = "is_false")]
    pub expect_no_refresh_changes: bool,
    /// Preview instead of up; nothing is changed or destroyed.
    #[serde(default, skip_serializing_if = "is_false")]
    pub preview: bool,
    /// Destroy the resources when the object is deleted.
    #[serde(default, skip_serializing_if = "is_false")]
    pub destroy_on_finalize: bool,
    /// Destroy runs the program.
    #[serde(default, skip_serializing_if = "is_false")]
    pub run_program: bool,
    /// A conflict with another operation is tried again.
    #[serde(default, skip_serializing_if = "is_false")]
    pub retry_on_update_conflict: bool,
    /// Never create the Pulumi stack; it is an error if the backend does not know it.
    #[serde(default, skip_serializing_if = "is_false")]
    pub use_local_stack_only: bool,
    /// Longest pause between attempts after failures, in seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry_max_backoff_duration_seconds: Option<i64>,
    /// How failures are tried again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry: Option<RetryPolicy>,
    /// Start nothing until this is false again. A run that goes on is not stopped.
    #[serde(default, skip_serializing_if = "is_false")]
    pub suspend: bool,
    /// Seconds after which an operation is interrupted; none means no deadline.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout_seconds: Option<i64>,

    /// Pulumi ESC environments, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub environment: Vec<String>,
    /// Service account of the workspace's pod.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub service_account_name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workspace_template: Option<WorkspaceTemplate>,
    /// Retain (if not stated) or Delete the Workspace after each success.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workspace_reclaim_policy: Option<ReclaimPolicy>,
    /// Seconds after which an idle workspace pod is taken down; none keeps it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workspace_idle_seconds: Option<i64>,
    /// Objects that must be healthy before the Stack is Ready. They are looked at only as far as the service account of
    /// its workspace may get them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub health_checks: Vec<HealthCheck>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub update_template: Option<UpdateTemplate>,
}

/// A key of a ConfigMap.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ConfigMapKeyRef {
    pub name: String,
    pub key: String,
    /// The content is JSON.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub json: Option<bool>,
}

/// A Flux object whose artifact is the source.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FluxSource {
    pub source_ref: FluxSourceReference,
    /// Directory of the project in the artifact.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dir: Option<String>,
}

/// A Flux object of the same namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FluxSourceReference {
    pub api_version: String,
    pub kind: String,
    pub name: String,
}

/// A Program of the same namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ProgramReference {
    pub name: String,
}

/// A source that a plugin knows; the fields beside `type` are the plugin's.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PluginSource {
    #[serde(rename = "type")]
    pub type_: String,
    #[serde(flatten)]
    pub fields: Map<String, Value>,
}

/// How failures are tried again.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RetryPolicy {
    /// Attempts after the first, for one cause; then nothing until an edit or a new revision. None tries for ever.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<i32>,
    /// First pause, in seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub initial_backoff_seconds: Option<i64>,
    /// Longest pause, in seconds; wins over `retryMaxBackoffDurationSeconds`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_backoff_seconds: Option<i64>,
}

/// What becomes of the Workspace after a success.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ReclaimPolicy {
    Retain,
    Delete,
}

/// A source by the field that names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SourceKind<'a> {
    Git,
    Flux,
    Program,
    /// Type of a plugin's source.
    Plugin(&'a str),
}

impl StackSpec {
    /// The sources that the spec names, in the order in which PKO looks. None means that the tree is found in the
    /// workspace; more than one is a mistake.
    pub fn sources(&self) -> Vec<SourceKind<'_>> {
        let git = self.project_repo.is_some()
            || self.git_auth_secret.is_some()
            || self.git_auth.is_some()
            || self.commit.is_some()
            || self.branch.is_some()
            // Of no use to the other sources of PKO, but a plugin's tree has directories too.
            || (self.source.is_none() && (self.repo_dir.is_some() || self.shallow));
        let mut sources = Vec::new();
        if git {
            sources.push(SourceKind::Git);
        }
        if self.flux_source.is_some() {
            sources.push(SourceKind::Flux);
        }
        if self.program_ref.is_some() {
            sources.push(SourceKind::Program);
        }
        if let Some(source) = &self.source {
            sources.push(SourceKind::Plugin(&source.type_));
        }
        sources
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use serde_json::json;

    #[test]
    fn each_source_is_known_by_the_field_that_names_it() {
        for (fields, expected) in [
            (json!({}), vec![]),
            (
                json!({"projectRepo": "https://git.example/x", "branch": "main"}),
                vec![SourceKind::Git],
            ),
            // Half a Git source is one that will be refused, not none.
            (json!({"repoDir": "infra"}), vec![SourceKind::Git]),
            (
                json!({"programRef": {"name": "p"}}),
                vec![SourceKind::Program],
            ),
            (
                json!({"source": {"type": "s3", "bucket": "b"}, "repoDir": "infra"}),
                vec![SourceKind::Plugin("s3")],
            ),
            (
                json!({"commit": "1a", "fluxSource": {"sourceRef": {"apiVersion": "v", "kind": "k", "name": "n"}}}),
                vec![SourceKind::Git, SourceKind::Flux],
            ),
        ] {
            let mut spec = fields.clone();
            spec["stack"] = json!("dev");
            let spec: StackSpec = serde_json::from_value(spec).unwrap();
            assert_eq!(spec.sources(), expected, "{fields}");
        }
    }
}
