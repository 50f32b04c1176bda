//! The command line of `windlass plugin`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use windlass_engine::Key;

use crate::args::{Output, Plugins};

#[derive(Debug, Subcommand)]
pub enum PluginCommand {
    /// Start a plugin: a project that builds, with a test and a README.
    #[command(after_help = "Examples:
  windlass plugin new source-shelf --kind source
  windlass plugin new health-widget --kind health --lang python

The name is the plugin's and its file's (NAME.wasm). Nothing that exists is overwritten.")]
    New(NewArgs),
    /// List plugins: served or not, what they provide, why not.
    List {
        #[command(flatten)]
        plugins: Plugins,
        #[arg(short, long, value_enum, default_value_t)]
        output: Output,
    },
    /// Load one file exactly as `local` and the operator do, and say what is wrong with it.
    #[command(after_help = "Examples:
  windlass plugin check target/wasm32-wasip2/release/source_oci.wasm
  windlass plugin check source-oci.wasm --policy policy.yaml")]
    Check {
        /// The component.
        file: PathBuf,
        #[arg(long, value_name = "FILE")]
        /// What the plugin may do. Without it: nothing beyond log and config, unless the file is a built-in.
        policy: Option<PathBuf>,
        #[arg(short, long, value_enum, default_value_t)]
        output: Output,
    },
    /// Print the policy under which a file would be served: its digest and all that it asks for.
    #[command(after_help = "Examples:
  windlass plugin policy source-oci.wasm > policy.yaml     read it before you use it")]
    Policy {
        /// The component.
        file: PathBuf,
        /// The name that it will be installed by [default: the file's, with - for _].
        #[arg(long)]
        name: Option<String>,
        /// The author's public key (`plugin keygen`), to be trusted instead of the digest.
        #[arg(long, value_name = "FILE")]
        signed_by: Option<PathBuf>,
        #[arg(short, long, value_enum, default_value_t)]
        output: Output,
    },
    /// Check a file and put it into a plugin directory, from which a running Windlass takes it up.
    #[command(after_help = "Examples:
  windlass plugin install target/wasm32-wasip2/release/source_shelf.wasm --plugin-dir plugins")]
    Install {
        /// The component.
        file: PathBuf,
        /// Where to; made if there is none.
        #[arg(long, value_name = "DIR")]
        plugin_dir: PathBuf,
        /// The plugin's name [default: the file's, with - for _].
        #[arg(long)]
        name: Option<String>,
        #[arg(short, long, value_enum, default_value_t)]
        output: Output,
    },
    /// Call one function of a plugin with the host code and limits of production.
    #[command(
        after_help = "INPUT is a manifest for validate, watches, resolve, open and assess (its first Stack, or \
the one that --stack names; for assess any object); Secrets and other objects in the same file answer the plugin's \
questions. For classify it is the JSON of a run's outcome, for replay a transcript.

Examples:
  windlass plugin run source-git.wasm resolve stack.yaml
  windlass plugin run source-git.wasm resolve stack.yaml --save resolve.json
  windlass plugin run source-git.wasm replay resolve.json
  windlass plugin run health-argocd.wasm assess stack.yaml
  windlass plugin run source-oci.wasm resolve stack.yaml --answers answers.yaml"
    )]
    Run(RunArgs),
    /// Measure a plugin: loading, a call, memory.
    #[command(
        after_help = "The call is made once for real and recorded; then its last round is computed again and again, with \
the recorded answers. Without FUNCTION and INPUT the call is `describe`.

