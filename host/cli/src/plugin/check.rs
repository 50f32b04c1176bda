//! `windlass plugin check FILE`.

use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use crate::args::Output;
use crate::error::{BAD_INPUT, Result};
use crate::plugin::list::{refusal, status_json};
use crate::plugins::Setting;
use crate::world::{Answers, World};
use crate::{plugins, print};

/// Loads the file and says what it is, or why it would be refused.
///
/// # Errors
/// Of the file system, the policy and the machine.
pub async fn check(file: &Path, policy: Option<&Path>, output: Output) -> Result<ExitCode> {
    let outside = Arc::new(Answers::new(World::default())?);
    let setting = Setting {
        policy,
        ..Setting::default()
    };
    let (_loaded, status) = plugins::load_file(file, &setting, outside).await?;
    let good = status.error.is_none();
    match output {
        Output::Json => print::json(&status_json(&status))?,
        Output::Table => match &status.error {
            Some(error) => print::out(&format!("{}: refused: {}", file.display(), refusal(error)))?,
            None => {
                let what = if status.builtin {
                    "built in"
                } else {
                    "not built in"
                };
                print::out(&format!(
                    "{file}: good\n  name      {name} {version} ({what}), installed as {name}.wasm\n  \
                     summary   {summary}\n  provides  {provides}\n  digest    {digest}",
                    file = file.display(),
                    name = status.name,
                    version = status.version,
                    summary = print::printable(&status.summary),
                    provides = status.claims.join(", "),
                    digest = status.digest,
                ))?;
            }
        },
    }
    Ok(ExitCode::from(if good { 0 } else { BAD_INPUT }))
}
