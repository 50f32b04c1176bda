//! Every way in which a Stack is deleted: what was asked to be destroyed is destroyed, and nothing is left over.
#![allow(clippy::unwrap_used)]

use std::time::Duration;

use serde_json::{Value, json};
use windlass_cluster::Component;
use windlass_operator::{Operator, backend, condition};

const LIMIT: Duration = Duration::from_secs(120);

fn destroying(name: &str) -> String {
    format!("programRef: {{name: {name}}}\ndestroyOnFinalize: true")
}

/// Makes a Stack and waits until its resource is there.
async fn deployed(operator: &Operator, name: &str, spec: &str) {
    operator.stash(name).await;
    operator.stack(name, spec).await;
    operator.ready(name).await;
    assert_eq!(operator.resources(name).unwrap(), ["message"]);
}

async fn delete(operator: &Operator, name: &str, cascade: &str) {
    let cascade = format!("--cascade={cascade}");
    operator
        .kubectl(&["delete", "stack", name, "--wait=false", &cascade])
        .await;
}

/// Names, with their kinds, of everything of a Stack that is stored. Its Program is its user's.
async fn left(operator: &Operator, name: &str) -> Vec<String> {
    let kinds = "stacks,workspaces,updates,pods,secrets";
    let list: Value =
        serde_json::from_str(&operator.kubectl(&["get", kinds, "-o", "json"]).await).unwrap();
    let objects = list["items"].as_array().unwrap().iter().map(|object| {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        (text(&object["kind"]), text(&object["metadata"]["name"]))
    });
    let prefix = format!("{name}-");
    objects
        .filter(|(_, object)| object == name || object.starts_with(&prefix))
        .map(|(kind, object)| format!("{kind}/{object}"))
        .collect()
}

async fn nothing_is_left(operator: &Operator, name: &str) {
    operator.gone("stack", name).await;
    let mut found = Vec::new();
    let what = format!("nothing of {name} is left");
    operator
        .until(&what, LIMIT, async || {
            found = left(operator, name).await;
            found.is_empty()
        })
        .await;
}

async fn destroyed_with(operator: &Operator, name: &str, cascade: &str) {
    deployed(operator, name, &destroying(name)).await;
    delete(operator, name, cascade).await;
    nothing_is_left(operator, name).await;
    assert_eq!(operator.resources(name).unwrap(), [""; 0], "{cascade}");
}

async fn kept(operator: &Operator, name: &str, cascade: &str) {
    deployed(operator, name, &format!("programRef: {{name: {name}}}")).await;
    delete(operator, name, cascade).await;
    nothing_is_left(operator, name).await;
    assert_eq!(operator.resources(name).unwrap(), ["message"], "{cascade}");
}

/// A Stack whose source is not there never ran: there is nothing to destroy, and nothing to wait for.
async fn never_ran(operator: &Operator) {
    operator.stack("never", &destroying("nosuch")).await;
    let what = "waiting for its Program";
    operator
        .stack_when("never", what, |stack| {
            condition(stack, "Reconciling").is_some() || condition(stack, "Stalled").is_some()
        })
        .await;
    delete(operator, "never", "background").await;
    nothing_is_left(operator, "never").await;
    assert!(operator.resources("never").is_none());
}

