//! The part of a Stack's spec that this provider reads.

use serde_json::Value;
use windlass_sdk::{FieldError, ObjectRef};

/// `spec.fluxSource`, checked.
#[derive(Debug)]
pub struct Spec {
    pub source: ObjectRef,
    /// The project's directory in the artifact.
    pub dir: String,
}

impl Spec {
    /// # Errors
    /// The first field that is missing or cannot be meant.
    pub fn read(spec: &Value) -> Result<Self, FieldError> {
        let text = |name: &str| {
            let pointer = format!("/fluxSource/{}", name.replace('.', "/"));
            spec.pointer(&pointer)
                .and_then(Value::as_str)
                .unwrap_or_default()
        };
        let required = |name: &str| match text(name) {
            "" => Err(field(name, &format!("missing \"fluxSource.{name}\""))),
            text => Ok(text.to_owned()),
        };
        let source = ObjectRef {
            api_version: required("sourceRef.apiVersion")?,
            kind: required("sourceRef.kind")?,
            name: required("sourceRef.name")?,
        };
        if !is_group_version(&source.api_version) {
            return Err(field(
                "sourceRef.apiVersion",
                &format!(
                    "\"fluxSource.sourceRef.apiVersion\": unexpected group and version {:?}; it is GROUP/VERSION, such as source.toolkit.fluxcd.io/v1",
                    source.api_version
                ),
            ));
        }
        let dir = text("dir").to_owned();
        if dir.split('/').any(|part| part == "..") {
            return Err(field(
                "dir",
                &format!("\"fluxSource.dir\": {dir:?} leads out of the artifact"),
            ));
        }
        Ok(Spec { source, dir })
    }
}

/// `VERSION` of the core group, or `GROUP/VERSION`.
fn is_group_version(text: &str) -> bool {
    let label = |text: &str| {
        !text.is_empty()
            && text.bytes().all(|byte| {
                byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'-' | b'.')
            })
    };
    match text.split_once('/') {
        None => label(text),
        // A second slash is in no label.
        Some((group, version)) => label(group) && label(version),
    }
}

fn field(name: &str, message: &str) -> FieldError {
    FieldError {
        field: format!("fluxSource.{name}"),
        message: message.into(),
    }
}
