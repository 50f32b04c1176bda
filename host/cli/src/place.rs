//! Where things are that nobody named: the data directory, the plugins, the agent.

use std::path::{Path, PathBuf};

use crate::args::{DataDir, Plugins};
use crate::error::{Error, Result};

/// Name of the data directory.
const DATA_DIR: &str = ".windlass";
const AGENT: &str = "windlass-agent";
/// Digests of the built-in plugins, beside them.
const DIGESTS: &str = "digests.json";

impl DataDir {
    /// For `local`: below the first manifest directory. The flag says whether that is a default.
    pub fn beside(&self, manifests: &Path) -> (PathBuf, bool) {
        match &self.data_dir {
            Some(named) => (named.clone(), false),
            None => {
                let folder = if manifests.is_file() {
                    manifests
                        .parent()
                        .filter(|parent| !parent.as_os_str().is_empty())
                        .unwrap_or(Path::new("."))
                } else {
                    manifests
                };
                (folder.join(DATA_DIR), true)
            }
        }
    }

    /// For commands that look at what `local` keeps: in this directory or one above.
    ///
    /// # Errors
    /// `NoDataDir`.
    pub fn find(&self) -> Result<PathBuf> {
        if let Some(named) = &self.data_dir {
            return Ok(named.clone());
        }
        let here = std::env::current_dir().map_err(Error::Output)?;
        here.ancestors()
            .map(|folder| folder.join(DATA_DIR))
            .find(|folder| folder.is_dir())
            .ok_or(Error::NoDataDir)
    }
}

impl Plugins {
    /// The directories in force.
    ///
    /// # Errors
    /// `NoPluginDir` if nothing is named and nothing lies in the usual place; a named one that is missing.
    pub fn dirs(&self) -> Result<Vec<PathBuf>> {
        if !self.plugin_dirs.is_empty() {
            for dir in &self.plugin_dirs {
                if !dir.is_dir() {
                    return Err(Error::BadFile {
                        path: dir.clone(),
                        message: "there is no such plugin directory".to_owned(),
                    });
                }
            }
            return Ok(self.plugin_dirs.clone());
        }
        if let Some(named) = std::env::var_os("WINDLASS_PLUGIN_DIR").filter(|it| !it.is_empty()) {
            return Ok(std::env::split_paths(&named).collect());
        }
        let usual = folder_of_self()?.parent().map(|up| up.join("plugins"));
        usual
            .filter(|dir| dir.is_dir())
            .map(|dir| vec![dir])
            .ok_or(Error::NoPluginDir)
    }
}

/// The list of built-in digests: that of the first directory that has one.
pub fn digests(dirs: &[PathBuf]) -> Option<PathBuf> {
    dirs.iter()
        .map(|dir| dir.join(DIGESTS))
        .find(|file| file.is_file())
}

/// The agent's program.
///
/// # Errors
/// `NoAgent`.
pub fn agent() -> Result<PathBuf> {
    let file = match std::env::var_os("WINDLASS_AGENT").filter(|it| !it.is_empty()) {
        Some(named) => PathBuf::from(named),
        None => folder_of_self()?.join(AGENT),
    };
    if file.is_file() {
        return Ok(file);
    }
    Err(Error::NoAgent {
        looked: file.display().to_string(),
    })
}

/// This program and the hidden command that makes it a fetch worker.
///
/// # Errors
/// `NoSelf`.
pub fn fetch_worker() -> Result<(PathBuf, Vec<String>)> {
    let program = std::env::current_exe().map_err(Error::NoSelf)?;
    Ok((program, vec!["fetch-worker".to_owned()]))
}

fn folder_of_self() -> Result<PathBuf> {
    let program = std::env::current_exe().map_err(Error::NoSelf)?;
    Ok(program.parent().unwrap_or(Path::new("/")).to_owned())
}
