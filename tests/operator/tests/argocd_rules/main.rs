//! What Argo CD is told of our kinds, asked of the real Argo CD without a cluster: health of everything that the operator
//! writes, the same as the operator's own rule has it; actions; notifications.
#![allow(clippy::unwrap_used)]

mod actions;
mod notifications;
mod runs;
mod stacks;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;

use serde_json::Value;
use windlass_cluster::argocd_binary;
use windlass_operator::argocd::settings;

/// Argo CD's commands on our settings.
pub struct Rules {
    pub binary: PathBuf,
    pub folder: tempfile::TempDir,
}

/// An answer: the health's code and its message.
pub type Verdict = (String, String);

impl Rules {
    pub fn find() -> Option<Rules> {
        Some(Rules {
            binary: argocd_binary()?,
            folder: tempfile::tempdir().unwrap(),
        })
    }

    /// Runs `argocd admin settings resource-overrides COMMAND` on an object, and gives what it prints.
    pub fn ask(&self, command: &str, object: &Value, more: &[&str]) -> Result<String, String> {
        let mut file = tempfile::NamedTempFile::new_in(self.folder.path()).unwrap();
        std::io::Write::write_all(&mut file, object.to_string().as_bytes()).unwrap();
        let output = Command::new(&self.binary)
            .env("ARGOCD_BINARY_NAME", "argocd")
            .env("HOME", self.folder.path())
            .args(["admin", "settings", "resource-overrides", command])
            .arg(file.path())
            .args(more)
            .arg("--argocd-cm-path")
            .arg(settings())
            .stdin(Stdio::null())
            .output()
            .unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        if output.status.success() {
            Ok(text(&output.stdout))
        } else {
            Err(text(&output.stderr))
        }
    }

    pub fn health(&self, object: &Value) -> Verdict {
        let printed = self.ask("health", object, &[]).unwrap();
        let field = |name: &str| {
            let from = printed.find(name).map(|at| &printed[at + name.len()..]);
            from.unwrap_or_default().to_owned()
        };
        let status = field("STATUS: ")
            .lines()
            .next()
            .unwrap_or_default()
            .to_owned();
        (status, field("MESSAGE: ").trim_end().to_owned())
    }

    /// Health of many objects, in the order given.
    pub fn healths(&self, objects: &[Value]) -> Vec<Verdict> {
        let next = Mutex::new(0..objects.len());
        let verdicts = Mutex::new(vec![Verdict::default(); objects.len()]);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    while let Some(index) = { next.lock().unwrap().next() } {
                        let verdict = self.health(&objects[index]);
                        verdicts.lock().unwrap()[index] = verdict;
                    }
                });
            }
        });
        verdicts.into_inner().unwrap()
    }
}

/// Settings that Argo CD cannot read would be ignored as a whole.
#[test]
fn argo_cd_takes_our_settings() {
    let Some(rules) = Rules::find() else { return };
    let validate = |path: &Path| {
        Command::new(&rules.binary)
            .env("ARGOCD_BINARY_NAME", "argocd")
            .env("HOME", rules.folder.path())
            .args(["admin", "settings", "validate", "--argocd-cm-path"])
            .arg(path)
            .output()
            .unwrap()
    };
    let output = validate(&settings());
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success() && text.contains("resource overrides"),
        "{output:?}"
    );
    assert!(!text.contains('❌'), "{text}");
}
