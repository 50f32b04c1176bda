//! An author's folder, and what is done in it.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;
use windlass_e2e::components::target;
use windlass_e2e::world::{World, plugin_dir, workspace_root};

pub use windlass_e2e::components::example;

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
