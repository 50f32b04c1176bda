//! Argo CD's interpreter of health scripts as a program of our own, in the Go module `tests/tools/lua-oracle`.

use std::path::Path;

use crate::error::Result;
use crate::go_tool::{self, GoTool};
use crate::place::Place;

/// Our own program, known by the version of the interpreter in it.
const TOOLS: [GoTool; 1] = [GoTool {
    name: "lua-oracle",
    package: ".",
    module: "github.com/yuin/gopher-lua",
    variables: &[],
    tags: "",
}];

/// Makes it.
///
/// # Errors
/// `MissingProgram` when Go is missing; `CommandFailed` when it fails.
pub fn make(place: &Place, folder: &Path) -> Result<()> {
    go_tool::build(
        &place.lua_module(),
        &TOOLS,
        folder,
        "Argo CD's Lua interpreter for the tests of health-lua is built with it",
        "install Go 1.26 or newer",
    )
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::go_tool::required_version;

    #[test]
    fn our_go_module_pins_the_interpreter() {
        let place = Place::find().unwrap();
        let go_mod = std::fs::read_to_string(place.lua_module().join("go.mod")).unwrap();
        assert!(required_version(&go_mod, TOOLS[0].module).is_some());
    }
}
