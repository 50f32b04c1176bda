//! Flux's source-controller, pinned in the Go module `tests/tools/flux`.

use std::path::Path;

use crate::error::Result;
use crate::go_tool::{self, GoTool};
use crate::place::Place;

/// It reports no version, so none is linked in.
const TOOLS: [GoTool; 1] = [GoTool {
    name: "source-controller",
    package: "github.com/fluxcd/source-controller",
    module: "github.com/fluxcd/source-controller",
    variables: &[],
    tags: "",
}];

/// Makes it.
///
/// # Errors
/// `MissingProgram` when Go is missing; `CommandFailed` when it fails.
pub fn make(place: &Place, folder: &Path) -> Result<()> {
    go_tool::build(
        &place.flux_module(),
        &TOOLS,
        folder,
        "Flux's source-controller for the tests is built with it",
        "install Go 1.26 or newer",
    )
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::go_tool::required_version;

    #[test]
    fn our_go_module_pins_the_controller_and_its_definitions_at_one_version() {
        let place = Place::find().unwrap();
        let go_mod = std::fs::read_to_string(place.flux_module().join("go.mod")).unwrap();
        assert!(go_mod.contains(&format!("tool {}", TOOLS[0].package)));
        let version = required_version(&go_mod, TOOLS[0].module);
        assert!(version.is_some());
        let definitions = format!("{}/api", TOOLS[0].module);
        assert_eq!(required_version(&go_mod, &definitions), version);
    }
}
