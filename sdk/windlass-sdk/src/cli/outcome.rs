//! Why a run failed, from what the CLI left behind: who ended it, then what the backend's own adapter knows, then texts
//! that are the CLI's on every backend, then exit codes.

use crate::types::{Failure, FailureClass, Outcome};

/// Longest message, in characters.
const LONGEST: usize = 1000;

/// A text by which a failure is known, and what it means.
#[derive(Clone, Debug)]
pub struct Sign {
    pub text: &'static str,
    pub class: FailureClass,
    /// CamelCase.
    pub reason: &'static str,
}

impl Sign {
    pub const fn new(text: &'static str, class: FailureClass, reason: &'static str) -> Sign {
        Sign {
            text,
            class,
            reason,
        }
    }
}

/// Texts before the engine, which go to stderr, and after, which are diagnostics. First match wins.
const COMMON: [Sign; 15] = [
    Sign::new(
        "incorrect passphrase",
        FailureClass::Invalid,
        "PassphraseIncorrect",
    ),
    Sign::new(
        "passphrase must be set with",
        FailureClass::Invalid,
        "PassphraseMissing",
    ),
    Sign::new(
        "unable to read PULUMI_CONFIG_PASSPHRASE_FILE",
        FailureClass::Invalid,
        "PassphraseMissing",
    ),
    Sign::new(
        "failed to decrypt",
        FailureClass::Invalid,
        "DecryptionFailed",
    ),
    Sign::new(
        "doesn't match Pulumi.yaml",
        FailureClass::Invalid,
        "ProjectMismatch",
    ),
    Sign::new("no stack named", FailureClass::Invalid, "StackNotFound"),
    Sign::new(
        "failed to load checkpoint",
        FailureClass::Invalid,
        "StateUnreadable",
    ),
    Sign::new(
        "snapshot integrity",
        FailureClass::Invalid,
        "StateUnreadable",
    ),
    Sign::new(
        "needs support for the following features",
        FailureClass::Invalid,
        "PulumiVersionTooLow",
    ),
    Sign::new(
        "no changes were expected",
        FailureClass::Program,
        "ChangesNotExpected",
    ),
    Sign::new(
        "no Pulumi.yaml project file found",
        FailureClass::Program,
        "ProjectInvalid",
    ),
    Sign::new(
        "could not unmarshal",
        FailureClass::Program,
        "ProjectInvalid",
    ),
    Sign::new(
        "could not validate",
        FailureClass::Program,
        "ProjectInvalid",
    ),
    Sign::new("no resource plugin", FailureClass::Program, "PluginMissing"),
    Sign::new("no language plugin", FailureClass::Program, "PluginMissing"),
];

/// Signs of a backend out of reach. They count only where the engine was not reached: a program may print the same.
const UNREACHABLE: [&str; 10] = [
    "connection refused",
    "connection reset",
    "no such host",
    "i/o timeout",
    "TLS handshake timeout",
    "Client.Timeout exceeded",
    "context deadline exceeded",
    "dial tcp",
    "RequestError: send request failed",
    "performing HTTP request",
];

/// Judges a failed run. `own` is the backend's knowledge: it is asked once it is clear that the CLI ran and ended by
/// itself, and before what any backend has in common is looked at.
pub fn classify(outcome: &Outcome, own: impl FnOnce(&Outcome) -> Option<Failure>) -> Failure {
    cut_off(outcome)
        .or_else(|| violation(outcome))
        .or_else(|| own(outcome))
        .or_else(|| find(outcome, &COMMON))
        .unwrap_or_else(|| by_exit_code(outcome))
}

/// The first of the signs that the CLI gave, if it gave any.
pub fn find(outcome: &Outcome, signs: &[Sign]) -> Option<Failure> {
    let said = |text: &str| {
        engine_errors(outcome)
            .chain([outcome.stderr_tail.as_str()])
            .any(|words| words.contains(text))
    };
    signs
        .iter()
        .find(|sign| said(sign.text))
        .map(|sign| failure(sign.class.clone(), sign.reason, message(outcome)))
}

/// What the engine reported as errors, without the lines that only say that there were some.
pub fn engine_errors(outcome: &Outcome) -> impl Iterator<Item = &str> {
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
pub fn message(outcome: &Outcome) -> String {
    if let Some(text) = engine_errors(outcome).next() {
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

/// A failure whose message is cut at a length that fits a status.
pub fn failure(class: FailureClass, reason: &str, message: String) -> Failure {
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

/// The CLI did not run, or did not end by itself: its words count for nothing.
fn cut_off(outcome: &Outcome) -> Option<Failure> {
    match outcome.interrupted.as_deref() {
        Some("deadlineExceeded") => {
            return Some(failure(
                FailureClass::Program,
                "DeadlineExceeded",
                "the run took longer than its deadline".into(),
            ));
        }
        Some("agentStopping") => {
            return Some(failure(
                FailureClass::Lost,
                "WorkspaceStopping",
                "the workspace was stopped during the run".into(),
            ));
        }
        Some(_) => {
            return Some(failure(
                FailureClass::Unavailable,
                "Cancelled",
                "the run was cancelled".into(),
            ));
        }
        None => {}
    }
    if outcome.before_cli {
        return Some(failure(
            FailureClass::Unavailable,
            "WorkspaceFailed",
            message(outcome),
        ));
    }
    outcome.signal.map(|signal| {
        failure(
            FailureClass::Lost,
            "Killed",
            format!("pulumi was ended by signal {signal}"),
        )
    })
}

/// A mandatory policy refused. The engine says only that the run failed.
fn violation(outcome: &Outcome) -> Option<Failure> {
    let policy = outcome
        .diagnostics
        .iter()
        .find(|it| it.severity == "policy")?;
    Some(failure(
        FailureClass::Policy,
        "PolicyViolation",
        policy.message.trim().to_owned(),
    ))
}

fn by_exit_code(outcome: &Outcome) -> Failure {
    let engine_reached = engine_errors(outcome).next().is_some();
    if !engine_reached
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
