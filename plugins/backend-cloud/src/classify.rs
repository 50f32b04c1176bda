//! Why a run failed, as far as the service is the cause. The rest is the CLI's and the SDK's.

use windlass_sdk::cli::{self, Sign};
use windlass_sdk::{Failure, FailureClass, Outcome};

const UPDATE_CONFLICT: &str = "UpdateConflict";
const INVALID_ACCESS_TOKEN: &str = "InvalidAccessToken";
const LOGIN_REQUIRED: &str = "LoginRequired";

/// First match wins. A token that is refused may be replaced in its Secret, and a right be given in the service,
/// without an edit of the Stack: so these are tried again, and not given up.
const SIGNS: [Sign; 5] = [
    Sign::new(
        "Another update is currently in progress",
        FailureClass::Conflict,
        UPDATE_CONFLICT,
    ),
    Sign::new(
        "invalid access token",
        FailureClass::Unavailable,
        INVALID_ACCESS_TOKEN,
    ),
    Sign::new(
        "PULUMI_ACCESS_TOKEN must be set",
        FailureClass::Unavailable,
        LOGIN_REQUIRED,
    ),
    Sign::new(
        "this command requires logging in",
        FailureClass::Unavailable,
        LOGIN_REQUIRED,
    ),
    Sign::new(
        "request rate-limit exceeded",
        FailureClass::Unavailable,
        "RateLimited",
    ),
];

/// The class decides how the host goes on; the message is for a person.
pub fn classify(outcome: &Outcome) -> Failure {
    let failure = cli::classify(outcome, own);
    let advice = match failure.reason.as_str() {
        INVALID_ACCESS_TOKEN => {
            "put a valid token into the Secret that spec.accessTokenSecret or spec.envRefs names"
        }
        LOGIN_REQUIRED => {
            "bring a token by spec.accessTokenSecret, or by PULUMI_ACCESS_TOKEN in the workspace's environment"
        }
        _ => return failure,
    };
    let Failure {
        class,
        reason,
        message,
    } = failure;
    cli::failure(class, &reason, format!("{message}; {advice}"))
}

fn own(outcome: &Outcome) -> Option<Failure> {
    cli::find(outcome, &SIGNS).or_else(|| by_status(outcome))
}

/// The service's answer, if the CLI gave up on one: `error: [503] Service Unavailable`. Only stderr counts, where the
/// CLI speaks for itself: a program's own errors are diagnostics, and may read the same.
fn by_status(outcome: &Outcome) -> Option<Failure> {
    let by_exit_code = || (outcome.exit_code == Some(3)).then_some(403);
    let (class, reason) = match status(&outcome.stderr_tail).or_else(by_exit_code)? {
        401 => (FailureClass::Unavailable, INVALID_ACCESS_TOKEN),
        403 => (FailureClass::Unavailable, "AccessDenied"),
        404 => (FailureClass::Unavailable, "NotFoundInService"),
        408 | 500..=599 => (FailureClass::Unavailable, "BackendUnavailable"),
        409 => (FailureClass::Conflict, UPDATE_CONFLICT),
        429 => (FailureClass::Unavailable, "RateLimited"),
        _ => return None,
    };
    Some(cli::failure(class, reason, cli::message(outcome)))
}

fn status(stderr: &str) -> Option<u16> {
    stderr
        .lines()
        .filter_map(|line| line.trim().strip_prefix("error:"))
        .flat_map(|line| line.split('[').skip(1))
        .find_map(|after| {
            let (digits, _) = after.split_once(']')?;
            let three = digits.len() == 3 && digits.bytes().all(|byte| byte.is_ascii_digit());
            three.then(|| digits.parse().ok()).flatten()
        })
}
