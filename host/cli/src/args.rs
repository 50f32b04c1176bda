//! The command line: its words, defaults and the help that teaches them.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum};
use windlass_engine::Key;
use windlass_local::ProgressPace;

use crate::plugin_args::PluginCommand;
use crate::run_args::OperatorArgs;

/// The whole command line.
#[derive(Debug, Parser)]
#[command(
    name = "windlass",
    version,
    about = "Keeps Pulumi stacks in the state that Stack objects ask for.",
    long_about = "Keeps Pulumi stacks in the state that Stack objects ask for.\n\n\
        A Stack says where its program is, which backend holds its state and when it runs. \
        `windlass local` reconciles a directory of such manifests on this machine, with no cluster; \
        where a program comes from and what healthy means are decided by WebAssembly plugins.",
    after_help = "Examples:
  windlass local --once manifests/      deploy everything in a directory, then print a table
  windlass status                       what became of it
  windlass explain app                  why `app` waits, and what would wake it
  windlass logs -f app                  follow what Pulumi prints for `app`

Exit codes: 0 all is well, 1 something failed or waits, 2 the input is wrong, 130 left by Ctrl-C.",
    disable_help_subcommand = true,
    max_term_width = 100
)]
pub struct Cli {
    #[command(flatten)]
    pub logging: Logging,
    #[command(subcommand)]
    pub command: Command,
}

/// What goes to stderr beside a command's own words.
#[derive(Debug, Args)]
pub struct Logging {
    /// More of what goes on, on stderr: -v for decisions, -vv for everything. RUST_LOG overrides it.
    #[arg(short, long, global = true, action = clap::ArgAction::Count)]
    pub verbose: u8,
    /// How log lines are written.
    #[arg(long, global = true, value_enum, default_value_t = LogFormat::Text)]
    pub log_format: LogFormat,
    /// What a command decides itself, where neither RUST_LOG nor -v does.
    #[arg(skip)]
    pub filter: Option<&'static str>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// For people.
    Text,
    /// One JSON document a line.
    Json,
}

/// For whom a command prints its result on stdout.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Output {
    /// For people.
    #[default]
    #[value(alias = "text")]
    Table,
    /// One JSON document, for programs.
    Json,
}

/// How a document is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Document {
    #[default]
    Yaml,
    Json,
}

