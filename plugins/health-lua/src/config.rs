//! What `argocd-cm` says about health, read as Argo CD reads it.

use std::collections::BTreeMap;
use std::fmt;

use serde_json::{Map, Value};
use windlass_sdk::glob::{self, Glob};

/// Every key that concerns kinds begins so.
const PREFIX: &str = "resource.customizations";

/// The parts of keys that Argo CD knows; it refuses its whole configuration for any other.
const TYPES: [&str; 6] = [
    "health",
    "useOpenLibs",
    "actions",
    "ignoreDifferences",
    "ignoreResourceUpdates",
    "knownTypeFields",
];

/// A script and how it runs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Script {
    pub text: String,
    /// With `string`, `math`, `coroutine` and `os`.
    pub open_libs: bool,
}

/// The scripts of a configuration.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Scripts {
    /// By `group/Kind`, `Kind` in the core group, or a pattern for that.
    by_key: BTreeMap<String, Script>,
}

/// Why Argo CD would refuse the configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    pub key: String,
    pub message: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.key, self.message)
    }
}

impl Scripts {
    /// Reads the `data` of an `argocd-cm`, or the whole ConfigMap. Keys that have nothing to do with kinds are left alone. What
    /// is wrong is left out and told: with a single problem Argo CD takes nothing of the configuration.
    pub fn read(config: &Value) -> (Scripts, Vec<Problem>) {
        let mut reading = Reading::default();
        let none = Map::new();
        let data = match (config["kind"].as_str(), &config["data"]) {
            (Some("ConfigMap"), data) => data.as_object().unwrap_or(&none),
            _ => config.as_object().unwrap_or(&none),
        };
        if let Some(value) = data.get(PREFIX) {
            match value {
                Value::String(text) => reading.whole(text),
                _ => reading.problem(PREFIX, NOT_TEXT),
            }
        }
        // In the order of their names: the same verdict from the same configuration.
        let split: BTreeMap<&String, &Value> = data
            .iter()
            .filter(|(key, _)| key.starts_with(PREFIX))
            .collect();
        for (key, value) in split {
            reading.split_key(key, value);
        }
        let Reading {
            mut by_key,
            problems,
        } = reading;
        by_key.retain(|_, script| !script.text.is_empty());
        (Scripts { by_key }, problems)
    }

    /// The script for a kind, with the key that it is from: the kind's own, else that of the pattern that says most (of
    /// several, the first in the order of their bytes; Argo CD takes any).
    pub fn find(&self, group: &str, kind: &str) -> Option<(&str, &Script)> {
        let wanted = key_of(group, kind);
        if let Some((key, script)) = self.by_key.get_key_value(&wanted) {
            return Some((key, script));
        }
        self.by_key
            .iter()
            .filter(|(key, _)| glob::is_pattern(key))
            .filter_map(|(key, script)| Some((Glob::new(key).ok()?, key, script)))
            .filter(|(glob, _, _)| glob.matches(&wanted))
            .min_by_key(|(glob, _, _)| std::cmp::Reverse(glob.literals()))
            .map(|(_, key, script)| (key.as_str(), script))
    }

    /// What a descriptor names: `group/Kind`, `/Kind` in the core group, and patterns as they are. A pattern that
    /// cannot be read matches nothing, here as in Argo CD.
    pub fn kinds(&self) -> Vec<String> {
        let named = |key: &String| {
            // `_Kind` is a key that no kind has.
            if key.starts_with('/') {
                return None;
            }
            if glob::is_pattern(key) {
                return Glob::new(key).is_ok().then(|| key.clone());
            }
            Some(if key.contains('/') {
                key.clone()
            } else {
                format!("/{key}")
            })
        };
        self.by_key.keys().filter_map(named).collect()
    }

    /// How many kinds and patterns have a script.
    pub fn len(&self) -> usize {
        self.by_key.len()
    }

    pub fn is_empty(&self) -> bool {
        self.by_key.is_empty()
    }
}

/// As keys of the configuration name a kind.
pub fn key_of(group: &str, kind: &str) -> String {
    if group.is_empty() {
        kind.to_owned()
    } else {
        format!("{group}/{kind}")
    }
}

const NOT_TEXT: &str = "the value is not text; quote it, as in a ConfigMap";

#[derive(Default)]
struct Reading {
    by_key: BTreeMap<String, Script>,
    problems: Vec<Problem>,
}

