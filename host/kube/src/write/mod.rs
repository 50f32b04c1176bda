//! What the engine writes, one file per kind of object.

pub mod outputs;
pub mod progress;
pub mod stack;
pub mod update;
pub mod workspace;

use std::collections::BTreeMap;

use serde_json::{Value, json};
use windlass_api::OwnerReference;
use windlass_api::{Resource, Stack};

/// A JSON patch that adds a finalizer, if the object is still at this version.
pub fn add_finalizer(present: &[String], finalizer: &str, version: Option<&str>) -> Value {
    let mut patch = fence(version);
    if present.is_empty() {
        patch.push(json!({"op": "add", "path": "/metadata/finalizers", "value": [finalizer]}));
    } else {
        patch.push(json!({"op": "add", "path": "/metadata/finalizers/-", "value": finalizer}));
    }
    Value::Array(patch)
}

/// A JSON patch that takes a finalizer away, if it still is where it was. None: it is not there.
pub fn remove_finalizer(
    present: &[String],
    finalizer: &str,
    version: Option<&str>,
) -> Option<Value> {
    let index = present.iter().position(|name| name == finalizer)?;
    let path = format!("/metadata/finalizers/{index}");
    let mut patch = fence(version);
    patch.push(json!({"op": "test", "path": path, "value": finalizer}));
    patch.push(json!({"op": "remove", "path": path}));
    Some(Value::Array(patch))
}

/// The part of a JSON patch that sets an annotation beside others. An object that had none when it was last seen is left
/// alone: to make room for the first would take away what somebody has added since.
pub fn set_annotation(
    present: Option<&BTreeMap<String, String>>,
    name: &str,
    value: &str,
) -> Option<Value> {
    let present = present.filter(|all| !all.is_empty())?;
    if present.get(name).is_some_and(|old| old == value) {
        return None;
    }
    let name = name.replace('~', "~0").replace('/', "~1");
    let path = format!("/metadata/annotations/{name}");
    Some(json!({"op": "add", "path": path, "value": value}))
}

fn fence(version: Option<&str>) -> Vec<Value> {
    version
        .map(|version| json!({"op": "test", "path": "/metadata/resourceVersion", "value": version}))
        .into_iter()
        .collect()
}

/// The Stack as owner of what it makes. None once it is being deleted: the garbage collector of a foreground deletion
/// would take new children away, and a destroy needs them.
pub fn owner(stack: &Stack, controller: bool) -> Option<OwnerReference> {
    if stack.metadata.deletion_timestamp.is_some() {
        return None;
    }
    Some(OwnerReference {
        api_version: Stack::api_version(&()).into_owned(),
        kind: Stack::kind(&()).into_owned(),
        name: stack.metadata.name.clone()?,
        uid: stack.metadata.uid.clone()?,
        controller: Some(controller),
        block_owner_deletion: Some(true),
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_finalizer_is_added_beside_others_and_only_at_the_version_seen() {
        assert_eq!(
            add_finalizer(&[], "f", Some("7")),
            json!([
                {"op": "test", "path": "/metadata/resourceVersion", "value": "7"},
                {"op": "add", "path": "/metadata/finalizers", "value": ["f"]}
            ])
        );
        assert_eq!(
            add_finalizer(&["other".into()], "f", None),
            json!([{"op": "add", "path": "/metadata/finalizers/-", "value": "f"}])
        );
    }

    #[test]
    fn only_the_finalizer_that_is_there_is_taken_away() {
        assert!(remove_finalizer(&["other".into()], "f", None).is_none());
        assert_eq!(
            remove_finalizer(&["other".into(), "f".into()], "f", None).unwrap(),
            json!([
                {"op": "test", "path": "/metadata/finalizers/1", "value": "f"},
                {"op": "remove", "path": "/metadata/finalizers/1"}
            ])
        );
    }

    #[test]
    fn an_annotation_is_set_beside_others_only() {
        let link = |present: &[(&str, &str)]| {
            let present = present
                .iter()
                .map(|(name, value)| (name.to_string(), value.to_string()))
                .collect();
            set_annotation(Some(&present), "link.example/a~b", "https://c")
        };
        assert_eq!(
            link(&[("d", "e")]),
            Some(
                json!({"op": "add", "path": "/metadata/annotations/link.example~1a~0b", "value": "https://c"})
            )
        );
        assert_eq!(link(&[("link.example/a~b", "https://c")]), None);
        assert_eq!(link(&[]), None);
        assert_eq!(set_annotation(None, "a", "b"), None);
    }
}
