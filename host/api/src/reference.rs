//! References: where a value is taken from, and how Git is spoken to.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::sensitive::SensitiveText;

/// Where a value comes from. `type` chooses the one body that counts; [`ResourceRef::selector`] reads it strictly.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ResourceRef {
    /// Literal, Secret, ConfigMap or StackOutput. Env and FS are understood and refused: they would read the
    /// operator's own environment and files.
    #[serde(rename = "type")]
    pub type_: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub env: Option<EnvSelector>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub filesystem: Option<FsSelector>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub secret: Option<SecretSelector>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub literal: Option<LiteralRef>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub config_map: Option<ConfigMapSelector>,
    /// With type StackOutput: name of a Stack in the same namespace.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stack: Option<String>,
    /// With type StackOutput: name of the output. A string is taken as it is, any other value as JSON.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output: Option<String>,
}

/// A variable of the operator's environment (refused).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct EnvSelector {
    pub name: String,
}

/// A file beside the operator (refused).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FsSelector {
    pub path: String,
}

/// A key of a Secret. The namespace must be empty or the Stack's own.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SecretSelector {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    pub name: String,
    pub key: String,
}

/// A key of a ConfigMap in the same namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ConfigMapSelector {
    pub name: String,
    pub key: String,
}

/// A value written down in the object itself.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LiteralRef {
    pub value: SensitiveText,
}

/// The strict reading of a [`ResourceRef`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Selector<'a> {
    Literal(&'a SensitiveText),
    Secret(&'a SecretSelector),
    ConfigMap(&'a ConfigMapSelector),
    StackOutput { stack: &'a str, output: &'a str },
}

/// Why a [`ResourceRef`] names nothing that can be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReferenceError {
    #[error("type {0} is no longer supported; use Secret, ConfigMap, Literal or StackOutput")]
    Unsupported(String),
    #[error("unknown type {0:?}; use Secret, ConfigMap, Literal or StackOutput")]
    UnknownType(String),
    #[error("type {type_} needs the field {field:?}")]
    MissingField { type_: String, field: &'static str },
    #[error(
        "cross-namespace refs are not allowed: the Secret {name:?} is to be read from namespace {namespace:?}"
    )]
    CrossNamespace { name: String, namespace: String },
}

impl ResourceRef {
    /// What this reference of an object in `namespace` names.
    pub fn selector(&self, namespace: &str) -> Result<Selector<'_>, ReferenceError> {
        let missing = |field| ReferenceError::MissingField {
            type_: self.type_.clone(),
            field,
        };
        match self.type_.as_str() {
            "Literal" => self
                .literal
                .as_ref()
                .map(|l| Selector::Literal(&l.value))
                .ok_or(missing("literal")),
            "Secret" => {
                let secret = self.secret.as_ref().ok_or(missing("secret"))?;
                match secret.namespace.as_deref() {
                    Some(other) if !other.is_empty() && other != namespace => {
                        Err(ReferenceError::CrossNamespace {
                            name: secret.name.clone(),
                            namespace: other.to_owned(),
                        })
                    }
                    _ => Ok(Selector::Secret(secret)),
                }
            }
            "ConfigMap" => self
                .config_map
                .as_ref()
                .map(Selector::ConfigMap)
                .ok_or(missing("configMap")),
            "StackOutput" => Ok(Selector::StackOutput {
                stack: self.stack.as_deref().ok_or(missing("stack"))?,
                output: self.output.as_deref().ok_or(missing("output"))?,
            }),
            "Env" | "FS" => Err(ReferenceError::Unsupported(self.type_.clone())),
            other => Err(ReferenceError::UnknownType(other.to_owned())),
        }
    }
}

/// How to authenticate to a Git server: one of the four.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GitAuth {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub access_token: Option<ResourceRef>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ssh_auth: Option<SshAuth>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub basic_auth: Option<BasicAuth>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub github_app: Option<GitHubApp>,
}

/// An SSH key, with the passphrase of the key if it has one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SshAuth {
    pub ssh_private_key: ResourceRef,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub password: Option<ResourceRef>,
}

/// User name and password.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BasicAuth {
    pub user_name: ResourceRef,
    pub password: ResourceRef,
}

/// A GitHub App and its installation.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GitHubApp {
    #[serde(rename = "appID")]
    pub app_id: ResourceRef,
    #[serde(rename = "installationID")]
    pub installation_id: ResourceRef,
    pub private_key: ResourceRef,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(value: serde_json::Value) -> ResourceRef {
        serde_json::from_value(value).unwrap_or_default()
    }

    #[test]
    fn each_type_needs_its_body() {
        let ok = parse(
            serde_json::json!({"type": "Secret", "secret": {"name": "s", "key": "k", "namespace": "ns"}}),
        );
        assert!(matches!(ok.selector("ns"), Ok(Selector::Secret(s)) if s.name == "s"));
        assert_eq!(
            ok.selector("other"),
            Err(ReferenceError::CrossNamespace {
                name: "s".into(),
                namespace: "ns".into()
            })
        );
        let output =
            parse(serde_json::json!({"type": "StackOutput", "stack": "network", "output": "vpc"}));
        assert_eq!(
            output.selector("ns"),
            Ok(Selector::StackOutput {
                stack: "network",
                output: "vpc"
            })
        );
        for (value, field) in [
            (serde_json::json!({"type": "Secret"}), "secret"),
            (serde_json::json!({"type": "Literal"}), "literal"),
            (serde_json::json!({"type": "ConfigMap"}), "configMap"),
            (
                serde_json::json!({"type": "StackOutput", "output": "x"}),
                "stack",
            ),
            (
                serde_json::json!({"type": "StackOutput", "stack": "x"}),
                "output",
            ),
        ] {
            let reference = parse(value);
            assert_eq!(
                reference.selector("ns"),
                Err(ReferenceError::MissingField {
                    type_: reference.type_.clone(),
                    field
                })
            );
        }
        assert!(matches!(
            parse(serde_json::json!({"type": "Env", "env": {"name": "HOME"}})).selector("ns"),
            Err(ReferenceError::Unsupported(_))
        ));
        assert!(matches!(
            parse(serde_json::json!({"type": "secret"})).selector("ns"),
            Err(ReferenceError::UnknownType(_))
        ));
    }

    #[test]
    fn a_literal_is_not_shown_by_debug() {
        let literal =
            parse(serde_json::json!({"type": "Literal", "literal": {"value": "hunter2"}}));
        assert!(!format!("{literal:?}").contains("hunter2"));
        assert!(
            matches!(literal.selector("ns"), Ok(Selector::Literal(v)) if v.expose() == "hunter2")
        );
    }
}
