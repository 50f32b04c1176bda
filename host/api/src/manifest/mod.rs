//! Reads manifests: YAML or JSON, several documents in a file, `kind: List`.
//!
//! What is wrong is an error with its place and field; what has no effect is a warning. One bad document spoils neither
//! its neighbours nor other files, only a file that is no YAML is lost as a whole.

pub(crate) mod de;
mod error;
pub(crate) mod fault;
pub(crate) mod node;
mod object;

use std::cell::RefCell;
use std::collections::HashMap;
use std::path::{Path as FsPath, PathBuf};

use serde_saphyr::UserMessageFormatter;

pub use self::error::{ManifestError, Place, Problem, Warning};
use self::fault::{NodeError, Path};
pub use self::node::Position;
use self::node::{Node, Tree};
pub use self::object::{DEFAULT_NAMESPACE, Kind, Manifest, ObjectKey};
use self::object::{Identified, identify, items, key_of_broken, read_object};

/// An object and where it is defined.
#[derive(Clone, Debug, PartialEq)]
pub struct Located {
    pub place: Place,
    pub manifest: Manifest,
}

/// All that was found in one or more files.
#[derive(Clone, Debug, Default)]
pub struct Manifests {
    /// In the order in which they stand.
    pub objects: Vec<Located>,
    pub warnings: Vec<Warning>,
    pub errors: Vec<ManifestError>,
    places: HashMap<ObjectKey, Place>,
}

/// Reads the manifests in `text`; `file` is what errors call it.
pub fn parse(file: &str, text: &str) -> Manifests {
    let mut manifests = Manifests::default();
    manifests.add(file, text);
    manifests
}

/// Reads a file, or the files `*.yaml`, `*.yml` and `*.json` of a directory (not of those below it) in the order of
/// their names. Errors of the file system are among the errors.
pub fn read_path(path: &FsPath) -> Manifests {
    let mut manifests = Manifests::default();
    manifests.add_path(path);
    manifests
}

fn files_of(path: &FsPath) -> std::io::Result<Vec<PathBuf>> {
    if !std::fs::metadata(path)?.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let mut files = Vec::new();
    for entry in std::fs::read_dir(path)? {
        let file = entry?.path();
        let hidden = file
            .file_name()
            .is_some_and(|n| n.as_encoded_bytes().starts_with(b"."));
        let ours = file
            .extension()
            .is_some_and(|e| e == "yaml" || e == "yml" || e == "json");
        if ours && !hidden && !file.is_dir() {
            files.push(file);
        }
    }
    files.sort();
    Ok(files)
}

/// What the parser says, without the place, which stands in front already.
fn syntax_message(error: &serde_saphyr::Error) -> String {
    let text = error.render_with_formatter(&UserMessageFormatter);
    let text = match (text.rsplit_once(" at line "), error.location()) {
        (Some((message, _)), Some(_)) => message,
        _ => text.as_str(),
    };
    match text {
        // What a template that was not rendered looks like.
        "expected string scalar" => {
            "a name must be a text; write a value that begins with { in quotes".to_owned()
        }
        text => text.to_owned(),
    }
}

impl Manifests {
    /// Adds what [`read_path`] reads.
    pub fn add_path(&mut self, path: &FsPath) {
        match files_of(path) {
            Ok(files) => {
                for file in files {
                    self.add_file(&file);
                }
            }
            Err(error) => self.unreadable(path, &error),
        }
    }

    /// Adds the objects of a file.
    pub fn add_file(&mut self, path: &FsPath) {
        match std::fs::read_to_string(path) {
            Ok(text) => self.add(&path.display().to_string(), &text),
            Err(error) => self.unreadable(path, &error),
        }
    }

