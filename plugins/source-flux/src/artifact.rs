//! What an object's status says of its artifact.

use serde_json::Value;
use windlass_sdk::{ObjectRef, PluginError};

use crate::UNAVAILABLE;

/// Longest part of a condition's message that is repeated, in characters.
const LONGEST: usize = 400;

/// An artifact that can be fetched and checked.
pub struct Found {
    pub url: String,
    pub revision: String,
    /// `sha256:<hex>`.
    pub digest: String,
    /// What the source suffers from, if it has an artifact all the same.
    pub trouble: Option<String>,
}

/// # Errors
/// `unavailable` `SourceUnavailable` without an artifact, saying why there is none; `unavailable` `ArtifactInvalid` for one
/// without URL, revision or a digest that the host can check. None of it is the Stack's fault, and a change of the object
/// asks again.
pub fn of(source: &ObjectRef, object: &Value) -> Result<Found, PluginError> {
    let ObjectRef { kind, name, .. } = source;
    let trouble = trouble(object);
    let artifact = object
        .pointer("/status/artifact")
        .filter(|artifact| artifact.is_object())
        .ok_or_else(|| {
            let why = trouble.clone().unwrap_or_else(|| {
                "has not been fetched yet; if that does not change, see whether its controller runs"
                    .into()
            });
            PluginError::unavailable(
                UNAVAILABLE,
                format!("Flux source has no artifact: {kind} {name:?} {why}"),
            )
        })?;
    let text = |field: &str| {
        artifact
            .get(field)
            .and_then(Value::as_str)
            .filter(|text| !text.is_empty())
            .map(str::to_owned)
            .ok_or_else(|| invalid(source, &format!("has no {field}")))
    };
    let url = text("url")?;
    let revision = text("revision")?;
    let digest = text("digest").map_err(|_| {
        invalid(
            source,
            "has no digest, so that what is fetched could not be checked; the controller that made it must state one",
        )
    })?;
    if !is_sha256(&digest) {
        let algorithm = digest.split(':').next().unwrap_or_default();
        return Err(invalid(
            source,
            &format!(
                "has a digest by {algorithm:?}, and only sha256 can be checked; start its controller with --artifact-digest-algo=sha256"
            ),
        ));
    }
    Ok(Found {
        url,
        revision,
        digest,
        trouble,
    })
}

fn invalid(source: &ObjectRef, message: &str) -> PluginError {
    PluginError::unavailable(
        "ArtifactInvalid",
        format!(
            "the artifact of {} {:?} {message}",
            source.kind, source.name
        ),
    )
}

fn is_sha256(digest: &str) -> bool {
    digest.strip_prefix("sha256:").is_some_and(|hex| {
        hex.len() == 64
            && hex
                .bytes()
                .all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte))
    })
}

/// Why a source is not as it should be, as the end of a sentence about it.
fn trouble(object: &Value) -> Option<String> {
    if object.pointer("/spec/suspend").and_then(Value::as_bool) == Some(true) {
        return Some("is suspended (its spec.suspend)".into());
    }
    let ready = object
        .pointer("/status/conditions")?
        .as_array()?
        .iter()
        .find(|condition| condition["type"] == "Ready")?;
    let message = short(ready["message"].as_str().unwrap_or_default());
    match ready["status"].as_str()? {
        "False" => Some(format!("is not ready: {message}")),
        "Unknown" => Some(format!("is being fetched: {message}")),
        _ => None,
    }
}

fn short(text: &str) -> String {
    match text.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text.to_owned(),
    }
}