/// What a destroy needs is gone: it is named, the finalizer stays, and it goes on when it is back.
async fn a_missing_secret_is_named(operator: &mut Operator) {
    let secret = [
        "create",
        "secret",
        "generic",
        "needed",
        "--from-literal=k=v",
    ];
    operator.kubectl(&secret).await;
    let spec = format!(
        "{}\nsecretsRef:\n  greeting: {{type: Secret, secret: {{name: needed, key: k}}}}",
        destroying("needing")
    );
    deployed(operator, "needing", &spec).await;
    // A process that remembers the Secret would rely on it for a while.
    operator.kill();
    operator.kubectl(&["delete", "secret", "needed"]).await;
    operator.launch();
    delete(operator, "needing", "background").await;
    let named = "Secret \"needed\" with key \"k\"";
    operator
        .stack_when("needing", "waiting for its Secret", |stack| {
            condition(stack, "Reconciling")
                .is_some_and(|c| c["message"].as_str().unwrap().contains(named))
        })
        .await;
    assert_eq!(operator.resources("needing").unwrap(), ["message"]);
    operator.kubectl(&secret).await;
    nothing_is_left(operator, "needing").await;
    assert_eq!(operator.resources("needing").unwrap(), [""; 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn whatever_becomes_of_the_children_resources_are_destroyed_and_nothing_is_left() {
    let Some(mut operator) = Operator::start().await else {
        return;
    };
    tokio::join!(
        destroyed_with(&operator, "background", "background"),
        destroyed_with(&operator, "foreground", "foreground"),
        destroyed_with(&operator, "orphan", "orphan"),
    );
    tokio::join!(
        kept(&operator, "kept", "background"),
        kept(&operator, "orphankept", "orphan"),
        never_ran(&operator),
    );
    a_missing_secret_is_named(&mut operator).await;
    the_controllers_are_away(&operator).await;
    a_namespace_waits_for_what_may_still_be_destroyed(&mut operator).await;
}

/// Nobody collects garbage during the destroy; whoever comes back finds what is his.
async fn the_controllers_are_away(operator: &Operator) {
    if !backend::has_provider() {
        return;
    }
    operator.slow("away").await;
    let spec = format!("{}\nconfig: {{pause: \"3000\"}}", destroying("away"));
    operator.stack("away", &spec).await;
    operator.ready("away").await;
    delete(operator, "away", "foreground").await;
    operator.operated("away", "delete-begun", 1).await;
    operator.plane.kill(Component::ControllerManager);
    operator.operated("away", "delete", 1).await;
    let finalizer = "finalizer.stack.pulumi.com";
    operator
        .until("the Stack is let go", LIMIT, async || {
            let stack = operator.get("stack", "away").await;
            stack.is_none_or(|stack| {
                let all = stack["metadata"]["finalizers"].as_array();
                !all.is_some_and(|all| all.contains(&json!(finalizer)))
            })
        })
        .await;
    assert_eq!(operator.resources("away").unwrap(), [""; 0]);
    operator
        .plane
        .start_again(Component::ControllerManager)
        .await
        .unwrap();
    nothing_is_left(operator, "away").await;
    let done = operator.operations("away");
    assert_eq!(done.iter().filter(|o| *o == "delete thing").count(), 1);
}

/// In a namespace that is being deleted nothing can be run: the Stack says what to do, and holds the namespace.
async fn a_namespace_waits_for_what_may_still_be_destroyed(operator: &mut Operator) {
    deployed(operator, "doomed", &destroying("doomed")).await;
    deployed(operator, "free", "programRef: {name: free}").await;
    let doomed = operator.namespace.clone();
    operator
        .kubectl(&["delete", "namespace", &doomed, "--wait=false"])
        .await;
    // Nothing was to be destroyed there.
    operator.gone("stack", "free").await;
    let stalled = operator
        .stack_when("doomed", "stalled for its namespace", |stack| {
            condition(stack, "Stalled").is_some_and(|c| c["reason"] == "NamespaceTerminating")
        })
        .await;
    let message = condition(&stalled, "Stalled").unwrap()["message"].clone();
    let message = message.as_str().unwrap();
    for part in [
        "Destroy the stack by hand",
        "kubectl patch stack doomed",
        "\"finalizers\":null",
    ] {
        assert!(message.contains(part), "{message}");
    }
    assert!(stalled["metadata"]["finalizers"].is_array());
    assert_eq!(operator.resources("doomed").unwrap(), ["message"]);
    // Pods end and go; only the Stack holds the namespace.
    operator.gone("pod", "doomed-workspace-0").await;
    operator
        .until("only the Stack is left", LIMIT, async || {
            left(operator, "doomed").await == ["Stack/doomed"]
        })
        .await;

    // What the condition says to do does it.
    operator
        .patch("stack", "doomed", r#"{"metadata":{"finalizers":null}}"#)
        .await;
    operator.namespace = "default".to_owned();
    operator.gone("namespace", &doomed).await;
}
