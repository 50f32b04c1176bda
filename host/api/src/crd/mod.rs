//! The four CustomResourceDefinitions, made from the types.
//!
//! Names, columns and versions come from the types' own derive; the schemas are made here, since an API server wants them in
//! a shape of its own (structural, no references) and `kubectl apply` can carry only 256 KiB of it:
//! - `structural` inlines the types' schemas and leaves out what a structural schema may not have;
//! - `kubernetes` adds to Kubernetes' own types what decides how objects are merged and defaulted;
//! - `own` adds to our types the defaults that were published, and checks on fields that only Windlass has;
//! - `render` writes them down; `missing` says what a cluster's definitions lack.
//!
//! The rule for all of it: an object that the published definitions accept is accepted, and means the same.

mod kubernetes;
mod missing;
mod own;
mod render;
mod structural;

use std::sync::LazyLock;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, CustomResourceDefinitionVersion, CustomResourceValidation,
};
use kube::CustomResourceExt;
use serde_json::{Map, Value, json};

use crate::names::STACK_NAME_MAX;
use crate::program::{ProgramFields, ProgramStatus};
use crate::stack::{StackSpec, StackStatus};
use crate::update::{UpdateSpec, UpdateStatus};
use crate::workspace::{WorkspaceSpec, WorkspaceStatus};
use crate::{Program, Stack, Update, Workspace};

pub use self::missing::missing_fields;
pub use self::render::{File, Format, files, text};
use self::structural::schema_of;

/// All definitions: Stack, Program, Workspace, Update.
pub fn all() -> &'static [CustomResourceDefinition; 4] {
    static ALL: LazyLock<[CustomResourceDefinition; 4]> = LazyLock::new(|| {
        [
            make_stack(),
            make_program(),
            make_workspace(),
            make_update(),
        ]
    });
    &ALL
}

/// Stack, whose v1 is stored and whose v1alpha1 is served for old manifests.
pub fn stack() -> &'static CustomResourceDefinition {
    let [stack, _, _, _] = all();
    stack
}

pub fn program() -> &'static CustomResourceDefinition {
    let [_, program, _, _] = all();
    program
}

pub fn workspace() -> &'static CustomResourceDefinition {
    let [_, _, workspace, _] = all();
    workspace
}

pub fn update() -> &'static CustomResourceDefinition {
    let [_, _, _, update] = all();
    update
}

/// Both versions have the same fields, so that nothing is lost on the way through the old one.
fn make_stack() -> CustomResourceDefinition {
    let mut v1 = root(
        "A Pulumi stack that is kept in the state its program says.",
        &[
            ("spec", schema_of::<StackSpec>()),
            ("status", schema_of::<StackStatus>()),
        ],
    );
    let mut old = v1.clone();
    structural::drop_descriptions(&mut old);
    v1["x-kubernetes-validations"] = json!([{
        "rule": format!("size(self.metadata.name) <= {STACK_NAME_MAX}"),
        "message": format!("Stack name must be no more than {STACK_NAME_MAX} characters in length."),
    }]);
    let mut definition = with_schema(Stack::crd(), v1);
    let served = CustomResourceDefinitionVersion {
        name: "v1alpha1".to_owned(),
        served: true,
        storage: false,
        // As published: the old version shows no columns and does not check the name.
        additional_printer_columns: None,
        schema: Some(validation(old)),
        ..definition.spec.versions[0].clone()
    };
    definition.spec.versions.push(served);
    definition
}

/// Program: its body stands beside `metadata`, not under `spec`.
fn make_program() -> CustomResourceDefinition {
    let mut fields = schema_of::<ProgramFields>();
    let program = fields["properties"]["program"].take();
    with_schema(
        Program::crd(),
        root(
            "A Pulumi YAML program.",
            &[
                ("program", program),
                ("status", schema_of::<ProgramStatus>()),
            ],
        ),
    )
}

fn make_workspace() -> CustomResourceDefinition {
    with_schema(
        Workspace::crd(),
        root(
            "Where the operations of a Pulumi stack run.",
            &[
                ("spec", schema_of::<WorkspaceSpec>()),
                ("status", schema_of::<WorkspaceStatus>()),
            ],
        ),
    )
}

fn make_update() -> CustomResourceDefinition {
    with_schema(
        Update::crd(),
        root(
            "One Pulumi operation in a Workspace.",
            &[
                ("spec", schema_of::<UpdateSpec>()),
                ("status", schema_of::<UpdateStatus>()),
            ],
        ),
    )
}

/// The schema of a whole object. Nothing is required, as published: an object without `spec` is told what it lacks by the
/// operator.
fn root(description: &str, parts: &[(&str, Value)]) -> Value {
    let mut properties = Map::new();
    properties.insert("apiVersion".to_owned(), json!({ "type": "string" }));
    properties.insert("kind".to_owned(), json!({ "type": "string" }));
    properties.insert("metadata".to_owned(), json!({ "type": "object" }));
    for (name, schema) in parts {
        properties.insert((*name).to_owned(), schema.clone());
    }
    json!({ "description": description, "type": "object", "properties": properties })
}

/// The derived definition, which has no schema, with ours in its only version.
fn with_schema(
    mut definition: CustomResourceDefinition,
    schema: Value,
) -> CustomResourceDefinition {
    for version in &mut definition.spec.versions {
        version.schema = Some(validation(schema.clone()));
        if version
            .additional_printer_columns
            .as_ref()
            .is_some_and(Vec::is_empty)
        {
            version.additional_printer_columns = None;
        }
    }
    // The derive writes these even where there are none.
    let names = &mut definition.spec.names;
    names.list_kind = Some(format!("{}List", names.kind));
    names.short_names = names.short_names.take().filter(|names| !names.is_empty());
    definition
}

fn validation(schema: Value) -> CustomResourceValidation {
    serde_json::from_value(json!({ "openAPIV3Schema": schema }))
        .expect("a schema that was made here is one: the tests make them all")
}
