//! The `windlass` command.
//!
//! `args` is what can be typed, `main` finds the command's module, `error` says how it ends. Everything that decides or
//! deploys is in other crates: here are words, tables and wiring.

mod args;
mod cancel;
mod crds;
#[cfg(test)]
mod documented;
mod error;
mod explain;
mod health;
mod local;
mod logging;
mod logs;
mod place;
mod plugin;
mod plugin_args;
mod plugins;
mod print;
mod progress;
mod replay;
mod run;
mod run_args;
mod run_endpoints;
mod run_logging;
mod script;
mod status;
mod table;
mod world;

use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use indicatif::MultiProgress;
use serde_json::json;

use crate::args::{Cli, Command, Output};
use crate::error::Result;

/// How long work on other threads is waited for at the end.
const SHUTDOWN: Duration = Duration::from_secs(1);

fn main() -> ExitCode {
    let mut cli = Cli::parse();
    // A sandbox is waiting: nothing else may be started in this process.
    if let Command::FetchWorker = cli.command {
        return windlass_fetch::worker::main();
    }
    if let Command::Run(args) = &cli.command {
        args.zap.apply(&mut cli.logging);
    }
    let screen = MultiProgress::new();
    logging::start(&cli.logging, &screen);
    let runtime = match tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
    {
        Ok(runtime) => runtime,
        Err(error) => {
            eprintln!("error: this machine gives no threads: {error}");
            return ExitCode::from(error::FAILED);
        }
    };
    let ended = runtime.block_on(run(cli.command, screen));
    // A component that is being compiled cannot be interrupted, and nobody waits for it any more.
    runtime.shutdown_timeout(SHUTDOWN);
    match ended {
        Ok(code) => code,
        Err(error) => {
            complain(&error.to_string());
            error.exit_code()
        }
    }
}

async fn run(command: Command, screen: MultiProgress) -> Result<ExitCode> {
    match command {
        Command::Local(args) => local::local(args, screen).await,
        Command::Run(args) => run::run(*args).await,
        Command::Status {
            stack,
            data,
            output,
        } => status::status(&data.find()?, stack.as_ref(), output).await,
        Command::Logs {
            stack,
            follow,
            update,
            data,
        } => logs::logs(&data.find()?, &stack, update.as_deref(), follow).await,
        Command::Explain {
            stack,
            snapshot,
            data,
            output,
        } => explain::explain(&data.find()?, &stack, snapshot, output),
        Command::Replay {
            file,
            plugins,
            output,
        } => replay::replay(&file, &plugins, output).await,
        Command::Cancel { stack, data } => cancel::cancel(&data.find()?, &stack),
        Command::Plugin(command) => plugin::plugin(command).await,
        Command::Health {
            files,
            argocd_cm,
            plugins,
            output,
        } => health::health(&files, argocd_cm.as_deref(), &plugins, output).await,
        Command::Crds {
            apply: true,
            kubeconfig,
            ..
        } => crds::apply(kubeconfig.as_deref()).await,
        Command::Crds { dir, output, .. } => crds::crds(dir.as_deref(), output),
        Command::Version { output } => version(output),
        Command::FetchWorker => Ok(windlass_fetch::worker::main()),
    }
}

/// One sentence behind `error:`; several mistakes one below the other.
fn complain(message: &str) {
    let message = print::printable(message);
    if message.contains('\n') {
        eprintln!("error:\n  {}", message.replace('\n', "\n  "));
    } else {
        eprintln!("error: {message}");
    }
}

fn version(output: Output) -> Result<ExitCode> {
    let version = env!("CARGO_PKG_VERSION");
    match output {
        Output::Table => print::out(&format!("windlass {version} (plugin contract 0.1)"))?,
        Output::Json => print::json(&json!({ "version": version, "pluginContract": "0.1" }))?,
    }
    Ok(ExitCode::SUCCESS)
}
