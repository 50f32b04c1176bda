//! Takes values of secrets out of what plugins see and transcripts keep. A spec may state secrets inline; no decision of
//! a plugin needs them.

use std::borrow::Cow;

use serde_json::Value;

const REDACTED: &str = "[redacted]";

/// A spec or object without the values that its own structure marks as secret: the entries of `secrets`, what a
/// reference of type `Literal` holds, and `value` beside `secret: true`.
pub fn marked(value: &mut Value) {
    match value {
        Value::Object(map) => {
            let literal = map.get("type").and_then(Value::as_str) == Some("Literal");
            let secret = map.get("secret") == Some(&Value::Bool(true));
            for (key, value) in map.iter_mut() {
                match (key.as_str(), value) {
                    ("secrets", Value::Object(entries)) => {
                        entries
                            .values_mut()
                            .filter(|entry| entry.is_string())
                            .for_each(hide);
                    }
                    ("literal", Value::Object(body)) if literal => body.values_mut().for_each(hide),
                    ("value", value) if secret => hide(value),
                    (_, value) => marked(value),
                }
            }
        }
        Value::Array(list) => list.iter_mut().for_each(marked),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// The same for JSON text; costs a search where there is nothing to hide.
pub fn marked_text(json: &str) -> Cow<'_, str> {
    let marks = ["\"secrets\"", "\"Literal\"", "\"secret\""];
    if !marks.iter().any(|mark| json.contains(mark)) {
        return json.into();
    }
    match serde_json::from_str::<Value>(json) {
        Ok(mut value) => {
            marked(&mut value);
            value.to_string().into()
        }
        // Not JSON: the plugin says so itself.
        Err(_) => json.into(),
    }
}

/// Passwords in URLs, in every text of the value.
pub fn passwords(value: &mut Value) {
    match value {
        Value::String(text) => {
            if let Cow::Owned(clean) = without_password(text) {
                *text = clean;
            }
        }
        Value::Array(list) => list.iter_mut().for_each(passwords),
        Value::Object(map) => map.values_mut().for_each(passwords),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

fn without_password(text: &str) -> Cow<'_, str> {
    let Some(first) = text.find("://") else {
        return text.into();
    };
    let (mut clean, mut rest) = (String::new(), text);
    let mut next = Some(first);
    let mut changed = false;
    while let Some(at) = next {
        let (before, after) = rest.split_at(at + 3);
        clean.push_str(before);
        let end = after
            .find(['/', '?', '#', ' ', '"', '\n'])
            .unwrap_or(after.len());
        let authority = &after[..end];
        // Without a password there is nothing secret about a user's name.
        match authority
            .rsplit_once('@')
            .and_then(|(user, host)| Some((user.split_once(':')?.0, host)))
        {
            Some((user, host)) => {
                clean.push_str(&format!("{user}:{REDACTED}@{host}"));
                changed = true;
            }
            None => clean.push_str(authority),
        }
        rest = &after[end..];
        next = rest.find("://");
    }
    if !changed {
        return text.into();
    }
    clean.push_str(rest);
    clean.into()
}

fn hide(value: &mut Value) {
    *value = Value::from(REDACTED);
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn marked_values_go_and_references_stay() {
        let mut spec = json!({
            "secrets": {"a": "canary"},
            "secretsRef": {"b": {"type": "Literal", "literal": {"value": "canary"}},
                           "c": {"type": "Secret", "secret": {"name": "n", "key": "k"}}},
            "workspaceTemplate": {"spec": {"stacks": [{"config": [{"key": "x", "value": "canary", "secret": true}]}]}},
            "config": {"plain": "kept"},
        });
        let text = spec.to_string();
        marked(&mut spec);
        assert!(!spec.to_string().contains("canary"));
        assert_eq!(marked_text(&text), spec.to_string());
        assert_eq!(spec["secretsRef"]["c"]["secret"]["name"], "n");
        assert_eq!(spec["config"]["plain"], "kept");
    }

    #[test]
    fn passwords_in_urls() {
        let mut value = json!([
            "postgres://me:canary@db/x?y",
            "https://git@a.test/b and https://u:canary@c",
            "plain"
        ]);
        passwords(&mut value);
        assert_eq!(
            value,
            json!([
                "postgres://me:[redacted]@db/x?y",
                "https://git@a.test/b and https://u:[redacted]@c",
                "plain"
            ])
        );
    }
}
