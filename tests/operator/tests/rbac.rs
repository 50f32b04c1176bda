//! The operator with the rights of `deploy/rbac` and no others; and what Stacks may not do with the operator's rights.
#![allow(clippy::unwrap_used)]

use pretty_assertions::assert_eq;
use serde_json::{Value, json};
use windlass_cluster::{AuditEvent, AuditLog, Identity};
use windlass_e2e::git_server::{Access, GitServer};
use windlass_e2e::world::workspace_root;
use windlass_operator::{Operator, condition};

const PROGRAM: &str = "name: git\nruntime: yaml\nconfig:\n  greeting: {type: string}\nresources:\n  message:\n    type: \
                       pulumi:Stash\n    properties: {input: \"${greeting}\"}\noutputs:\n  greeting: ${message.input}\n";

async fn kubectl(operator: &Operator, arguments: &[&str], input: &str) -> String {
    let plane = &operator.plane;
    let output = plane.kubectl_with(arguments, input.as_bytes()).await;
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{arguments:?}: {said}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// A service account with the rights in its own namespace, and for the rest as `bind` says.
async fn account(operator: &mut Operator, name: &str) -> Identity {
    let who = Identity::service_account("operator", name);
    operator.kubeconfig = operator.plane.kubeconfig_as(&who).await.unwrap();
    let file = workspace_root().join("deploy/rbac/role.yaml");
    let file = file.display().to_string();
    kubectl(operator, &["apply", "-n", "operator", "-f", &file], "").await;
    let subject = format!("--serviceaccount=operator:{name}");
    let create = ["create", "rolebinding", name, "-n", "operator"];
    let role = ["--role=windlass-leader", subject.as_str()];
    kubectl(operator, &[create.as_slice(), &role].concat(), "").await;
    who
}

fn of(audit: &AuditLog, who: &Identity) -> AuditLog {
    audit.of_user(&who.user_name())
}

/// What the API server refused to somebody, without the kinds that he may do without.
fn refused(audit: &AuditLog, without: &[&str]) -> Vec<AuditEvent> {
    audit
        .only(|event| {
            event.code == 403
                && !event.resource.starts_with("selfsubject")
                && !without.contains(&event.resource.as_str())
        })
        .0
}

/// A Stack on a private repository, one that uses its output, configuration out of a Secret, a change, a destroy.
async fn life(operator: &Operator, server: &GitServer) {
    let secret = ["create", "secret", "generic", "git"];
    let keys = [
        "--from-literal=username=git",
        "--from-literal=password=open-sesame",
    ];
    operator.kubectl(&[secret.as_slice(), &keys].concat()).await;
    let values = [
        "create",
        "secret",
        "generic",
        "values",
        "--from-literal=greeting=hello",
    ];
    operator.kubectl(&values).await;
    let map = [
        "create",
        "configmap",
        "settings",
        "--from-literal=COLOUR=red",
    ];
    operator.kubectl(&map).await;
    let spec = format!(
        "projectRepo: {}\nbranch: main\ngitAuthSecret: git\ndestroyOnFinalize: true\nenvs: [settings]\n\
         secretsRef:\n  greeting: {{type: Secret, secret: {{name: values, key: greeting}}}}",
        server.url("private")
    );
    operator.stack("git", &spec).await;
    operator.stash("user").await;
    // The first field of the literal block of variables is given by the harness.
    let spec = "programRef: {name: user}\ndestroyOnFinalize: true\nprerequisites: [{name: git}]";
    operator.stack("user", spec).await;
    let reference = json!({"type": "StackOutput", "stack": "git", "output": "greeting"});
    let patch = json!({"spec": {"envRefs": {"GREETING": reference}}});
    operator.patch("stack", "user", &patch.to_string()).await;
    operator.ready("git").await;
    operator.ready("user").await;
    let patch = json!({"spec": {"config": {"greeting": "salut"}}}).to_string();
    operator.patch("stack", "user", &patch).await;
    operator
        .stack_when("user", "deployed with its new configuration", |stack| {
            stack["status"]["outputs"]["greeting"] == "salut"
        })
        .await;
    for name in ["user", "git"] {
        operator
            .kubectl(&["delete", "stack", name, "--wait=false"])
            .await;
        operator.gone("stack", name).await;
        operator.gone("pod", &format!("{name}-workspace-0")).await;
        assert_eq!(operator.resources(name).unwrap(), [""; 0]);
    }
}

/// What a Stack names of another namespace it does not get, and nobody even looks at it.
async fn tenants(operator: &Operator, who: &Identity) {
    let other = operator.plane.namespace("other").await;
    let secret = [
        "create",
        "secret",
        "generic",
        "theirs",
        "-n",
        &other,
        "--from-literal=k=v",
    ];
    kubectl(operator, &secret, "").await;
    operator.stash("thief").await;
    let reference =
        format!("{{type: Secret, secret: {{namespace: {other}, name: theirs, key: k}}}}");
    let cases = [
        (
            "config",
            format!("programRef: {{name: thief}}\nsecretsRef:\n  greeting: {reference}"),
        ),
        (
            "login",
            format!(
                "projectRepo: https://127.0.0.1:1/a.git\nbranch: main\ngitAuth:\n  accessToken: {reference}"
            ),
        ),
    ];
    for (name, spec) in &cases {
        operator.stack(name, spec).await;
    }
    operator.stack("env", "programRef: {name: thief}").await;
    let reference =
        json!({"type": "Secret", "secret": {"namespace": other, "name": "theirs", "key": "k"}});
    let patch = json!({"spec": {"envRefs": {"V": reference}}}).to_string();
    operator.patch("stack", "env", &patch).await;
    for name in ["config", "login", "env"] {
        let refused = |stack: &Value| {
            condition(stack, "Stalled").is_some_and(|stalled| {
                let message = stalled["message"].as_str().unwrap();
                stalled["reason"] == "SpecInvalid"
                    && message.contains("cross-namespace refs are not allowed")
            })
        };
        operator.stack_when(name, "refused", refused).await;
    }
    let audit = of(&operator.plane.audit_log(), who);
    let looked = audit.only(|event| event.namespace == other);
    assert_eq!(looked.0, []);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_rights_of_the_role_are_enough_and_secrets_are_neither_listed_nor_watched() {
    let server = GitServer::start().await.unwrap();
    let repo = server.repo("private").unwrap();
    repo.commit("main", &[("Pulumi.yaml", "100644", PROGRAM.as_bytes())])
        .unwrap();
    let access = Access::Basic {
        user: "git".into(),
        pass: "open-sesame".into(),
    };
    server.set_access("private", access);
    let Some(mut operator) = Operator::prepare().await else {
        return;
    };

    // The whole cluster.
    let who = account(&mut operator, "windlass").await;
    let subject = "--serviceaccount=operator:windlass";
    let bind = [
        "create",
        "clusterrolebinding",
        "windlass",
        "--clusterrole=windlass",
        subject,
    ];
    kubectl(&operator, &bind, "").await;
    operator.launch();
    life(&operator, &server).await;
    tenants(&operator, &who).await;
    operator.kill();
    let audit = of(&operator.plane.audit_log(), &who);
    assert!(audit.writes() > 20, "{}", audit.writes());
    assert_eq!(refused(&audit, &[]), []);
    for verb in ["list", "watch"] {
        assert_eq!(audit.count(verb, "secrets"), 0, "{verb}");
    }

    // One namespace: a Role there, none of the kinds that belong to the cluster.
    let role = kubectl(
        &operator,
        &["get", "clusterrole", "windlass", "-o", "json"],
        "",
    )
    .await;
    let role: Value = serde_json::from_str(&role).unwrap();
    let mut rules = role["rules"].as_array().unwrap().clone();
    let of_the_cluster = ["nodes", "customresourcedefinitions"];
    rules.retain(|rule| {
        !of_the_cluster
            .iter()
            .any(|kind| rule["resources"][0] == *kind)
    });
    operator.namespace = operator.plane.namespace("team").await;
    let role = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role",
        "metadata": {"name": "windlass"}, "rules": rules,
    });
    let team = operator.namespace.clone();
    kubectl(
        &operator,
        &["apply", "-n", &team, "-f", "-"],
        &role.to_string(),
    )
    .await;
    let who = account(&mut operator, "namespaced").await;
    let subject = "--serviceaccount=operator:namespaced";
    let bind = [
        "create",
        "rolebinding",
        "windlass",
        "-n",
        &team,
        "--role=windlass",
        subject,
    ];
    kubectl(&operator, &bind, "").await;
    operator.arguments = vec!["--namespaces".to_owned(), team.clone()];
    operator.launch();
    life(&operator, &server).await;
    let audit = of(&operator.plane.audit_log(), &who);
    assert_eq!(refused(&audit, &of_the_cluster), []);
    let elsewhere = audit.only(|event| {
        !event.namespace.is_empty() && event.namespace != team && event.namespace != "operator"
    });
    assert_eq!(elsewhere.0, []);
}
