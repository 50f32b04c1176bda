//! Why runs failed, and whose locks are whose.

use windlass_sdk::native::Answers;
use windlass_sdk::{
    Backend, Diagnostic, FailureClass, LockHolder, LockVerdict, Outcome, ReportedLock,
};

use crate::{Cloud, classify};

fn stderr(exit_code: i32, text: &str) -> Outcome {
    Outcome {
        exit_code: Some(exit_code),
        stderr_tail: text.into(),
        ..Outcome::default()
    }
}

fn diagnostics(texts: &[(&str, &str)]) -> Outcome {
    Outcome {
        exit_code: Some(1),
        diagnostics: texts
            .iter()
            .map(|(severity, message)| Diagnostic {
                severity: (*severity).into(),
                urn: None,
                message: (*message).into(),
            })
            .collect(),
        ..Outcome::default()
    }
}

#[test]
fn failures_of_the_service() {
    use FailureClass::{Conflict, Invalid, Policy, Program, Unavailable};
    for (outcome, class, reason) in [
        (
            stderr(
                1,
                "error: [409] Conflict: Another update is currently in progress.\n",
            ),
            Conflict,
            "UpdateConflict",
        ),
        (
            stderr(3, "error: problem logging in: invalid access token\n"),
            Unavailable,
            "InvalidAccessToken",
        ),
        (
            stderr(3, "error: [401] Unauthorized\n"),
            Unavailable,
            "InvalidAccessToken",
        ),
        (
            stderr(
                3,
                "error: PULUMI_ACCESS_TOKEN must be set for login during non-interactive CLI sessions\n",
            ),
            Unavailable,
            "LoginRequired",
        ),
        (
            stderr(3, "error: [403] Forbidden: no rights on acme\n"),
            Unavailable,
            "AccessDenied",
        ),
        (stderr(3, "error: forbidden\n"), Unavailable, "AccessDenied"),
        (
            stderr(1, "error: [404] Not found: organization 'acme'\n"),
            Unavailable,
            "NotFoundInService",
        ),
        (
            stderr(1, "error: pulumi service: request rate-limit exceeded\n"),
            Unavailable,
            "RateLimited",
        ),
        (
            stderr(
                1,
                "warning: slow\nerror: could not query: [503] Service Unavailable\n",
            ),
            Unavailable,
            "BackendUnavailable",
        ),
        (
            stderr(
                1,
                "error: performing HTTP request: Get \"https://api.pulumi.com/api/user\": dial tcp: lookup api.pulumi.com: no such host\n",
            ),
            Unavailable,
            "BackendUnavailable",
        ),
        (
            stderr(
                1,
                "error: performing HTTP request: Post \"https://api.pulumi.com\": context deadline exceeded\n",
            ),
            Unavailable,
            "BackendUnavailable",
        ),
        (
            stderr(6, "error: no stack named 'acme/web/dev' found\n"),
            Invalid,
            "StackNotFound",
        ),
        (
            diagnostics(&[
                ("policy", "[mandatory] no public buckets"),
                ("error", "update failed"),
            ]),
            Policy,
            "PolicyViolation",
        ),
        (stderr(5, ""), Policy, "PolicyViolation"),
        // What a program says of a service of its own is the program's.
        (
            diagnostics(&[("error", "creating bucket: [503] Service Unavailable")]),
            Program,
            "UpdateFailed",
        ),
        (
            diagnostics(&[("error", "dial tcp: connection refused")]),
            Program,
            "UpdateFailed",
        ),
        (
            stderr(1, "error: [400] Bad Request: invalid tag\n"),
            Program,
            "UpdateFailed",
        ),
    ] {
        let failure = classify(&outcome);
        assert_eq!(
            (failure.class, failure.reason.as_str()),
            (class, reason),
            "{outcome:?}"
        );
    }
}

#[test]
fn messages_are_the_services_words_and_what_to_do() {
    let failure = classify(&stderr(3, "error: invalid access token\n"));
    assert_eq!(
        failure.message,
        "invalid access token; put a valid token into the Secret that spec.accessTokenSecret or spec.envRefs names"
    );
    let failure = classify(&stderr(
        1,
        "error: [409] Conflict: Another update is currently in progress.\n",
    ));
    assert_eq!(
        failure.message,
        "[409] Conflict: Another update is currently in progress."
    );
    let failure = classify(&diagnostics(&[
        ("policy", "[mandatory] no public buckets"),
        ("error", "update failed"),
    ]));
    assert_eq!(failure.message, "[mandatory] no public buckets");
}

#[test]
fn who_ended_it_comes_before_what_it_said() {
    let mut outcome = stderr(1, "error: [503] Service Unavailable\n");
    outcome.interrupted = Some("deadlineExceeded".into());
    assert_eq!(classify(&outcome).reason, "DeadlineExceeded");
    outcome.interrupted = None;
    outcome.signal = Some(9);
    assert_eq!(classify(&outcome).class, FailureClass::Lost);
}

#[test]
fn a_lock_is_never_released() {
    let lock = ReportedLock {
        hostname: "a".into(),
        ..ReportedLock::default()
    };
    let holder = LockHolder {
        hostname: "a".into(),
        dead: true,
    };
    let verdict = Cloud::stale_lock(&Answers::new(vec![]), &[lock], &[holder]);
    assert_eq!(verdict, LockVerdict::Keep);
}
