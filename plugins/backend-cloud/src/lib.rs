//! The backend adapter for Pulumi Cloud, its own or self-hosted.

mod classify;
mod config;
mod login;
mod name;
mod url;

use std::collections::BTreeMap;

use serde_json::Value;
use windlass_sdk::{
    Backend, BackendRequest, Descriptor, Failure, Host, LockHolder, LockVerdict, Outcome, Plugin,
    PluginError, ReportedLock, Session, Wants,
};

pub use classify::classify;

/// The plugin.
pub struct Cloud;

impl Plugin for Cloud {
    fn describe() -> Descriptor {
        Descriptor {
            name: "backend-cloud".into(),
            version: env!("CARGO_PKG_VERSION").into(),
            summary: "State in Pulumi Cloud, its own or self-hosted".into(),
            backends: url::SCHEMES
                .iter()
                .map(|scheme| (*scheme).to_owned())
                .collect(),
            wants: Wants {
                audiences: vec!["urn:pulumi:org:*".into()],
                ..Wants::default()
            },
            config_schema: Some(config::schema()),
            ..Descriptor::default()
        }
    }
}

impl Backend for Cloud {
    fn open(host: &(impl Host + ?Sized), request: &BackendRequest) -> Result<Session, PluginError> {
        open(host, request)
    }

    fn classify(_: &(impl Host + ?Sized), outcome: &Outcome) -> Failure {
        classify(outcome)
    }

    /// Never releases: an update's lease ends by itself within five minutes of its holder, and `pulumi cancel` would
    /// end the update of anyone.
    fn stale_lock(_: &(impl Host + ?Sized), _: &[ReportedLock], _: &[LockHolder]) -> LockVerdict {
        LockVerdict::Keep
    }
}

/// Checks the URL and the name, and decides how the workspace gets its token. Nothing is asked of the service: its token
/// is the workspace's alone.
///
/// # Errors
/// `invalid` `BackendInvalid`, `StackNameInvalid`, `AccessTokenMissing` if nothing in the spec can bring a token,
/// `OrganizationMissing` if tokens are exchanged and no organization is named; `internal` `ConfigInvalid`.
pub fn open(host: &(impl Host + ?Sized), request: &BackendRequest) -> Result<Session, PluginError> {
    let config = config::Config::read(&host.config())?;
    let url = url::Url::parse(&request.url)?;
    let name = name::canonical(
        &request.stack,
        request.project.as_deref(),
        config.organization.as_deref(),
    )?;
    let stated = request
        .spec
        .get("backend")
        .and_then(Value::as_str)
        .is_some_and(|backend| !backend.is_empty());
    let login = login::choose(&config, &url, &name, &request.spec, stated)?;
    // What the workspace's environment says already, or what the CLI does by itself, is not said again.
    let env = if stated {
        BTreeMap::from([("PULUMI_BACKEND_URL".to_owned(), request.url.clone())])
    } else {
        BTreeMap::new()
    };
    let console_url = url.console().and_then(|console| {
        let (organization, project) = (name.organization.as_ref()?, name.project.as_ref()?);
        Some(format!("{console}/{organization}/{project}/{}", name.stack))
    });
    Ok(Session {
        stack: name.to_string(),
        env,
        login,
        console_url,
    })
}

windlass_sdk::export_plugin!(Cloud: backend);

#[cfg(test)]
mod tests;
