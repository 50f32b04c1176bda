//! Why a run failed, as far as only a self-managed backend can be the cause. The rest is the CLI's and the SDK's.

use windlass_sdk::cli::{self, Sign};
use windlass_sdk::{Failure, FailureClass, Outcome};

/// First match wins.
const SIGNS: [Sign; 7] = [
    Sign::new(
        "the stack is currently locked by",
        FailureClass::Conflict,
        "StackLocked",
    ),
    Sign::new(
        "Another update is currently in progress",
        FailureClass::Conflict,
        "UpdateConflict",
    ),
    Sign::new(
        "organization name must be 'organization'",
        FailureClass::Invalid,
        "StackNameInvalid",
    ),
    Sign::new(
        "PULUMI_ACCESS_TOKEN must be set",
        FailureClass::Invalid,
        "LoginRequired",
    ),
    Sign::new(
        "invalid access token",
        FailureClass::Invalid,
        "LoginRequired",
    ),
    Sign::new(
        "Legacy DIY state is deprecated",
        FailureClass::Invalid,
        "StateLayoutDeprecated",
    ),
    Sign::new(
        "unable to open state directory",
        FailureClass::Unavailable,
        "BackendUnavailable",
    ),
];

/// The class decides how the host goes on; the message is for a person.
pub fn classify(outcome: &Outcome) -> Failure {
    cli::classify(outcome, |outcome| {
        if outcome.locks.is_empty() {
            return cli::find(outcome, &SIGNS);
        }
        Some(cli::failure(
            FailureClass::Conflict,
            "StackLocked",
            locked(outcome),
        ))
    })
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
