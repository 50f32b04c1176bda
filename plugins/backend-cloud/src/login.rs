//! How a workspace gets its token. The token itself is never seen here.

use std::collections::BTreeMap;

use serde_json::Value;
use windlass_sdk::{Login, PluginError};

use crate::config::{Config, Exchange};
use crate::name::Name;
use crate::url::Url;

const VARIABLE: &str = "PULUMI_ACCESS_TOKEN";

/// What a token must outlive beyond the run's deadline, in seconds: preparing it, and telling how it ended.
const MARGIN_SECONDS: u64 = 600;

/// Whether a spec brings a token to its workspace.
#[derive(Debug, PartialEq, Eq)]
enum Token {
    Named,
    /// What is in the objects and containers that it names cannot be seen from here.
    Possible,
    Absent,
}

/// Nothing, where the spec names a token or may bring one; an exchange, where the administrator wants it.
///
/// # Errors
/// `invalid`: `AccessTokenMissing`, `OrganizationMissing`, `BackendInvalid` for an exchange over plain http.
pub fn choose(
    config: &Config,
    url: &Url<'_>,
    name: &Name,
    spec: &Value,
    stated: bool,
) -> Result<Login, PluginError> {
    match (token(spec), &config.exchange) {
        (Token::Named, _) | (Token::Possible, None) => Ok(Login::None),
        // The workspace keeps to a token that it turns out to have.
        (Token::Possible | Token::Absent, Some(config)) => exchange(config, url, name, spec),
        (Token::Absent, None) => Err(PluginError::invalid(
            "AccessTokenMissing",
            missing(url, stated),
        )),
    }
}

fn missing(url: &Url<'_>, stated: bool) -> String {
    let service = url.shown();
    let (subject, other) = if stated {
        (format!("{service} needs an access token"), "")
    } else {
        (
            format!(
                "the Stack names no backend, so its state is kept by {service}, which needs an access token"
            ),
            "; or keep the state elsewhere with spec.backend, such as s3://BUCKET",
        )
    };
    format!(
        "{subject}: name a Secret with the key \"accessToken\" in spec.accessTokenSecret, or set {VARIABLE} through spec.envRefs{other}"
    )
}

fn exchange(
    config: &Exchange,
    url: &Url<'_>,
    name: &Name,
    spec: &Value,
) -> Result<Login, PluginError> {
    if !url.is_https() {
        return Err(PluginError::invalid(
            "BackendInvalid",
            "backend: tokens are exchanged over https only; use an https URL, or name a Secret in spec.accessTokenSecret",
        ));
    }
    let organization = name.organization.as_ref().ok_or_else(|| {
        PluginError::invalid(
            "OrganizationMissing",
            format!(
                "to exchange the service account's token the organization must be known: write spec.stack as ORGANIZATION/{}",
                name.stack
            ),
        )
    })?;
    let deadline = spec
        .get("timeoutSeconds")
        .and_then(Value::as_u64)
        .map_or(0, |seconds| seconds.saturating_add(MARGIN_SECONDS));
    let audience = format!("urn:pulumi:org:{organization}");
    let text = |text: &str| text.to_owned();
    // The agent adds the subject token, which is the workspace's own.
    let form = BTreeMap::from([
        (text("audience"), audience.clone()),
        (
            text("grant_type"),
            text("urn:ietf:params:oauth:grant-type:token-exchange"),
        ),
        (
            text("subject_token_type"),
            text("urn:ietf:params:oauth:token-type:id_token"),
        ),
        (
            text("requested_token_type"),
            format!(
                "urn:pulumi:token-type:access_token:{}",
                config.token_type.as_str()
            ),
        ),
        (text("scope"), config.scope.clone()),
        (
            text("expiration"),
            config.expiration_seconds.max(deadline).to_string(),
        ),
    ]);
    Ok(Login::Exchange {
        audience,
        url: format!("{}/api/oauth/token", url.as_str()),
        form,
    })
}

fn token(spec: &Value) -> Token {
    let text = |name: &str| spec.get(name).and_then(Value::as_str).unwrap_or_default();
    let some = |pointer: &str| match spec.pointer(pointer) {
        Some(Value::Array(items)) => !items.is_empty(),
        Some(Value::Object(fields)) => !fields.is_empty(),
        _ => false,
    };
    let template = spec
        .pointer("/workspaceTemplate/spec/env")
        .and_then(Value::as_array);
    let in_template = template.is_some_and(|env| {
        env.iter()
            .any(|variable| variable.get("name").and_then(Value::as_str) == Some(VARIABLE))
    });
    if !text("accessTokenSecret").is_empty()
        || spec.pointer(&format!("/envRefs/{VARIABLE}")).is_some()
        || in_template
    {
        return Token::Named;
    }
    // An image or an init container of the user's own may bring one along.
    if ["/envs", "/envSecrets", "/workspaceTemplate/spec"]
        .into_iter()
        .any(some)
    {
        return Token::Possible;
    }
    Token::Absent
}
