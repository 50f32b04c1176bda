//! An Application is deleted: its Stacks destroy what they deployed, once, and nothing is left.

use windlass_operator::argocd::{AUTOMATED, BACKGROUND, Delivery, FOREGROUND, Sync};
use windlass_operator::backend;

use crate::support::{repository, stack, thing};

/// The Program in a wave before its Stack: it is there until the Stack is gone.
pub async fn in_the_background(delivery: &Delivery) {
    deleted(delivery, "background", -1, BACKGROUND).await;
}

/// As users have it by default, and Program and Stack are deleted together.
pub async fn in_the_foreground(delivery: &Delivery) {
    deleted(delivery, "foreground", 0, FOREGROUND).await;
}

async fn deleted(delivery: &Delivery, name: &str, wave: i32, finalizer: &str) {
    if !backend::has_provider() {
        return;
    }
    let operator = &delivery.operator;
    let program = thing(name, wave, "value: a");
    repository(
        delivery,
        name,
        &[program, stack(name, "destroyOnFinalize: true")],
    );
    let sync = Sync {
        name,
        repo: name,
        finalizer,
        more: AUTOMATED,
        ..Sync::default()
    };
    delivery.application(sync).await;
    delivery.delivered(name).await;
    assert_eq!(operator.resources(name).unwrap(), ["thing"]);
    delivery.delete_app(name).await;
    delivery.app_gone(name).await;
    assert_eq!(operator.resources(name).unwrap(), [""; 0], "{name}");
    let done = operator.operations(name);
    let deletions = done.iter().filter(|line| *line == "delete thing").count();
    assert_eq!(deletions, 1, "{done:?}");
    assert!(operator.get("stack", name).await.is_none());
    assert!(operator.get("program", name).await.is_none());
    // Children go by the garbage collector, after what owned them.
    for kind in ["workspaces", "updates", "pods", "secrets"] {
        let what = format!("no {kind} of {name} are left");
        let limit = std::time::Duration::from_secs(120);
        operator
            .until(&what, limit, async || {
                let all = operator.list(kind).await;
                let of_stack = |object: &serde_json::Value| {
                    let found = object["metadata"]["name"].as_str().unwrap_or_default();
                    found == name || found.starts_with(&format!("{name}-"))
                };
                !all.iter().any(of_stack)
            })
            .await;
    }
    assert!(
        operator.locks().is_empty()
            || !operator
                .locks()
                .iter()
                .any(|lock| lock.to_string_lossy().contains(name))
    );
}
