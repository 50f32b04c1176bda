//! Prerequisites of a Stack: other Stacks of its namespace that must have succeeded. Two spellings mean the same:
//! `{name, requirement: {succeededWithinDuration}}` and `{type: Stack, requirement: NAME, succeededWithinDuration}`.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::duration::{self, DurationError};

/// A prerequisite as it is written.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PrerequisiteRef {
    /// Name of the other Stack object.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Either `{succeededWithinDuration}`, or the name of the other Stack object if `type` is Stack.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::any")]
    pub requirement: Option<Value>,
    /// Stack, the only kind of prerequisite there is.
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub type_: Option<String>,
    /// How recent the success must be, as in `24h`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub succeeded_within_duration: Option<String>,
}

/// A prerequisite as it is meant.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Prerequisite {
    /// Name of the other Stack object, in the same namespace.
    pub name: String,
    /// How recent its success must be; none means at any time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub within: Option<Duration>,
}

/// What the untyped `requirement` says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Requirement {
    /// The other Stack succeeded, in this time if one is given.
    SucceededWithin { duration: Option<Duration> },
    /// Name of the other Stack.
    StackName(String),
}

/// Why a prerequisite means nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PrerequisiteError {
    #[error("it names no Stack; write \"name: STACK\"")]
    MissingName,
    #[error(
        "it names two Stacks, {name:?} and {requirement:?}; keep one of \"name\" and \"requirement\""
    )]
    TwoNames { name: String, requirement: String },
    #[error("unknown type {0:?}; the only type is Stack")]
    UnknownType(String),
    #[error(
        "\"requirement\" must be {{succeededWithinDuration: DURATION}} or the name of a Stack, found {0}"
    )]
    RequirementShape(&'static str),
    #[error("\"requirement\" has the unknown field {0:?}; the only one is succeededWithinDuration")]
    UnknownRequirement(String),
    #[error("succeededWithinDuration must be a string such as \"24h\", found {0}")]
    DurationShape(&'static str),
    #[error("succeededWithinDuration is stated twice, with different values")]
    TwoDurations,
    #[error(transparent)]
    Duration(#[from] DurationError),
}

impl PrerequisiteRef {
    /// The one meaning of both spellings.
    pub fn normalize(&self) -> Result<Prerequisite, PrerequisiteError> {
        let Self {
            name,
            requirement,
            type_,
            succeeded_within_duration,
        } = self;
        if let Some(type_) = type_.as_deref()
            && type_ != "Stack"
        {
            return Err(PrerequisiteError::UnknownType(type_.to_owned()));
        }
        let outer = succeeded_within_duration
            .as_deref()
            .map(duration::parse)
            .transpose()?;
        let (named, inner) = match requirement.as_ref().map(parse_requirement).transpose()? {
            Some(Requirement::StackName(name)) => (Some(name), None),
            Some(Requirement::SucceededWithin { duration }) => (None, duration),
            None => (None, None),
        };
        let within = match (outer, inner) {
            (Some(a), Some(b)) if a != b => return Err(PrerequisiteError::TwoDurations),
            (a, b) => a.or(b),
        };
        let name = match (name.clone().filter(|n| !n.is_empty()), named) {
            (Some(name), Some(requirement)) if name != requirement => {
                return Err(PrerequisiteError::TwoNames { name, requirement });
            }
            (Some(name), _) | (None, Some(name)) => name,
            (None, None) => return Err(PrerequisiteError::MissingName),
        };
        Ok(Prerequisite { name, within })
    }
}

/// Reads the untyped `requirement`.
pub fn parse_requirement(value: &Value) -> Result<Requirement, PrerequisiteError> {
    match value {
        Value::Null => Ok(Requirement::SucceededWithin { duration: None }),
        Value::String(name) if !name.is_empty() => Ok(Requirement::StackName(name.clone())),
        Value::String(_) => Err(PrerequisiteError::MissingName),
        Value::Object(fields) => {
            if let Some(unknown) = fields.keys().find(|k| *k != "succeededWithinDuration") {
                return Err(PrerequisiteError::UnknownRequirement(unknown.clone()));
            }
            let duration = match fields.get("succeededWithinDuration") {
                None | Some(Value::Null) => None,
                Some(Value::String(text)) => Some(duration::parse(text)?),
                Some(other) => return Err(PrerequisiteError::DurationShape(kind_of(other))),
            };
            Ok(Requirement::SucceededWithin { duration })
        }
        other => Err(PrerequisiteError::RequirementShape(kind_of(other))),
    }
}

fn kind_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "a list",
        Value::Object(_) => "a mapping",
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use serde_json::json;

    fn normalize(value: Value) -> Result<Prerequisite, PrerequisiteError> {
        serde_json::from_value::<PrerequisiteRef>(value)
            .unwrap()
            .normalize()
    }

    #[test]
    fn both_spellings_mean_the_same() {
        let day = Some(Duration::from_secs(86_400));
        let wanted = Ok(Prerequisite {
            name: "network".into(),
            within: day,
        });
        assert_eq!(
            normalize(
                json!({"name": "network", "requirement": {"succeededWithinDuration": "24h"}})
            ),
            wanted
        );
        assert_eq!(
            normalize(
                json!({"type": "Stack", "requirement": "network", "succeededWithinDuration": "24h"})
            ),
            wanted
        );
        let any_time = Ok(Prerequisite {
            name: "network".into(),
            within: None,
        });
        assert_eq!(normalize(json!({"name": "network"})), any_time);
        assert_eq!(
            normalize(json!({"name": "network", "requirement": {}})),
            any_time
        );
        assert_eq!(
            normalize(json!({"name": "network", "requirement": null})),
            any_time
        );
        assert_eq!(normalize(json!({"requirement": "network"})), any_time);
    }

    #[test]
    fn each_mistake_has_its_error() {
        use PrerequisiteError as E;
        for (value, error) in [
            (json!({}), E::MissingName),
            (json!({"name": ""}), E::MissingName),
            (
                json!({"type": "Program", "name": "x"}),
                E::UnknownType("Program".into()),
            ),
            (
                json!({"name": "x", "requirement": "y"}),
                E::TwoNames {
                    name: "x".into(),
                    requirement: "y".into(),
                },
            ),
            (
                json!({"name": "x", "requirement": 3}),
                E::RequirementShape("a number"),
            ),
            (
                json!({"name": "x", "requirement": {"within": "1h"}}),
                E::UnknownRequirement("within".into()),
            ),
            (
                json!({"name": "x", "requirement": {"succeededWithinDuration": 60}}),
                E::DurationShape("a number"),
            ),
            (
                json!({"name": "x", "requirement": {"succeededWithinDuration": "1h"}, "succeededWithinDuration": "2h"}),
                E::TwoDurations,
            ),
            (
                json!({"name": "x", "succeededWithinDuration": "60"}),
                E::Duration(DurationError::MissingUnit("60".into())),
            ),
        ] {
            assert_eq!(normalize(value.clone()), Err(error), "{value}");
        }
    }
}
