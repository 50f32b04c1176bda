//! An author's folder, and what is done in it.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;

use serde_json::Value;
use windlass_e2e::world::{World, plugin_dir, workspace_root};

/// A folder with `windlass`, `pulumi` and the built-in plugins at hand, as the tutorial sets them up.
pub struct Author {
    world: World,
}

/// How a command ended.
#[derive(Debug)]
pub struct Ended {
    pub code: i32,
    pub stdout: String,
    pub stderr: String,
}

impl Ended {
    /// Both streams, for messages of tests.
    pub fn all(&self) -> String {
        format!("{}{}", self.stdout, self.stderr)
    }

    /// The JSON document on stdout.
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("{error}: {}", self.all()))
    }
}

impl Author {
    /// None, with a visible reason, where the real CLI is not at hand.
    pub fn new() -> Option<Author> {
        World::new().map(|world| Author { world })
    }

    pub fn folder(&self) -> &Path {
        self.world.path()
    }

    pub fn world(&self) -> &World {
        &self.world
    }

    /// Runs a line in a shell, in a folder below the author's.
    pub fn sh(&self, folder: &Path, line: &str) -> Ended {
        let mut shell = Command::new("bash");
        shell.args(["-euo", "pipefail", "-c", line]);
        self.run(shell.current_dir(self.folder().join(folder)))
    }

    /// `windlass` with these arguments, in the author's folder.
    pub fn windlass(&self, arguments: &[&str]) -> Ended {
        let mut command = Command::new(self.world.binaries().join("windlass"));
        self.run(command.args(arguments).current_dir(self.folder()))
    }

    /// Runs a command in the environment that the tutorial sets up, with a home of its own.
    pub fn run(&self, command: &mut Command) -> Ended {
        let real_home = PathBuf::from(std::env::var_os("HOME").unwrap_or_default());
        let kept = |variable: &str, usual: &str| {
            std::env::var_os(variable).map_or_else(|| real_home.join(usual), PathBuf::from)
        };
        let path = std::env::var_os("PATH").unwrap_or_default();
        let own = [
            absolute(self.world.binaries()),
            absolute(self.world.tools()),
        ];
        let folders = own.into_iter().chain(std::env::split_paths(&path));
        command
            .env("PATH", std::env::join_paths(folders).expect("a PATH"))
            .env("WINDLASS_PLUGIN_DIR", absolute(&plugin_dir()))
            .env("WINDLASS", absolute(self.world.binaries()).join("windlass"))
            .env("HOME", self.folder())
            .env("CARGO_HOME", kept("CARGO_HOME", ".cargo"))
            .env("RUSTUP_HOME", kept("RUSTUP_HOME", ".rustup"))
            .env("NO_COLOR", "1")
            .stdin(std::process::Stdio::null());
        // Of the cargo that runs this test.
        for variable in [
            "CARGO_TARGET_DIR",
            "CARGO_MANIFEST_DIR",
            "RUSTFLAGS",
            "XDG_CACHE_HOME",
        ] {
            command.env_remove(variable);
        }
        let Output {
            status,
            stdout,
            stderr,
        } = command
            .output()
            .unwrap_or_else(|error| panic!("{command:?}: {error}"));
        Ended {
            code: status.code().unwrap_or(-1),
            stdout: String::from_utf8_lossy(&stdout).into_owned(),
            stderr: String::from_utf8_lossy(&stderr).into_owned(),
        }
    }

    /// After `plugin new` for Rust: the versions of dependencies that this workspace has pinned, and build results shared by all
    /// such projects, so that each takes seconds.
    pub fn share_builds(&self, project: &str) {
        let root = absolute(&workspace_root());
        let folder = self.folder().join(project);
        std::fs::copy(root.join("Cargo.lock"), folder.join("Cargo.lock")).expect("a lock file");
        let shared = target().join("author");
        std::fs::create_dir_all(&shared).expect("a folder");
        std::os::unix::fs::symlink(&shared, folder.join("target")).expect("a link");
    }
}

fn absolute(path: &Path) -> PathBuf {
    std::fs::canonicalize(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// This workspace's target folder.
pub fn target() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR")
        .map_or_else(|| absolute(&workspace_root()).join("target"), PathBuf::from)
}

/// An example of this workspace as a component, built once per process.
pub fn example(name: &str) -> PathBuf {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    let folder = BUILT.get_or_init(|| {
        let target = target().join("components");
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let status = Command::new(cargo)
            .current_dir(workspace_root())
            .args(["build", "--quiet", "--profile", "component"])
            .args(["--target", "wasm32-wasip2", "--target-dir"])
            .arg(&target)
            .args(["-p", "source-s3", "-p", "source-oci"])
            .env_remove("RUSTFLAGS")
            .status();
        assert!(
            status.is_ok_and(|status| status.success()),
            "the examples do not build"
        );
        target.join("wasm32-wasip2/component")
    });
    folder.join(format!("{}.wasm", name.replace('-', "_")))
}

/// The commands of a Markdown text: lines that begin with `$ ` in blocks marked `console`, with lines that end in `\` joined.
/// A heading restarts nothing; blocks below a heading that contains `without` are left out.
pub fn commands(markdown: &str, without: &str) -> Vec<String> {
    let (mut inside, mut left_out) = (false, false);
    let mut found: Vec<String> = Vec::new();
    let mut goes_on = false;
    for line in markdown.lines() {
        if line.starts_with('#') && !inside {
            left_out = line.contains(without);
        }
        if line.starts_with("```") {
            inside = line == "```console";
            continue;
        }
        if !inside || left_out {
            continue;
        }
        let command = match (goes_on, line.strip_prefix("$ ")) {
            (true, _) => {
                let last = found.last_mut().expect("the line before");
                last.push_str(line.trim_start());
                last
            }
            (false, Some(command)) => {
                found.push(command.to_owned());
                found.last_mut().expect("just pushed")
            }
            (false, None) => continue,
        };
        goes_on = command.ends_with('\\');
        if goes_on {
            command.pop();
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_found_as_a_reader_would_type_them() {
        let text = "# Set up\n```console\n$ no\n```\n# Begin\n```console\n$ one --a \\\n    --b\nits output\n$ two\n```\n\
                    ```rust\n$ not this\n```\n";
        assert_eq!(commands(text, "Set up"), ["one --a --b", "two"]);
    }
}
