//! How a run ended: exit code first, then the CLI's messages, then the events. A run that was signalled is judged by
//! the state it left, because a cancelled destroy says that it succeeded.

use windlass_api::run::{Diagnostic, FailureEvidence, InterruptCause, Operation, RunState};

use super::context::{Context, RunError};
use super::follow::Heard;
use super::holders;
use crate::file_backend::{Lookup, locks_in_text};

/// The end in one word, and why.
#[derive(Debug, PartialEq)]
pub struct Verdict {
    pub state: RunState,
    pub message: String,
    pub failure: Option<FailureEvidence>,
    /// Resources that are left, where that could be read.
    pub resources: Option<u32>,
}

/// Resources in the state now; none where the backend is not a directory.
fn remaining(context: &Context) -> Option<u32> {
    match context.file_stack.as_ref()?.state() {
        Lookup::Missing => Some(0),
        Lookup::Found(state) => Some(state.resources),
        Lookup::Opaque => None,
    }
}

fn state_of(
    operation: Operation,
    heard: &Heard,
    remaining: Option<u32>,
    expect_no_changes: bool,
) -> RunState {
    let Heard {
        exit,
        digest,
        stderr: _,
        interrupted,
    } = heard;
    let succeeded = digest.result.as_deref() == Some("succeeded");
    let signal = exit.and_then(|e| e.signal);
    let fine = match exit {
        Some(exit) => exit.code == Some(0),
        // Nobody saw the exit code. The events are whole only if the last one is there.
        None if digest.ended => {
            let changed = digest
                .changes
                .iter()
                .any(|(op, n)| *n > 0 && !matches!(op.as_str(), "same" | "read"));
            succeeded && !(expect_no_changes && changed)
        }
        None => false,
    };
    if signal.is_some() || (exit.is_none() && !digest.ended) {
        return if interrupted.is_some() {
            RunState::Cancelled
        } else {
            RunState::Lost
        };
    }
    if digest.cancelling || (interrupted.is_some() && !fine) {
        let all_gone = operation == Operation::Destroy && fine && remaining == Some(0);
        return if all_gone {
            RunState::Succeeded
        } else {
            RunState::Cancelled
        };
    }
    if fine {
        RunState::Succeeded
    } else {
        RunState::Failed
    }
}

/// One line, at most 500 characters.
fn one_line(text: &str) -> String {
    let line: String = text.split_whitespace().collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(500) {
        Some((cut, _)) => format!("{}…", &line[..cut]),
        None => line,
    }
}

/// What the CLI says after `error: `, which may go over several lines.
pub fn error_in(stderr: &str) -> Option<String> {
    let at = if stderr.starts_with("error: ") {
        0
    } else {
        stderr.find("\nerror: ")? + 1
    };
    Some(one_line(&stderr[at + "error: ".len()..]))
}

/// What a person should read first: a resource's error, else the program's, else the CLI's.
fn message_of(diagnostics: &[Diagnostic], stderr: &str, code: Option<i32>) -> String {
    let general =
        |d: &&Diagnostic| matches!(d.message.as_str(), "update failed" | "preview failed");
    if let Some(d) = diagnostics
        .iter()
        .find(|d| d.severity == "error" && d.urn.is_some())
    {
        let name = d
            .urn
            .as_deref()
            .and_then(|u| u.rsplit("::").next())
            .unwrap_or_default();
        return one_line(&format!("{name}: {}", d.message));
    }
    let printed: Vec<&str> = diagnostics
        .iter()
        .filter(|d| d.severity == "info#err")
        .map(|d| d.message.as_str())
        .collect();
    if let Some(d) = diagnostics
        .iter()
        .find(|d| d.severity == "error" && !general(d))
    {
        return one_line(&d.message);
    }
    if !printed.is_empty() {
        return one_line(&printed.join(" "));
    }
    if let Some(error) = stderr
        .lines()
        .find_map(|l| l.trim().strip_prefix("error: "))
    {
        return one_line(error);
    }
    match diagnostics.last() {
        Some(d) => one_line(&d.message),
        None => match code {
            Some(code) => format!("pulumi ended with code {code} and said nothing"),
            None => "pulumi ended and said nothing".to_owned(),
        },
    }
}

