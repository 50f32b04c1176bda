//! A snapshot for other eyes: without what a specification states in clear and should not be told.

use serde_json::Value;

use crate::snapshot::Snapshot;

/// The CLI's own word.
const MASK: &str = "[secret]";

/// Fields of a Stack's `spec` below which literals are secrets.
const SECRET_FIELDS: [&str; 3] = ["secretsRef", "gitAuth", "source"];

impl Snapshot {
    /// The snapshot as JSON that may leave the machine: inline secrets and passwords in URLs are masked. It is decided
    /// as the snapshot itself is, unless a password in a URL is part of what was asked.
    pub fn to_share(&self) -> Value {
        // Every type in it serialises: maps have string keys.
        let mut value = serde_json::to_value(self).unwrap_or_default();
        if let Some(spec) = value.pointer_mut("/objects/stack/spec") {
            if let Some(Value::Object(secrets)) = spec.get_mut("secrets") {
                secrets.values_mut().for_each(|text| *text = MASK.into());
            }
            for field in SECRET_FIELDS {
                if let Some(below) = spec.get_mut(field) {
                    literals(below);
                }
            }
        }
        if let Some(stacks) = value.pointer_mut("/objects/byHand/spec/stacks") {
            configuration(stacks);
        }
        passwords(&mut value);
        value
    }
}

/// Masks the values of a Workspace's configuration that it calls secret.
fn configuration(stacks: &mut Value) {
    let items = stacks
        .as_array_mut()
        .into_iter()
        .flatten()
        .filter_map(|stack| stack.get_mut("config")?.as_array_mut())
        .flatten();
    for item in items {
        if item["secret"] == true
            && let Some(value) = item.get_mut("value")
        {
            *value = MASK.into();
        }
    }
}

/// Masks `literal: {value: ...}` at any depth.
fn literals(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                match value.get_mut("value") {
                    Some(text) if name == "literal" => *text = MASK.into(),
                    _ => literals(value),
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(literals),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// Masks the password of every text that is a URL.
fn passwords(value: &mut Value) {
    match value {
        Value::String(text) => {
            if let Some(masked) = without_password(text) {
                *text = masked;
            }
        }
        Value::Array(items) => items.iter_mut().for_each(passwords),
        Value::Object(fields) => fields.values_mut().for_each(passwords),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

fn without_password(text: &str) -> Option<String> {
    let (scheme, rest) = text.split_once("://")?;
    let authority = rest.split(['/', '?', '#']).next()?;
    let (user, _) = authority.rsplit_once('@')?;
    let (name, _) = user.split_once(':')?;
    let after = &rest[user.len()..];
    Some(format!("{scheme}://{name}:{MASK}{after}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn secret_configuration_of_a_workspace_is_masked() {
        let mut stacks = json!([{"name": "dev", "config": [
            {"key": "a", "value": "hidden", "secret": true},
            {"key": "b", "value": "shown"},
        ]}]);
        configuration(&mut stacks);
        let text = stacks.to_string();
        assert!(!text.contains("hidden") && text.contains("shown"), "{text}");
    }

    #[test]
    fn literals_and_passwords_are_masked_and_nothing_else() {
        let mut refs = json!({
            "a": {"type": "Literal", "literal": {"value": "hidden"}},
            "b": {"type": "Secret", "secret": {"name": "n", "key": "k"}},
        });
        literals(&mut refs);
        assert_eq!(refs["a"]["literal"]["value"], MASK);
        assert_eq!(refs["b"]["secret"]["name"], "n");
        for (url, masked) in [
            (
                "postgres://me:hidden@db:5432/x?a=b@c",
                Some("postgres://me:[secret]@db:5432/x?a=b@c"),
            ),
            ("https://git@host/a:b", None),
            ("s3://bucket/a:b@c", None),
            ("no url: a@b", None),
        ] {
            assert_eq!(without_password(url).as_deref(), masked, "{url}");
        }
    }
}
