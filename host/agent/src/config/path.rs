//! Property paths, in the CLI's spelling: `a.b`, `a[0]`, `a["b.c"]`.

use serde_json::{Map, Value};

// The names are public reasons and stand alone there.
#[allow(clippy::enum_variant_names)]
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum PathError {
    #[error("the config path {0:?} cannot be read: write a.b, a[0] or a[\"b\"]")]
    ConfigPathInvalid(String),
    #[error("the config path {0:?} goes through a value that is neither an object nor a list")]
    ConfigPathBlocked(String),
    #[error("the config path {0:?} leaves a hole in a list: set its elements in order")]
    ConfigPathBeyondEnd(String),
}

#[derive(Debug, PartialEq, Eq)]
enum Step {
    Field(String),
    Index(usize),
}

/// A path with its first segment split off: the name of the top-level key.
#[derive(Debug, PartialEq, Eq)]
pub struct ConfigPath {
    text: String,
    pub key: String,
    steps: Vec<Step>,
}

impl ConfigPath {
    pub fn parse(text: &str) -> Result<ConfigPath, PathError> {
        let invalid = || PathError::ConfigPathInvalid(text.to_owned());
        let mut steps = Vec::new();
        let mut rest = text;
        while !rest.is_empty() {
            if let Some(quoted) = rest.strip_prefix("[\"") {
                let end = quoted.find("\"]").ok_or_else(invalid)?;
                steps.push(Step::Field(quoted[..end].to_owned()));
                rest = &quoted[end + 2..];
            } else if let Some(index) = rest.strip_prefix('[') {
                let end = index.find(']').ok_or_else(invalid)?;
                steps.push(Step::Index(index[..end].parse().map_err(|_| invalid())?));
                rest = &index[end + 1..];
            } else {
                let name = match rest.strip_prefix('.') {
                    Some(name) if !steps.is_empty() => name,
                    None if steps.is_empty() => rest,
                    _ => return Err(invalid()),
                };
                let end = name.find(['.', '[']).unwrap_or(name.len());
                if end == 0 {
                    return Err(invalid());
                }
                steps.push(Step::Field(name[..end].to_owned()));
                rest = &name[end..];
            }
        }
        if steps.is_empty() {
            return Err(invalid());
        }
        let Step::Field(key) = steps.remove(0) else {
            return Err(invalid());
        };
        Ok(ConfigPath {
            text: text.to_owned(),
            key,
            steps,
        })
    }

    /// Whether it names the top-level value itself.
    pub fn is_top(&self) -> bool {
        self.steps.is_empty()
    }

    /// Puts a value at this path below the top-level value, making objects and lists on the way.
    pub fn set(&self, top: &mut Value, value: Value) -> Result<(), PathError> {
        let mut here = top;
        for step in &self.steps {
            here = match step {
                Step::Field(name) => {
                    if here.is_null() {
                        *here = Value::Object(Map::new());
                    }
                    let fields = here
                        .as_object_mut()
                        .filter(|f| !f.contains_key("secure"))
                        .ok_or_else(|| PathError::ConfigPathBlocked(self.text.clone()))?;
                    fields.entry(name.clone()).or_insert(Value::Null)
                }
                Step::Index(index) => {
                    if here.is_null() {
                        *here = Value::Array(Vec::new());
                    }
                    let items = here
                        .as_array_mut()
                        .ok_or_else(|| PathError::ConfigPathBlocked(self.text.clone()))?;
                    if *index > items.len() {
                        return Err(PathError::ConfigPathBeyondEnd(self.text.clone()));
                    }
                    if *index == items.len() {
                        items.push(Value::Null);
                    }
                    &mut items[*index]
                }
            };
        }
        *here = value;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use serde_json::json;

    #[test]
    fn paths_build_objects_and_lists() {
        let mut top = Value::Null;
        let mut set = |path: &str, value| ConfigPath::parse(path).unwrap().set(&mut top, value);
        set("a.b[0]", json!("x")).unwrap();
        set("a.b[1].c", json!(2)).unwrap();
        set("a[\"d.e\"]", json!(true)).unwrap();
        assert_eq!(
            set("a.b[7]", json!(1)),
            Err(PathError::ConfigPathBeyondEnd("a.b[7]".into()))
        );
        assert_eq!(
            set("a.b.c", json!(1)),
            Err(PathError::ConfigPathBlocked("a.b.c".into()))
        );
        assert_eq!(top, json!({"b": ["x", {"c": 2}], "d.e": true}));
    }

    #[test]
    fn malformed_paths_are_refused() {
        for text in ["", ".a", "a..b", "a[", "a[x]", "a[\"b]", "[0]", "a]b["] {
            assert!(ConfigPath::parse(text).is_err(), "{text}");
        }
        assert!(ConfigPath::parse("ns:a").unwrap().is_top());
    }
}
