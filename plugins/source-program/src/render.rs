//! A Program as the files of a Pulumi YAML project.

use serde_json::{Map, Value, json};
use windlass_sdk::{File, PluginError};

use crate::yaml;

/// Blocks of a Program that are the program itself, with the name they have in `Main.yaml`. The runtime takes
/// `configuration` too, but then warns on every run.
const BLOCKS: [(&str, &str); 4] = [
    ("configuration", "config"),
    ("variables", "variables"),
    ("resources", "resources"),
    ("outputs", "outputs"),
];

/// `Pulumi.yaml`, which the CLI reads, and `Main.yaml`, which the YAML runtime prefers to it. Apart, because the CLI
/// knows fewer types of configuration than the runtime and would refuse a Program's `Number`.
///
/// # Errors
/// `invalid` if the object has no `program`, or a block of it is not a mapping.
pub fn render(name: &str, program: &Value) -> Result<Vec<File>, PluginError> {
    let body = program
        .get("program")
        .and_then(Value::as_object)
        .ok_or_else(|| {
            PluginError::invalid(
                "ProgramInvalid",
                format!("program {name:?} has no \"program\""),
            )
        })?;
    let mut project = Map::new();
    project.insert("name".into(), json!(name));
    project.insert("runtime".into(), json!("yaml"));
    if let Some(packages) = block(name, body, "packages")? {
        project.insert("packages".into(), packages);
    }
    let mut main = Map::new();
    for (from, to) in BLOCKS {
        if let Some(value) = block(name, body, from)? {
            main.insert(to.into(), value);
        }
    }
    Ok(vec![file("Pulumi.yaml", project), file("Main.yaml", main)])
}

fn block(name: &str, body: &Map<String, Value>, key: &str) -> Result<Option<Value>, PluginError> {
    match body.get(key) {
        None | Some(Value::Null) => Ok(None),
        Some(value @ Value::Object(_)) => Ok(Some(value.clone())),
        Some(_) => Err(PluginError::invalid(
            "ProgramInvalid",
            format!("program {name:?}: {key:?} is not a mapping"),
        )),
    }
}

fn file(path: &str, content: Map<String, Value>) -> File {
    File {
        path: path.into(),
        content: yaml::emit(&Value::Object(content)).into_bytes(),
    }
}
