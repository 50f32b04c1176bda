//! The backend of a world: the bare CLI on it, and what is in it.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Command;

use serde_json::Value;

use crate::canaries::walk;
use crate::world::World;

impl World {
    /// The bare CLI, on the backend of this world and with the passphrase of its Stacks, in a directory with this
    /// project file.
    pub fn pulumi(&self, project: &[u8], arguments: &[&str]) {
        let dir = tempfile::tempdir().expect("a temporary directory");
        std::fs::write(dir.path().join("Pulumi.yaml"), project).expect("a project file");
        let done = Command::new(self.tools().join("pulumi"))
            .args(arguments)
            .arg("--non-interactive")
            .env("PULUMI_BACKEND_URL", self.state())
            .env("PULUMI_CONFIG_PASSPHRASE", "test")
            .env("PULUMI_SKIP_UPDATE_CHECK", "true")
            .env("PULUMI_HOME", self.path().join("pulumi-home"))
            .current_dir(dir.path())
            .output()
            .expect("pulumi");
        let said = String::from_utf8_lossy(&done.stderr);
        assert!(done.status.success(), "{arguments:?}: {said}");
    }

    /// The resources in the state of a stack, without the stack itself and default providers, by name.
    pub fn resources(&self, project: &str, stack: &str) -> BTreeMap<String, Value> {
        let file = self
            .path()
            .join(format!("state/.pulumi/stacks/{project}/{stack}.json"));
        let Ok(text) = std::fs::read_to_string(&file) else {
            return BTreeMap::new();
        };
        let state: Value = serde_json::from_str(&text).expect("a state file");
        let resources = state["checkpoint"]["latest"]["resources"]
            .as_array()
            .cloned()
            .unwrap_or_default();
        resources
            .into_iter()
            .filter(|resource| resource["custom"] == true)
            .filter(|resource| {
                !resource["type"]
                    .as_str()
                    .is_some_and(|t| t.starts_with("pulumi:providers:"))
            })
            .map(|resource| {
                let urn = resource["urn"].as_str().unwrap_or_default().to_owned();
                (
                    urn.rsplit("::").next().unwrap_or_default().to_owned(),
                    resource,
                )
            })
            .collect()
    }

    /// Lock files in the backend.
    pub fn locks(&self) -> Vec<PathBuf> {
        let mut found = Vec::new();
        walk(&self.path().join("state/.pulumi/locks"), &mut found);
        found.retain(|path| {
            path.extension()
                .is_some_and(|extension| extension == "json")
        });
        found
    }
}
