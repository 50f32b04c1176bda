//! Reads configuration values from where they stand: the request, a file, a variable.

use std::collections::BTreeMap;

use serde_json::Value;
use windlass_api::run::{ConfigItem, ConfigValue};

use crate::mounts::MountError;

/// A file that holds one value is never larger than this.
const LARGEST_FILE: u64 = 4 << 20;

/// A configuration item with its value at hand.
#[derive(Clone, PartialEq)]
pub struct Resolved {
    /// With its namespace.
    pub key: String,
    pub path: bool,
    pub value: Value,
    pub secret: bool,
}

impl std::fmt::Debug for Resolved {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Resolved({})", self.key)
    }
}

/// A value that is not where the Stack says. The texts name places, never values.
// The names are public reasons and stand alone there.
#[allow(clippy::enum_variant_names)]
#[derive(Debug, thiserror::Error)]
pub enum ValueError {
    #[error("the config key {key:?} takes its value from a file, and {source}")]
    ConfigFileMissing { key: String, source: MountError },
    #[error("the config key {key:?} takes its value from a file, and {source}")]
    ConfigFileTooLarge { key: String, source: MountError },
    #[error("the config key {key:?} takes its value from a file, and {source}")]
    ConfigFileOutside { key: String, source: MountError },
    #[error("the config key {key:?} takes its value from a file, and {source}")]
    ConfigFileUnreadable { key: String, source: MountError },
    #[error(
        "the config key {key:?} takes its value from the variable {name:?}, which the workspace does not have"
    )]
    ConfigEnvMissing { key: String, name: String },
    #[error("the config key {key:?} takes its value from {place}, which is not text in UTF-8")]
    ConfigNotText { key: String, place: String },
    #[error(
        "the config key {key:?} takes its value from {place} as JSON, which it is not (line {line}, column {column})"
    )]
    ConfigNotJson {
        key: String,
        place: String,
        line: usize,
        column: usize,
    },
}

impl ValueError {
    /// The variant's name.
    pub fn reason(&self) -> &'static str {
        match self {
            ValueError::ConfigFileMissing { .. } => "ConfigFileMissing",
            ValueError::ConfigFileTooLarge { .. } => "ConfigFileTooLarge",
            ValueError::ConfigFileOutside { .. } => "ConfigFileOutside",
            ValueError::ConfigFileUnreadable { .. } => "ConfigFileUnreadable",
            ValueError::ConfigEnvMissing { .. } => "ConfigEnvMissing",
            ValueError::ConfigNotText { .. } => "ConfigNotText",
            ValueError::ConfigNotJson { .. } => "ConfigNotJson",
        }
    }

    fn of_file(key: &str, source: MountError) -> ValueError {
        let key = key.to_owned();
        match source {
            MountError::NoKey { .. } | MountError::NoObject { .. } => {
                ValueError::ConfigFileMissing { key, source }
            }
            MountError::TooLarge { .. } => ValueError::ConfigFileTooLarge { key, source },
            MountError::Outside { .. } => ValueError::ConfigFileOutside { key, source },
            MountError::NoFile { .. } | MountError::Unreadable { .. } => {
                ValueError::ConfigFileUnreadable { key, source }
            }
        }
    }
}

