//! What runs leave behind outside of the cluster: the state in the file backend, its locks, and the operations that the
//! tests' provider was asked for.

use std::path::PathBuf;
use std::time::Duration;

use serde_json::Value;
use windlass_cluster::Image;
use windlass_e2e::world::{skip, workspace_root};

use crate::Operator;

/// The tests' provider, as the CLI looks for it.
const PROVIDER: &str = "pulumi-resource-windlasstest";

/// A Program with one resource that takes `${pause}` milliseconds, is updated when `${round}` changes, and notes in the
/// backend's directory what is done to it.
const SLOW: &str = r#"
apiVersion: pulumi.com/v1
kind: Program
metadata: {name: @NAME@}
program:
  configuration:
    round: {type: String, default: "0"}
    pause: {type: Number, default: 0}
  resources:
    thing:
      type: windlasstest:index:Thing
      properties: {value: "${round}", sleepMs: "${pause}", logFile: /state/@NAME@.log}
  outputs:
    round: "${thing.value}"
"#;

/// A Program with a resource that needs nothing but the CLI.
const STASH: &str = r#"
apiVersion: pulumi.com/v1
kind: Program
metadata: {name: @NAME@}
program:
  configuration:
    greeting: {type: String, default: hello}
  resources:
    message: {type: "pulumi:Stash", properties: {input: "${greeting}"}}
  outputs:
    greeting: "${message.input}"
"#;

/// The folder of our own binaries.
pub fn binaries() -> PathBuf {
    std::env::var_os("WINDLASS_BIN_DIR")
        .map_or_else(|| workspace_root().join("target/debug"), PathBuf::from)
}

/// A user's image: the CLI, and the tests' provider if it is built.
pub(crate) fn image() -> Image {
    let provider = binaries().join(PROVIDER);
    let image = Image::usual();
    if provider.exists() {
        return image.with_file(format!("/usr/local/bin/{PROVIDER}"), provider);
    }
    image
}

/// Whether the tests' provider is built; says so visibly if it is not.
pub fn has_provider() -> bool {
    provider().is_some()
}

/// The tests' provider; says visibly if it is not built.
pub(crate) fn provider() -> Option<PathBuf> {
    let provider = binaries().join(PROVIDER);
    if !provider.exists() {
        skip(&format!(
            "{} is not built; `cargo xtask test` builds it first",
            provider.display()
        ));
        return None;
    }
    Some(provider)
}

impl<K> Operator<K> {
    /// Applies a Program with the resource `message`, whose output `greeting` is the configured one.
    pub async fn stash(&self, name: &str) {
        self.apply(&STASH.replace("@NAME@", name)).await;
    }

    /// Applies a Program whose one resource takes its time; its output `round` is the configured one.
    pub async fn slow(&self, name: &str) {
        self.apply(&SLOW.replace("@NAME@", name)).await;
    }

    /// Names of the resources in a project's state, without the stack itself and default providers; none if there is no
    /// state.
    pub fn resources(&self, project: &str) -> Option<Vec<String>> {
        let file = format!(".pulumi/stacks/{project}/dev.json");
        let text = std::fs::read_to_string(self.state().join(file)).ok()?;
        let state: Value = serde_json::from_str(&text).expect("a state file");
        let resources = state["checkpoint"]["latest"]["resources"].as_array();
        let of_programs = resources.into_iter().flatten().filter(|resource| {
            let type_ = resource["type"].as_str().unwrap_or_default();
            resource["custom"] == true && !type_.starts_with("pulumi:providers:")
        });
        let name = |resource: &Value| {
            let urn = resource["urn"].as_str().unwrap_or_default();
            urn.rsplit("::").next().unwrap_or_default().to_owned()
        };
        Some(of_programs.map(name).collect())
    }

    /// The locks in the backend.
    pub fn locks(&self) -> Vec<PathBuf> {
        let mut folders = vec![self.state().join(".pulumi/locks")];
        let mut locks = Vec::new();
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
                let path = entry.path();
                if path.is_dir() {
                    folders.push(path);
                } else if path.extension().is_some_and(|e| e == "json") {
                    locks.push(path);
                }
            }
        }
        locks
    }

    /// What the provider of a project's resource was asked for so far, such as `create-begun thing`, `create thing`.
    pub fn operations(&self, project: &str) -> Vec<String> {
        let file = self.state().join(format!("{project}.log"));
        let text = std::fs::read_to_string(file).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }

    /// Waits until the provider was asked for this many operations of a kind.
    pub async fn operated(&self, project: &str, operation: &str, count: usize) {
        let what = format!("{count} times {operation:?}");
        let line = format!("{operation} thing");
        self.until(&what, Duration::from_secs(120), async || {
            let all = self.operations(project);
            all.iter().filter(|done| **done == line).count() >= count
        })
        .await;
    }
}
