#![allow(clippy::unwrap_used)]

use windlass_sdk::{
    BackendRequest, Diagnostic, ErrorClass, FailureClass, Fault, LockHolder, LockVerdict, Outcome,
    PluginError, ReportedLock, Session,
};

use super::{classify, open, stale_lock};

fn opened(url: &str, stack: &str, project: Option<&str>) -> Result<Session, Fault> {
    let request = BackendRequest {
        url: url.into(),
        stack: stack.into(),
        project: project.map(str::to_owned),
        ..BackendRequest::default()
    };
    open(&request).map_err(|error| match error {
        PluginError::Fault(fault) => fault,
        PluginError::Ask(question) => panic!("asked {question:?}"),
    })
}

#[test]
fn urls_that_are_taken() {
    for url in [
        "file:///var/state",
        "file://~",
        "file://~/state?no_tmp_dir=true",
        "s3://my-bucket/prefix?region=eu-west-1",
        "gs://my_bucket",
        "azblob://state?storage_account=x",
        "azblob://$web",
        "postgres://me:secret@db.test:5432/pulumi?table=x",
        "postgres://[::1]/pulumi",
    ] {
        let session = opened(url, "dev", Some("web")).unwrap();
        assert_eq!(session.env["PULUMI_BACKEND_URL"], url);
        assert_eq!(session.env.len(), 1);
    }
}

#[test]
fn urls_that_are_refused_without_being_repeated() {
    for url in [
        "state",
        "file://state",
        "s3://",
        "s3://My_Bucket",
        "azblob://a--b",
        "postgres://me:hunter2@/db",
        "postgres://me:hunter2@db:port/db",
        "ftp://me:hunter2@x",
        "file:///a b",
    ] {
        let fault = opened(url, "dev", Some("web")).unwrap_err();
        assert_eq!(
            (fault.class, fault.reason.as_str()),
            (ErrorClass::Invalid, "BackendInvalid"),
            "{url}"
        );
        assert!(!fault.message.contains("hunter2"));
    }
}

#[test]
fn names() {
    let name = |stack, project| opened("file:///s", stack, project).map(|session| session.stack);
    for stack in ["dev", "organization/dev", "organization/web/dev"] {
        assert_eq!(name(stack, Some("web")).unwrap(), "organization/web/dev");
    }
    assert_eq!(
        name("organization/web/dev", None).unwrap(),
        "organization/web/dev"
    );
    assert_eq!(name("dev", None).unwrap_err().reason, "ProjectUnknown");
    let long = "x".repeat(101);
    for stack in [
        "a/b/c/d",
        "acme/web/dev",
        "",
        "organization//dev",
        "organization/other/dev",
        "d v",
        &long,
    ] {
        assert_eq!(
            name(stack, Some("web")).unwrap_err().reason,
            "StackNameInvalid",
            "{stack}"
        );
    }
}

fn stderr(exit_code: i32, text: &str) -> Outcome {
    Outcome {
        exit_code: Some(exit_code),
        stderr_tail: text.into(),
        ..Outcome::default()
    }
}

#[test]
fn failures() {
    let program = Outcome {
        exit_code: Some(1),
        diagnostics: vec![
            Diagnostic {
                severity: "error".into(),
                urn: None,
                message: "bucket exists\n".into(),
            },
            Diagnostic {
                severity: "error".into(),
                urn: None,
                message: "update failed\n".into(),
            },
        ],
        ..Outcome::default()
    };
    let cases = [
        (
            program,
            FailureClass::Program,
            "UpdateFailed",
            "bucket exists",
        ),
        (
            stderr(
                1,
                "error: getting stack configuration: get stack secrets manager: incorrect passphrase\n",
            ),
            FailureClass::Invalid,
            "PassphraseIncorrect",
            "getting stack configuration: get stack secrets manager: incorrect passphrase",
        ),
        (
            stderr(
                1,
                "error: the stack is currently locked by 1 lock(s). Either wait",
            ),
            FailureClass::Conflict,
            "StackLocked",
            "the stack is currently locked by 1 lock(s). Either wait",
        ),
        (
            stderr(6, "error: no stack named 'organization/p/s' found"),
            FailureClass::Invalid,
            "StackNotFound",
            "no stack named 'organization/p/s' found",
        ),
        (
            stderr(
                1,
                "error: could not list bucket: dial tcp 10.0.0.1:443: connect: connection refused",
            ),
            FailureClass::Unavailable,
            "BackendUnavailable",
            "could not list bucket: dial tcp 10.0.0.1:443: connect: connection refused",
        ),
        (
            stderr(255, ""),
            FailureClass::Program,
            "UpdateFailed",
            "pulumi ended with exit code 255 and said nothing",
        ),
        (
            Outcome::default(),
            FailureClass::Lost,
            "OutcomeUnknown",
            "the outcome is not known",
        ),
    ];
    for (outcome, class, reason, message) in cases {
        let failure = classify(&outcome);
        assert_eq!(
            (
                failure.class,
                failure.reason.as_str(),
                failure.message.as_str()
            ),
            (class, reason, message)
        );
    }
}

#[test]
fn who_ended_it_comes_before_what_it_said() {
    let mut outcome = stderr(0, "");
    outcome.interrupted = Some("cancelled".into());
    assert_eq!(classify(&outcome).reason, "Cancelled");
    outcome.interrupted = Some("deadlineExceeded".into());
    assert_eq!(classify(&outcome).class, FailureClass::Program);
    let killed = Outcome {
        signal: Some(9),
        ..Outcome::default()
    };
    assert_eq!(
        (classify(&killed).class, classify(&killed).reason),
        (FailureClass::Lost, "Killed".into())
    );
}

#[test]
fn a_lock_is_released_only_for_a_dead_holder() {
    let lock = |hostname: &str| ReportedLock {
        hostname: hostname.into(),
        ..ReportedLock::default()
    };
    let holder = |hostname: &str, dead| LockHolder {
        hostname: hostname.into(),
        dead,
    };
    let release = LockVerdict::Release;
    assert_eq!(
        stale_lock(&[lock("a")], &[holder("a", true), holder("b", false)]),
        release
    );
    assert_eq!(
        stale_lock(&[lock("a")], &[holder("a", true), holder("a", false)]),
        LockVerdict::Keep
    );
    assert_eq!(
        stale_lock(&[lock("a")], &[holder("b", true)]),
        LockVerdict::Keep
    );
    assert_eq!(
        stale_lock(&[lock("a"), lock("a")], &[holder("a", true)]),
        LockVerdict::Keep
    );
    assert_eq!(
        stale_lock(&[lock("")], &[holder("", true)]),
        LockVerdict::Keep
    );
    assert_eq!(stale_lock(&[], &[holder("a", true)]), LockVerdict::Keep);
}
