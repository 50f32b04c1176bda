//! What our types need beside their fields: the defaults that were published, and checks.
//!
//! Checks stand on fields that only Windlass has, and only speak when one of them is used: what the published definitions
//! accept must be accepted.

use serde_json::{Map, Value, json};

use super::structural::{Place, relax};

/// Whether a type is a template: merged over another object, so nothing in it is required.
pub(super) fn is_template(name: &str) -> bool {
    matches!(name, "WorkspaceTemplate" | "UpdateTemplate")
}

/// Adds what is known about one of our types.
pub(super) fn amend(name: &str, schema: &mut Value, place: Place) {
    if place == Place::Template {
        relax(schema);
        for (of, property) in NOT_IN_TEMPLATES {
            if of == name {
                properties(schema).remove(property);
            }
        }
        return;
    }
    match name {
        "StackSpec" => amend_stack(schema),
        "RetryPolicy" => amend_retry(schema),
        "ResourceRef" => amend_reference(schema),
        "PrerequisiteRef" => field(schema, "type", json!({ "enum": ["Stack"] })),
        "WorkspaceSpec" => {
            field(
                schema,
                "securityProfile",
                json!({ "default": "restricted" }),
            );
            field(
                schema,
                "serviceAccountName",
                json!({ "default": "default" }),
            );
        }
        "WorkspaceStatus" | "UpdateStatus" => {
            field(schema, "observedGeneration", json!({ "minimum": 0 }));
        }
        // Keys of lists that are maps must be there.
        "WorkspaceStack" => schema["required"] = json!(["name"]),
        "WorkspaceConfigItem" => schema["required"] = json!(["key"]),
        "GitHubAppKeys" => schema["required"] = json!(["appID", "installationID", "privateKey"]),
        _ => {}
    }
}

/// What Windlass writes about one run has no place in a template of runs.
const NOT_IN_TEMPLATES: [(&str, &str); 4] = [
    ("UpdateSpec", "intent"),
    ("UpdateStatus", "progress"),
    ("UpdateStatus", "run"),
    ("UpdateStatus", "summary"),
];

fn amend_stack(schema: &mut Value) {
    field(schema, "timeoutSeconds", json!({ "minimum": 1 }));
    field(schema, "workspaceIdleSeconds", json!({ "minimum": 0 }));
    field(schema, "paths", json!({ "maxItems": 100 }));
    field(
        &mut schema["properties"]["paths"],
        "items",
        json!({ "maxLength": 1024 }),
    );
    schema["x-kubernetes-validations"] = json!([{
        "rule": "!has(self.source) || !(has(self.projectRepo) || has(self.fluxSource) || has(self.programRef))",
        "message": "source excludes projectRepo, fluxSource and programRef; keep one of them",
    }]);
}

fn amend_retry(schema: &mut Value) {
    field(schema, "limit", json!({ "minimum": 0 }));
    field(schema, "initialBackoffSeconds", json!({ "minimum": 1 }));
    field(schema, "maxBackoffSeconds", json!({ "minimum": 1 }));
    schema["x-kubernetes-validations"] = json!([{
        "rule": "!has(self.initialBackoffSeconds) || !has(self.maxBackoffSeconds) || self.initialBackoffSeconds <= self.maxBackoffSeconds",
        "message": "initialBackoffSeconds must not be more than maxBackoffSeconds",
    }]);
}

/// `type` stays any word: what it means is the operator's to say.
fn amend_reference(schema: &mut Value) {
    field(schema, "stack", json!({ "minLength": 1, "maxLength": 253 }));
    field(
        schema,
        "output",
        json!({ "minLength": 1, "maxLength": 1024 }),
    );
    schema["x-kubernetes-validations"] = json!([
        {
            "rule": "has(self.stack) == has(self.output) && (!has(self.stack) || self.type == 'StackOutput')",
            "message": "stack and output belong together, with type StackOutput",
        },
        {
            "rule": "!has(self.configMap) || self.type == 'ConfigMap'",
            "message": "configMap needs type ConfigMap",
        },
    ]);
}

/// Adds to the schema of a property (or to `items`).
fn field(schema: &mut Value, name: &str, more: Value) {
    let target = if name == "items" {
        schema.get_mut("items")
    } else {
        properties(schema).get_mut(name)
    };
    let (Some(Value::Object(target)), Value::Object(more)) = (target, more) else {
        panic!("the types have no {name} any more: mend crd/own.rs");
    };
    target.extend(more);
}

fn properties(schema: &mut Value) -> &mut Map<String, Value> {
    schema["properties"]
        .as_object_mut()
        .expect("only types with fields are amended")
}
