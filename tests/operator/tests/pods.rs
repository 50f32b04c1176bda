//! The workspace's pod: what replaces it and what does not, what is said when it does not start, and what people find in
//! it.
#![allow(clippy::unwrap_used)]

use std::time::Duration;

use pretty_assertions::{assert_eq, assert_ne};
use serde_json::{Value, json};
use windlass_cluster::Image;
use windlass_e2e::git_server::GitServer;
use windlass_operator::backend::has_provider;
use windlass_operator::stacks::template;
use windlass_operator::{Operator, condition, is_ready};

async fn pod(operator: &Operator, name: &str) -> Value {
    let pod = operator.get("pod", &format!("{name}-workspace-0")).await;
    pod.unwrap_or_default()
}

async fn uid(operator: &Operator, name: &str) -> Value {
    pod(operator, name).await["metadata"]["uid"].clone()
}

/// Waits until the Stack has run again since `before`, and is Ready.
async fn run_after(operator: &Operator, name: &str, before: &Value) -> Value {
    let last = |stack: &Value| stack["status"]["lastUpdate"]["sequence"].clone();
    operator
        .stack_when(name, "Ready after another run", |stack| {
            is_ready(stack) && last(stack) != last(before)
        })
        .await
}

async fn patched(operator: &Operator, name: &str, patch: Value) -> Value {
    let before = operator.ready(name).await;
    operator.patch("stack", name, &patch.to_string()).await;
    run_after(operator, name, &before).await
}

/// The value of an output, as applications get it.
async fn output(operator: &Operator, name: &str, output: &str) -> String {
    let template = format!("go-template={{{{index .data \"{output}\" | base64decode}}}}");
    let secret = format!("{name}-outputs");
    operator
        .kubectl(&["get", "secret", &secret, "-o", &template])
        .await
}

async fn secret(operator: &Operator, value: &str) {
    let text = json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "rotating"},
        "stringData": {"greeting": value},
    });
    operator.apply(&text.to_string()).await;
}

async fn only_the_specification_of_a_pod_replaces_it(operator: &Operator) {
    let program = |more: &str| {
        format!(
            "name: lasting\nruntime: yaml\nconfig:\n  greeting: {{type: string}}\nresources:\n  message:\n    type: \
             pulumi:Stash\n    properties: {{input: \"${{greeting}}\"}}\noutputs:\n  greeting: ${{message.input}}\n{more}"
        )
    };
    let server = GitServer::start().await.unwrap();
    let repo = server.repo("lasting").unwrap();
    let commit = |text: &str| {
        let file = [("Pulumi.yaml", "100644", text.as_bytes())];
        repo.commit("main", &file).unwrap()
    };
    commit(&program(""));
    secret(operator, "first").await;
    let spec = format!(
        "projectRepo: {}\nbranch: main\nsecretsRef:\n  greeting: {{type: Secret, secret: {{name: rotating, key: greeting}}}}",
        server.url("lasting")
    );
    operator.stack("lasting", &spec).await;
    operator.ready("lasting").await;
    assert_eq!(output(operator, "lasting", "greeting").await, "first");
    let first = uid(operator, "lasting").await;
    assert!(first.is_string());

    // A value behind a reference: the next run has it.
    secret(operator, "second").await;
    let request = json!({"metadata": {"annotations": {"pulumi.com/reconciliation-request": "1"}}});
    patched(operator, "lasting", request).await;
    assert_eq!(output(operator, "lasting", "greeting").await, "second");
    // Configuration.
    patched(
        operator,
        "lasting",
        json!({"spec": {"config": {"more": "1"}}}),
    )
    .await;
    // A commit.
    let head = commit(&program("  more: also\n"));
    let request = json!({"metadata": {"annotations": {"pulumi.com/reconciliation-request": "2"}}});
    operator
        .patch("stack", "lasting", &request.to_string())
        .await;
    let stack = operator
        .stack_when("lasting", "deployed from the new commit", |stack| {
            is_ready(stack) && stack["status"]["outputs"]["more"] == "also"
        })
        .await;
    assert_eq!(stack["status"]["lastUpdate"]["lastSuccessfulCommit"], head);
    assert_eq!(
        uid(operator, "lasting").await,
        first,
        "the pod was replaced"
    );

    // What the pod is made of.
    operator
        .kubectl(&["create", "serviceaccount", "runner"])
        .await;
    let container = |more: Value| {
        let mut all =
            json!({"name": "pulumi", "volumeMounts": [{"name": "state", "mountPath": "/state"}]});
        all.as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        json!({"spec": {"workspaceTemplate": {"spec": {"podTemplate": {"spec": {"containers": [all]}}}}}})
    };
    let literal = json!({"type": "Literal", "literal": {"value": "blue"}});
    let changes = [
        json!({"spec": {"workspaceTemplate": {"spec": {"image": "test/pulumi:2"}}}}),
        json!({"spec": {"envRefs": {"COLOUR": literal}}}),
        json!({"spec": {"serviceAccountName": "runner"}}),
        container(json!({"env": [{"name": "TASTE", "value": "sweet"}]})),
        json!({"spec": {"workspaceTemplate": {"spec": {"securityProfile": "baseline"}}}}),
    ];
    let mut before = first;
    for change in changes {
        let shown = change.to_string();
        patched(operator, "lasting", change).await;
        let now = uid(operator, "lasting").await;
        assert_ne!(now, before, "the pod was kept: {shown}");
        before = now;
    }
    let pod = pod(operator, "lasting").await;
    let pulumi = pod["spec"]["containers"]
        .as_array()
        .unwrap()
        .iter()
        .find(|container| container["name"] == "pulumi")
        .unwrap();
    assert_eq!(pulumi["image"], "test/pulumi:2");
    assert_eq!(pod["spec"]["serviceAccountName"], "runner");
    let env = pulumi["env"].as_array().unwrap();
    for (name, value) in [("COLOUR", "blue"), ("TASTE", "sweet")] {
        let entry = json!({"name": name, "value": value});
        assert!(env.contains(&entry), "{env:?}");
    }
}

