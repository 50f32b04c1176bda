//! `windlass plugin ...`.

mod check;
mod list;
mod run;

use std::process::ExitCode;

use crate::args::PluginCommand;
use crate::error::Result;

/// Carries the command out.
///
/// # Errors
/// See each command.
pub async fn plugin(command: PluginCommand) -> Result<ExitCode> {
    match command {
        PluginCommand::List { plugins, output } => list::list(&plugins, output).await,
        PluginCommand::Check {
            file,
            policy,
            output,
        } => check::check(&file, policy.as_deref(), output).await,
        PluginCommand::Run(args) => run::run(args).await,
    }
}
