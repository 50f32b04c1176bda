//! What the administrator can configure.

use serde::Deserialize;
use serde_json::{Value, json};
use windlass_sdk::{ErrorClass, PluginError};

use crate::name::is_organization;

/// The CLI's own life of a token. It must outlast the longest run: only the update's lease is renewed.
const EXPIRATION_SECONDS: u64 = 7200;

/// The plugin's part of the policy.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct Config {
    /// For stack names without one.
    pub organization: Option<String>,
    /// Set: workspaces without a token of their own exchange their service account's.
    pub exchange: Option<Exchange>,
}

/// Which token a workspace asks for.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct Exchange {
    pub token_type: TokenType,
    /// `admin` or nothing for an organization's token, `team:NAME`, `user:LOGIN`.
    pub scope: String,
    pub expiration_seconds: u64,
}

impl Default for Exchange {
    fn default() -> Self {
        Exchange {
            token_type: TokenType::default(),
            scope: String::new(),
            expiration_seconds: EXPIRATION_SECONDS,
        }
    }
}

/// Whose token it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TokenType {
    #[default]
    Organization,
    Team,
    Personal,
}

impl TokenType {
    pub fn as_str(self) -> &'static str {
        match self {
            TokenType::Organization => "organization",
            TokenType::Team => "team",
            TokenType::Personal => "personal",
        }
    }
}

impl Config {
    /// # Errors
    /// `internal` `ConfigInvalid`: it is the administrator's to mend, not the Stack's author's.
    pub fn read(config: &Value) -> Result<Self, PluginError> {
        let config = Config::deserialize(config).map_err(|error| wrong(&error.to_string()))?;
        if let Some(organization) = &config.organization
            && !is_organization(organization)
        {
            return Err(wrong(&format!(
                "organization: {organization:?} is no organization's name"
            )));
        }
        if let Some(exchange) = &config.exchange {
            let named = |prefix: &str| {
                exchange
                    .scope
                    .strip_prefix(prefix)
                    .is_some_and(|name| !name.is_empty())
            };
            let fits = match exchange.token_type {
                TokenType::Organization => matches!(exchange.scope.as_str(), "" | "admin"),
                TokenType::Team => named("team:"),
                TokenType::Personal => named("user:"),
            };
            if !fits {
                return Err(wrong(
                    "exchange.scope: an organization's token has none or \"admin\", a team's \"team:NAME\", a personal one \"user:LOGIN\"",
                ));
            }
        }
        Ok(config)
    }
}

/// JSON schema of [`Config`].
pub fn schema() -> Value {
    json!({
        "type": "object",
        "additionalProperties": false,
        "properties": {
            "organization": {
                "type": "string",
                "description": "Organization of stack names without one; else the token's default one is used.",
            },
            "exchange": {
                "type": "object",
                "additionalProperties": false,
                "description": "Workspaces without an access token exchange their service account's token for one.",
                "properties": {
                    "tokenType": {"enum": ["organization", "team", "personal"], "default": "organization"},
                    "scope": {"type": "string", "description": "\"admin\" or nothing, team:NAME, user:LOGIN."},
                    "expirationSeconds": {"type": "integer", "minimum": 1, "default": EXPIRATION_SECONDS},
                },
            },
        },
    })
}

fn wrong(message: &str) -> PluginError {
    PluginError::new(
        ErrorClass::Internal,
        "ConfigInvalid",
        format!("the administrator's configuration of backend-cloud: {message}"),
    )
}
