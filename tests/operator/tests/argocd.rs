//! The real Argo CD beside the operator: what it syncs, what it waits for, what it deletes, and what it has to process.
#![allow(clippy::unwrap_used)]

use windlass_operator::argocd::{AUTOMATED, Delivery, Sync, health_of, stack_in_wave};

const PROGRAM: &str = r#"
apiVersion: pulumi.com/v1
kind: Program
metadata: {name: @NAME@, annotations: {argocd.argoproj.io/sync-wave: "-1"}}
program:
  configuration:
    greeting: {type: String, default: hello}
  resources:
    message: {type: "pulumi:Stash", properties: {input: "${greeting}"}}
  outputs:
    greeting: "${message.input}"
"#;

fn program(name: &str) -> String {
    PROGRAM.replace("@NAME@", name)
}

/// What may come only after the Stack.
fn afterwards(name: &str) -> String {
    format!(
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}, annotations: {{argocd.argoproj.io/sync-wave: \"1\"}}}}\n\
         data: {{a: b}}\n"
    )
}

/// A wave waits for the Stack of the one before: while it is suspended, and while it runs.
async fn a_wave_waits_for_its_stack(delivery: &Delivery) {
    let repo = delivery.git.repo("waves").unwrap();
    let stack = stack_in_wave("waves", 0, "programRef: {name: waves}\nsuspend: true");
    let files = [
        ("program.yaml", program("waves")),
        ("stack.yaml", stack),
        ("after.yaml", afterwards("waves")),
    ];
    let files: Vec<_> = files
        .iter()
        .map(|(path, text)| (*path, text.as_str()))
        .collect();
    delivery.commit(&repo, "main", &files);
    let sync = Sync {
        name: "waves",
        repo: "waves",
        more: "syncPolicy: {automated: {}}",
        ..Sync::default()
    };
    delivery.application(sync).await;
    let app = delivery
        .app_when("waves", "waiting for its Stack", |app| {
            let operation = &app["status"]["operationState"];
            let message = operation["message"].as_str().unwrap_or_default();
            operation["phase"] == "Running"
                && message.contains("waiting for healthy state of pulumi.com/Stack/waves")
                && health_of(app, "Stack", "waves").0 == "Suspended"
        })
        .await;
    assert_eq!(health_of(&app, "Program", "waves").0, "Healthy");
    assert!(delivery.operator.get("configmap", "waves").await.is_none());
    delivery
        .operator
        .patch("stack", "waves", r#"{"spec":{"suspend":false}}"#)
        .await;
    let app = delivery
        .app_when("waves", "done with its waves", |app| {
            app["status"]["operationState"]["phase"] == "Succeeded"
        })
        .await;
    let stack = delivery.operator.get("stack", "waves").await.unwrap();
    assert_eq!(stack["status"]["outputs"]["greeting"], "hello");
    assert_eq!(health_of(&app, "Stack", "waves").0, "Healthy");
    assert!(delivery.operator.get("configmap", "waves").await.is_some());
}

#[tokio::test(flavor = "multi_thread")]
async fn argo_cd_brings_stacks() {
    let Some(delivery) = Delivery::start().await else {
        return;
    };
    a_wave_waits_for_its_stack(&delivery).await;
    let _ = AUTOMATED;
}
