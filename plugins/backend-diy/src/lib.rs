//! The backend adapter for state that users keep themselves: `file`, `s3`, `gs`, `azblob`, `postgres`.

mod classify;
mod lock;
mod name;
mod url;

use std::collections::BTreeMap;

use windlass_sdk::{
    Backend, BackendRequest, Descriptor, Failure, Host, LockHolder, LockVerdict, Login, Outcome,
    Plugin, PluginError, ReportedLock, Session, Wants,
};

pub use classify::classify;
pub use lock::stale_lock;

/// The plugin.
pub struct Diy;

impl Plugin for Diy {
    fn describe() -> Descriptor {
        Descriptor {
            name: "backend-diy".into(),
            version: env!("CARGO_PKG_VERSION").into(),
            summary: "State in a directory, a bucket or a database of one's own".into(),
            backends: url::SCHEMES
                .iter()
                .map(|scheme| (*scheme).to_owned())
                .collect(),
            wants: Wants::default(),
            ..Descriptor::default()
        }
    }
}

impl Backend for Diy {
    fn open(_: &(impl Host + ?Sized), request: &BackendRequest) -> Result<Session, PluginError> {
        open(request)
    }

    fn classify(_: &(impl Host + ?Sized), outcome: &Outcome) -> Failure {
        classify(outcome)
    }

    fn stale_lock(
        _: &(impl Host + ?Sized),
        locks: &[ReportedLock],
        holders: &[LockHolder],
    ) -> LockVerdict {
        stale_lock(locks, holders)
    }
}

/// Checks the URL and makes the canonical stack name.
///
/// # Errors
/// `invalid` `BackendInvalid` naming what is wrong with the URL, `invalid` `StackNameInvalid`, `not-found`
/// `ProjectUnknown` for a short name while the project is not known.
pub fn open(request: &BackendRequest) -> Result<Session, PluginError> {
    url::check(&request.url)?;
    let stack = name::canonical(&request.stack, request.project.as_deref())?;
    let env = BTreeMap::from([("PULUMI_BACKEND_URL".to_owned(), request.url.clone())]);
    Ok(Session {
        stack,
        env,
        login: Login::None,
        console_url: None,
    })
}

windlass_sdk::export_plugin!(Diy: backend);

#[cfg(test)]
mod tests;