impl Reading {
    fn problem(&mut self, key: &str, message: impl Into<String>) {
        self.problems.push(Problem {
            key: key.to_owned(),
            message: message.into(),
        });
    }

    /// The one key that holds a YAML document for all kinds.
    fn whole(&mut self, text: &str) {
        let options = serde_saphyr::options! { with_snippet: false };
        let parsed = serde_saphyr::from_str_with_options::<Value>(text, options);
        let kinds = match parsed {
            Ok(Value::Object(kinds)) => kinds,
            Ok(Value::Null) => return,
            Ok(_) => return self.problem(PREFIX, "the value is not a YAML mapping"),
            Err(error) => return self.problem(PREFIX, format!("not valid YAML: {error}")),
        };
        for (kind, settings) in kinds {
            match settings {
                Value::Object(settings) => self.settings(&kind, &settings),
                Value::Null => {}
                _ => self.problem(PREFIX, format!("{kind} is not a mapping")),
            }
        }
    }

    fn settings(&mut self, kind: &str, settings: &Map<String, Value>) {
        let mut script = Script::default();
        for (name, value) in settings {
            match (name.as_str(), value) {
                (_, Value::Null) => {}
                ("health.lua", Value::String(text)) => script.text.clone_from(text),
                ("health.lua.useOpenLibs", Value::Bool(open)) => script.open_libs = *open,
                ("health.lua.useOpenLibs", _) => {
                    self.problem(PREFIX, format!("{kind}: {name} is not true or false"));
                }
                (
                    "health.lua" | "actions" | "ignoreDifferences" | "ignoreResourceUpdates",
                    value,
                ) if !value.is_string() => {
                    self.problem(PREFIX, format!("{kind}: {name} is not text"));
                }
                ("knownTypeFields", value) if !value.is_array() => {
                    self.problem(PREFIX, format!("{kind}: {name} is not a list"));
                }
                _ => {}
            }
        }
        self.by_key.insert(kind.to_owned(), script);
    }

    /// `resource.customizations.TYPE.GROUP_KIND`.
    fn split_key(&mut self, key: &str, value: &Value) {
        let mut parts = key.splitn(4, '.').skip(2);
        // With fewer parts it is another key, which Argo CD does not look at.
        let (Some(setting), Some(name)) = (parts.next(), parts.next()) else {
            return;
        };
        let kind = match name.split('_').collect::<Vec<_>>()[..] {
            ["all"] => "*/*".to_owned(),
            [kind] if !kind.is_empty() => kind.to_owned(),
            [group, kind] => format!("{group}/{kind}"),
            _ => {
                return self.problem(
                    key,
                    "must end in GROUP_KIND, or KIND in the core group; Argo CD refuses its whole configuration for it",
                );
            }
        };
        if !TYPES.contains(&setting) {
            return self.problem(
                key,
                format!(
                    "resource customization type {setting} not supported; Argo CD refuses its whole configuration for it \
                     (it knows {})",
                    TYPES.join(", ")
                ),
            );
        }
        match (setting, value) {
            ("health", Value::String(text)) => {
                self.by_key.entry(kind).or_default().text.clone_from(text);
            }
            ("useOpenLibs", value) => match truth(value) {
                Some(open) => self.by_key.entry(kind).or_default().open_libs = open,
                None => self.problem(key, "the value is not true or false"),
            },
            (_, Value::String(_)) => {}
            _ => self.problem(key, NOT_TEXT),
        }
    }
}

