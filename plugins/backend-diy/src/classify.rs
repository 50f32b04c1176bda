//! Why a run failed, from what the CLI left behind: who interrupted it, then exit codes, then texts.

use windlass_sdk::{Failure, FailureClass, Outcome};

/// Longest message, in characters.
const LONGEST: usize = 1000;

/// Texts before the engine, which go to stderr, and after, which are diagnostics. First match wins.
const TEXTS: [(&str, FailureClass, &str); 22] = [
    (
        "the stack is currently locked by",
        FailureClass::Conflict,
        "StackLocked",
    ),
    (
        "Another update is currently in progress",
        FailureClass::Conflict,
        "UpdateConflict",
    ),
    (
        "incorrect passphrase",
        FailureClass::Invalid,
        "PassphraseIncorrect",
    ),
    (
        "passphrase must be set with",
        FailureClass::Invalid,
        "PassphraseMissing",
    ),
    (
        "unable to read PULUMI_CONFIG_PASSPHRASE_FILE",
        FailureClass::Invalid,
        "PassphraseMissing",
    ),
    (
        "failed to decrypt",
        FailureClass::Invalid,
        "DecryptionFailed",
    ),
    (
        "organization name must be 'organization'",
        FailureClass::Invalid,
        "StackNameInvalid",
    ),
    (
        "doesn't match Pulumi.yaml",
        FailureClass::Invalid,
        "ProjectMismatch",
    ),
    ("no stack named", FailureClass::Invalid, "StackNotFound"),
    (
        "PULUMI_ACCESS_TOKEN must be set",
        FailureClass::Invalid,
        "LoginRequired",
    ),
    (
        "invalid access token",
        FailureClass::Invalid,
        "LoginRequired",
    ),
    (
        "Legacy DIY state is deprecated",
        FailureClass::Invalid,
        "StateLayoutDeprecated",
    ),
    (
        "failed to load checkpoint",
        FailureClass::Invalid,
        "StateUnreadable",
    ),
    (
        "snapshot integrity",
        FailureClass::Invalid,
        "StateUnreadable",
    ),
    (
        "needs support for the following features",
        FailureClass::Invalid,
        "PulumiVersionTooLow",
    ),
    (
        "unable to open state directory",
        FailureClass::Unavailable,
        "BackendUnavailable",
    ),
    (
        "no changes were expected",
        FailureClass::Program,
        "ChangesNotExpected",
    ),
    (
        "no Pulumi.yaml project file found",
        FailureClass::Program,
        "ProjectInvalid",
    ),
    (
        "could not unmarshal",
        FailureClass::Program,
        "ProjectInvalid",
    ),
    (
        "could not validate",
        FailureClass::Program,
        "ProjectInvalid",
    ),
    ("no resource plugin", FailureClass::Program, "PluginMissing"),
    ("no language plugin", FailureClass::Program, "PluginMissing"),
];

/// Signs of a backend out of reach. They count only where the engine was not reached: a program may print the same.
const UNREACHABLE: [&str; 8] = [
    "connection refused",
    "connection reset",
    "no such host",
    "i/o timeout",
    "TLS handshake timeout",
    "dial tcp",
    "RequestError: send request failed",
    "performing HTTP request",
];

/// The class decides how the host goes on; the message is for a person.
pub fn classify(outcome: &Outcome) -> Failure {
    match outcome.interrupted.as_deref() {
        Some("deadlineExceeded") => {
            return failure(
                FailureClass::Program,
                "DeadlineExceeded",
                "the run took longer than its deadline".into(),
            );
        }
        Some("agentStopping") => {
            return failure(
                FailureClass::Lost,
                "WorkspaceStopping",
                "the workspace was stopped during the run".into(),
            );
        }
        Some(_) => {
            return failure(
                FailureClass::Unavailable,
                "Cancelled",
                "the run was cancelled".into(),
            );
        }
        None => {}
    }
    if outcome.before_cli {
        return failure(
            FailureClass::Unavailable,
            "WorkspaceFailed",
            message(outcome),
        );
    }
    if let Some(signal) = outcome.signal {
        return failure(
            FailureClass::Lost,
            "Killed",
            format!("pulumi was ended by signal {signal}"),
        );
    }
    if !outcome.locks.is_empty() {
        return failure(FailureClass::Conflict, "StackLocked", locked(outcome));
    }
    let texts: Vec<&str> = errors(outcome)
        .chain([outcome.stderr_tail.as_str()])
        .collect();
    let said = |needle: &str| texts.iter().any(|text| text.contains(needle));
    if let Some((_, class, reason)) = TEXTS.iter().find(|(needle, _, _)| said(needle)) {
        return failure(class.clone(), reason, message(outcome));
    }
    if errors(outcome).next().is_none()
        && UNREACHABLE
            .iter()
            .any(|sign| outcome.stderr_tail.contains(sign))
    {
        return failure(
            FailureClass::Unavailable,
            "BackendUnavailable",
            message(outcome),
        );
    }
    let (class, reason) = match outcome.exit_code {
        None => (FailureClass::Lost, "OutcomeUnknown"),
        Some(3) => (FailureClass::Invalid, "LoginRequired"),
        Some(5) => (FailureClass::Policy, "PolicyViolation"),
        Some(6) => (FailureClass::Invalid, "StackNotFound"),
        Some(7) => (FailureClass::Program, "ChangesNotExpected"),
        // Ended by a second signal that this agent did not send.
        Some(8) => (FailureClass::Lost, "Terminated"),
        Some(_) => (FailureClass::Program, "UpdateFailed"),
    };
    failure(class, reason, message(outcome))
}

fn errors(outcome: &Outcome) -> impl Iterator<Item = &str> {
    outcome
        .diagnostics
        .iter()
        .filter(|it| it.severity == "error" || it.severity == "info#err")
        .map(|it| it.message.trim())
        .filter(|text| {
            !matches!(
                *text,
                "" | "update failed" | "preview failed" | "refresh failed" | "destroy failed"
            )
        })
}

/// The first error of the engine, which is the cause more often than the last; else what stderr calls an error.
fn message(outcome: &Outcome) -> String {
    if let Some(text) = errors(outcome).next() {
        return text.into();
    }
    let lines = || {
        outcome
            .stderr_tail
            .lines()
            .map(str::trim)
            .filter(|line| !line.is_empty())
    };
    let line = lines()
        .find(|line| line.starts_with("error:"))
        .or_else(|| lines().next_back());
    match (line, outcome.exit_code) {
        (Some(line), _) => line.trim_start_matches("error:").trim().into(),
        (None, Some(code)) => format!("pulumi ended with exit code {code} and said nothing"),
        (None, None) => "the outcome is not known".into(),
    }
}

fn locked(outcome: &Outcome) -> String {
    let holders: Vec<String> = outcome
        .locks
        .iter()
        .map(|lock| {
            format!(
                "{}@{} (pid {}) since {}",
                lock.user, lock.hostname, lock.pid, lock.created
            )
        })
        .collect();
    format!("the stack is locked by {}", holders.join(", "))
}

fn failure(class: FailureClass, reason: &str, message: String) -> Failure {
    let message = match message.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}...", &message[..end]),
        None => message,
    };
    Failure {
        class,
        reason: reason.into(),
        message,
    }
}
