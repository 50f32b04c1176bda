//! What a run costs beyond the CLI: an `up` without changes through the agent, and the bare command on the same stack
//! in the same environment, in pairs.

use std::process::{Command, Stdio};
use std::time::Instant;

use crate::samples::{Samples, Unit, seconds, timed};
use crate::setup::{Setup, Trouble, failed};
use crate::table::Row;
use crate::workspace::{STACK, Workspace};

/// Measures.
///
/// # Errors
/// `Skipped` where the CLI or the agent is missing; a run that fails.
pub fn measure(setup: &Setup) -> Result<Vec<Row>, Trouble> {
    let mut workspace = setup.runtime.block_on(Workspace::start(setup))?;
    let pairs = setup.count(12, 2);
    setup.runtime.block_on(workspace.up())?;
    let (mut ours, mut bare, mut more) = (Vec::new(), Vec::new(), Vec::new());
    for pair in 0..pairs {
        // Who goes first changes, so that neither always finds what the other has warmed up.
        let (run, command) = if pair.is_multiple_of(2) {
            let run = through_agent(setup, &mut workspace)?;
            (run, by_hand(&workspace)?)
        } else {
            let command = by_hand(&workspace)?;
            (through_agent(setup, &mut workspace)?, command)
        };
        ours.push(run);
        bare.push(command);
        more.push(run - command);
    }
    let how = "one pulumi:Stash, `up` without changes: request over the unix socket to the result; peer: pulumi up --yes \
               --skip-preview, same stack, same environment";
    let difference = "the agent's part of each pair: lock and version checks, settings, events, outputs, journal";
    Ok(vec![
        Row::new(
            "a run without changes",
            Samples::spread(Unit::Seconds, ours),
            how,
        )
        .beside(Samples::spread(Unit::Seconds, bare)),
        Row::new(
            "a run's overhead",
            Samples::spread(Unit::Seconds, more),
            difference,
        ),
    ])
}

fn through_agent(setup: &Setup, workspace: &mut Workspace) -> Result<f64, Trouble> {
    let begun = Instant::now();
    let result = setup.runtime.block_on(workspace.up())?;
    let took = seconds(begun.elapsed());
    if result.changes.keys().any(|change| change != "same") || result.changes.is_empty() {
        return failed(format!(
            "a run without changes changed {:?}",
            result.changes
        ));
    }
    Ok(took)
}

fn by_hand(workspace: &Workspace) -> Result<f64, Trouble> {
    let mut command = Command::new("pulumi");
    command
        .args([
            "up",
            "--yes",
            "--skip-preview",
            "--non-interactive",
            "--color=never",
        ])
        .arg(format!("--stack={STACK}"))
        .current_dir(workspace.program())
        .env_clear()
        .envs(workspace.environment())
        .stdin(Stdio::null());
    let (took, done) = timed(|| command.output());
    let done = done?;
    let said = String::from_utf8_lossy(&done.stdout).into_owned();
    if !done.status.success() || !said.contains("unchanged") {
        let complaint = String::from_utf8_lossy(&done.stderr);
        return failed(format!("the bare CLI: {}: {said}{complaint}", done.status));
    }
    Ok(took)
}
