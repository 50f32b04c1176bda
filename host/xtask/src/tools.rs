//! `cargo xtask tools`: the programs that tests and the quickstart need, in `<target>/tools`.
//!
//! Kubernetes' are always the pinned ones. The `pulumi` on PATH is linked there when it is new enough and can run YAML programs; else the
//! pinned one is built from the Go module in `tests/tools/pulumi`.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;

use clap::ValueEnum;

use crate::error::{AtPath, Error, Result};
use crate::go_tool::{self, GoTool, Part, required_version};
use crate::node_packages;
use crate::place::Place;
use crate::process::{capture, find_on_path, spelled};
use crate::version::Version;
use crate::{argocd_tools, flux_tools, helm_tools, k8s_tools, oracle_tools};

/// The oldest CLI that we accept from PATH. The agent takes older ones, but tests compare with what
/// the pinned one prints; this leaves a little room below it. No version in between has been tried.
const MINIMUM: Version = Version::new(3, 250, 0);

const TOOLS: [GoTool; 2] = [
    GoTool {
        name: "pulumi",
        package: "github.com/pulumi/pulumi/pkg/v3/cmd/pulumi",
        module: "github.com/pulumi/pulumi/pkg/v3",
        variables: &[(
            "github.com/pulumi/pulumi/sdk/v3/go/common/version.Version",
            Part::Whole,
        )],
        tags: "osusergo,grpcnotrace",
    },
    GoTool {
        name: "pulumi-language-yaml",
        package: "github.com/pulumi/pulumi-yaml/cmd/pulumi-language-yaml",
        module: "github.com/pulumi/pulumi-yaml",
        variables: &[(
            "github.com/pulumi/pulumi-yaml/pkg/version.Version",
            Part::Whole,
        )],
        tags: "",
    },
];

/// Tools that belong together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Group {
    /// The Pulumi CLI and its YAML language host.
    Pulumi,
    /// etcd, kube-apiserver and kube-controller-manager; kubectl if PATH has none.
    K8s,
    /// Flux's source-controller.
    Flux,
    /// Argo CD's interpreter of health scripts.
    Lua,
    /// Prometheus' queries and rules.
    Promql,
    /// Helm.
    Helm,
    /// Argo CD; if it is named, Redis too.
    Argocd,
    /// kubelet and kube-scheduler, and the packages of a container runtime.
    Node,
}

impl Group {
    /// All of them, in the order in which they are made.
    pub const ALL: [Self; 8] = [
        Self::Lua,
        Self::Promql,
        Self::Pulumi,
        Self::K8s,
        Self::Flux,
        Self::Argocd,
        Self::Helm,
        Self::Node,
    ];

    /// What the rings need that can run here.
    pub fn usual() -> Vec<Self> {
        let mut groups = vec![
            Self::Pulumi,
            Self::K8s,
            Self::Flux,
            Self::Argocd,
            Self::Helm,
            Self::Lua,
            Self::Promql,
        ];
        if node_packages::obstacle().is_none() {
            groups.push(Self::Node);
        }
        groups
    }
}

/// What a `pulumi` on PATH is good for.
#[derive(Debug)]
pub enum OnPath {
    Usable {
        pulumi: PathBuf,
        yaml: PathBuf,
        version: Version,
    },
    /// The reason, as the rest of a sentence that starts with its path.
    Unusable(String),
    Absent,
}

/// Makes the tools of these groups, or finds them made. With `pinned`, a `pulumi` on PATH is not
/// considered.
///
/// # Errors
/// `MissingProgram` when they must be built and Go is missing; `CommandFailed` when Go fails.
pub fn make(place: &Place, groups: &[Group], pinned: bool) -> Result<()> {
    let folder = place.tools();
    std::fs::create_dir_all(&folder).at(&folder)?;
    // Two commands at once make the tools once. The lock goes with the process.
    let lock_path = folder.join(".lock");
    let lock = File::create(&lock_path).at(&lock_path)?;
    if lock.try_lock().is_err() {
        println!("tools: waiting for another command that is making them");
        lock.lock().at(&lock_path)?;
    }
    for group in groups {
        match group {
            Group::Pulumi => pulumi(place, &folder, pinned)?,
            Group::K8s => k8s_tools::control_plane(place, &folder)?,
            Group::Flux => flux_tools::make(place, &folder)?,
            Group::Lua => oracle_tools::lua(place, &folder)?,
            Group::Promql => oracle_tools::promql(place, &folder)?,
            Group::Helm => helm_tools::make(place, &folder)?,
            Group::Argocd => argocd_tools::make(place, &folder)?,
            Group::Node => k8s_tools::node(place, &folder)?,
        }
    }
    Ok(())
}

