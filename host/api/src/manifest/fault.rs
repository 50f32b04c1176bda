//! Where in a document something is wrong: the path of a value, and the error that finds its place on the way up.

use std::fmt;

use serde::de::{self, Expected};

use super::error::Problem;
use super::node::Position;

/// Where in the document a value stands.
pub(crate) enum Path<'a> {
    Root,
    Field(&'a Path<'a>, &'a str),
    Index(&'a Path<'a>, usize),
}

impl fmt::Display for Path<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Path::Root => Ok(()),
            Path::Index(parent, index) => write!(f, "{parent}[{index}]"),
            Path::Field(parent, name) => {
                let plain = !name.is_empty()
                    && name
                        .bytes()
                        .all(|b| b.is_ascii_alphanumeric() || b"_-".contains(&b));
                match (parent, plain) {
                    (Path::Root, true) => f.write_str(name),
                    (_, true) => write!(f, "{parent}.{name}"),
                    (_, false) => write!(f, "{parent}[{name:?}]"),
                }
            }
        }
    }
}

/// An error that knows its place as soon as one of the values around it could tell.
#[derive(Debug)]
pub(crate) struct NodeError {
    pub at: Option<Position>,
    pub path: String,
    pub problem: Problem,
    /// Name of a field that is missing in the value at `path`.
    missing: Option<&'static str>,
}

impl NodeError {
    pub fn new(problem: Problem) -> Self {
        Self {
            at: None,
            path: String::new(),
            problem,
            missing: None,
        }
    }

    /// An error whose place and field are known.
    pub fn at(at: Position, path: String, problem: Problem) -> Self {
        Self {
            at: Some(at),
            path,
            problem,
            missing: None,
        }
    }

    /// Notes the place and the path of the innermost value around the fault.
    pub fn locate(mut self, at: Position, path: &Path<'_>) -> Self {
        if self.at.is_none() {
            self.at = Some(at);
            self.path = match self.missing {
                Some(field) => Path::Field(path, field).to_string(),
                None => path.to_string(),
            };
        }
        self
    }
}

impl fmt::Display for NodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.problem.fmt(f)
    }
}

impl std::error::Error for NodeError {}

impl de::Error for NodeError {
    fn custom<T: fmt::Display>(message: T) -> Self {
        Self::new(Problem::Invalid(message.to_string()))
    }

    fn invalid_type(found: de::Unexpected<'_>, expected: &dyn Expected) -> Self {
        Self::custom(format_args!(
            "expected {expected}, found {}",
            kind_of(&found)
        ))
    }

    fn invalid_value(found: de::Unexpected<'_>, expected: &dyn Expected) -> Self {
        Self::custom(format_args!(
            "expected {expected}, found {} with another value",
            kind_of(&found)
        ))
    }

    fn missing_field(field: &'static str) -> Self {
        Self {
            missing: Some(field),
            ..Self::new(Problem::Missing)
        }
    }

    fn unknown_variant(_: &str, variants: &'static [&'static str]) -> Self {
        Self::custom(format_args!("unknown value; use {}", variants.join(" or ")))
    }
}

/// As [`Node::kind`]: never the value.
fn kind_of(found: &de::Unexpected<'_>) -> &'static str {
    match found {
        de::Unexpected::Bool(_) => "a boolean",
        de::Unexpected::Unsigned(_) | de::Unexpected::Signed(_) | de::Unexpected::Float(_) => {
            "a number"
        }
        de::Unexpected::Str(_) | de::Unexpected::Char(_) | de::Unexpected::Bytes(_) => "a string",
        de::Unexpected::Seq => "a list",
        de::Unexpected::Map => "a mapping",
        de::Unexpected::Unit | de::Unexpected::Option => "nothing",
        _ => "something else",
    }
}
