//! Every version of an object, as a watch sees them.

use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use serde_json::Value;

use crate::Operator;

/// A watch of one object that goes on until it is dropped.
pub struct History {
    child: Child,
    file: PathBuf,
}

impl<K> Operator<K> {
    /// Records every version of an object of the namespace from now on.
    pub fn history(&self, kind: &str, name: &str) -> History {
        let file = self.dir.path().join(format!("{kind}-{name}.history"));
        let out = std::fs::File::create(&file).expect("a file");
        let child = Command::new("kubectl")
            .args(["get", kind, name, "-n", &self.namespace, "-o", "json", "-w"])
            .env("KUBECONFIG", self.plane.kubeconfig())
            .env("KUBECACHEDIR", self.dir.path().join("kubectl-cache"))
            .stdin(Stdio::null())
            .stdout(out)
            .stderr(Stdio::null())
            .spawn()
            .expect("kubectl");
        History { child, file }
    }
}

impl History {
    /// The versions so far, oldest first.
    pub fn versions(&self) -> Vec<Value> {
        let text = std::fs::read_to_string(&self.file).unwrap_or_default();
        // The last one may still be being written.
        serde_json::Deserializer::from_str(&text)
            .into_iter::<Value>()
            .map_while(Result::ok)
            .collect()
    }
}

impl Drop for History {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
