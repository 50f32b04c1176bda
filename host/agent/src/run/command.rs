//! The CLI's argument list for an operation. No value of configuration is ever in it.

use std::path::Path;

use windlass_api::run::{Operation, RunOptions, RunRequest};

/// Arguments after the program's name.
pub fn arguments(
    request: &RunRequest,
    settings: &Path,
    events: &Path,
    log_level: Option<u8>,
) -> Vec<String> {
    let RunOptions {
        parallel,
        message,
        expect_no_changes,
        replace,
        target,
        target_dependents,
        refresh,
        continue_on_error,
        remove,
        run_program,
    } = &request.options;
    let operation = request.operation;
    let is = |operations: &[Operation]| operations.contains(&operation);
    use Operation::{Destroy, Preview, Refresh, Up};

    let mut args = vec![
        operation.as_str().to_owned(),
        "--non-interactive".into(),
        "--color=never".into(),
    ];
    args.push(format!("--stack={}", request.stack));
    args.push(format!("--config-file={}", settings.display()));
    args.push(format!("--event-log={}", events.display()));
    args.push("--exec-kind=auto.local".into());
    args.push(concat!("--exec-agent=windlass/", env!("CARGO_PKG_VERSION")).into());
    // Outputs reach the result by the events; in the log they would only repeat.
    args.push("--suppress-outputs".into());
    if operation.mutates() {
        args.extend(["--yes".into(), "--skip-preview".into()]);
    }
    if let Some(level) = log_level.filter(|l| *l > 0) {
        args.extend(["--logtostderr".into(), format!("--verbose={level}")]);
    }
    if let Some(parallel) = parallel {
        args.push(format!("--parallel={parallel}"));
    }
    if let Some(message) = message {
        args.push(format!("--message={message}"));
    }
    args.extend(target.iter().map(|urn| format!("--target={urn}")));
    let flags: [(bool, &[Operation], &str); 6] = [
        (
            *expect_no_changes,
            &[Preview, Up, Refresh],
            "--expect-no-changes",
        ),
        (
            *target_dependents,
            &[Preview, Up, Refresh, Destroy],
            "--target-dependents",
        ),
        (*refresh, &[Preview, Up, Destroy], "--refresh"),
        (*continue_on_error, &[Up, Destroy], "--continue-on-error"),
        (*remove, &[Destroy], "--remove"),
        (*run_program, &[Refresh, Destroy], "--run-program"),
    ];
    args.extend(
        flags
            .iter()
            .filter(|(on, of, _)| *on && is(of))
            .map(|(_, _, flag)| (*flag).to_owned()),
    );
    if is(&[Preview, Up]) {
        args.extend(replace.iter().map(|urn| format!("--replace={urn}")));
    }
    args
}