fn cancelled_message(cause: Option<InterruptCause>, timeout: Option<u64>) -> String {
    match cause {
        Some(InterruptCause::Cancelled) => "cancelled on request".to_owned(),
        Some(InterruptCause::DeadlineExceeded) => match timeout {
            Some(seconds) => format!("cancelled: not done within {seconds} s"),
            None => "cancelled: its deadline passed".to_owned(),
        },
        Some(InterruptCause::AgentStopping) => "cancelled: the workspace was stopped".to_owned(),
        None => "pulumi was interrupted by someone else".to_owned(),
    }
}

/// Judges an operation that was started.
pub fn judge(context: &Context, heard: &Heard) -> Verdict {
    let request = &context.request;
    let remaining = if request.operation.mutates() {
        remaining(context)
    } else {
        None
    };
    let state = state_of(
        request.operation,
        heard,
        remaining,
        request.options.expect_no_changes,
    );
    let resources = remaining.or_else(|| {
        let whole = request.operation.mutates() && request.options.target.is_empty();
        (whole && state == RunState::Succeeded).then(|| heard.digest.resources())
    });
    if state == RunState::Succeeded {
        return Verdict {
            state,
            message: String::new(),
            failure: None,
            resources,
        };
    }
    let redact = |d: &Diagnostic| Diagnostic {
        severity: d.severity.clone(),
        urn: d.urn.clone(),
        message: context.redactor.redact(&d.message),
    };
    let diagnostics: Vec<Diagnostic> = heard.digest.diagnostics().map(redact).collect();
    let code = heard.exit.and_then(|e| e.code);
    let signal = heard.exit.and_then(|e| e.signal);
    let mut locks = locks_in_text(&heard.stderr);
    // A CLI that was killed says nothing of the lock that it leaves.
    if locks.is_empty()
        && matches!(state, RunState::Lost | RunState::Cancelled)
        && let Some(stack) = &context.file_stack
    {
        locks = stack.locks();
    }
    holders::note(&context.workspace, &mut locks);
    let message = match state {
        RunState::Cancelled => cancelled_message(heard.interrupted, request.timeout_seconds),
        RunState::Lost => match signal {
            Some(signal) => format!("pulumi was killed by signal {signal} before it was done"),
            None => "pulumi is gone and nobody saw how it ended".to_owned(),
        },
        _ => message_of(&diagnostics, &heard.stderr, code),
    };
    let failure = FailureEvidence {
        exit_code: code,
        signal,
        interrupted: heard.interrupted,
        before_cli: false,
        reason: None,
        diagnostics,
        stderr_tail: heard.stderr.clone(),
        locks,
    };
    Verdict {
        state,
        message,
        failure: Some(failure),
        resources,
    }
}

