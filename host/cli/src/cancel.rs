//! `windlass cancel STACK`.

use std::path::Path;
use std::process::ExitCode;

use windlass_engine::Key;
use windlass_local::StateReader;

use crate::error::{Error, Result};
use crate::{print, status};

/// Asks for the end of the run that goes on.
///
/// # Errors
/// `NoStack`, `NothingRuns`, and of the store.
pub fn cancel(data_dir: &Path, key: &Key) -> Result<ExitCode> {
    let reader = StateReader::open(data_dir)?;
    status::must_exist(&reader, key)?;
    let update = reader
        .request_cancel(key)?
        .ok_or_else(|| Error::NothingRuns(key.to_string()))?;
    print::out(&format!(
        "asked {update} to stop; Pulumi finishes the resource under work first (`windlass logs -f {key}` shows it). \
         If no `windlass local` runs now, the next one carries it out"
    ))?;
    Ok(ExitCode::SUCCESS)
}