/// Go's spellings. A policy in YAML may say `true` without quotes.
fn truth(value: &Value) -> Option<bool> {
    match value {
        Value::Bool(truth) => Some(*truth),
        Value::String(text) => match text.as_str() {
            "1" | "t" | "T" | "TRUE" | "true" | "True" => Some(true),
            "0" | "f" | "F" | "FALSE" | "false" | "False" => Some(false),
            _ => None,
        },
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use serde_json::json;

    use super::*;

    fn good(config: &Value) -> Scripts {
        let (scripts, problems) = Scripts::read(config);
        assert_eq!(problems, [], "{config}");
        scripts
    }

    fn text<'a>(scripts: &'a Scripts, group: &str, kind: &str) -> Option<&'a str> {
        scripts
            .find(group, kind)
            .map(|(_, script)| script.text.as_str())
    }

    #[test]
    fn keys_name_kinds() {
        let scripts = good(&json!({
            "url": "https://argocd.example.org",
            "resource.customizations.health": "ignored: too short",
            "resource.customizations.health.cert-manager.io_Certificate": "certificate",
            "resource.customizations.useOpenLibs.cert-manager.io_Certificate": "t",
            "resource.customizations.health.PersistentVolumeClaim": "claim",
            "resource.customizations.actions.apps_Deployment": "definitions: []",
            "resource.customizations.health.empty.example_Kind": "",
        }));
        assert_eq!(
            scripts.kinds(),
            ["/PersistentVolumeClaim", "cert-manager.io/Certificate"]
        );
        let (key, script) = scripts.find("cert-manager.io", "Certificate").unwrap();
        assert_eq!(
            (key, script.open_libs),
            ("cert-manager.io/Certificate", true)
        );
        assert_eq!(text(&scripts, "", "PersistentVolumeClaim"), Some("claim"));
        assert_eq!(text(&scripts, "apps", "Deployment"), None);
        assert_eq!(text(&scripts, "x", "PersistentVolumeClaim"), None);
    }

    #[test]
    fn a_key_of_its_own_beats_the_one_for_all_part_by_part() {
        let all = "
a.example/A:
  health.lua: from the document
  health.lua.useOpenLibs: true
'*.example/*':
  health.lua: a pattern
b.example/B:
  ignoreDifferences: |
    jsonPointers: [/status]
";
        let scripts = good(&json!({
            "resource.customizations": all,
            "resource.customizations.health.a.example_A": "its own",
        }));
        let (_, script) = scripts.find("a.example", "A").unwrap();
        assert_eq!((script.text.as_str(), script.open_libs), ("its own", true));
        // A kind that is named without a script is judged by the pattern.
        assert_eq!(text(&scripts, "b.example", "B"), Some("a pattern"));
    }

    #[test]
    fn the_pattern_that_says_most() {
        let scripts = good(&json!({
            "resource.customizations.health.all": "all",
            "resource.customizations.health.*.io_*": "io",
            "resource.customizations.health.*.aws.io_*": "aws",
            "resource.customizations.health.[_*": "no pattern",
        }));
        assert_eq!(text(&scripts, "s3.aws.io", "Bucket"), Some("aws"));
        assert_eq!(text(&scripts, "gcp.io", "Bucket"), Some("io"));
        assert_eq!(text(&scripts, "apps", "Deployment"), Some("all"));
        // Argo CD's `all` is `*/*`, and core kinds have no slash.
        assert_eq!(text(&scripts, "", "Pod"), None);
        assert_eq!(scripts.kinds(), ["*.aws.io/*", "*.io/*", "*/*"]);
    }

    #[test]
    fn a_whole_config_map_can_be_pasted() {
        let scripts = good(&json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "argocd-cm"},
            "data": {"resource.customizations.health.a_B": "x"},
        }));
        assert_eq!(scripts.kinds(), ["a/B"]);
        assert!(good(&json!({})).is_empty());
    }

    #[test]
    fn what_argo_cd_would_refuse() {
        for (key, value, wanted) in [
            (
                "resource.customizations.healt.a_B",
                json!("x"),
                "type healt",
            ),
            (
                "resource.customizations.health.a_b_C",
                json!("x"),
                "GROUP_KIND",
            ),
            ("resource.customizations.health.", json!("x"), "GROUP_KIND"),
            (
                "resource.customizations.useOpenLibs.a_B",
                json!("yes"),
                "true or false",
            ),
            ("resource.customizations.health.a_B", json!(7), "not text"),
            ("resource.customizations", json!("[1]"), "mapping"),
            ("resource.customizations", json!("a: {b"), "YAML"),
            (
                "resource.customizations",
                json!("a/B: {health.lua: 7}"),
                "health.lua",
            ),
            (
                "resource.customizations",
                json!("a/B: {health.lua.useOpenLibs: 'x'}"),
                "useOpenLibs",
            ),
        ] {
            let (scripts, problems) = Scripts::read(&json!({key: value}));
            assert_eq!(problems.len(), 1, "{key}: {problems:?}");
            assert_eq!(problems[0].key, key);
            assert!(problems[0].message.contains(wanted), "{problems:?}");
            assert!(text(&scripts, "a", "B").is_none());
        }
    }
}
