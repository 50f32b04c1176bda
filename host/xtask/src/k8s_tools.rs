//! The programs of a Kubernetes control plane and node, pinned in the Go module `tests/tools/k8s`.

use std::path::Path;

use crate::error::Result;
use crate::go_tool::{self, GoTool, Part};
use crate::place::Place;
use crate::process::find_on_path;

const KUBERNETES: &str = "k8s.io/kubernetes";

const VERSION: &[(&str, Part)] = &[
    ("k8s.io/component-base/version.gitVersion", Part::Whole),
    ("k8s.io/component-base/version.gitMajor", Part::Major),
    ("k8s.io/component-base/version.gitMinor", Part::Minor),
];

const fn kubernetes(name: &'static str, package: &'static str) -> GoTool {
    GoTool {
        name,
        package,
        module: KUBERNETES,
        variables: VERSION,
        tags: "",
    }
}

/// What a control plane without nodes is made of.
const CONTROL_PLANE: [GoTool; 3] = [
    GoTool {
        name: "etcd",
        package: "go.etcd.io/etcd/server/v3",
        module: "go.etcd.io/etcd/server/v3",
        variables: &[],
        tags: "",
    },
    kubernetes("kube-apiserver", "k8s.io/kubernetes/cmd/kube-apiserver"),
    kubernetes(
        "kube-controller-manager",
        "k8s.io/kubernetes/cmd/kube-controller-manager",
    ),
];

const KUBECTL: [GoTool; 1] = [kubernetes("kubectl", "k8s.io/kubernetes/cmd/kubectl")];

/// What a real node needs beside a container runtime.
const NODE: [GoTool; 2] = [
    kubernetes("kubelet", "k8s.io/kubernetes/cmd/kubelet"),
    kubernetes("kube-scheduler", "k8s.io/kubernetes/cmd/kube-scheduler"),
];

const WHY: &str = "etcd and the Kubernetes control plane for the tests are built with it";
const HOW: &str = "install Go 1.26 or newer";

/// Makes etcd, the API server and the controller manager; kubectl too if PATH has none.
///
/// # Errors
/// `MissingProgram` when Go is missing; `CommandFailed` when it fails.
pub fn control_plane(place: &Place, folder: &Path) -> Result<()> {
    build(place, &CONTROL_PLANE, folder)?;
    if find_on_path("kubectl", Some(folder)).is_none() {
        build(place, &KUBECTL, folder)?;
    }
    Ok(())
}

/// Makes the kubelet and the scheduler.
///
/// # Errors
/// As `control_plane`.
pub fn node(place: &Place, folder: &Path) -> Result<()> {
    build(place, &NODE, folder)
}

fn build(place: &Place, tools: &[GoTool], folder: &Path) -> Result<()> {
    go_tool::build(&place.k8s_module(), tools, folder, WHY, HOW)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::go_tool::required_version;
    use pretty_assertions::assert_eq;

    fn go_mod() -> String {
        let place = Place::find().unwrap();
        std::fs::read_to_string(place.k8s_module().join("go.mod")).unwrap()
    }

    #[test]
    fn our_go_module_pins_every_tool() {
        let go_mod = go_mod();
        for tool in CONTROL_PLANE.iter().chain(&KUBECTL).chain(&NODE) {
            let line = format!("\t{}", tool.package);
            assert!(
                go_mod.lines().any(|l| l == line),
                "{} is no tool",
                tool.package
            );
            assert!(required_version(&go_mod, tool.module).is_some());
        }
    }

    /// Kubernetes' parts are published as modules of their own, v0.N.M for its v1.N.M. Left behind
    /// by an upgrade, they would compile into a control plane that never was.
    #[test]
    fn the_parts_of_kubernetes_are_of_one_version() {
        let go_mod = go_mod();
        let version = required_version(&go_mod, KUBERNETES).unwrap();
        let part = version.replacen("v1.", "v0.", 1);
        let replaced: Vec<_> = go_mod.lines().filter(|l| l.contains(" => ")).collect();
        assert!(!replaced.is_empty());
        let others = replaced
            .iter()
            .filter(|l| !l.ends_with(&format!(" {part}")));
        assert_eq!(others.count(), 0, "a replace is not at {part}");
    }
}
