//! What a sync waits for, and what ends it.

use serde_json::Value;
use windlass_operator::argocd::{AUTOMATED, Delivery, Sync, health_of, is_delivered};
use windlass_operator::{backend, is_ready};

use crate::support::{afterwards, commit, program, repository, stack, thing};

/// The sync goes on, and says that it waits for this Stack.
fn waits_for(app: &Value, name: &str) -> bool {
    let operation = &app["status"]["operationState"];
    let message = operation["message"].as_str().unwrap_or_default();
    operation["phase"] == "Running"
        && message.contains(&format!(
            "waiting for healthy state of pulumi.com/Stack/{name}"
        ))
}

fn once(name: &str) -> Sync<'_> {
    Sync {
        name,
        repo: name,
        // Unasked, Argo CD tries a failed sync five times more, over two and a half minutes.
        more: "syncPolicy: {automated: {}, retry: {limit: 0}}",
        ..Sync::default()
    }
}

pub async fn a_wave_waits_while_its_stack_is_suspended(delivery: &Delivery) {
    let name = "waves";
    let stack = stack(name, "suspend: true");
    repository(delivery, name, &[program(name), stack, afterwards(name)]);
    delivery.application(once(name)).await;
    let app = delivery
        .app_when(name, "waiting for its Stack", |app| {
            waits_for(app, name) && health_of(app, "Stack", name).0 == "Suspended"
        })
        .await;
    assert_eq!(health_of(&app, "Program", name).0, "Healthy");
    let operator = &delivery.operator;
    assert!(operator.get("configmap", name).await.is_none());
    operator
        .patch("stack", name, r#"{"spec":{"suspend":false}}"#)
        .await;
    let app = delivery
        .app_when(name, "done with its waves", |app| {
            app["status"]["operationState"]["phase"] == "Succeeded"
        })
        .await;
    assert_eq!(health_of(&app, "Stack", name).0, "Healthy");
    assert!(operator.get("configmap", name).await.is_some());
    let stack = operator.get("stack", name).await.unwrap();
    assert_eq!(stack["status"]["outputs"]["greeting"], "hello");
}

/// What may pass by itself does not end a sync: it goes on waiting.
pub async fn a_wave_waits_while_its_stack_is_tried_again(delivery: &Delivery) {
    let name = "later";
    // The Program is not in the repository.
    repository(delivery, name, &[stack(name, ""), afterwards(name)]);
    delivery.application(once(name)).await;
    delivery
        .app_when(name, "waiting for a Stack without a Program", |app| {
            let (health, message) = health_of(app, "Stack", name);
            waits_for(app, name) && health == "Progressing" && message.contains("later")
        })
        .await;
    delivery.operator.apply(&program(name)).await;
    delivery
        .app_when(name, "done with its waves", |app| {
            app["status"]["operationState"]["phase"] == "Succeeded"
        })
        .await;
    assert!(delivery.operator.get("configmap", name).await.is_some());
}

/// What will not go on by itself does, at once; the next commit mends it.
pub async fn a_stack_that_stalls_ends_the_sync_until_it_is_mended(delivery: &Delivery) {
    if !backend::has_provider() {
        return;
    }
    let name = "broken";
    let rest = [
        stack(name, "retry: {limit: 1, initialBackoffSeconds: 1}"),
        afterwards(name),
    ];
    let with = |properties: &str| {
        let mut all = vec![thing(name, -1, properties)];
        all.extend(rest.clone());
        all
    };
    let repo = repository(delivery, name, &with("value: a, fail: no such region"));
    delivery.application(once(name)).await;
    let app = delivery
        .app_when(name, "Degraded, with its sync failed", |app| {
            app["status"]["operationState"]["phase"] == "Failed"
                && app["status"]["health"]["status"] == "Degraded"
        })
        .await;
    let (health, message) = health_of(&app, "Stack", name);
    assert_eq!(health, "Degraded");
    assert!(message.contains("no such region"), "{message}");
    assert!(delivery.operator.get("configmap", name).await.is_none());
    commit(delivery, &repo, "main", &with("value: b"));
    delivery.look(name).await;
    delivery.delivered(name).await;
    assert!(delivery.operator.get("configmap", name).await.is_some());
}

/// The Application follows a branch; moving it deploys what was tried elsewhere, and moving it back takes it back.
pub async fn a_moved_branch_is_a_promotion(delivery: &Delivery) {
    let name = "promoted";
    let at = |greeting: &str| {
        let more = format!("config: {{greeting: {greeting}}}");
        [program(name), stack(name, &more)]
    };
    let repo = repository(delivery, name, &at("one"));
    let first = repo.git(&["rev-parse", "main"], b"").unwrap();
    let second = commit(delivery, &repo, "main", &at("two"));
    let release = |commit: &str| {
        let arguments = ["update-ref", "refs/heads/release", commit];
        repo.git(&arguments, b"").unwrap();
    };
    release(&first);
    let sync = Sync {
        branch: "release",
        more: AUTOMATED,
        ..once(name)
    };
    delivery.application(sync).await;
    for (commit, greeting) in [(&first, "one"), (&second, "two"), (&first, "one")] {
        release(commit);
        delivery.look(name).await;
        delivery
            .app_when(name, greeting, |app| {
                is_delivered(app) && app["status"]["sync"]["revision"] == **commit
            })
            .await;
        let stack = delivery.operator.get("stack", name).await.unwrap();
        assert!(is_ready(&stack));
        assert_eq!(stack["status"]["outputs"]["greeting"], greeting);
    }
}
