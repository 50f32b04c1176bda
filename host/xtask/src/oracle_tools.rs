//! Programs of our own that ask somebody else's library: the judges of tests, in Go modules `tests/tools/*-oracle`.

use std::path::Path;

use crate::error::Result;
use crate::go_tool::{self, GoTool};
use crate::place::Place;

/// Argo CD's interpreter of health scripts. Known by its version, as the other by Prometheus'.
const LUA: [GoTool; 1] = [GoTool {
    name: "lua-oracle",
    package: ".",
    module: "github.com/yuin/gopher-lua",
    variables: &[],
    tags: "",
}];

/// Prometheus' queries and rules.
const PROMQL: [GoTool; 1] = [GoTool {
    name: "promql-oracle",
    package: ".",
    module: "github.com/prometheus/prometheus",
    variables: &[],
    tags: "",
}];

/// Makes the judge of Lua.
///
/// # Errors
/// `MissingProgram` when Go is missing; `CommandFailed` when it fails.
pub fn lua(place: &Place, folder: &Path) -> Result<()> {
    go_tool::build(
        &place.lua_module(),
        &LUA,
        folder,
        "Argo CD's Lua interpreter for the tests of health-lua is built with it",
        "install Go 1.26 or newer",
    )
}

/// Makes the judge of queries and alerts.
///
/// # Errors
/// `MissingProgram` when Go is missing; `CommandFailed` when it fails.
pub fn promql(place: &Place, folder: &Path) -> Result<()> {
    go_tool::build(
        &place.promql_module(),
        &PROMQL,
        folder,
        "Prometheus' rules for the tests of the alerts are built with it",
        "install Go 1.26 or newer",
    )
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::go_tool::required_version;

    #[test]
    fn our_go_modules_pin_the_libraries() {
        let place = Place::find().unwrap();
        for (folder, tool) in [
            (place.lua_module(), &LUA[0]),
            (place.promql_module(), &PROMQL[0]),
        ] {
            let go_mod = std::fs::read_to_string(folder.join("go.mod")).unwrap();
            assert!(required_version(&go_mod, tool.module).is_some());
        }
    }
}