impl From<Document> for windlass_api::crd::Format {
    fn from(document: Document) -> Self {
        match document {
            Document::Yaml => Self::Yaml,
            Document::Json => Self::Json,
        }
    }
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Reconcile a directory of manifests on this machine, with no cluster.
    #[command(
        long_about = "Reconcile a directory of manifests on this machine, with no cluster.\n\n\
            Reads the Stack, Program, Secret and ConfigMap manifests (*.yaml, *.yml, *.json) of each DIR, \
            and deploys every Stack with the `pulumi` on PATH. Edits, new commits and due resyncs are picked up \
            until it is stopped; with --once it ends when all is settled.\n\n\
            Each run belongs to an agent of its own that outlives this command: whatever happens to it, start it \
            again and it attaches to the runs that go on. Ctrl-C leaves runs going; twice leaves at once.",
        after_help = "Examples:
  windlass local manifests/                    watch a directory, deploy what changes
  windlass local --once manifests/             deploy once, print a table, exit 0 if all are ready
  windlass local --once --output json .        the same for a program
  windlass local --once --destroy manifests/   take down what the Stacks made"
    )]
    Local(LocalArgs),
    /// Run the operator on a cluster.
    #[command(
        long_about = "Run the operator on a cluster.\n\n\
            Watches Stacks, Programs, Workspaces and Updates, and keeps every Stack in the state that it asks for. The \
            cluster is that of the pod this runs in, else of the kubeconfig. Of several replicas one leads; runs \
            belong to the agents in the workspaces' pods and go on whatever happens to this process.",
        after_help = "Examples:
  windlass run                                  in a pod, as the chart starts it
  windlass run --namespaces team-a,team-b       for these namespaces alone"
    )]
    Run(Box<OperatorArgs>),
    /// Show every Stack, or one, as it was last seen.
    #[command(after_help = "Examples:
  windlass status
  windlass status prod/network
  windlass status --output json | jq '.stacks[] | select(.ready | not) | .name'")]
    Status {
        /// NAME or NAMESPACE/NAME; all if absent.
        stack: Option<Key>,
        #[command(flatten)]
        data: DataDir,
        #[arg(short, long, value_enum, default_value_t)]
        output: Output,
    },
    /// Print what Pulumi printed in a run of a Stack: the one that goes on, else the last.
    #[command(after_help = "Examples:
  windlass logs app
  windlass logs -f app                                   until the run ends
  windlass logs app --update app-5c1f0a93b2d4e6871020    one run of those that `status` names")]
    Logs {
        /// NAME or NAMESPACE/NAME.
        stack: Key,
        /// Go on printing until the run ends.
        #[arg(short, long)]
        follow: bool,
        /// The Update whose run is meant.
        #[arg(long, value_name = "NAME")]
        update: Option<String>,
        #[command(flatten)]
        data: DataDir,
    },
    /// Say why a Stack waits and what would wake it.
    #[command(
        long_about = "Say why a Stack waits and what would wake it.\n\n\
            Decides once more over the snapshot that was last taken of the Stack; nothing is changed. \
            --snapshot keeps it for `windlass replay`: it holds versions of secrets, never values, and \
            belongs into a bug report.",
        after_help = "Examples:
  windlass explain app
  windlass explain app --snapshot app.json && windlass replay app.json"
    )]
    Explain {
        /// NAME or NAMESPACE/NAME.
        stack: Key,
        /// Write the snapshot to this file.
        #[arg(long, value_name = "FILE")]
        snapshot: Option<PathBuf>,
        #[command(flatten)]
        data: DataDir,
        #[arg(short, long, value_enum, default_value_t)]
        output: Output,
    },
    /// Decide a saved snapshot again, or run a plugin's transcript again.
    #[command(
        long_about = "Decide a saved snapshot again, or run a plugin's transcript again.\n\n\
            A snapshot (from `explain --snapshot`) gives the decision that this version takes over it. A transcript \
            (from `plugin run --save`) runs on the plugin of the same name with the recorded answers only, and must \
            end in the same result; a difference is exit code 1.",
        after_help = "Examples:
  windlass replay app.json
  windlass replay app.json --output json
  windlass replay resolve.json --plugin-dir target/plugins"
    )]
    Replay {
        /// A snapshot or a transcript; what it is shows in the file. `-` reads stdin.
        file: PathBuf,
        #[command(flatten)]
        plugins: Plugins,
        #[arg(short, long, value_enum, default_value_t)]
        output: Output,
    },
    /// Interrupt the run of a Stack: Pulumi finishes the resource under work and stops.
    Cancel {
        /// NAME or NAMESPACE/NAME.
        stack: Key,
        #[command(flatten)]
        data: DataDir,
    },
    /// Write, check, measure, install and list plugins (WebAssembly components).
    #[command(subcommand, arg_required_else_help = true)]
    Plugin(PluginCommand),
    /// Judge the health of objects in files, as the health plugins do.
    #[command(
        long_about = "Judge the health of objects in files, as the health plugins do.\n\n\
            With --argocd-cm the scripts of a team's Argo CD judge too, in the sandbox and with the limits that \
            they have in the operator, and what they say stands beside what is built in. A script beats the built-in rule for its \
            kind, as in Argo CD. Keys for which Argo CD would refuse the ConfigMap are told on stderr.",
        after_help = "Examples:
  windlass health stack.yaml
  kubectl get stacks -o json | windlass health -
  windlass health --argocd-cm argocd-cm.yaml certificate.yaml stack.yaml

Exit codes: 0 all are Healthy or Suspended, 1 some are not, 2 a file is wrong."
    )]
    Health {
        /// YAML or JSON, several documents or a List; `-` reads stdin.
        #[arg(required = true, value_name = "OBJECT")]
        files: Vec<PathBuf>,
        /// A manifest of Argo CD's ConfigMap argocd-cm; other documents may stand beside it.
        #[arg(long, value_name = "FILE")]
        argocd_cm: Option<PathBuf>,
        #[command(flatten)]
        plugins: Plugins,
        #[arg(short, long, value_enum, default_value_t)]
        output: Output,
    },
    /// Print the CustomResourceDefinitions that a cluster needs for this version.
    #[command(
        long_about = "Print the CustomResourceDefinitions that a cluster needs for this version.\n\n\
            Stack, Program, Workspace and Update, under the names and versions of the Pulumi Kubernetes Operator: they \
            take the place of its definitions, and objects that exist stay as they are.",
        after_help = "Examples:
  windlass crds | kubectl apply --server-side --force-conflicts -f -
  windlass crds --apply                    the same without kubectl, and waits until they are served
  windlass crds --dir deploy/crds          one file each"
    )]
    Crds {
        /// Apply the definitions to the cluster, server-side, and wait until they are served. The cluster is that of the
        /// pod this runs in, else of the kubeconfig.
        #[arg(long, conflicts_with_all = ["dir", "output"])]
        apply: bool,
        /// File that names the cluster.
        #[arg(long, value_name = "FILE", requires = "apply")]
        kubeconfig: Option<PathBuf>,
        /// Write one file for each definition into this directory, and print their names.
        #[arg(long, value_name = "DIR")]
        dir: Option<PathBuf>,
        #[arg(short, long, value_enum, default_value_t)]
        output: Document,
    },
    /// Print the version.
    Version {
        #[arg(short, long, value_enum, default_value_t)]
        output: Output,
    },
    /// Serves one request to a foreign server; started by `local`, never by hand.
    #[command(hide = true)]
    FetchWorker,
}