/// Gives every item its value, as it is now. A key without a namespace gets the project's; `read` reads a file of at most
/// so many bytes.
pub fn resolve(
    items: &[ConfigItem],
    project: &str,
    read: impl Fn(&str, u64) -> Result<Vec<u8>, MountError>,
    env: &BTreeMap<String, String>,
) -> Result<Vec<Resolved>, ValueError> {
    items
        .iter()
        .map(|item| {
            let ConfigItem {
                key,
                path,
                value,
                secret,
            } = item;
            let value = match value {
                ConfigValue::Inline { value } => value.clone(),
                ConfigValue::File { path, json } => {
                    let place = format!("the file {path:?}");
                    let bytes =
                        read(path, LARGEST_FILE).map_err(|e| ValueError::of_file(key, e))?;
                    let text = String::from_utf8(bytes).map_err(|_| ValueError::ConfigNotText {
                        key: key.clone(),
                        place: place.clone(),
                    })?;
                    parse(text, *json, key, place)?
                }
                ConfigValue::Env { name, json } => {
                    let text = env.get(name).ok_or_else(|| ValueError::ConfigEnvMissing {
                        key: key.clone(),
                        name: name.clone(),
                    })?;
                    parse(text.clone(), *json, key, format!("the variable {name:?}"))?
                }
            };
            let key = with_namespace(key, *path, project);
            Ok(Resolved {
                key,
                path: *path,
                value,
                secret: *secret,
            })
        })
        .collect()
}

fn parse(text: String, json: bool, key: &str, place: String) -> Result<Value, ValueError> {
    if !json {
        return Ok(Value::String(text));
    }
    // The parser's own message could quote the value.
    serde_json::from_str(&text).map_err(|e| ValueError::ConfigNotJson {
        key: key.to_owned(),
        place,
        line: e.line(),
        column: e.column(),
    })
}

fn with_namespace(key: &str, path: bool, project: &str) -> String {
    // In a path only what comes before the first segment's end can be a namespace.
    let head = if path {
        key.split(['.', '[', '"']).next().unwrap_or(key)
    } else {
        key
    };
    if head.contains(':') {
        key.to_owned()
    } else {
        format!("{project}:{key}")
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use serde_json::json;

    fn item(key: &str, value: ConfigValue) -> ConfigItem {
        ConfigItem {
            key: key.into(),
            path: false,
            value,
            secret: true,
        }
    }

    #[test]
    fn every_place_is_read_and_every_miss_is_named() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("plain"), "text\n").unwrap();
        std::fs::write(dir.path().join("data"), "{\"a\": [1]}").unwrap();
        std::fs::write(dir.path().join("broken"), "{canary").unwrap();
        std::fs::write(dir.path().join("bytes"), [0xff, 0xfe]).unwrap();
        let env = BTreeMap::from([("VAR".to_owned(), "from env".to_owned())]);
        let read = |name: &str, most| crate::mounts::read(name, dir.path(), &[], most);
        let run = |value| resolve(&[item("k", value)], "proj", read, &env);
        let file = |path: &str, json| ConfigValue::File {
            path: path.into(),
            json,
        };
        assert_eq!(run(file("plain", false)).unwrap()[0].value, json!("text\n"));
        assert_eq!(run(file("data", true)).unwrap()[0].value, json!({"a": [1]}));
        assert_eq!(
            run(ConfigValue::Env {
                name: "VAR".into(),
                json: false
            })
            .unwrap()[0]
                .key,
            "proj:k"
        );
        assert_eq!(
            run(file("gone", false)).unwrap_err().reason(),
            "ConfigFileMissing"
        );
        assert_eq!(
            run(file("/etc/hostname", false)).unwrap_err().reason(),
            "ConfigFileOutside"
        );
        assert_eq!(
            run(file("bytes", false)).unwrap_err().reason(),
            "ConfigNotText"
        );
        assert_eq!(
            run(ConfigValue::Env {
                name: "NO".into(),
                json: false
            })
            .unwrap_err()
            .reason(),
            "ConfigEnvMissing"
        );
        let broken = run(file("broken", true)).unwrap_err();
        assert_eq!(broken.reason(), "ConfigNotJson");
        assert!(!broken.to_string().contains("canary"));
    }

    #[test]
    fn namespaces() {
        assert_eq!(with_namespace("a", false, "p"), "p:a");
        assert_eq!(with_namespace("aws:region", false, "p"), "aws:region");
        assert_eq!(with_namespace("a.b[\"x:y\"]", true, "p"), "p:a.b[\"x:y\"]");
        assert_eq!(with_namespace("ns:a.b", true, "p"), "ns:a.b");
    }
}
