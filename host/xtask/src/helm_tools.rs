//! Helm, pinned in the Go module `tests/tools/helm`.

use std::path::Path;

use crate::error::Result;
use crate::go_tool::{self, GoTool, Part};
use crate::place::Place;

/// The Kubernetes that Helm takes for granted where it asks no cluster: that of the libraries it is made with.
const MINOR: &str = "36";

const TOOLS: [GoTool; 1] = [GoTool {
    name: "helm",
    package: "helm.sh/helm/v3/cmd/helm",
    module: "helm.sh/helm/v3",
    variables: &[
        ("helm.sh/helm/v3/internal/version.version", Part::Whole),
        (
            "helm.sh/helm/v3/pkg/chartutil.k8sVersionMajor",
            Part::Text("1"),
        ),
        (
            "helm.sh/helm/v3/pkg/chartutil.k8sVersionMinor",
            Part::Text(MINOR),
        ),
        (
            "helm.sh/helm/v3/pkg/lint/rules.k8sVersionMajor",
            Part::Text("1"),
        ),
        (
            "helm.sh/helm/v3/pkg/lint/rules.k8sVersionMinor",
            Part::Text(MINOR),
        ),
    ],
    tags: "",
}];

/// Makes it.
///
/// # Errors
/// `MissingProgram` when Go is missing; `CommandFailed` when it fails.
pub fn make(place: &Place, folder: &Path) -> Result<()> {
    go_tool::build(
        &place.helm_module(),
        &TOOLS,
        folder,
        "Helm, which the chart is tested and rendered with, is built with it",
        "install Go 1.26 or newer",
    )
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::go_tool::required_version;
    use pretty_assertions::assert_eq;

    #[test]
    fn our_go_module_pins_helm_and_the_kubernetes_that_it_speaks_of() {
        let place = Place::find().unwrap();
        let go_mod = std::fs::read_to_string(place.helm_module().join("go.mod")).unwrap();
        assert!(go_mod.contains(&format!("tool {}", TOOLS[0].package)));
        assert!(required_version(&go_mod, TOOLS[0].module).is_some());
        let library = required_version(&go_mod, "k8s.io/client-go").unwrap();
        assert_eq!(library.split('.').nth(1), Some(MINOR));
    }
}
