//! What can be wrong with a template.

use windlass_api::reference::ReferenceError;

/// Why no object can be made. Names fields, never their values: one of them may be a secret written down by mistake.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TemplateError {
    /// The field belongs to the operator.
    #[error("{field} cannot be set: {why}; remove the field")]
    Reserved { field: String, why: &'static str },
    /// The field's content cannot be used.
    #[error("{field}: {problem}")]
    Invalid { field: String, problem: String },
    /// The field refers to nothing that can be read.
    #[error("{field}: {source}")]
    Reference {
        field: String,
        source: ReferenceError,
    },
}

impl TemplateError {
    pub(crate) fn reserved(field: impl Into<String>, why: &'static str) -> Self {
        Self::Reserved {
            field: field.into(),
            why,
        }
    }

    pub(crate) fn invalid(field: impl Into<String>, problem: impl Into<String>) -> Self {
        Self::Invalid {
            field: field.into(),
            problem: problem.into(),
        }
    }
}
