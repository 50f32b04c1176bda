//! Text that may be a secret: serialised as it is, never shown by `Debug`.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A string of an object that may hold a secret (an inline secret value, a literal).
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct SensitiveText(String);

impl SensitiveText {
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The text itself. Whoever asks answers for where it goes.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for SensitiveText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[secret]")
    }
}

impl From<&str> for SensitiveText {
    fn from(text: &str) -> Self {
        Self::new(text)
    }
}

impl From<String> for SensitiveText {
    fn from(text: String) -> Self {
        Self(text)
    }
}
