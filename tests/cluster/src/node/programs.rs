//! What a node needs of this machine.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::error::{Error, Result};
use crate::tools;

/// Programs that distributions package, with Debian's package for each.
const PACKAGED: [(&str, &str); 6] = [
    ("containerd", "containerd"),
    ("containerd-shim-runc-v2", "containerd"),
    ("ctr", "containerd"),
    ("runc", "runc"),
    ("ip", "iproute2"),
    ("nsenter", "util-linux"),
];

/// Where packages put network plugins: Debian's, everybody else's.
const PLUGIN_FOLDERS: [&str; 2] = ["/usr/lib/cni", "/opt/cni/bin"];

/// The network plugins that the node's one network is made of.
const PLUGINS: [&str; 3] = ["bridge", "host-local", "loopback"];

/// Where things are.
#[derive(Debug, Clone)]
pub struct Programs {
    pub kubelet: PathBuf,
    pub scheduler: PathBuf,
    /// The folder of network plugins.
    pub plugins: PathBuf,
    /// PATH for what runs on the node: ours is not everywhere that of root.
    pub path: String,
}

impl Programs {
    /// Looks for everything.
    ///
    /// # Errors
    /// One sentence with what is missing and how to get it: `Unable`, or `MissingTool`.
    pub fn find() -> Result<Self> {
        if !nix::unistd::geteuid().is_root() {
            return Err(Error::Unable(
                "a real node needs root: it mounts, and makes network interfaces and cgroups"
                    .to_owned(),
            ));
        }
        let path = std::env::var("PATH").unwrap_or_default();
        let path = format!("{path}:/usr/local/sbin:/usr/sbin:/sbin:/usr/bin:/bin");
        let plugins = PLUGIN_FOLDERS
            .into_iter()
            .map(PathBuf::from)
            .find(|folder| {
                let mut all = PLUGINS.iter().map(|plugin| folder.join(plugin));
                all.all(|plugin| plugin.is_file())
            });
        let mut missing: Vec<&str> = PACKAGED
            .iter()
            .filter(|(program, _)| find(&path, program).is_none())
            .map(|(_, package)| *package)
            .collect();
        if plugins.is_none() {
            missing.push("containernetworking-plugins");
        }
        missing.dedup();
        let Some(plugins) = plugins.filter(|_| missing.is_empty()) else {
            return Err(Error::Unable(format!(
                "a real node needs the packages {}; as root on Debian `cargo xtask tools node` installs them",
                missing.join(", ")
            )));
        };
        let programs = Self {
            kubelet: tools::tool("kubelet")?,
            scheduler: tools::tool("kube-scheduler")?,
            plugins,
            path,
        };
        programs.may_unshare()?;
        Ok(programs)
    }

    /// Root in a container may be root in name only.
    fn may_unshare(&self) -> Result<()> {
        let tried = Command::new("unshare")
            .args(["--mount", "--pid", "--fork", "true"])
            .env("PATH", &self.path)
            .output();
        let why = match tried {
            Ok(output) if output.status.success() => return Ok(()),
            Ok(output) => String::from_utf8_lossy(&output.stderr).trim().to_owned(),
            Err(error) => error.to_string(),
        };
        Err(Error::Unable(format!(
            "a real node needs namespaces, which this machine refuses: {why}"
        )))
    }
}

/// Where `path` finds a program.
pub fn find(path: &str, program: &str) -> Option<PathBuf> {
    std::env::split_paths(path)
        .filter(|folder| folder != Path::new(""))
        .map(|folder| folder.join(program))
        .find(|file| file.is_file())
}
