//! Stacks of tests: how they begin, what they say of a pod that does not start, and their runs.

use serde_json::{Value, json};

use crate::{Operator, condition};

/// A run of a Stack: its sequence, whether it is over, why it failed if it did.
pub type Run = (i64, bool, Option<String>);

/// A change to a Stack: this in the specification of its pods.
pub fn template(pod: Value) -> Value {
    json!({"spec": {"workspaceTemplate": {"spec": {"podTemplate": {"spec": pod}}}}})
}

impl<K> Operator<K> {
    /// A Stack with a Program of its own, made with this change to it.
    pub async fn begun(&self, name: &str, change: Value) {
        self.stash(name).await;
        self.changed(name, change).await;
    }

    /// A Stack with the Program of its name, made with this change to it.
    pub async fn changed(&self, name: &str, change: Value) {
        let spec = format!("programRef: {{name: {name}}}\nsuspend: true");
        self.stack(name, &spec).await;
        self.patch("stack", name, &change.to_string()).await;
        self.patch("stack", name, r#"{"spec":{"suspend":false}}"#)
            .await;
    }

    /// Waits until a Stack says all of this of a pod that does not start.
    pub async fn says(&self, name: &str, parts: &[&str]) {
        let what = format!("saying {parts:?}");
        self.stack_when(name, &what, |stack| {
            condition(stack, "Stalled").is_some_and(|stalled| {
                let message = stalled["message"].as_str().unwrap_or_default();
                stalled["reason"] == "WorkspaceFailed"
                    && parts.iter().all(|part| message.contains(part))
            })
        })
        .await;
    }

    /// The runs of a Stack so far, oldest first, as its Updates tell of them.
    pub async fn runs(&self, name: &str) -> Vec<Run> {
        let updates = self.list("updates").await;
        let of_stack = updates
            .iter()
            .filter(|update| update["spec"]["workspaceName"] == name);
        let mut runs: Vec<Run> = of_stack
            .map(|update| {
                let sequence = update["spec"]["intent"]["sequence"].as_i64();
                let sequence = sequence.expect("an Update that a Stack asked for");
                let is = |type_| condition(update, type_).filter(|c| c["status"] == "True");
                let reason =
                    is("Failed").map(|c| c["reason"].as_str().unwrap_or_default().to_owned());
                (sequence, is("Complete").is_some(), reason)
            })
            .collect();
        runs.sort_unstable();
        runs
    }
}
