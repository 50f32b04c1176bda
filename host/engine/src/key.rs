//! The name of a queue entry.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// A workspace's name: a Stack, its Updates and its instance share it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Key {
    pub namespace: String,
    pub name: String,
}

impl Key {
    pub fn new(namespace: impl Into<String>, name: impl Into<String>) -> Key {
        Key {
            namespace: namespace.into(),
            name: name.into(),
        }
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

impl FromStr for Key {
    type Err = String;

    /// Reads `namespace/name`, or a name alone in the namespace `default`.
    fn from_str(text: &str) -> Result<Key, String> {
        match text.split_once('/') {
            Some((namespace, name)) if !namespace.is_empty() && !name.is_empty() => {
                Ok(Key::new(namespace, name))
            }
            None if !text.is_empty() => Ok(Key::new("default", text)),
            _ => Err(format!(
                "{text:?} is not a Stack's name; write NAME or NAMESPACE/NAME"
            )),
        }
    }
}