async fn an_image_that_is_not_there(operator: &Operator) {
    let image = "registry.invalid/none:1";
    let change = |image: &str| json!({"spec": {"workspaceTemplate": {"spec": {"image": image}}}});
    operator.begun("image", change(image)).await;
    operator
        .says(
            "image",
            &["ImagePullBackOff", "container \"pulumi\"", image],
        )
        .await;
    // The registry has it now: nobody has to touch the Stack.
    operator.kubelet.set_image(image, Image::usual());
    operator.ready("image").await;
}

async fn a_container_that_crashes(operator: &Operator) {
    let init = json!({"initContainers": [{
        "name": "setup", "image": "test/pulumi:1", "command": ["sh", "-c", "exit 3"],
    }]});
    operator.begun("crash", template(init)).await;
    let said = "container \"setup\" ended with exit code 3";
    operator.says("crash", &["CrashLoopBackOff", said]).await;
    operator
        .patch(
            "stack",
            "crash",
            &template(json!({"initContainers": null})).to_string(),
        )
        .await;
    operator.ready("crash").await;
}

async fn no_node_that_fits(operator: &Operator) {
    let selector = json!({"nodeSelector": {"example.com/moon": "yes"}});
    operator.begun("nowhere", template(selector)).await;
    let said = "0/1 nodes are available: 1 node(s) didn't match Pod's node affinity/selector";
    operator.says("nowhere", &["Unschedulable", said]).await;
    let label = [
        "label",
        "node",
        operator.kubelet.node_name(),
        "example.com/moon=yes",
    ];
    operator.kubectl(&label).await;
    operator.ready("nowhere").await;
}