/// Judges a run that never came to its operation.
pub fn judge_error(error: &RunError, interrupted: Option<InterruptCause>) -> Verdict {
    let (exit_code, stderr_tail, before_cli) = match error {
        RunError::CommandFailed { code, stderr, .. } => (*code, stderr.clone(), false),
        _ => (None, String::new(), true),
    };
    let failure = FailureEvidence {
        exit_code,
        signal: None,
        interrupted,
        before_cli,
        reason: Some(error.reason().to_owned()),
        diagnostics: Vec::new(),
        locks: locks_in_text(&stderr_tail),
        stderr_tail,
    };
    let state = if interrupted.is_some() {
        RunState::Cancelled
    } else {
        RunState::Failed
    };
    Verdict {
        state,
        message: one_line(&error.to_string()),
        failure: Some(failure),
        resources: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::events::Digest;
    use crate::supervise::Exit;

    fn heard(code: Option<i32>, signal: Option<i32>, events: &[&str], interrupted: bool) -> Heard {
        let mut digest = Digest::default();
        events.iter().for_each(|e| digest.take(e));
        let exit = (code.is_some() || signal.is_some()).then_some(Exit {
            code,
            signal,
            leftovers: 0,
        });
        let interrupted = interrupted.then_some(InterruptCause::Cancelled);
        Heard {
            exit,
            digest,
            stderr: String::new(),
            interrupted,
        }
    }

    const CANCELLING: &str =
        r#"{"stdoutEvent":{"message":"^C received; cancelling. If you would..."}}"#;
    const FINE: &str = r#"{"summaryEvent":{"resourceChanges":{"create":1},"result":"succeeded"}}"#;
    const BAD: &str = r#"{"summaryEvent":{"resourceChanges":{},"result":"failed"}}"#;
    const END: &str = r#"{"cancelEvent":{}}"#;

    #[test]
    fn every_way_to_end() {
        use Operation::{Destroy, Up};
        use RunState::{Cancelled, Failed, Lost, Succeeded};
        let table = [
            (
                "fine",
                Up,
                heard(Some(0), None, &[FINE, END], false),
                None,
                Succeeded,
            ),
            (
                "failed",
                Up,
                heard(Some(1), None, &[BAD, END], false),
                None,
                Failed,
            ),
            (
                "cancelled up",
                Up,
                heard(Some(1), None, &[CANCELLING, BAD, END], true),
                None,
                Cancelled,
            ),
            (
                "cancelled while deleting",
                Up,
                heard(Some(0), None, &[CANCELLING, FINE, END], true),
                None,
                Cancelled,
            ),
            (
                "cancelled destroy",
                Destroy,
                heard(Some(0), None, &[CANCELLING, FINE, END], true),
                Some(2),
                Cancelled,
            ),
            (
                "destroy done all the same",
                Destroy,
                heard(Some(0), None, &[CANCELLING, FINE, END], true),
                Some(0),
                Succeeded,
            ),
            (
                "signal came too late",
                Up,
                heard(Some(0), None, &[FINE, END], true),
                None,
                Succeeded,
            ),
            (
                "terminated",
                Up,
                heard(Some(8), None, &[CANCELLING, END], true),
                None,
                Cancelled,
            ),
            (
                "signal before the engine",
                Up,
                heard(None, Some(2), &[], true),
                None,
                Cancelled,
            ),
            (
                "someone else's signal",
                Up,
                heard(Some(1), None, &[CANCELLING, BAD, END], false),
                None,
                Cancelled,
            ),
            ("killed", Up, heard(None, Some(9), &[], false), None, Lost),
            (
                "unseen, events whole",
                Up,
                heard(None, None, &[FINE, END], false),
                None,
                Succeeded,
            ),
            (
                "unseen, events whole, failed",
                Up,
                heard(None, None, &[BAD, END], false),
                None,
                Failed,
            ),
            (
                "unseen, events torn",
                Up,
                heard(None, None, &[FINE], false),
                None,
                Lost,
            ),
        ];
        for (name, operation, heard, remaining, expected) in table {
            assert_eq!(
                state_of(operation, &heard, remaining, false),
                expected,
                "{name}"
            );
        }
    }

    #[test]
    fn the_first_line_is_the_cause() {
        let d = |severity: &str, urn: Option<&str>, message: &str| Diagnostic {
            severity: severity.into(),
            urn: urn.map(Into::into),
            message: message.into(),
        };
        let resource = [
            d("error", None, "update failed"),
            d("error", Some("urn:pulumi:s::p::t:i:T::db"), "disk\n  full"),
        ];
        assert_eq!(message_of(&resource, "", Some(1)), "db: disk full");
        let program = [
            d("info#err", None, "Error: \"x\" not found"),
            d("info#err", None, "on Pulumi.yaml line 7:"),
        ];
        assert_eq!(
            message_of(&program, "", Some(1)),
            "Error: \"x\" not found on Pulumi.yaml line 7:"
        );
        assert_eq!(
            message_of(&[], "warning: a\nerror: incorrect passphrase\n", Some(1)),
            "incorrect passphrase"
        );
        assert_eq!(
            message_of(&[], "", Some(255)),
            "pulumi ended with code 255 and said nothing"
        );
    }
}
