//! The project file of a program.

use std::io::Read;

use serde::Deserialize;
use serde_json::Value;
use windlass_api::run::ProjectInfo;

/// A project file is small; this is a foreign one.
const LARGEST: u64 = 4 << 20;
const NAMES: [&str; 3] = ["Pulumi.yaml", "Pulumi.yml", "Pulumi.json"];

/// Why a tree is no Pulumi project.
#[derive(Debug, thiserror::Error)]
pub enum ProjectError {
    #[error("there is no Pulumi.yaml in the program's directory; check repoDir")]
    Missing,
    #[error("{file} is larger than {} MiB", LARGEST >> 20)]
    TooLarge { file: String },
    #[error("{file} is not a project file: {message}")]
    Malformed { file: String, message: String },
    #[error("the tree cannot be read: {0}")]
    Io(#[from] std::io::Error),
}

#[derive(Deserialize)]
struct File {
    name: String,
    runtime: Value,
}

/// Finds the project file in a tar stream of the program's directory.
pub fn read(stream: impl Read) -> Result<ProjectInfo, ProjectError> {
    let mut archive = tar::Archive::new(stream);
    for entry in archive.entries()? {
        let mut entry = entry?;
        let path = entry.path()?.into_owned();
        let Some(file) = path
            .to_str()
            .map(|path| path.trim_start_matches("./").to_owned())
        else {
            continue;
        };
        if !NAMES.contains(&file.as_str()) || !entry.header().entry_type().is_file() {
            continue;
        }
        if entry.size() > LARGEST {
            return Err(ProjectError::TooLarge { file });
        }
        let mut text = String::new();
        entry.read_to_string(&mut text)?;
        return parse(&file, &text);
    }
    Err(ProjectError::Missing)
}

fn parse(file: &str, text: &str) -> Result<ProjectInfo, ProjectError> {
    let malformed = |message: String| ProjectError::Malformed {
        file: file.to_owned(),
        message,
    };
    let File { name, runtime } =
        serde_saphyr::from_str(text).map_err(|error| malformed(error.to_string()))?;
    let runtime = match &runtime {
        Value::String(name) => Some(name.clone()),
        Value::Object(fields) => fields
            .get("name")
            .and_then(Value::as_str)
            .map(str::to_owned),
        _ => None,
    };
    let runtime = runtime
        .ok_or_else(|| malformed("runtime must be a name, or a mapping with a name".to_owned()))?;
    Ok(ProjectInfo { name, runtime })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn both_forms_of_runtime_are_read() {
        let short = parse("Pulumi.yaml", "name: a\nruntime: yaml\n").unwrap();
        assert_eq!((short.name.as_str(), short.runtime.as_str()), ("a", "yaml"));
        let long = parse(
            "Pulumi.yaml",
            "name: a\nruntime:\n  name: nodejs\n  options: {}\n",
        )
        .unwrap();
        assert_eq!(long.runtime, "nodejs");
        assert!(
            parse("Pulumi.yaml", "runtime: yaml\n")
                .unwrap_err()
                .to_string()
                .contains("name")
        );
    }
}
