//! Program: a Pulumi YAML program as an object. Its body stands at the top level under `program`, not under `spec`.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The object's own fields beside metadata and status. [`Program`] holds it as `spec`; on the wire it is flat.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "pulumi.com",
    version = "v1",
    kind = "Program",
    plural = "programs",
    namespaced,
    // The definition with its schema is made in `crd`.
    schema = "disabled",
    no_spec,
    category = "pulumi",
    status = "ProgramStatus",
    derive = "Default",
    derive = "PartialEq",
    printcolumn = r#"{"name":"Age","type":"date","jsonPath":".metadata.creationTimestamp"}"#,
    printcolumn = r#"{"name":"URL","type":"string","jsonPath":".status.artifact.url"}"#
)]
#[serde(rename_all = "camelCase")]
pub struct ProgramFields {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub program: Option<ProgramBody>,
}

impl Program {
    /// The program itself, if the object has one.
    pub fn body(&self) -> Option<&ProgramBody> {
        self.spec.program.as_ref()
    }
}

/// A Pulumi YAML program.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ProgramBody {
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub configuration: BTreeMap<String, Configuration>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub resources: BTreeMap<String, ProgramResource>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "crate::schema::any_map")]
    pub variables: BTreeMap<String, Value>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "crate::schema::any_map")]
    pub outputs: BTreeMap<String, Value>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub packages: BTreeMap<String, String>,
}

/// A configuration value that the program expects.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Configuration {
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub type_: Option<ConfigurationType>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::any")]
    pub default: Option<Value>,
}

/// Type of a configuration value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ConfigurationType {
    String,
    Number,
    #[serde(rename = "List<Number>")]
    NumberList,
    #[serde(rename = "List<String>")]
    StringList,
}

/// One resource of a program.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ProgramResource {
    /// Type token, such as `aws:s3:Bucket`.
    #[serde(rename = "type")]
    #[schemars(length(min = 1))]
    pub type_: String,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "crate::schema::any_map")]
    pub properties: BTreeMap<String, Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub options: Option<ResourceOptions>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub get: Option<Get>,
}

/// Options of a resource.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ResourceOptions {
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub additional_secret_outputs: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub aliases: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub custom_timeouts: Option<CustomTimeouts>,
    #[serde(default, skip_serializing_if = "crate::schema::is_false")]
    pub delete_before_replace: bool,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "crate::schema::any_array")]
    pub depends_on: Vec<Value>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ignore_changes: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub import: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::any")]
    pub parent: Option<Value>,
    #[serde(default, skip_serializing_if = "crate::schema::is_false")]
    pub protect: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::any")]
    pub provider: Option<Value>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "crate::schema::any_map")]
    pub providers: BTreeMap<String, Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
}

/// Durations after which an operation on a resource fails.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CustomTimeouts {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub create: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delete: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub update: Option<String>,
}

/// Reads an existing resource instead of managing one.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Get {
    #[schemars(length(min = 1))]
    pub id: String,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "crate::schema::any_map")]
    pub state: BTreeMap<String, Value>,
}

/// What is known about a Program.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ProgramStatus {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub artifact: Option<Artifact>,
}

/// The program as an archive, in the shape of Flux artifacts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Artifact {
    pub path: String,
    pub url: String,
    pub revision: String,
    /// `algorithm:checksum`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = r"^[a-z0-9]+(?:[.+_-][a-z0-9]+)*:[a-zA-Z0-9=_-]+$"))]
    pub digest: Option<String>,
    pub last_update_time: Time,
    /// Bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub size: Option<i64>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub metadata: BTreeMap<String, String>,
}
