//! `windlass plugin ...`.

mod bench;
mod check;
mod install;
mod keys;
mod list;
mod new;
mod policy;
mod run;
mod templates;

use std::process::ExitCode;

use crate::error::Result;
use crate::plugin_args::PluginCommand;

/// Carries the command out.
///
/// # Errors
/// See each command.
pub async fn plugin(command: PluginCommand) -> Result<ExitCode> {
    match command {
        PluginCommand::New(args) => new::new(&args),
        PluginCommand::List { plugins, output } => list::list(&plugins, output).await,
        PluginCommand::Check {
            file,
            policy,
            output,
        } => check::check(&file, policy.as_deref(), output).await,
        PluginCommand::Policy {
            file,
            name,
            signed_by,
            output,
        } => policy::policy(&file, name.as_deref(), signed_by.as_deref(), output).await,
        PluginCommand::Install {
            file,
            plugin_dir,
            name,
            output,
        } => install::install(&file, &plugin_dir, name.as_deref(), output).await,
        PluginCommand::Run(args) => run::run(args).await,
        PluginCommand::Bench(args) => bench::bench(args).await,
        PluginCommand::Keygen { file } => keys::keygen(&file),
        PluginCommand::Sign { file, key, name } => keys::sign(&file, &key, name.as_deref()),
        PluginCommand::Verify { file, key, name } => keys::verify(&file, &key, name.as_deref()),
    }
}