fn pulumi(place: &Place, folder: &Path, pinned: bool) -> Result<()> {
    if !pinned {
        match on_path(folder) {
            OnPath::Usable {
                pulumi,
                yaml,
                version,
            } => return link(folder, &pulumi, &yaml, version),
            OnPath::Unusable(why) => println!("tools: {why}; the pinned one is used"),
            OnPath::Absent => {}
        }
    }
    let module = place.pulumi_module();
    go_tool::build(
        &module,
        &TOOLS,
        folder,
        "the pinned pulumi is built with it",
        "install Go 1.26 or newer, or put a pulumi with pulumi-language-yaml on PATH",
    )?;
    let go_mod_path = module.join("go.mod");
    let go_mod = std::fs::read_to_string(&go_mod_path).at(&go_mod_path)?;
    check(folder, &go_mod)
}

/// Looks at the `pulumi` on PATH, `<target>/tools` left out.
pub fn on_path(tools: &Path) -> OnPath {
    let Some(pulumi) = find_on_path("pulumi", Some(tools)) else {
        return OnPath::Absent;
    };
    let mut command = Command::new(&pulumi);
    command
        .arg("version")
        .env("PULUMI_SKIP_UPDATE_CHECK", "true");
    let shown = pulumi.display();
    let Ok(printed) = capture(&mut command) else {
        return OnPath::Unusable(format!("{shown} does not answer `pulumi version`"));
    };
    let Some(version) = Version::parse(&printed) else {
        return OnPath::Unusable(format!("{shown} does not tell its version"));
    };
    if version < MINIMUM {
        return OnPath::Unusable(format!("{shown} is {version}, older than {MINIMUM}"));
    }
    let beside = pulumi.with_file_name("pulumi-language-yaml");
    let yaml = if beside.is_file() {
        Some(beside)
    } else {
        find_on_path("pulumi-language-yaml", Some(tools))
    };
    match yaml {
        Some(yaml) => OnPath::Usable {
            pulumi,
            yaml,
            version,
        },
        None => OnPath::Unusable(format!("{shown} comes without pulumi-language-yaml")),
    }
}

#[cfg(unix)]
fn link(folder: &Path, pulumi: &Path, yaml: &Path, version: Version) -> Result<()> {
    for (name, target) in [("pulumi", pulumi), ("pulumi-language-yaml", yaml)] {
        let link = folder.join(name);
        if std::fs::read_link(&link).is_ok_and(|old| old == target) {
            continue;
        }
        let new = folder.join(format!(".{name}.new"));
        match std::fs::remove_file(&new) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(error).at(&new);
            }
            _ => {}
        }
        std::os::unix::fs::symlink(target, &new).at(&new)?;
        std::fs::rename(&new, &link).at(&link)?;
    }
    println!("tools: pulumi {version} from {}", pulumi.display());
    Ok(())
}

#[cfg(not(unix))]
fn link(_folder: &Path, _pulumi: &Path, _yaml: &Path, _version: Version) -> Result<()> {
    Err(Error::Failed(
        "the tools can only be made on Linux and macOS".to_owned(),
    ))
}

/// A wrong link-time variable leaves a CLI without a version, which everything downstream refuses.
fn check(folder: &Path, go_mod: &str) -> Result<()> {
    let mut command = Command::new(folder.join("pulumi"));
    command
        .arg("version")
        .env("PULUMI_SKIP_UPDATE_CHECK", "true");
    let printed = capture(&mut command)?;
    let wanted = required_version(go_mod, TOOLS[0].module).unwrap_or_default();
    if printed == wanted {
        return Ok(());
    }
    Err(Error::UnexpectedOutput {
        command: spelled(&command),
        what: format!("{printed:?} instead of {wanted}"),
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn our_go_module_pins_every_tool_at_a_version_we_would_accept() {
        let place = Place::find().unwrap();
        let go_mod = std::fs::read_to_string(place.pulumi_module().join("go.mod")).unwrap();
        for tool in &TOOLS {
            assert!(go_mod.contains(tool.package), "{} is no tool", tool.package);
            let pinned = required_version(&go_mod, tool.module).unwrap();
            assert!(Version::parse(pinned).is_some(), "{pinned}");
        }
        let pinned = required_version(&go_mod, TOOLS[0].module).unwrap();
        assert!(Version::parse(pinned) >= Some(MINIMUM));
    }
}
