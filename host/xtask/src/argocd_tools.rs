//! Argo CD, pinned in the Go module `tests/tools/argocd`: one binary with all its components.

use std::path::Path;

use crate::error::Result;
use crate::go_tool::{self, GoTool, Part};
use crate::node_packages;
use crate::place::Place;

const TOOLS: [GoTool; 1] = [GoTool {
    name: "argocd",
    package: "github.com/argoproj/argo-cd/v3/cmd",
    module: "github.com/argoproj/argo-cd/v3",
    variables: &[("github.com/argoproj/argo-cd/v3/common.version", Part::Bare)],
    tags: "",
}];

/// Argo CD's components share what they know through it.
const REDIS: (&str, &str) = ("redis-server", "redis-server");

/// Makes it.
///
/// # Errors
/// `MissingProgram` when Go is missing; `CommandFailed` when it fails.
pub fn make(place: &Place, folder: &Path) -> Result<()> {
    go_tool::build(
        &place.argocd_module(),
        &TOOLS,
        folder,
        "Argo CD for the tests is built with it",
        "install Go 1.26 or newer",
    )
}

/// Installs the package of Redis if it is missing.
///
/// # Errors
/// Where it cannot be installed: what to install oneself.
pub fn install_redis() -> Result<()> {
    if node_packages::is_there(REDIS.0) {
        return Ok(());
    }
    node_packages::install_these(&[REDIS.1], "Argo CD in the tests keeps its cache in it")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::go_tool::required_version;

    #[test]
    fn our_go_module_pins_the_tool() {
        let place = Place::find().unwrap();
        let go_mod = std::fs::read_to_string(place.argocd_module().join("go.mod")).unwrap();
        assert!(go_mod.contains(&format!("tool {}", TOOLS[0].package)));
        assert!(required_version(&go_mod, TOOLS[0].module).is_some());
    }
}
