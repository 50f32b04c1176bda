//! Workspace: where a Stack's operations run.

use std::collections::BTreeMap;
use std::fmt;

use k8s_openapi::api::core::v1::{
    EnvFromSource, EnvVar, PodSpec, ResourceRequirements, SecretKeySelector,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, ObjectMeta};
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::run::ProjectInfo;
use crate::schema::ProjectInfoSchema;

/// Pod, source and stacks of a workspace. A template of Workspaces has the same fields.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "auto.pulumi.com",
    version = "v1alpha1",
    kind = "Workspace",
    plural = "workspaces",
    namespaced,
    // The definition with its schema is made in `crd`.
    schema = "disabled",
    category = "pulumi",
    status = "WorkspaceStatus",
    derive = "Default",
    derive = "PartialEq",
    printcolumn = r#"{"name":"Image","type":"string","jsonPath":".spec.image"}"#,
    printcolumn = r#"{"name":"Ready","type":"string","jsonPath":".status.conditions[?(@.type==\"Ready\")].status"}"#,
    printcolumn = r#"{"name":"Address","type":"string","jsonPath":".status.address"}"#
)]
#[serde(rename_all = "camelCase")]
pub struct WorkspaceSpec {
    /// Service account of the pod; `default` if none is named.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub service_account_name: Option<String>,
    /// restricted (if none is named) or baseline.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub security_profile: Option<String>,
    /// Image of the pulumi container.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub image: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub image_pull_policy: Option<String>,
    /// Source: a Git commit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub git: Option<GitSource>,
    /// Source: an archive.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub flux: Option<FluxArtifact>,
    /// Source: a directory of the image.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub local: Option<LocalSource>,
    /// Source: none but the project's name and runtime, enough to destroy.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<ProjectInfoSchema>")]
    pub project_info: Option<ProjectInfo>,
    /// Variables of the pulumi container.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub env: Vec<EnvVar>,
    /// Where variables of the pulumi container are taken from.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub env_from: Vec<EnvFromSource>,
    /// Resources of the pulumi container.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resources: Option<ResourceRequirements>,
    /// Merged over the pod.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pod_template: Option<EmbeddedPodTemplate>,
    /// Merged over the metadata of the Service.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub service_template: Option<EmbeddedServiceTemplate>,
    /// Verbosity of the CLI's log; zero is off.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pulumi_log_level: Option<i32>,
    /// Stacks to set up.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub stacks: Vec<WorkspaceStack>,
}

/// Name of the built-in init container that puts the agent in place.
pub const BOOTSTRAP: &str = "bootstrap";
/// Name of the built-in init container that receives the program, where there is one.
pub const FETCH: &str = "fetch";

impl WorkspaceSpec {
    /// Whether the template brings init containers of its own, beside changes to the built-in ones. They find the
    /// program in place, so a new revision means a new pod (as with the Pulumi Kubernetes Operator).
    pub fn has_init_containers(&self) -> bool {
        let template = self.pod_template.as_ref();
        let init = template
            .and_then(|template| template.spec.as_ref())
            .and_then(|spec| spec.init_containers.as_deref())
            .unwrap_or_default();
        // Templates written for the Pulumi Kubernetes Operator may change its init containers, which have these names.
        // A container with an image is one of the user's own.
        init.iter().any(|container| {
            container.name != BOOTSTRAP && (container.name != FETCH || container.image.is_some())
        })
    }
}

/// A Git commit. Credentials are Secrets of the same namespace.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GitSource {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    #[serde(rename = "ref", skip_serializing_if = "Option::is_none")]
    pub ref_: Option<String>,
    /// Directory of the project in the tree.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dir: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shallow: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub auth: Option<GitSourceAuth>,
}

/// Credentials of a Git server.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GitSourceAuth {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ssh_private_key: Option<SecretKeySelector>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub username: Option<SecretKeySelector>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub password: Option<SecretKeySelector>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub token: Option<SecretKeySelector>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub github_app: Option<GitHubAppKeys>,
}

/// A GitHub App and its installation.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GitHubAppKeys {
    #[serde(rename = "appID", skip_serializing_if = "Option::is_none")]
    pub app_id: Option<SecretKeySelector>,
    #[serde(rename = "installationID", skip_serializing_if = "Option::is_none")]
    pub installation_id: Option<SecretKeySelector>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub private_key: Option<SecretKeySelector>,
}

/// An archive by URL and digest.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FluxArtifact {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dir: Option<String>,
}

/// A directory of the image.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LocalSource {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dir: Option<String>,
}

/// Labels and annotations, all that a template may say about a child's metadata.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct EmbeddedMetadata {
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
}

/// Merged over the workspace's pod.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct EmbeddedPodTemplate {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metadata: Option<EmbeddedMetadata>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub spec: Option<PodSpec>,
}

/// Merged over the workspace's Service.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct EmbeddedServiceTemplate {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metadata: Option<EmbeddedMetadata>,
}

/// A Pulumi stack to set up in the workspace.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WorkspaceStack {
    /// Required in a Workspace, not in a template of one.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// Create it if the backend does not know it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub create: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub secrets_provider: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["key"]))]
    pub config: Vec<WorkspaceConfigItem>,
    /// Pulumi ESC environments, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub environment: Vec<String>,
}

/// One configuration value of a stack.
#[derive(Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-map-type" = "atomic"))]
pub struct WorkspaceConfigItem {
    /// Required in a Workspace, not in a template of one.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub key: String,
    /// `key` is a property path.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<bool>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::any")]
    pub value: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value_from: Option<ConfigValueFrom>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub secret: Option<bool>,
}

impl fmt::Debug for WorkspaceConfigItem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            key,
            path,
            value,
            value_from,
            secret,
        } = self;
        let mut debug = f.debug_struct("WorkspaceConfigItem");
        debug.field("key", key).field("path", path);
        match value {
            Some(_) if *secret == Some(true) => debug.field("value", &"[secret]"),
            other => debug.field("value", other),
        };
        debug
            .field("value_from", value_from)
            .field("secret", secret)
            .finish()
    }
}

/// Where a configuration value is read in the workspace: a variable or a file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-map-type" = "atomic"))]
pub struct ConfigValueFrom {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub env: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// The content is JSON.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub json: Option<bool>,
}

/// What is known about a Workspace.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WorkspaceStatus {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Where the agent is reached.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub address: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pulumi_version: Option<String>,
    /// Ready, Stalled.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
}

/// Merged over the Workspace that a Stack makes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WorkspaceTemplate {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub api_version: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metadata: Option<ObjectMeta>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub spec: Option<WorkspaceSpec>,
    /// Part of the published schema; without effect, so it is not looked at.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<WorkspaceStatus>")]
    pub status: Option<Value>,
}
