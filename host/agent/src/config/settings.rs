//! The stack's settings file, as JSON, which the CLI reads beside YAML.
//!
//! The program's own `Pulumi.STACK.yaml` is the base; what the Stack asks for is laid over it. Every top-level value
//! is written as a string or an object: the CLI would turn `0123` or `1.10` into something else.

use serde_json::{Map, Value, json};

use super::path::{ConfigPath, PathError};
use super::value::Resolved;
use crate::crypter::{Crypter, CrypterError};

/// The file's content.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Settings {
    fields: Map<String, Value>,
}

/// What seals secret values.
pub enum SealedBy<'a> {
    /// The agent, with the stack's own key.
    Agent(&'a Crypter),
    /// The CLI, in a process of its own, because the stack's key is elsewhere.
    Cli,
}

/// What remains for the CLI to seal.
#[derive(Default)]
pub struct Plan {
    /// For `config set-all --json`, by way of a variable.
    pub set_all: Map<String, Value>,
    /// For `config set --secret --path KEY`, by way of standard input.
    pub set_paths: Vec<(String, String)>,
}

impl Settings {
    /// From the program's own settings, if it has any.
    pub fn from_base(base: Option<Value>) -> Settings {
        let mut fields = match base {
            Some(Value::Object(fields)) => fields,
            _ => Map::new(),
        };
        if let Some(Value::Object(config)) = fields.get_mut("config") {
            for value in config.values_mut() {
                if !value.is_object() && !value.is_array() {
                    *value = Value::String(plain_text(value));
                }
            }
        } else {
            fields.remove("config");
        }
        Settings { fields }
    }

    pub fn salt(&self) -> Option<&str> {
        self.fields.get("encryptionsalt")?.as_str()
    }

    pub fn set_salt(&mut self, salt: &str) {
        self.fields.insert("encryptionsalt".into(), salt.into());
    }

    /// Whether the base brings secrets of its own, sealed with its own key.
    pub fn names_provider(&self) -> bool {
        self.fields.contains_key("secretsprovider") || self.fields.contains_key("encryptedkey")
    }

    /// Adds ESC environments after those of the base.
    pub fn import(&mut self, environments: &[String]) {
        if environments.is_empty() {
            return;
        }
        let added = environments.iter().map(|e| Value::String(e.clone()));
        match self
            .fields
            .entry("environment")
            .or_insert_with(|| json!([]))
        {
            Value::Array(list) => list.extend(added),
            Value::Object(map) => match map.entry("imports").or_insert_with(|| json!([])) {
                Value::Array(list) => list.extend(added),
                other => *other = added.collect(),
            },
            other => *other = added.collect(),
        }
    }

    /// Lays the items over the base, in their order.
    pub fn apply(&mut self, items: &[Resolved], seal: &SealedBy<'_>) -> Result<Plan, ApplyError> {
        let mut plan = Plan::default();
        for Resolved {
            key,
            path,
            value,
            secret,
        } in items
        {
            let path = if *path {
                ConfigPath::parse(key)?
            } else {
                ConfigPath::parse(&quoted(key))?
            };
            let top_key = path.key.clone();
            let written = match (secret, seal) {
                (false, _) if path.is_top() => top_value(value),
                (false, _) => nested_value(value),
                (true, SealedBy::Agent(crypter)) => {
                    json!({"secure": crypter.encrypt(&plain_text(value))?})
                }
                (true, SealedBy::Cli) if path.is_top() => {
                    plan.set_all
                        .insert(top_key, json!({"value": plain_text(value), "secret": true}));
                    continue;
                }
                (true, SealedBy::Cli) => {
                    plan.set_paths.push((key.clone(), plain_text(value)));
                    continue;
                }
            };
            let config = self.fields.entry("config").or_insert_with(|| json!({}));
            if let Value::Object(config) = config {
                let top = config.entry(top_key).or_insert(Value::Null);
                // A path below a value that is text: the CLI replaces it too.
                if !path.is_top() && top.is_string() {
                    *top = Value::Null;
                }
                path.set(top, written)?;
            }
        }
        Ok(plan)
    }

    pub fn to_json(&self) -> Vec<u8> {
        Value::Object(self.fields.clone()).to_string().into_bytes()
    }
}

#[derive(Debug, thiserror::Error)]
pub enum ApplyError {
    #[error(transparent)]
    Path(#[from] PathError),
    #[error(transparent)]
    Crypter(#[from] CrypterError),
}

/// A literal key as a path of one segment.
fn quoted(key: &str) -> String {
    format!("[\"{key}\"]")
}

/// A value as the text that the CLI would store: strings raw, others as JSON.
fn plain_text(value: &Value) -> String {
    match value {
        Value::String(s) => s.clone(),
        Value::Null => String::new(),
        other => other.to_string(),
    }
}

fn top_value(value: &Value) -> Value {
    match value {
        Value::Object(_) | Value::Array(_) => value.clone(),
        other => Value::String(plain_text(other)),
    }
}

/// Below a path the CLI reads `true` and plain integers as what they look like.
fn nested_value(value: &Value) -> Value {
    let Value::String(text) = value else {
        return value.clone();
    };
    match text.as_str() {
        "true" => Value::Bool(true),
        "false" => Value::Bool(false),
        _ => match text.parse::<i64>() {
            Ok(n) if n.to_string() == *text => n.into(),
            _ => value.clone(),
        },
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn item(key: &str, path: bool, value: Value, secret: bool) -> Resolved {
        Resolved {
            key: key.into(),
            path,
            value,
            secret,
        }
    }

    #[test]
    fn the_base_stays_and_the_stack_wins() {
        let base = json!({"encryptionsalt": "v1:s", "config": {"p:a": 0.5, "p:b": "old", "p:o": {"x": 1}}});
        let mut settings = Settings::from_base(Some(base));
        let items = [
            item("p:b", false, json!("new"), false),
            item("p:n", false, json!(8080), false),
            item("p:dotted.key", false, json!("lit"), false),
            item("p:o.y[0]", true, json!("true"), false),
            item("p:list", false, json!(["a", 1]), false),
        ];
        let plan = settings.apply(&items, &SealedBy::Cli).unwrap();
        assert!(plan.set_all.is_empty() && plan.set_paths.is_empty());
        settings.import(&["org/dev".into()]);
        let written: Value = serde_json::from_slice(&settings.to_json()).unwrap();
        assert_eq!(
            written,
            json!({
                "encryptionsalt": "v1:s",
                "config": {
                    "p:a": "0.5", "p:b": "new", "p:n": "8080", "p:dotted.key": "lit",
                    "p:o": {"x": 1, "y": [true]}, "p:list": ["a", 1]
                },
                "environment": ["org/dev"]
            })
        );
    }

    #[test]
    fn secrets_that_the_cli_seals_are_not_in_the_file() {
        let mut settings = Settings::from_base(None);
        let items = [
            item("p:s", false, json!({"k": "canary"}), true),
            item("p:o.s", true, json!("canary"), true),
        ];
        let plan = settings.apply(&items, &SealedBy::Cli).unwrap();
        assert_eq!(
            plan.set_all["p:s"],
            json!({"value": "{\"k\":\"canary\"}", "secret": true})
        );
        assert_eq!(plan.set_paths, [("p:o.s".to_owned(), "canary".to_owned())]);
        assert!(
            !String::from_utf8(settings.to_json())
                .unwrap()
                .contains("canary")
        );
    }
}
