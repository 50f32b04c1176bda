//! Objects that must be healthy before a Stack is Ready.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// An object of the cluster, by name.
#[derive(
    Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "camelCase")]
pub struct HealthCheck {
    pub api_version: String,
    pub kind: String,
    pub name: String,
    /// The Stack's own if not stated; ignored for kinds of the whole cluster.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
}

impl HealthCheck {
    /// The first thing that is wrong with it, naming the field.
    ///
    /// # Errors
    /// A sentence for the Stack's condition.
    pub fn check(&self) -> Result<(), String> {
        let HealthCheck {
            api_version,
            kind,
            name,
            namespace: _,
        } = self;
        let said = [("apiVersion", api_version), ("kind", kind), ("name", name)];
        if let Some((field, _)) = said.iter().find(|(_, value)| value.trim().is_empty()) {
            return Err(format!("{field} is empty"));
        }
        let parts = api_version.split('/').collect::<Vec<_>>();
        if parts.len() > 2 || parts.iter().any(|part| part.is_empty()) {
            return Err(format!(
                "apiVersion {api_version:?} is neither VERSION nor GROUP/VERSION"
            ));
        }
        Ok(())
    }
}

/// `Deployment web`, or `Deployment web in NAMESPACE`.
impl std::fmt::Display for HealthCheck {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}", self.kind, self.name)?;
        match &self.namespace {
            Some(namespace) => write!(f, " in {namespace}"),
            None => Ok(()),
        }
    }
}
