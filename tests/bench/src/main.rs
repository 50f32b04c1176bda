//! Benchmarks: what the parts cost, beside what they could be measured against. `cargo xtask bench` builds what they
//! need and starts them; nothing here judges a figure.
//!
//! One file per benchmark, named as on the command line; `setup` says where things are, `table` prints.

mod agent_memory;
mod decide;
mod evaluate;
mod fetch;
mod history;
mod load;
mod local;
mod memory;
mod operator;
mod overhead;
mod samples;
mod setup;
mod sim;
mod table;
mod workspace;

use std::process::ExitCode;
use std::time::Duration;

use clap::{Parser, ValueEnum};

use setup::{Setup, Trouble};
use table::Row;

/// The argument with which this program is a fetch worker, as `windlass` has it.
const FETCH_WORKER: &str = "fetch-worker";

/// Measures Windlass on this machine and prints the figures as a table.
#[derive(Parser)]
#[command(name = "cargo xtask bench", max_term_width = 100)]
struct Arguments {
    /// Which; all if none is named.
    #[arg(value_enum)]
    benchmarks: Vec<Benchmark>,
    /// Fewer samples and a small fleet: a minute instead of many. Good for seeing that all of it runs.
    #[arg(long)]
    quick: bool,
    /// Also the operator with 10 000 Stacks, which takes long.
    #[arg(long, conflicts_with = "quick")]
    full: bool,
    /// One JSON document on stdout instead of the table.
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Benchmark {
    /// Decisions a second on one core.
    Decide,
    /// Steps of the simulator a second.
    Sim,
    /// Health and source components, in fresh instances, beside the same code natively.
    Evaluate,
    /// Loading plugins, compiled anew and from the code cache.
    Load,
    /// A repository of 10 000 files, beside `git clone --depth 1`.
    Fetch,
    /// A run without changes through the agent, beside the bare CLI.
    Overhead,
    /// Memory of an idle agent.
    AgentMemory,
    /// `windlass local --once` over 200 Stacks of which none has changed.
    Local,
    /// One Stack on a cluster, from its creation to a resync, beside the bare CLI in a bare pod; memory of the idle
    /// operator and of an agent.
    Operator,
    /// Many Stacks on a cluster that can do nothing: memory, requests to the API server.
    OperatorBlocked,
    /// Fifty Stacks on a cluster at once.
    OperatorFleet,
    /// The operator, its leader and the CLI killed: how long until all is well.
    OperatorRecovery,
}

impl Benchmark {
    fn measure(self, setup: &Setup) -> Result<Vec<Row>, Trouble> {
        match self {
            Benchmark::Decide => decide::measure(setup),
            Benchmark::Sim => sim::measure(setup),
            Benchmark::Evaluate => evaluate::measure(setup),
            Benchmark::Load => load::measure(setup),
            Benchmark::Fetch => fetch::measure(setup),
            Benchmark::Overhead => overhead::measure(setup),
            Benchmark::AgentMemory => agent_memory::measure(setup),
            Benchmark::Local => local::measure(setup),
            Benchmark::Operator => operator::life(setup),
            Benchmark::OperatorBlocked => operator::blocked(setup),
            Benchmark::OperatorFleet => operator::fleet(setup),
            Benchmark::OperatorRecovery => operator::recovery(setup),
        }
    }

    fn name(self) -> String {
        let value = self.to_possible_value();
        value.map_or_else(String::new, |value| value.get_name().to_owned())
    }
}

fn main() -> ExitCode {
    // A sandbox is waiting: nothing else may be started in this process.
    if std::env::args()
        .nth(1)
        .is_some_and(|first| first == FETCH_WORKER)
    {
        return windlass_fetch::worker::main();
    }
    let arguments = Arguments::parse();
    let setup = match Setup::new(arguments.quick, arguments.full) {
        Ok(setup) => setup,
        Err(error) => {
            eprintln!("error: {error}");
            return ExitCode::FAILURE;
        }
    };
    let wanted = if arguments.benchmarks.is_empty() {
        Benchmark::value_variants().to_vec()
    } else {
        arguments.benchmarks
    };
    let (mut rows, mut skipped, mut failed) = (Vec::new(), Vec::new(), Vec::new());
    for benchmark in wanted {
        let name = benchmark.name();
        eprintln!("{name} ...");
        match benchmark.measure(&setup) {
            Ok(measured) => rows.extend(measured),
            Err(Trouble::Skipped(reason)) => {
                eprintln!("SKIP: {name}: {reason}");
                skipped.push((name, reason));
            }
            Err(Trouble::Failed(reason)) => {
                eprintln!("FAILED: {name}: {reason}");
                failed.push((name, reason));
            }
        }
    }
    if arguments.json {
        println!("{:#}", table::json(&rows, &skipped, &failed, setup.quick));
    } else {
        println!("{}", table::text(&rows));
        // Below the table as well: the lines above it are long gone.
        for (name, reason) in &skipped {
            println!("SKIP: {name}: {reason}");
        }
        for (name, reason) in &failed {
            println!("FAILED: {name}: {reason}");
        }
    }
    // Some request of a client whose cluster is gone must not keep the figures' reader waiting.
    setup.runtime.shutdown_timeout(Duration::from_secs(2));
    if failed.is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        Arguments::command().debug_assert();
    }
}
