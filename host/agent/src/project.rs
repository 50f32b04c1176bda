//! What the agent reads of a program: its project file and its own settings for the stack.

use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde_json::Value;
use windlass_api::run::ProjectInfo;

/// The parts of `Pulumi.yaml` that matter here; the CLI checks the rest.
#[derive(Debug, Deserialize)]
struct ProjectFile {
    name: Option<String>,
    runtime: Option<Runtime>,
    #[serde(rename = "stackConfigDir")]
    stack_config_dir: Option<String>,
    backend: Option<Backend>,
    packages: Option<Value>,
}

#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Runtime {
    Name(String),
    Object { name: String },
}

#[derive(Debug, Deserialize)]
struct Backend {
    url: Option<String>,
}

/// A program that was found.
#[derive(Clone, Debug, PartialEq)]
pub struct Project {
    pub dir: PathBuf,
    /// Name of the project file in it.
    pub file: String,
    pub info: ProjectInfo,
    /// `backend.url`, which a variable would win over.
    pub backend_url: Option<String>,
    /// Whether `pulumi install` has something to do for it.
    pub needs_install: bool,
    settings_dir: PathBuf,
}

#[derive(Debug, thiserror::Error)]
pub enum ProjectError {
    #[error("there is no Pulumi.yaml in the directory {dir:?} of the source")]
    ProjectMissing { dir: String },
    #[error("the project file {file} cannot be read: {message}")]
    ProjectInvalid { file: String, message: String },
    #[error("the program's own settings file {file} cannot be read: {message}")]
    SettingsInvalid { file: String, message: String },
}

impl ProjectError {
    /// The variant's name.
    pub fn reason(&self) -> &'static str {
        match self {
            ProjectError::ProjectMissing { .. } => "ProjectMissing",
            ProjectError::ProjectInvalid { .. } => "ProjectInvalid",
            ProjectError::SettingsInvalid { .. } => "SettingsInvalid",
        }
    }
}

const EXTENSIONS: [&str; 3] = ["yaml", "yml", "json"];

fn first_line(text: &str) -> String {
    text.lines().next().unwrap_or_default().to_owned()
}

impl Project {
    /// Finds the project in a directory; `shown` is how a person knows that directory.
    pub fn find(dir: &Path, shown: &str) -> Result<Project, ProjectError> {
        let (file, text) = EXTENSIONS
            .iter()
            .find_map(|ext| {
                let file = format!("Pulumi.{ext}");
                std::fs::read_to_string(dir.join(&file))
                    .ok()
                    .map(|text| (file, text))
            })
            .ok_or_else(|| ProjectError::ProjectMissing {
                dir: shown.to_owned(),
            })?;
        let invalid = |message: String| ProjectError::ProjectInvalid {
            file: file.clone(),
            message,
        };
        let parsed: ProjectFile =
            serde_saphyr::from_str(&text).map_err(|e| invalid(first_line(&e.to_string())))?;
        let ProjectFile {
            name,
            runtime,
            stack_config_dir,
            backend,
            packages,
        } = parsed;
        let name = name
            .filter(|n| !n.is_empty())
            .ok_or_else(|| invalid("it has no name".into()))?;
        let runtime = match runtime.ok_or_else(|| invalid("it has no runtime".into()))? {
            Runtime::Name(name) | Runtime::Object { name } => name,
        };
        let needs_install = runtime != "yaml" || packages.is_some();
        Ok(Project {
            dir: dir.to_owned(),
            file,
            settings_dir: dir.join(stack_config_dir.unwrap_or_default()),
            backend_url: backend.and_then(|b| b.url),
            needs_install,
            info: ProjectInfo { name, runtime },
        })
    }

    /// The program's own settings for the stack, by its last segment.
    pub fn settings(&self, stack: &str) -> Result<Option<Value>, ProjectError> {
        for ext in EXTENSIONS {
            let file = format!("Pulumi.{stack}.{ext}");
            let Ok(text) = std::fs::read_to_string(self.settings_dir.join(&file)) else {
                continue;
            };
            if text.trim().is_empty() {
                return Ok(None);
            }
            return match serde_saphyr::from_str::<Value>(&text) {
                Ok(value) => Ok(Some(value)),
                Err(e) => Err(ProjectError::SettingsInvalid {
                    file,
                    message: first_line(&e.to_string()),
                }),
            };
        }
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn project_and_settings_are_read() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(
            dir.path().join("Pulumi.yaml"),
            "name: shop\nruntime:\n  name: nodejs\n  options: {typescript: false}\nstackConfigDir: conf\n",
        )
        .unwrap();
        std::fs::create_dir(dir.path().join("conf")).unwrap();
        std::fs::write(
            dir.path().join("conf/Pulumi.dev.yaml"),
            "config:\n  shop:a: 1\n",
        )
        .unwrap();
        let project = Project::find(dir.path(), ".").unwrap();
        assert_eq!(
            project.info,
            ProjectInfo {
                name: "shop".into(),
                runtime: "nodejs".into()
            }
        );
        assert!(project.needs_install);
        assert_eq!(
            project.settings("dev").unwrap().unwrap()["config"]["shop:a"],
            1
        );
        assert_eq!(project.settings("other").unwrap(), None);
    }

    #[test]
    fn what_is_no_project_says_why() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(
            Project::find(dir.path(), "infra").unwrap_err().reason(),
            "ProjectMissing"
        );
        std::fs::write(dir.path().join("Pulumi.yaml"), "runtime: yaml\n").unwrap();
        assert_eq!(
            Project::find(dir.path(), ".").unwrap_err().reason(),
            "ProjectInvalid"
        );
        std::fs::write(dir.path().join("Pulumi.yaml"), "name: [\n").unwrap();
        assert_eq!(
            Project::find(dir.path(), ".").unwrap_err().reason(),
            "ProjectInvalid"
        );
    }
}
