//! Which tests belong to which ring, and what a ring needs.

use clap::ValueEnum;

use crate::tools::Group;

/// A group of tests that need the same things.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub enum Ring {
    /// Units, tables, properties, components, hostile input. Needs Rust; with Go, Lua is compared with Argo CD's.
    #[value(name = "1")]
    Units,
    /// The simulator. Needs Rust.
    #[value(name = "2")]
    Simulator,
    /// The real CLI, real processes, a real Git server, a real Kubernetes control plane. Needs Go and
    /// git.
    #[value(name = "3")]
    Real,
    /// A real kubelet and containerd on that control plane. Needs root and a container runtime.
    #[value(name = "4")]
    Node,
}

impl Ring {
    pub const ALL: [Self; 4] = [Self::Units, Self::Simulator, Self::Real, Self::Node];

    /// What the ring is, for headings.
    pub fn title(self) -> &'static str {
        match self {
            Self::Units => "ring 1: units, components, hostile input",
            Self::Simulator => "ring 2: the simulator",
            Self::Real => "ring 3: the real pulumi, processes, Git and Kubernetes",
            Self::Node => "ring 4: a real kubelet and containerd",
        }
    }

    /// The tools of its tests.
    pub fn tools(self) -> &'static [Group] {
        match self {
            Self::Units => &[Group::Lua],
            Self::Simulator => &[],
            Self::Real => &[
                Group::Pulumi,
                Group::K8s,
                Group::Flux,
                Group::Argocd,
                Group::Helm,
                Group::Promql,
            ],
            Self::Node => &[Group::Pulumi, Group::K8s, Group::Helm, Group::Node],
        }
    }

    /// How many of its test binaries run at a time. Real processes mostly wait for one another; what computes has the
    /// machine to itself.
    pub fn at_once(self) -> usize {
        match self {
            Self::Real => 2,
            Self::Units | Self::Simulator | Self::Node => 1,
        }
    }

    /// Whether a binary of this ring, by its package and target, takes minutes where most take seconds.
    pub fn is_long(self, package: &str, target: &str) -> bool {
        self == Self::Real
            && match package {
                "windlass-author" => matches!(target, "tests/languages" | "tests/templates"),
                "windlass-operator" => matches!(target, "tests/argocd" | "tests/storm"),
                _ => false,
            }
    }

    /// The ring of a test target, by its package and, for an integration test, the name of its file in
    /// `tests/`; `None` are the unit tests of a library or binary.
    pub fn of(package: &str, file: Option<&str>) -> Self {
        match package {
            "windlass-operator" if matches!(file, Some("node" | "helm")) => Self::Node,
            "windlass-sim" => Self::Simulator,
            "windlass-author" | "windlass-e2e" | "windlass-operator" => Self::Real,
            // Their integration tests start real processes; their unit tests do not.
            "windlass"
            | "windlass-agent"
            | "windlass-cluster"
            | "windlass-local"
            | "windlass-test-provider"
                if file.is_some() =>
            {
                Self::Real
            }
            _ => Self::Units,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pretty_assertions::assert_eq;

    #[test]
    fn only_tests_of_real_processes_need_the_tools() {
        assert_eq!(Ring::of("windlass-core", Some("decide")), Ring::Units);
        assert_eq!(Ring::of("windlass-agent", None), Ring::Units);
        assert_eq!(Ring::of("windlass-agent", Some("runs")), Ring::Real);
        assert_eq!(Ring::of("windlass-cluster", Some("pods")), Ring::Real);
        assert_eq!(Ring::of("windlass-e2e", None), Ring::Real);
        assert_eq!(Ring::of("windlass-sim", Some("fleets")), Ring::Simulator);
    }

    #[test]
    fn long_ones_are_of_the_ring_that_runs_several_at_once() {
        for (package, file) in [
            ("windlass-operator", "storm"),
            ("windlass-author", "languages"),
        ] {
            let ring = Ring::of(package, Some(file));
            assert!(ring.is_long(package, &format!("tests/{file}")) && ring.at_once() > 1);
        }
        assert!(!Ring::Real.is_long("windlass-operator", "tests/rbac"));
    }

    #[test]
    fn only_tests_of_a_real_node_need_root() {
        assert_eq!(Ring::of("windlass-operator", Some("node")), Ring::Node);
        assert_eq!(Ring::of("windlass-operator", Some("helm")), Ring::Node);
        assert_eq!(Ring::of("windlass-operator", Some("pods")), Ring::Real);
        assert_eq!(Ring::of("windlass-operator", None), Ring::Real);
    }
}
