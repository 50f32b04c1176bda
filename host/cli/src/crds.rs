//! `windlass crds`: the CustomResourceDefinitions of this version.

use std::path::Path;
use std::process::ExitCode;

use windlass_api::crd;

use crate::args::Document;
use crate::error::{AtPath, Error, Result};
use crate::print;

/// Prints the definitions, or writes one file each into `directory`.
///
/// # Errors
/// `File` when the directory or a file cannot be written, `Output` when stdout cannot.
pub fn crds(directory: Option<&Path>, output: Document) -> Result<ExitCode> {
    match directory {
        Some(directory) => {
            std::fs::create_dir_all(directory).at(directory)?;
            for file in crd::files(output.into()) {
                let path = directory.join(&file.name);
                std::fs::write(&path, &file.text).at(&path)?;
                print::line(&path.display().to_string())?;
            }
        }
        None => print::out(&crd::text(output.into()))?,
    }
    Ok(ExitCode::SUCCESS)
}

/// Applies the definitions to a cluster and names those that are served.
///
/// # Errors
/// `Cluster` when there is none, or when it does not take or serve a definition.
pub async fn apply(kubeconfig: Option<&Path>) -> Result<ExitCode> {
    let names = windlass_kube::define(kubeconfig)
        .await
        .map_err(|error| Error::Cluster(error.to_string()))?;
    for name in names {
        print::line(&format!("{name} is applied and served"))?;
    }
    Ok(ExitCode::SUCCESS)
}
