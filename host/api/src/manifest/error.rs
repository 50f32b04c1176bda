//! What can be wrong with a manifest, and how it is said.

use std::fmt;

use super::ObjectKey;
use super::node::Position;

/// A place in a file.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place {
    /// As it was named by the caller.
    pub file: String,
    pub position: Position,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}:{}:{}",
            self.file, self.position.line, self.position.column
        )
    }
}

/// A manifest that cannot be used. Displays as `file:line:column: field: what is wrong; what to do`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ManifestError {
    pub place: Place,
    /// Path of the field, such as `spec.prerequisites[0].name`; empty for the whole document.
    pub field: String,
    pub problem: Problem,
    /// The object that the document was to describe, as far as it could be read. One that was known before is not
    /// gone because its manifest is broken now.
    pub object: Option<ObjectKey>,
}

impl fmt::Display for ManifestError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            place,
            field,
            problem,
            object: _,
        } = self;
        if field.is_empty() {
            write!(f, "{place}: {problem}")
        } else {
            write!(f, "{place}: {field}: {problem}")
        }
    }
}

impl std::error::Error for ManifestError {}

/// What is wrong. Texts never quote values, since those may be secrets.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    #[error("cannot be read: {0}")]
    Unreadable(String),
    #[error("not valid YAML: {0}")]
    Syntax(String),
    #[error("expected {expected}, found {found}{}", hint(expected, found))]
    WrongType {
        expected: &'static str,
        found: &'static str,
    },
    #[error("this field is required; add it")]
    Missing,
    #[error("{0}")]
    Invalid(String),
    #[error("{kind} {name:?} in namespace {namespace:?} is defined twice, first at {first}; remove one", kind = .key.kind, name = .key.name, namespace = .key.namespace)]
    Duplicate {
        key: Box<ObjectKey>,
        first: Box<Place>,
    },
}

fn hint(expected: &str, found: &str) -> &'static str {
    match (expected, found) {
        ("a string", "a number" | "a boolean") => "; write the value in quotes",
        ("a string", "nothing") => "; write a value, or \"\" for an empty one",
        ("a list", "a string" | "a number" | "a boolean" | "a mapping") => {
            "; put \"- \" before each item"
        }
        ("a mapping", "a list") => "; write \"name: value\" lines without \"- \"",
        ("a mapping", "a string" | "a number" | "a boolean") => {
            "; write \"name: value\" lines below it"
        }
        ("a boolean", "a string") => "; write true or false without quotes",
        ("a whole number", "a string") => "; write the number without quotes",
        _ => "",
    }
}

/// Something that has no effect and was probably meant to. Displays like an error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Warning {
    pub place: Place,
    /// Path of the field; empty for the whole document.
    pub field: String,
    pub message: String,
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            place,
            field,
            message,
        } = self;
        if field.is_empty() {
            write!(f, "{place}: {message}")
        } else {
            write!(f, "{place}: {field}: {message}")
        }
    }
}
