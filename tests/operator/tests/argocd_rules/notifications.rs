//! Triggers and templates of notifications.

use std::process::Command;

use serde_json::{Value, json};
use windlass_operator::argocd::settings;

use crate::Rules;

/// An Application as its controller leaves it.
fn application(health: &str, kind: &str) -> Value {
    let resource = json!({
        "group": "pulumi.com", "kind": kind, "namespace": "apps", "name": "web",
        "health": {"status": health, "message": "no such region"},
    });
    json!({
        "apiVersion": "argoproj.io/v1alpha1", "kind": "Application",
        "metadata": {"name": "team-a", "namespace": "argocd"}, "spec": {"project": "default"},
        "status": {
            "sync": {"status": "Synced", "revision": "abc"}, "health": {"status": health},
            "operationState": {"phase": "Succeeded"}, "resources": [resource],
        },
    })
}

#[test]
fn people_are_told_of_stacks_that_stall_deploy_or_are_suspended() {
    let Some(rules) = Rules::find() else { return };
    let path = |name: &str| rules.folder.path().join(name);
    // It is not asked, but there must be one.
    let nowhere = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "a",
        "clusters": [{"name": "a", "cluster": {"server": "http://127.0.0.1:1"}}],
        "users": [{"name": "a", "user": {}}],
        "contexts": [{"name": "a", "context": {"cluster": "a", "user": "a", "namespace": "argocd"}}],
    });
    std::fs::write(path("kubeconfig"), nowhere.to_string()).unwrap();
    let ask = |arguments: &[&str], application: &Value| {
        std::fs::write(path("app.json"), application.to_string()).unwrap();
        let output = Command::new(&rules.binary)
            .env("ARGOCD_BINARY_NAME", "argocd")
            .env("HOME", rules.folder.path())
            .env("KUBECONFIG", path("kubeconfig"))
            .args(["admin", "notifications"])
            .args(arguments)
            .arg(path("app.json"))
            .args(["--secret", ":empty", "--config-map"])
            .arg(settings().with_file_name("argocd-notifications-cm.yaml"))
            .output()
            .unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    for (trigger, health) in [
        ("on-stack-degraded", "Degraded"),
        ("on-stack-deployed", "Healthy"),
        ("on-stack-suspended", "Suspended"),
    ] {
        let fires = |application: &Value| {
            let printed = ask(&["trigger", "run", trigger], application);
            printed.trim_end().ends_with(" true")
        };
        assert!(fires(&application(health, "Stack")), "{trigger}");
        assert!(!fires(&application(health, "Deployment")), "{trigger}");
        assert!(!fires(&application("Progressing", "Stack")), "{trigger}");
        let template = trigger.replace("on-", "");
        let told = ask(
            &[
                "template",
                "notify",
                &template,
                "--recipient",
                "console:stdout",
            ],
            &application(health, "Stack"),
        );
        assert!(told.contains("team-a: "), "{told}");
        if health == "Degraded" {
            assert!(
                told.contains("- apps/web: Degraded: no such region"),
                "{told}"
            );
        }
    }
}
