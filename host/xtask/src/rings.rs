//! Which tests belong to which ring, and what a ring needs.

use clap::ValueEnum;

/// A group of tests that need the same things.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub enum Ring {
    /// Units, tables, properties, components, hostile input. Needs Rust.
    #[value(name = "1")]
    Units,
    /// The simulator. Needs Rust.
    #[value(name = "2")]
    Simulator,
    /// The real CLI, real processes, a real Git server, a real Kubernetes control plane. Needs Go and
    /// git.
    #[value(name = "3")]
    Real,
}

impl Ring {
    pub const ALL: [Self; 3] = [Self::Units, Self::Simulator, Self::Real];

    /// What the ring is, for headings.
    pub fn title(self) -> &'static str {
        match self {
            Self::Units => "ring 1: units, components, hostile input",
            Self::Simulator => "ring 2: the simulator",
            Self::Real => "ring 3: the real pulumi, processes, Git and Kubernetes",
        }
    }

    /// The ring of a test target, by its package and whether it is an integration test (a file in
    /// `tests/`) or the unit tests of a library or binary.
    pub fn of(package: &str, integration: bool) -> Self {
        match package {
            "windlass-sim" => Self::Simulator,
            "windlass-e2e" | "windlass-operator" => Self::Real,
            // Their integration tests start real processes; their unit tests do not.
            "windlass"
            | "windlass-agent"
            | "windlass-cluster"
            | "windlass-local"
            | "windlass-test-provider"
                if integration =>
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
        assert_eq!(Ring::of("windlass-core", true), Ring::Units);
        assert_eq!(Ring::of("windlass-agent", false), Ring::Units);
        assert_eq!(Ring::of("windlass-agent", true), Ring::Real);
        assert_eq!(Ring::of("windlass-cluster", true), Ring::Real);
        assert_eq!(Ring::of("windlass-e2e", false), Ring::Real);
        assert_eq!(Ring::of("windlass-sim", true), Ring::Simulator);
    }
}