#[derive(Debug, Args)]
pub struct LocalArgs {
    /// Directories of manifests, or single files. Directories below are not read.
    #[arg(required = true, value_name = "DIR")]
    pub manifests: Vec<PathBuf>,
    /// End when all Stacks are settled, and print a table.
    #[arg(long)]
    pub once: bool,
    /// Take down what the Stacks made, instead of deploying, and end.
    #[arg(long)]
    pub destroy: bool,
    /// Runs that may go on at the same time.
    #[arg(long, default_value_t = default_parallel(), value_name = "N", value_parser = at_least_one)]
    pub parallel: usize,
    /// How the result is printed on stdout.
    #[arg(short, long, value_enum, default_value_t)]
    pub output: Output,
    #[command(flatten)]
    pub data: DataDir,
    #[command(flatten)]
    pub plugins: Plugins,
    /// End the agent of a Stack that has not run for so long; 0 at once, without the option never while this runs.
    #[arg(long, value_name = "SECONDS")]
    pub keep_idle: Option<u64>,
    #[command(flatten)]
    pub progress: ProgressArgs,
    /// No progress on stderr; problems are still told.
    #[arg(long)]
    pub no_progress: bool,
}

/// Where `local` keeps what it knows.
#[derive(Debug, Args)]
pub struct DataDir {
    /// Where `local` keeps its store, workspaces, trees and logs [default: .windlass in the (first) manifest directory; for other commands in this directory or one above].
    #[arg(long, env = "WINDLASS_DATA_DIR", value_name = "DIR")]
    pub data_dir: Option<PathBuf>,
}

/// When the progress of runs is written to their Updates.
#[derive(Debug, Args)]
pub struct ProgressArgs {
    /// Write how far a run is to its Update once it takes longer than this.
    #[arg(long, value_name = "SECONDS", default_value_t = 30)]
    pub progress_after: u64,
    /// From one such write to the next.
    #[arg(long, value_name = "SECONDS", default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..))]
    pub progress_every: u64,
}

impl ProgressArgs {
    pub fn pace(&self) -> ProgressPace {
        ProgressPace {
            after: Duration::from_secs(self.progress_after),
            every: Duration::from_secs(self.progress_every),
        }
    }
}

/// Where plugins are and what they may do.
#[derive(Debug, Default, Args)]
pub struct Plugins {
    /// A directory of plugins (NAME.wasm); repeatable [default: WINDLASS_PLUGIN_DIR, else `plugins` beside the directory of this program].
    #[arg(long = "plugin-dir", value_name = "DIR")]
    pub plugin_dirs: Vec<PathBuf>,
    /// What plugins that are not built in may do: digests, hosts, kinds, limits, config (YAML).
    #[arg(long, value_name = "FILE")]
    pub policy: Option<PathBuf>,
}

fn default_parallel() -> usize {
    std::thread::available_parallelism().map_or(4, |n| n.get().max(4))
}

pub fn at_least_one(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(0) | Err(_) => Err("write a number from 1".to_owned()),
        Ok(number) => Ok(number),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn quickstarts_command_line_is_understood() {
        let cli = Cli::try_parse_from([
            "windlass",
            "local",
            "--once",
            "--data-dir",
            "d",
            "--plugin-dir",
            "p",
            "--destroy",
            "m",
        ])
        .unwrap();
        let Command::Local(args) = cli.command else {
            panic!("not local")
        };
        assert!(args.once && args.destroy);
        assert_eq!(args.manifests, [PathBuf::from("m")]);
        assert_eq!(args.plugins.plugin_dirs, [PathBuf::from("p")]);
    }

    #[test]
    fn no_run_at_a_time_is_no_number() {
        assert!(Cli::try_parse_from(["windlass", "local", "--parallel", "0", "m"]).is_err());
    }
}
