//! `spec.healthChecks` on a cluster: a Stack is Ready when what it names is healthy, and no longer than that.
#![allow(clippy::unwrap_used)]

use serde_json::{Value, json};
use windlass_operator::{Operator, condition};

fn waits(stack: &Value, words: &str) -> bool {
    let waiting = condition(stack, "Reconciling").filter(|it| it["reason"] == "Unhealthy");
    let message = waiting.map(|it| it["message"].as_str().unwrap_or_default().to_owned());
    let ready = condition(stack, "Ready").is_some_and(|it| it["status"] == "True");
    message.is_some_and(|it| it.contains(words)) && !ready
}

async fn replicas(operator: &Operator, count: u32) {
    let scale = format!("--replicas={count}");
    operator
        .kubectl(&["scale", "deployment", "web", &scale])
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stack_waits_for_what_it_names_and_learns_no_more_than_its_service_account_may() {
    let Some(operator) = Operator::start().await else {
        return;
    };
    let checks = json!([
        {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
        {"apiVersion": "pulumi.com/v1", "kind": "Stack", "name": "base"},
    ]);
    operator.begun("base", json!({})).await;
    operator.ready("base").await;
    operator
        .begun("app", json!({"spec": {"healthChecks": checks}}))
        .await;

    // Its service account may read nothing.
    operator
        .stack_when("app", "waiting for rights", |stack| {
            waits(stack, "the service account default may not get deployments")
                && waits(stack, "the service account default may not get stacks")
        })
        .await;
    let account = format!("--serviceaccount={}:default", operator.namespace);
    let view = ["create", "rolebinding", "view", "--clusterrole=view"];
    operator
        .kubectl(&[view.as_slice(), &[account.as_str()]].concat())
        .await;
    let role = [
        "create",
        "role",
        "stacks",
        "--verb=get",
        "--resource=stacks.pulumi.com",
    ];
    operator.kubectl(&role).await;
    let bind = ["create", "rolebinding", "stacks", "--role=stacks"];
    operator
        .kubectl(&[bind.as_slice(), &[account.as_str()]].concat())
        .await;
    // The Stack `base` is judged by the plugin for Stacks: it is healthy, and not spoken of any more.
    let stack = operator
        .stack_when("app", "waiting for the Deployment", |stack| {
            waits(stack, "Deployment web: it does not exist")
        })
        .await;
    assert!(
        !stack["status"].to_string().contains("Stack base"),
        "{stack:#}"
    );

    let image = [
        "create",
        "deployment",
        "web",
        "--image=none",
        "--replicas=0",
    ];
    operator.kubectl(&image).await;
    let stack = operator.ready("app").await;
    assert_eq!(stack["status"]["lastUpdate"]["sequence"], 1, "{stack:#}");

    // It is followed: nobody asks for anything here.
    replicas(&operator, 1).await;
    operator
        .stack_when("app", "waiting for a copy", |stack| {
            waits(
                stack,
                "Deployment web: progressing: 0 of 1 copies are ready",
            )
        })
        .await;
    replicas(&operator, 0).await;
    let stack = operator.ready("app").await;
    assert_eq!(
        stack["status"]["lastUpdate"]["sequence"], 1,
        "nothing was run for it"
    );
}
