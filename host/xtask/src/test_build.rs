//! Compiling every test of the workspace in one go, and learning from cargo where they are.

use std::collections::BTreeMap;
use std::io::BufReader;
use std::io::prelude::*;
use std::path::PathBuf;
use std::process::Stdio;

use serde_json::Value;

use crate::binaries::with_folders;
use crate::error::{Error, Result};
use crate::place::Place;
use crate::process::{cargo, spelled};
use crate::rings::Ring;

/// A compiled test target.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TestBinary {
    pub package: String,
    /// As a person finds it: `lib`, `bin NAME` or `tests/NAME`.
    pub target: String,
    pub ring: Ring,
    pub executable: PathBuf,
    /// The package's folder, where cargo would start it.
    pub folder: PathBuf,
}

/// What the build made.
#[derive(Debug, Default)]
pub struct Built {
    /// In the order of (ring, package, target).
    pub tests: Vec<TestBinary>,
    /// The ordinary binaries: (package, name) to path.
    pub binaries: BTreeMap<(String, String), PathBuf>,
}

/// Compiles all tests and all binaries. One build for all, so that every dependency is compiled
/// once with one set of features.
///
/// # Errors
/// When something does not compile.
pub fn build(place: &Place) -> Result<Built> {
    let mut command = cargo();
    command
        .current_dir(&place.root)
        .args(["build", "--workspace", "--lib", "--bins", "--tests"])
        .arg("--message-format=json-render-diagnostics")
        .stdout(Stdio::piped());
    with_folders(place, &mut command, place.binaries());
    println!("$ cargo build --workspace --lib --bins --tests");
    let unusable = |source| Error::CommandUnusable {
        command: "cargo build".to_owned(),
        source,
    };
    let mut child = command.spawn().map_err(unusable)?;
    let mut built = Built::default();
    if let Some(stdout) = child.stdout.take() {
        for line in BufReader::new(stdout).lines() {
            let line = line.map_err(unusable)?;
            if let Ok(message) = serde_json::from_str::<Value>(&line) {
                built.note(&message);
            }
        }
    }
    let status = child.wait().map_err(unusable)?;
    if !status.success() {
        return Err(Error::CommandFailed {
            command: spelled(&command),
            status: status.to_string(),
        });
    }
    built
        .tests
        .sort_by(|a, b| (a.ring, &a.package, &a.target).cmp(&(b.ring, &b.package, &b.target)));
    Ok(built)
}

impl Built {
    /// Takes one of cargo's messages; those that are not about an executable say nothing.
    fn note(&mut self, message: &Value) {
        let Some(executable) = message["executable"].as_str() else {
            return;
        };
        let executable = PathBuf::from(executable);
        let Some(folder) = message["manifest_path"]
            .as_str()
            .and_then(|path| PathBuf::from(path).parent().map(PathBuf::from))
        else {
            return;
        };
        let Some(package) = message["package_id"].as_str().map(package_name) else {
            return;
        };
        let name = message["target"]["name"].as_str().unwrap_or_default();
        let kind = message["target"]["kind"][0].as_str().unwrap_or_default();
        if message["profile"]["test"] != Value::Bool(true) {
            if kind == "bin" {
                self.binaries
                    .insert((package.to_owned(), name.to_owned()), executable);
            }
            return;
        }
        let target = match kind {
            "test" => format!("tests/{name}"),
            "bin" => format!("bin {name}"),
            _ => "lib".to_owned(),
        };
        self.tests.push(TestBinary {
            package: package.to_owned(),
            target,
            ring: Ring::of(package, (kind == "test").then_some(name)),
            executable,
            folder,
        });
    }
}

/// The name in a package id: `path+file:///w/host/core#windlass-core@0.1.0`, or, where the folder
/// has the package's name, `path+file:///w/host/windlass#0.1.0`.
fn package_name(id: &str) -> &str {
    let (path, fragment) = id.rsplit_once('#').unwrap_or(("", id));
    match fragment.split_once('@') {
        Some((name, _)) => name,
        None => path.rsplit('/').next().unwrap_or(path),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pretty_assertions::assert_eq;
    use serde_json::json;

    #[test]
    fn names_are_read_from_both_forms_of_a_package_id() {
        assert_eq!(
            package_name("path+file:///w/host/core#windlass-core@0.1.0"),
            "windlass-core"
        );
        assert_eq!(package_name("path+file:///w/host/xtask#0.1.0"), "xtask");
    }

    fn artifact(kind: &str, name: &str, test: bool, executable: Value) -> Value {
        json!({
            "reason": "compiler-artifact",
            "package_id": "path+file:///w/host/agent#windlass-agent@0.1.0",
            "manifest_path": "/w/host/agent/Cargo.toml",
            "target": {"kind": [kind], "name": name},
            "profile": {"test": test},
            "executable": executable,
        })
    }

    #[test]
    fn tests_binaries_and_libraries_are_told_apart() {
        let mut built = Built::default();
        built.note(&artifact("lib", "windlass_agent", false, Value::Null));
        built.note(&artifact("lib", "windlass_agent", true, json!("/t/a")));
        built.note(&artifact("test", "real_cli", true, json!("/t/b")));
        built.note(&artifact("bin", "windlass-agent", false, json!("/t/c")));
        built.note(&json!({"reason": "build-finished", "success": true}));

        let seen: Vec<_> = built
            .tests
            .iter()
            .map(|test| (test.target.as_str(), test.ring))
            .collect();
        assert_eq!(seen, [("lib", Ring::Units), ("tests/real_cli", Ring::Real)]);
        assert_eq!(built.tests[0].folder, PathBuf::from("/w/host/agent"));
        assert_eq!(
            built.binaries.into_iter().collect::<Vec<_>>(),
            [(
                ("windlass-agent".to_owned(), "windlass-agent".to_owned()),
                PathBuf::from("/t/c")
            )]
        );
    }
}
