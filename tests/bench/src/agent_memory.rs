//! What an agent holds while it waits.

use crate::memory;
use crate::samples::{Samples, Unit};
use crate::setup::{Setup, Trouble, failed};
use crate::table::Row;
use crate::workspace::Workspace;

const RUNS: usize = 5;

/// Measures.
///
/// # Errors
/// `Skipped` where the CLI or the agent is missing; a run that fails.
pub fn measure(setup: &Setup) -> Result<Vec<Row>, Trouble> {
    let mut workspace = setup.runtime.block_on(Workspace::start(setup))?;
    for _ in 0..RUNS {
        setup.runtime.block_on(workspace.up())?;
    }
    let of = |field: &str| memory::of(workspace.agent_pid(), field);
    let (Some(anonymous), Some(all)) = (of("RssAnon"), of("VmRSS")) else {
        return failed("the agent is gone");
    };
    let row = |figure: &str, bytes: u64, how: &str| {
        Row::new(
            figure,
            Samples::one(Unit::Bytes, bytes as f64),
            format!("idle, after {RUNS} runs; {how}"),
        )
    };
    Ok(vec![
        row(
            "agent: memory of its own",
            anonymous,
            "RssAnon: what one more agent costs",
        ),
        row(
            "agent: memory in all",
            all,
            "VmRSS: with the pages of its file, which agents on one machine share",
        ),
    ])
}
