//! Where things are: the workspace, its target directory, and what we put there.

use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::error::{AtPath, Error, Result};
use crate::process::{capture, cargo};

/// The folders that the commands share.
#[derive(Debug, Clone)]
pub struct Place {
    /// The workspace's root.
    pub root: PathBuf,
    /// Cargo's target directory, wherever CARGO_TARGET_DIR or a configuration file puts it.
    pub target: PathBuf,
}

impl Place {
    /// Asks cargo.
    ///
    /// # Errors
    /// When cargo cannot read the workspace.
    pub fn find() -> Result<Self> {
        let mut command = cargo();
        command.args(["metadata", "--no-deps", "--format-version", "1"]);
        // `cargo xtask` starts us in the folder it was typed in, which may be outside.
        command.current_dir(env!("CARGO_MANIFEST_DIR"));
        let text = capture(&mut command)?;
        let unexpected = |what: &str| Error::UnexpectedOutput {
            command: "cargo metadata".to_owned(),
            what: what.to_owned(),
        };
        let metadata: Value =
            serde_json::from_str(&text).map_err(|error| unexpected(&error.to_string()))?;
        let folder = |key: &str| {
            metadata[key]
                .as_str()
                .map(PathBuf::from)
                .ok_or_else(|| unexpected(&format!("no {key}")))
        };
        Ok(Self {
            root: folder("workspace_root")?,
            target: folder("target_directory")?,
        })
    }

    /// `pulumi`, its YAML language host, and the programs of a Kubernetes control plane.
    pub fn tools(&self) -> PathBuf {
        self.target.join("tools")
    }

    /// The built-in components, one `NAME.wasm` each, and `digests.json`.
    pub fn plugins(&self) -> PathBuf {
        self.target.join("plugins")
    }

    /// The binaries of the dev profile.
    pub fn binaries(&self) -> PathBuf {
        self.target.join("debug")
    }

    /// The output of every test binary of the last `cargo xtask test`.
    pub fn test_logs(&self) -> PathBuf {
        self.target.join("test-logs")
    }

    /// The Go module that pins the Pulumi CLI.
    pub fn pulumi_module(&self) -> PathBuf {
        self.root.join("tests/tools/pulumi")
    }

    /// The Go module that pins etcd and Kubernetes.
    pub fn k8s_module(&self) -> PathBuf {
        self.root.join("tests/tools/k8s")
    }

    /// The Go module that pins Flux's source-controller.
    pub fn flux_module(&self) -> PathBuf {
        self.root.join("tests/tools/flux")
    }

    /// The Go module of the program that runs Lua as Argo CD does.
    pub fn lua_module(&self) -> PathBuf {
        self.root.join("tests/tools/lua-oracle")
    }

    /// The Go module of the program that evaluates rules as Prometheus does.
    pub fn promql_module(&self) -> PathBuf {
        self.root.join("tests/tools/promql-oracle")
    }

    /// The Go module that pins Helm.
    pub fn helm_module(&self) -> PathBuf {
        self.root.join("tests/tools/helm")
    }

    /// The Go module that pins Argo CD.
    pub fn argocd_module(&self) -> PathBuf {
        self.root.join("tests/tools/argocd")
    }

    /// `path` as a person in the workspace's root would type it.
    pub fn shown<'a>(&self, path: &'a Path) -> std::path::Display<'a> {
        path.strip_prefix(&self.root).unwrap_or(path).display()
    }
}

/// Writes `content` beside `path` and moves it into place: a reader sees the old file or the new.
///
/// # Errors
/// `Error::File` when the folder cannot be written.
pub fn write_atomically(path: &Path, content: &[u8]) -> Result<()> {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}.new", std::process::id()));
    let new = path.with_file_name(name);
    std::fs::write(&new, content).at(&new)?;
    std::fs::rename(&new, path).at(path)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn this_workspace_is_found_from_anywhere() {
        let place = Place::find().unwrap();
        assert!(place.root.join("host/xtask/src/place.rs").is_file());
        assert_eq!(
            place.shown(&place.root.join("wit")).to_string(),
            "wit".to_owned()
        );
    }

    #[test]
    fn an_atomic_write_leaves_nothing_beside_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("digests.json");
        write_atomically(&path, b"old").unwrap();
        write_atomically(&path, b"new").unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"new");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    }
}