    /// Adds the objects in `text`; `file` is what errors call it.
    pub fn add(&mut self, file: &str, text: &str) {
        let options = serde_saphyr::options! {
            // As kubectl reads numbers: 0755 is octal.
            legacy_octal_numbers: true,
            with_snippet: false,
            alias_limits: serde_saphyr::alias_limits! {
                max_total_replayed_events: 100_000,
                max_replay_stack_depth: 8,
                max_alias_expansions_per_anchor: 10_000,
            },
        };
        match serde_saphyr::from_multiple_with_options::<Node>(text, options) {
            Ok(documents) => {
                for document in &documents {
                    self.add_document(file, document, &Path::Root);
                }
            }
            Err(error) => {
                let position = error.location().map_or(Position::START, Position::from);
                let message = syntax_message(&error);
                self.errors.push(ManifestError {
                    place: Place {
                        file: file.to_owned(),
                        position,
                    },
                    field: String::new(),
                    problem: Problem::Syntax(message),
                    object: None,
                });
            }
        }
    }

    fn add_document(&mut self, file: &str, node: &Node, path: &Path<'_>) {
        match identify(node, path) {
            Ok(Identified::Kind(kind)) => self.add_object(file, kind, node, path),
            Ok(Identified::List) => {
                let list = Path::Field(path, "items");
                for (index, item) in items(node).iter().enumerate() {
                    self.add_document(file, item, &Path::Index(&list, index));
                }
            }
            Ok(Identified::Unknown {
                api_version,
                kind,
                hint,
            }) => {
                let hint = hint
                    .map(|h| format!("; did you mean {h}?"))
                    .unwrap_or_default();
                self.warnings.push(Warning {
                    place: Place {
                        file: file.to_owned(),
                        position: node.at,
                    },
                    field: path.to_string(),
                    message: format!(
                        "{kind} of {api_version} is not known here and is ignored{hint}"
                    ),
                });
            }
            // A document of comments, or a template that rendered nothing.
            Err(_) if matches!(node.tree, Tree::Null) => {}
            Err(error) => self.fail(file, error, None),
        }
    }

    fn add_object(&mut self, file: &str, kind: Kind, node: &Node, path: &Path<'_>) {
        let unknown = RefCell::default();
        let manifest = match read_object(kind, node, path, &unknown) {
            Ok(manifest) => manifest,
            Err(error) => return self.fail(file, error, key_of_broken(kind, node)),
        };
        for field in unknown.take() {
            let suggestion = field
                .suggestion
                .map(|s| format!("; did you mean {s:?}?"))
                .unwrap_or_default();
            self.warnings.push(Warning {
                place: Place {
                    file: file.to_owned(),
                    position: field.at,
                },
                field: field.path,
                message: format!("unknown field, ignored{suggestion}"),
            });
        }
        let place = Place {
            file: file.to_owned(),
            position: node.at,
        };
        let key = manifest.key();
        if let Some(first) = self.places.get(&key) {
            let name = node.get("metadata").and_then(|m| m.node.get("name"));
            let at = name.map_or(node.at, |name| name.node.at);
            let problem = Problem::Duplicate {
                key: Box::new(key.clone()),
                first: Box::new(first.clone()),
            };
            let field = Path::Field(&Path::Field(path, "metadata"), "name").to_string();
            return self.fail(file, NodeError::at(at, field, problem), Some(key));
        }
        self.places.insert(key, place.clone());
        self.objects.push(Located { place, manifest });
    }

    fn fail(&mut self, file: &str, error: NodeError, object: Option<ObjectKey>) {
        self.errors.push(ManifestError {
            place: Place {
                file: file.to_owned(),
                position: error.at.unwrap_or(Position::START),
            },
            field: error.path,
            problem: error.problem,
            object,
        });
    }

    fn unreadable(&mut self, path: &FsPath, error: &std::io::Error) {
        self.errors.push(ManifestError {
            place: Place {
                file: path.display().to_string(),
                position: Position::START,
            },
            field: String::new(),
            problem: Problem::Unreadable(error.to_string()),
            object: None,
        });
    }
}