async fn a_key_that_is_missing(operator: &Operator) {
    let secret = [
        "create",
        "secret",
        "generic",
        "half",
        "--from-literal=one=1",
    ];
    operator.kubectl(&secret).await;
    let reference = json!({"type": "Secret", "secret": {"name": "half", "key": "two"}});
    operator
        .begun("key", json!({"spec": {"envRefs": {"TWO": reference}}}))
        .await;
    let said = "couldn't find key two in Secret";
    operator
        .says("key", &["CreateContainerConfigError", said])
        .await;
    operator
        .patch("secret", "half", r#"{"stringData":{"two":"2"}}"#)
        .await;
    operator.ready("key").await;
}

/// What aims elsewhere is refused before anything is made.
async fn a_template_that_is_refused(operator: &Operator) {
    let change = json!({"spec": {"workspaceTemplate": {"metadata": {"name": "other"}}}});
    operator.begun("aims", change).await;
    operator
        .says("aims", &["TemplateInvalid", "metadata.name"])
        .await;
    assert!(
        operator
            .list("workspaces")
            .await
            .iter()
            .all(|w| w["metadata"]["name"] != "other")
    );
}

/// An init container of the template's own works on the program before it runs; a new commit is new work.
async fn an_init_container_finds_the_program(operator: &Operator) {
    let server = GitServer::start().await.unwrap();
    let repo = server.repo("prepared").unwrap();
    let program =
        "name: prepared\nruntime: yaml\noutputs:\n  greeting: {fn::readFile: ./made.txt}\n";
    let commit = |word: &str| {
        let file = |path, text: &'static str| (path, "100644", text.as_bytes());
        let files = [
            file("app/Pulumi.yaml", program),
            ("app/word.txt", "100644", word.as_bytes()),
        ];
        repo.commit("main", &files).unwrap()
    };
    commit("hello");
    let spec = format!(
        "projectRepo: {}\nbranch: main\nrepoDir: app\nsuspend: true",
        server.url("prepared")
    );
    operator.stack("prepared", &spec).await;
    let prepare = template(json!({"initContainers": [{
        "name": "prepare", "image": "test/pulumi:1", "workingDir": "/share/workspace",
        "command": ["sh", "-c", "test -f Pulumi.yaml && tr a-z A-Z < word.txt > made.txt"],
        "volumeMounts": [{"name": "share", "mountPath": "/share"}],
    }]}));
    operator
        .patch("stack", "prepared", &prepare.to_string())
        .await;
    operator
        .patch("stack", "prepared", r#"{"spec":{"suspend":false}}"#)
        .await;
    operator.ready("prepared").await;
    assert_eq!(output(operator, "prepared", "greeting").await, "HELLO");
    let first = uid(operator, "prepared").await;

    let before = operator.ready("prepared").await;
    commit("goodbye");
    let request = r#"{"metadata":{"annotations":{"pulumi.com/reconciliation-request":"1"}}}"#;
    operator.patch("stack", "prepared", request).await;
    run_after(operator, "prepared", &before).await;
    assert_eq!(output(operator, "prepared", "greeting").await, "GOODBYE");
    assert_ne!(uid(operator, "prepared").await, first);
}

/// The kubelet says it in an event, and nowhere else.
async fn a_volume_that_is_missing(operator: &Operator) {
    let volume = json!({
        "volumes": [
            {"name": "state", "hostPath": {"path": operator.state()}},
            {"name": "extra", "secret": {"secretName": "absent"}},
        ],
    });
    operator.begun("volume", template(volume)).await;
    operator
        .stack_when("volume", "saying what is missing", |stack| {
            condition(stack, "Reconciling").is_some_and(|it| {
                let message = it["message"].as_str().unwrap();
                message.contains("FailedMount") && message.contains("absent")
            })
        })
        .await;
    operator
        .kubectl(&["create", "secret", "generic", "absent"])
        .await;
    operator.ready("volume").await;
}

/// What people do in a pod, with its documented environment; and what its log shows.
async fn people_find_their_way(operator: &Operator) {
    operator.stash("open").await;
    operator.stack("open", "programRef: {name: open}").await;
    operator.ready("open").await;
    let pod = "open-workspace-0";
    let exec = async |argv: &[&str]| {
        let namespace = &operator.namespace;
        let run = operator.kubelet.exec(namespace, pod, "pulumi", argv).await;
        let output = run.unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let all = text(&output.stdout) + &text(&output.stderr);
        assert!(output.status.success(), "{argv:?}: {all}");
        text(&output.stdout)
    };
    let said = exec(&["pulumi", "stack"]).await;
    assert!(
        said.contains("Current stack is dev") && said.contains("message"),
        "{said}"
    );
    assert_eq!(
        exec(&["pulumi", "stack", "output", "greeting"])
            .await
            .trim(),
        "hello"
    );
    exec(&["/share/agent", "exec", "--", "pulumi", "cancel", "--yes"]).await;
    let log = operator
        .kubelet
        .logs(&operator.namespace, pod, "pulumi")
        .unwrap();
    assert!(
        log.contains("pulumi:index:Stash") || log.contains("pulumi:pulumi:Stack"),
        "{log}"
    );
    assert!(log.contains("Resources:"), "{log}");
}

/// Whoever looks at the Update of a long run sees how far it is.
async fn a_long_run_says_how_far_it_is(operator: &Operator) {
    if !has_provider() {
        return;
    }
    operator.slow("long").await;
    operator
        .stack(
            "long",
            "programRef: {name: long}\nconfig: {pause: \"5000\"}",
        )
        .await;
    let update = async || {
        let updates = operator.list("updates").await;
        updates
            .into_iter()
            .find(|it| it["spec"]["workspaceName"] == "long")
            .unwrap_or_default()
    };
    let limit = Duration::from_secs(180);
    operator
        .until("the progress of a run", limit, async || {
            let update = update().await;
            let progress = &update["status"]["progress"];
            progress["stage"] == "running"
                && progress["total"] == 1
                && progress["current"]
                    .as_str()
                    .is_some_and(|urn| urn.ends_with("::thing"))
        })
        .await;
    operator.ready("long").await;
    let update = update().await;
    assert!(update["status"]["progress"].is_null(), "{update}");
    assert_eq!(condition(&update, "Complete").unwrap()["status"], "True");
}

#[tokio::test(flavor = "multi_thread")]
async fn pods_last_and_say_what_keeps_them_from_starting() {
    let often = ["--progress-after", "1", "--progress-every", "1"];
    let Some(operator) = Operator::start_with(&often).await else {
        return;
    };
    operator.kubelet.set_image("test/pulumi:2", Image::usual());
    tokio::join!(
        only_the_specification_of_a_pod_replaces_it(&operator),
        an_image_that_is_not_there(&operator),
        a_container_that_crashes(&operator),
        no_node_that_fits(&operator),
        a_key_that_is_missing(&operator),
        a_template_that_is_refused(&operator),
        people_find_their_way(&operator),
        a_long_run_says_how_far_it_is(&operator),
        an_init_container_finds_the_program(&operator),
        a_volume_that_is_missing(&operator),
    );
}
