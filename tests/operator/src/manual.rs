//! A manual whose commands are run as they are written, on a cluster of the tests.

use std::process::{Output, Stdio};

use serde_json::Value;
use tokio::process::Command;
use windlass_cluster::{ControlPlane, tools_folder};
use windlass_e2e::manual::{self, commands};
use windlass_e2e::world::workspace_root;

use crate::backend;

/// The commands of a manual that have not been taken yet.
pub struct Manual {
    name: &'static str,
    left: Vec<manual::Command>,
}

impl Manual {
    /// Reads one, named by its path in the repository.
    pub fn read(name: &'static str) -> Manual {
        let text = std::fs::read_to_string(workspace_root().join(name))
            .unwrap_or_else(|error| panic!("{name}: {error}"));
        Manual {
            name,
            left: commands(&text),
        }
    }

    /// Takes the commands below a heading.
    ///
    /// # Panics
    /// When they are not as many as the test knows.
    pub fn below<const N: usize>(&mut self, heading: &str) -> [String; N] {
        let taken: Vec<String> = self
            .left
            .extract_if(.., |command| command.heading == heading)
            .map(|command| command.line)
            .collect();
        <[String; N]>::try_from(taken).unwrap_or_else(|taken| {
            panic!(
                "{}, {heading}: {N} commands are known, there are {taken:#?}",
                self.name
            )
        })
    }

    /// # Panics
    /// When there is a command that no test has taken.
    pub fn is_used_up(&self) {
        assert!(self.left.is_empty(), "{}: {:#?}", self.name, self.left);
    }
}

/// Makes a process find this cluster, and keep what it keeps beside it.
pub(crate) fn at_home(plane: &ControlPlane, command: &mut Command) {
    let home = plane.folder().join("helm");
    command
        .env("KUBECONFIG", plane.kubeconfig())
        .env("KUBECACHEDIR", plane.folder().join("kubectl-cache"))
        .env("HOME", &home)
        .env("HELM_CACHE_HOME", home.join("cache"))
        .env("HELM_CONFIG_HOME", home.join("config"))
        .env("HELM_DATA_HOME", home.join("data"))
        .kill_on_drop(true);
}

/// Runs a line in a shell at the root of the repository, as a reader does who has `windlass`, `helm` and a `kubectl` that
/// is set to this cluster and namespace.
pub async fn typed(plane: &ControlPlane, namespace: &str, line: &str) -> Output {
    let kubeconfig = plane.folder().join("reader.kubeconfig");
    let text = std::fs::read_to_string(plane.kubeconfig()).expect("a kubeconfig");
    let mut config: Value = serde_json::from_str(&text).expect("JSON");
    config["contexts"][0]["context"]["namespace"] = namespace.into();
    std::fs::write(&kubeconfig, config.to_string()).expect("a kubeconfig");

    let root = workspace_root().canonicalize().expect("a repository");
    let binaries = backend::binaries().canonicalize().expect("binaries");
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = [tools_folder(), binaries];
    let folders = folders.into_iter().chain(std::env::split_paths(&path));
    let mut shell = Command::new("bash");
    at_home(plane, &mut shell);
    shell
        .args(["-euo", "pipefail", "-c", line])
        .current_dir(root)
        .env("PATH", std::env::join_paths(folders).expect("a PATH"))
        .env("KUBECONFIG", kubeconfig)
        .stdin(Stdio::null());
    shell.output().await.expect("bash")
}
