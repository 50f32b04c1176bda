//! Test Windlass plugins: the component in the real host, with answers of your own.

mod windlass;
mod world;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

pub use serde_json::{Value, json};
pub use world::{Http, World};

/// A function of the contract.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Function {
    Validate,
    Watches,
    Resolve,
    Open,
    Classify,
    Assess,
}

impl Function {
    fn word(self) -> &'static str {
        match self {
            Function::Validate => "validate",
            Function::Watches => "watches",
            Function::Resolve => "resolve",
            Function::Open => "open",
            Function::Classify => "classify",
            Function::Assess => "assess",
        }
    }
}

/// How a call ended without a result: the plugin's own refusal, or the host's word on it (`PluginTrap`, ...).
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{reason} ({class}): {message}")]
pub struct Refused {
    /// `invalid`, `not-found`, `denied`, `conflict`, `unavailable`, `internal`.
    pub class: String,
    pub reason: String,
    pub message: String,
}

/// A component, to be called.
#[derive(Clone, Debug)]
pub struct Component {
    file: PathBuf,
}

impl Component {
    /// Builds the package under test for `wasm32-wasip2`, once per test binary.
    ///
    /// # Panics
    /// If it does not build.
    pub fn build() -> Self {
        static BUILT: OnceLock<PathBuf> = OnceLock::new();
        let file = BUILT.get_or_init(|| {
            let folder =
                std::env::var_os("CARGO_MANIFEST_DIR").map_or_else(PathBuf::new, PathBuf::from);
            windlass::build(&folder)
        });
        Component { file: file.clone() }
    }

    /// A component that was built before, in whatever language.
    pub fn at(file: impl Into<PathBuf>) -> Self {
        Component { file: file.into() }
    }

    /// What is wrong with a Stack's spec: a list of `{field, message}`.
    ///
    /// # Errors
    /// If the plugin fails.
    pub fn validate(&self, world: &World, spec: &Value) -> Result<Value, Refused> {
        self.call(Function::Validate, world, &stack(spec))
    }

    /// Objects whose change resolves again: a list of `{apiVersion, kind, name}`.
    ///
    /// # Errors
    /// If the plugin fails.
    pub fn watches(&self, world: &World, spec: &Value) -> Result<Value, Refused> {
        self.call(Function::Watches, world, &stack(spec))
    }

    /// Where the program is: `{revision, artifact, dir, pollAfterMs?}`.
    ///
    /// # Errors
    /// What the plugin refuses with, or fails with.
    pub fn resolve(&self, world: &World, spec: &Value) -> Result<Value, Refused> {
        self.call(Function::Resolve, world, &stack(spec))
    }

    /// A backend's session: `{stack, env, login, consoleUrl?}`. The spec names the `backend`.
    ///
    /// # Errors
    /// What the plugin refuses with, or fails with.
    pub fn open(&self, world: &World, spec: &Value) -> Result<Value, Refused> {
        self.call(Function::Open, world, &stack(spec))
    }

    /// Why a run failed: `{class, reason, message}`.
    ///
    /// # Errors
    /// If the plugin fails.
    pub fn classify(&self, world: &World, outcome: &Value) -> Result<Value, Refused> {
        self.call(Function::Classify, world, outcome)
    }

    /// The health of an object: `{status, message}`.
    ///
    /// # Errors
    /// If the plugin fails.
    pub fn assess(&self, world: &World, object: &Value) -> Result<Value, Refused> {
        self.call(Function::Assess, world, object)
    }

    /// Makes a call. `input` is a whole object: a Stack, an outcome, whatever is assessed.
    ///
    /// # Errors
    /// What the plugin refuses with, or fails with.
    ///
    /// # Panics
    /// If the host does not load the component, with its reason and advice.
    pub fn call(&self, function: Function, world: &World, input: &Value) -> Result<Value, Refused> {
        let folder =
            tempfile::tempdir().unwrap_or_else(|error| panic!("a temporary folder: {error}"));
        self.run(function, world, input, folder.path(), None)
    }

    /// A call that is kept in `file` with its questions and answers. Where there is no such file, or `WINDLASS_RECORD` is set,
    /// it is recorded; else it is replayed on this component.
    ///
    /// # Panics
    /// If the replayed component asks something else, or ends otherwise.
    pub fn golden(&self, file: &Path, function: Function, world: &World, input: &Value) {
        let record = std::env::var_os("WINDLASS_RECORD").is_some_and(|it| !it.is_empty());
        if record || !file.is_file() {
            let folder =
                tempfile::tempdir().unwrap_or_else(|error| panic!("a temporary folder: {error}"));
            // What the plugin refuses is a result like any other.
            let _ = self.run(function, world, input, folder.path(), Some(file));
            return;
        }
        let mut command = Command::new(windlass::program());
        command.args(["plugin", "run"]).arg(&self.file);
        command.arg("replay").arg(file);
        let folder =
            tempfile::tempdir().unwrap_or_else(|error| panic!("a temporary folder: {error}"));
        command.arg("--answers").arg(answers(world, folder.path()));
        let output = output(&mut command);
        assert!(
            output.status.success(),
            "{}: {}{}\nif that is meant, record it again: WINDLASS_RECORD=1 cargo test",
            file.display(),
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr)
        );
    }

    fn run(
        &self,
        function: Function,
        world: &World,
        input: &Value,
        folder: &Path,
        save: Option<&Path>,
    ) -> Result<Value, Refused> {
        let file = folder.join("input.json");
        write(&file, input);
        let mut command = Command::new(windlass::program());
        command.args(["plugin", "run", "--output", "json"]);
        command.arg(&self.file).arg(function.word()).arg(&file);
        command.arg("--answers").arg(answers(world, folder));
        if let Some(save) = save {
            if let Some(parent) = save.parent() {
                let _ = std::fs::create_dir_all(parent);
            }
            command.arg("--save").arg(save);
        }
        let output = output(&mut command);
        let stdout = String::from_utf8_lossy(&output.stdout);
        let Ok(document) = serde_json::from_str::<Value>(&stdout) else {
            panic!(
                "{}: {stdout}{}",
                self.file.display(),
                String::from_utf8_lossy(&output.stderr)
            );
        };
        let text = |field: &str| {
            document["error"][field]
                .as_str()
                .unwrap_or_default()
                .to_owned()
        };
        if document["error"].is_null() {
            return Ok(document["result"].clone());
        }
        Err(Refused {
            class: text("class"),
            reason: text("reason"),
            message: text("message"),
        })
    }
}

/// A Stack with this spec.
fn stack(spec: &Value) -> Value {
    json!({
        "apiVersion": "pulumi.com/v1", "kind": "Stack",
        "metadata": {"name": "test", "namespace": "default", "generation": 1}, "spec": spec,
    })
}

fn answers(world: &World, folder: &Path) -> PathBuf {
    let file = folder.join("answers.json");
    write(&file, &world.answers());
    file
}

fn write(file: &Path, value: &Value) {
    std::fs::write(file, value.to_string())
        .unwrap_or_else(|error| panic!("{}: {error}", file.display()));
}

fn output(command: &mut Command) -> std::process::Output {
    command
        .output()
        .unwrap_or_else(|error| panic!("{command:?} does not start: {error}"))
}