Examples:
  windlass plugin bench health-argocd.wasm assess stack.yaml
  windlass plugin bench source-shelf.wasm --output json"
    )]
    Bench(BenchArgs),
    /// Make a key to sign plugins with: FILE, readable by you alone, and FILE.pub for those who trust you.
    Keygen {
        /// Must not exist.
        file: PathBuf,
    },
    /// Sign a plugin: writes FILE.sig, to be kept beside the file wherever it goes.
    #[command(
        after_help = "What is signed is the plugin's name and the file's digest. Whoever has `publicKey` in his policy instead of a \
digest takes every file of that name that the key signed, newer and older: what a plugin may do stands in the policy all the same."
    )]
    Sign {
        /// The component.
        file: PathBuf,
        /// The key that `keygen` made.
        #[arg(long, value_name = "FILE")]
        key: PathBuf,
        /// The name that it will be installed by [default: the file's, with - for _].
        #[arg(long)]
        name: Option<String>,
    },
    /// Say whether FILE.sig is a signature of this file by this key.
    Verify {
        /// The component.
        file: PathBuf,
        /// The public key.
        #[arg(long, value_name = "FILE")]
        key: PathBuf,
        /// The name that it will be installed by [default: the file's, with - for _].
        #[arg(long)]
        name: Option<String>,
    },
}

/// What a plugin decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Kind {
    /// Where a program comes from.
    Source,
    /// What "healthy" means for a kind of object.
    Health,
    /// How stacks are called in a state backend, and why runs failed.
    Backend,
}

/// The language that a plugin is written in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Language {
    #[default]
    Rust,
    /// JavaScript, by jco and QuickJS.
    Js,
    /// By componentize-py.
    Python,
}

#[derive(Debug, Args)]
pub struct NewArgs {
    /// Lower case words with hyphens, as `source-shelf`.
    pub name: String,
    /// What it decides.
    #[arg(long, value_enum)]
    pub kind: Kind,
    /// In which language.
    #[arg(long, value_enum, default_value_t)]
    pub lang: Language,
    /// The folder of windlass-sdk, for Rust [default: that of the clone of Windlass that this directory or this program is in].
    #[arg(long, value_name = "DIR")]
    pub sdk_path: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub struct RunArgs {
    /// The component.
    pub file: PathBuf,
    /// What is asked of it.
    #[arg(value_enum)]
    pub function: Function,
    /// The manifest or JSON file to ask about; `-` reads stdin.
    pub input: PathBuf,
    #[command(flatten)]
    pub call: CallArgs,
    /// Keep the transcript (questions, answers, result; secrets by name) in this file.
    #[arg(long, value_name = "FILE")]
    pub save: Option<PathBuf>,
    #[arg(short, long, value_enum, default_value_t)]
    pub output: Output,
}

/// How a call is made.
#[derive(Debug, Args)]
pub struct CallArgs {
    /// The Stack in INPUT: NAME or NAMESPACE/NAME.
    #[arg(long)]
    pub stack: Option<Key>,
    /// Source type or backend scheme, where the plugin provides several.
    #[arg(long, value_name = "NAME")]
    pub provides: Option<String>,
    /// What the plugin may do.
    #[arg(long, value_name = "FILE")]
    pub policy: Option<PathBuf>,
    /// Answers to the plugin's questions (objects, secrets, http, git, config): nothing real is reached, and without --policy the
    /// plugin has all that it asks for.
    #[arg(long, value_name = "FILE")]
    pub answers: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub struct BenchArgs {
    /// The component.
    pub file: PathBuf,
    /// What is asked of it.
    #[arg(value_enum, requires = "input")]
    pub function: Option<Function>,
    /// As for `plugin run`.
    pub input: Option<PathBuf>,
    #[command(flatten)]
    pub call: CallArgs,
    /// How many times the call is computed.
    #[arg(long, default_value_t = 200, value_parser = crate::args::at_least_one)]
    pub times: usize,
    #[arg(short, long, value_enum, default_value_t)]
    pub output: Output,
}

/// A function of the contract.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Function {
    /// source: what is wrong with a Stack.
    Validate,
    /// source: objects whose change resolves again.
    Watches,
    /// source: the revision and where the program is.
    Resolve,
    /// backend: the canonical stack name and its environment.
    Open,
    /// backend: why a run failed.
    Classify,
    /// health: the verdict on an object.
    Assess,
    /// Run a transcript again.
    Replay,
}
