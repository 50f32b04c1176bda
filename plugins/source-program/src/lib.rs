//! The Program source provider: a Pulumi YAML program that is a Kubernetes object.

mod render;
mod yaml;

use serde_json::Value;
use windlass_sdk::{
    Artifact, Descriptor, FieldError, Host, ObjectRef, Plugin, PluginError, Resolution,
    SourceProvider, SourceRequest, Wants,
};

pub use render::render;

/// The plugin.
pub struct Program;

impl Plugin for Program {
    fn describe() -> Descriptor {
        Descriptor {
            name: "source-program".into(),
            version: env!("CARGO_PKG_VERSION").into(),
            summary: "Programs written in YAML, from Program objects".into(),
            sources: vec!["program".into()],
            wants: Wants {
                interfaces: vec!["kube".into()],
                kinds: vec!["pulumi.com/Program".into()],
                ..Wants::default()
            },
            ..Descriptor::default()
        }
    }
}

impl SourceProvider for Program {
    fn validate(_: &(impl Host + ?Sized), spec: &Value) -> Vec<FieldError> {
        match program_name(spec) {
            Some(_) => Vec::new(),
            None => vec![FieldError {
                field: "programRef.name".into(),
                message: "missing \"programRef.name\"".into(),
            }],
        }
    }

    fn watches(_: &(impl Host + ?Sized), spec: &Value) -> Vec<ObjectRef> {
        program_name(spec).map(program_ref).into_iter().collect()
    }

    fn resolve(
        host: &(impl Host + ?Sized),
        request: &SourceRequest,
    ) -> Result<Resolution, PluginError> {
        resolve(host, request)
    }
}

/// Renders the Program that the Stack names. Its revision is the Program's generation, as PKO has it.
///
/// # Errors
/// `invalid` `SpecInvalid` without a name or for a Program without a body, `unavailable` `SourceUnavailable` while
/// there is no such Program.
pub fn resolve(
    host: &(impl Host + ?Sized),
    request: &SourceRequest,
) -> Result<Resolution, PluginError> {
    let name = program_name(&request.spec)
        .ok_or_else(|| PluginError::invalid("SpecInvalid", "missing \"programRef.name\""))?;
    let object = host.kube_get(&program_ref(name))?.ok_or_else(|| {
        PluginError::unavailable(
            "SourceUnavailable",
            format!("unable to retrieve program for stack: program {name:?} not found"),
        )
    })?;
    let files = render(name, &object)?;
    let generation = object
        .pointer("/metadata/generation")
        .and_then(Value::as_u64)
        .ok_or_else(|| {
            PluginError::unavailable(
                "SourceUnavailable",
                format!("program {name:?} has no generation yet"),
            )
        })?;
    Ok(Resolution {
        revision: generation.to_string(),
        artifact: Artifact::Files { files },
        dir: String::new(),
        poll_after_ms: None,
    })
}

fn program_name(spec: &Value) -> Option<&str> {
    spec.pointer("/programRef/name")
        .and_then(Value::as_str)
        .filter(|name| !name.is_empty())
}

fn program_ref(name: &str) -> ObjectRef {
    ObjectRef {
        api_version: "pulumi.com/v1".into(),
        kind: "Program".into(),
        name: name.into(),
    }
}

windlass_sdk::export_plugin!(Program: source);

#[cfg(test)]
mod tests;
