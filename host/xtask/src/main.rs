//! Developer commands: `cargo xtask --help`.

mod agent_static;
mod argocd_settings;
mod argocd_tools;
mod bench;
mod binaries;
mod chart;
mod ci;
mod crds;
mod cross;
mod doctor;
mod error;
mod flux_tools;
mod go_tool;
mod helm_tools;
mod image;
mod k8s_tools;
mod node_packages;
mod oracle_tools;
mod place;
mod plugins;
mod process;
mod quickstart;
mod reproducible;
mod rings;
mod tally;
mod test;
mod test_build;
mod test_run;
mod tools;
mod version;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::error::{Error, Result};
use crate::place::Place;
use crate::rings::Ring;
use crate::tally::Tally;
use crate::tools::Group;

/// Everything a developer of Windlass does, one command each.
///
/// On a new machine with Rust, Go, git and a C compiler, start with `cargo xtask quickstart`: it
/// builds what it needs and deploys two Stacks for real. Before a commit, `cargo xtask test`.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
struct Arguments {
    #[command(subcommand)]
    command: Subject,
}

#[derive(Debug, Subcommand)]
enum Subject {
    /// Check that this machine has what the other commands need.
    ///
    /// Says one sentence for each thing that is missing: what, what for, how to get it. Adds the
    /// Rust target for components by itself.
    Doctor,
    /// Make in target/tools what the tests need: `pulumi`, Kubernetes' programs, Flux's source-controller, Argo CD, Helm.
    ///
    /// Takes the pulumi on PATH when it is new enough and has pulumi-language-yaml beside it or on
    /// PATH; else builds the versions pinned in tests/tools/pulumi with Go. etcd, Kubernetes, Flux,
    /// Argo CD and Helm are always built, as pinned in the other folders of tests/tools. That takes
    /// some minutes the first time and nothing after. If they are named, `node` also installs the packages
    /// of a container runtime and `argocd` that of Redis, with apt-get as root; no other group
    /// changes the machine. `node` is made unasked only where nothing is missing.
    Tools {
        /// Make only these.
        groups: Vec<Group>,
        /// Build the pinned versions whatever is on PATH.
        #[arg(long)]
        pinned: bool,
    },
    /// Compile the built-in components into target/plugins, with their digests.
    Plugins {
        /// Write nothing: fail if target/plugins is not what the sources give.
        #[arg(long)]
        check: bool,
    },
    /// Build the components, then `windlass` and `windlass-agent`.
    Build,
    /// Build the agent for images that nobody knows beforehand: one file, no shared library.
    ///
    /// Needs `musl-gcc` (Debian and Ubuntu: musl-tools). Says where the file is and how large.
    AgentStatic,
    /// Make the operator's image as an OCI archive, with no daemon, and the list of what is in it (SPDX).
    ///
    /// The binaries, the components, and git, ssh, certificates and the C library of this machine's Debian. The same
    /// sources and packages give the same bytes.
    Image(image::Options),
    /// Run the tests of all rings and count them.
    ///
    /// Ring 1 is units, components and hostile input; ring 2 the simulator; ring 3 the real
    /// pulumi, real processes, a real Git server and a real Kubernetes control plane; ring 4 a real
    /// kubelet and containerd, which need root. The last line says how many tests passed, failed
    /// and were skipped; each reason for a skip is printed. Full output is in target/test-logs.
    Test {
        /// Run only these rings.
        #[arg(long = "ring", value_name = "N", value_delimiter = ',')]
        rings: Vec<Ring>,
        /// Run only tests whose names contain one of these.
        filters: Vec<String>,
    },
    /// Deploy two Stacks for real on this machine, with no cluster.
    ///
    /// One has its program in a Git repository that is made here, the other in a Program object;
    /// the second waits for the first and uses one of its outputs. Look into
    /// target/quickstart/manifests, change something, run it again.
    Quickstart {
        /// Take down what the Stacks made.
        #[arg(long)]
        destroy: bool,
    },
    /// Run the benchmarks in the release profile and print their figures.
    Bench {
        /// Passed on to the benchmarks.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<OsString>,
    },
    /// Make the CustomResourceDefinitions in deploy/crds from the types in host/api.
    Crds {
        /// Write nothing: fail if deploy/crds is not what the types give.
        #[arg(long)]
        check: bool,
    },
    /// Bring what the chart is made from, and deploy/quickstart, which is made from the chart, up to date.
    ///
    /// The rules of deploy/rbac go into the chart; install.yaml is what `helm template` prints.
    Chart {
        /// Write nothing: fail if a file is not what its sources give.
        #[arg(long)]
        check: bool,
    },
    /// Make deploy/argocd/argocd-cm.yaml from the small files beside it.
    Argocd {
        /// Write nothing: fail if the file is not what they give.
        #[arg(long)]
        check: bool,
    },
    /// Everything a change must pass: formatting, lints, licences, generated files, tests.
    Ci,
    /// Verify that committed generated files fit their sources.
    CheckGenerated,
}

fn main() -> ExitCode {
    let Arguments { command } = Arguments::parse();
    match perform(command) {
        Ok(None) => ExitCode::SUCCESS,
        Ok(Some(tally)) => {
            println!("\n{tally}");
            if tally.failed == 0 {
                ExitCode::SUCCESS
            } else {
                ExitCode::FAILURE
            }
        }
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

/// The tally is that of commands which count tests; it becomes the closing line.
fn perform(command: Subject) -> Result<Option<Tally>> {
    let place = Place::find()?;
    match command {
        Subject::Doctor => doctor::check_all(&place)?,
        Subject::Tools { groups, pinned } => {
            let named = !groups.is_empty();
            let groups = if groups.is_empty() {
                Group::usual()
            } else {
                groups
            };
            if named && groups.contains(&Group::Argocd) {
                argocd_tools::install_redis()?;
            }
            if groups.contains(&Group::Node) {
                node_packages::install()?;
            }
            tools::make(&place, &groups, pinned)?;
        }
        Subject::Plugins { check } => plugins::make(&place, check)?,
        Subject::Build => binaries::make(&place)?,
        Subject::AgentStatic => agent_static::make(&place)?,
        Subject::Image(options) => image::make(&place, &options)?,
        Subject::Test { rings, filters } => return test::run(&place, &rings, &filters).map(Some),
        Subject::Quickstart { destroy } => quickstart::deploy(&place, destroy)?,
        Subject::Bench { arguments } => bench::run_all(&place, &arguments)?,
        Subject::Crds { check } => crds::make(&place, check)?,
        Subject::Chart { check } => chart::make(&place, check)?,
        Subject::Argocd { check } => argocd_settings::make(&place, check)?,
        Subject::Ci => return ci::run_all(&place).map(Some),
        Subject::CheckGenerated => {
            ci::check_generated(&place)?;
            match chart::make(&place, true) {
                Err(error @ Error::MissingProgram { .. }) => println!("SKIP: {error}"),
                made => made?,
            }
            println!("generated files are current");
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        use clap::CommandFactory;
        Arguments::command().debug_assert();
    }
}
