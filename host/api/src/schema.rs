//! Schemas that the derive cannot know: free values, and fields that the API server must not prune.

use schemars::{Schema, SchemaGenerator, json_schema};

/// Any JSON value, kept as it is.
pub(crate) fn any(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "x-kubernetes-preserve-unknown-fields": true })
}

/// A map from names to any JSON value.
pub(crate) fn any_map(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "object",
        "additionalProperties": { "x-kubernetes-preserve-unknown-fields": true }
    })
}

/// An array of any JSON values.
pub(crate) fn any_array(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "array",
        "items": { "x-kubernetes-preserve-unknown-fields": true }
    })
}

/// An object whose `type` is known and whose other fields are free. Also for our own enums that `type` tells apart: a
/// structural schema cannot have variants.
pub(crate) fn typed_free_object(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "object",
        "required": ["type"],
        "properties": { "type": { "type": "string", "minLength": 1 } },
        "x-kubernetes-preserve-unknown-fields": true
    })
}

/// For `skip_serializing_if`: PKO leaves out a boolean that is false.
pub(crate) fn is_false(value: &bool) -> bool {
    !value
}

/// For `skip_serializing_if`: PKO leaves out a number that is zero.
pub(crate) fn is_zero(value: &i64) -> bool {
    *value == 0
}

/// Schema of `run::ProjectInfo`, which knows nothing of Kubernetes.
#[derive(schemars::JsonSchema)]
#[schemars(rename = "ProjectInfo")]
#[allow(dead_code, reason = "read by the derive only")]
pub(crate) struct ProjectInfoSchema {
    name: String,
    runtime: String,
}
