//! How stacks are called in `@SHORT@://BUCKET`, an S3 bucket with a rule for names: TEAM-NAME.

use std::collections::BTreeMap;

use windlass_sdk::cli::{self, StackName};
use windlass_sdk::{
    Backend, BackendRequest, Descriptor, Failure, Host, LockHolder, LockVerdict, Login, Outcome, Plugin,
    PluginError, ReportedLock, Session,
};

pub struct @TYPE@;

impl Plugin for @TYPE@ {
    fn describe() -> Descriptor {
        Descriptor {
            name: "@NAME@".into(),
            version: env!("CARGO_PKG_VERSION").into(),
            summary: "Buckets with a rule for the names of stacks".into(),
            backends: vec!["@SHORT@".into()],
            ..Descriptor::default()
        }
    }
}

impl Backend for @TYPE@ {
    fn open(_: &(impl Host + ?Sized), request: &BackendRequest) -> Result<Session, PluginError> {
        let named = StackName::parse(&request.stack, request.project.as_deref())?;
        let team = named.stack.split_once('-').map(|(team, _)| team);
        if !team.is_some_and(|team| !team.is_empty() && team.bytes().all(|byte| byte.is_ascii_lowercase())) {
            return Err(StackName::invalid(&request.stack, "call it TEAM-NAME"));
        }
        let project = named.project.or(named.organization).unwrap_or("unknown");
        let url = request.url.replacen("@SHORT@://", "s3://", 1);
        Ok(Session {
            stack: format!("organization/{project}/{}", named.stack),
            env: BTreeMap::from([("PULUMI_BACKEND_URL".into(), url)]),
            login: Login::None,
            console_url: None,
        })
    }

    fn classify(_: &(impl Host + ?Sized), outcome: &Outcome) -> Failure {
        // What the CLI says on every backend; your backend's own words go into the closure.
        cli::classify(outcome, |_| None)
    }

    fn stale_lock(_: &(impl Host + ?Sized), _: &[ReportedLock], _: &[LockHolder]) -> LockVerdict {
        LockVerdict::Keep
    }
}

windlass_sdk::export_plugin!(@TYPE@: backend);
