//! Where the things are that are measured, and how thoroughly.

use std::path::{Path, PathBuf};

use tokio::runtime::Runtime;

/// Why there is no figure.
#[derive(Debug)]
pub enum Trouble {
    /// Something it needs is not at hand.
    Skipped(String),
    /// What was to be measured did not do its work.
    Failed(String),
}

// Possible because `Trouble` is no error itself.
impl<E: std::error::Error> From<E> for Trouble {
    fn from(error: E) -> Self {
        let mut text = error.to_string();
        let mut inner = error.source();
        while let Some(cause) = inner {
            text = format!("{text}: {cause}");
            inner = cause.source();
        }
        Trouble::Failed(text)
    }
}

/// For what ended, but not as it should have.
pub fn failed<T>(what: impl Into<String>) -> Result<T, Trouble> {
    Err(Trouble::Failed(what.into()))
}

/// What every benchmark is given.
pub struct Setup {
    /// Few samples: to see that it works.
    pub quick: bool,
    /// Also what takes many minutes by itself.
    pub full: bool,
    pub runtime: Runtime,
}

impl Setup {
    /// # Errors
    /// The machine gives no threads.
    pub fn new(quick: bool, full: bool) -> std::io::Result<Self> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .enable_all()
            .build()?;
        Ok(Setup {
            quick,
            full,
            runtime,
        })
    }

    /// One number for measuring, another for trying out.
    pub fn count(&self, thorough: usize, quick: usize) -> usize {
        if self.quick { quick } else { thorough }
    }

    /// The folder of the CLI and its YAML language host.
    ///
    /// # Errors
    /// `Skipped` where they are missing.
    pub fn tools(&self) -> Result<PathBuf, Trouble> {
        let dir = place("WINDLASS_TOOLS_DIR", "tools");
        require(
            &dir,
            &["pulumi", "pulumi-language-yaml"],
            "cargo xtask tools",
        )
    }

    /// The folder of the built-in components with their digests.
    ///
    /// # Errors
    /// `Skipped` where they are missing.
    pub fn plugins(&self) -> Result<PathBuf, Trouble> {
        let dir = place("WINDLASS_PLUGIN_DIR", "plugins");
        let files = ["source-git.wasm", "health-argocd.wasm", "digests.json"];
        require(&dir, &files, "cargo xtask plugins")
    }

    /// The folder of `windlass` and `windlass-agent`.
    ///
    /// # Errors
    /// `Skipped` where one of these is missing.
    pub fn binaries(&self, wanted: &[&str]) -> Result<PathBuf, Trouble> {
        let dir = place("WINDLASS_BIN_DIR", "release");
        require(&dir, wanted, "cargo xtask bench")
    }
}

fn place(variable: &str, folder: &str) -> PathBuf {
    let default = || {
        Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("../../target")
            .join(folder)
    };
    std::env::var_os(variable).map_or_else(default, PathBuf::from)
}

fn require(dir: &Path, files: &[&str], how: &str) -> Result<PathBuf, Trouble> {
    match files.iter().find(|file| !dir.join(file).is_file()) {
        None => Ok(std::fs::canonicalize(dir)?),
        Some(missing) => Err(Trouble::Skipped(format!(
            "there is no {missing} in {}; `{how}` makes it",
            dir.display()
        ))),
    }
}
