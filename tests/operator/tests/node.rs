//! Workspaces on a real node: what only a kubelet, a container runtime and a kernel do.
#![allow(clippy::unwrap_used)]

use std::panic::AssertUnwindSafe;
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::join_all;
use pretty_assertions::assert_eq;
use serde_json::{Value, json};
use windlass_cluster::RealNode;
use windlass_operator::stacks::template;
use windlass_operator::{Operator, condition, is_ready};

type OnNode = Operator<RealNode>;

/// Locks of this project in the backend.
fn locks(operator: &OnNode, name: &str) -> usize {
    let all = operator.locks();
    let of_project = all
        .iter()
        .filter(|lock| lock.to_string_lossy().contains(&format!("/{name}/")));
    of_project.count()
}

const SESAME: &str = "open-sesame-7431";

/// The strictest standard of pod security, and what people find in the pod.
async fn a_workspace_is_at_home(operator: &OnNode) {
    let create = ["create", "secret", "generic", "home", "--from-literal"];
    operator
        .kubectl(&[&create[..], &[&format!("token={SESAME}")]].concat())
        .await;
    let reference = json!({"type": "Secret", "secret": {"name": "home", "key": "token"}});
    let change = json!({"spec": {
        "envRefs": {"TOKEN": reference}, "secretsRef": {"greeting": reference},
    }});
    operator.begun("home", change).await;
    operator.ready("home").await;

    let pod = "home-workspace-0";
    let run = async |argv: &[&str]| operator.exec(pod, "pulumi", argv).await;
    let said = run(&["pulumi", "stack"]).await;
    assert!(
        said.contains("Current stack is dev") && said.contains("message"),
        "{said}"
    );
    let output = ["pulumi", "stack", "output", "--show-secrets", "greeting"];
    assert_eq!(run(&output).await.trim(), SESAME);
    let script =
        r#"id -u; id -g; echo "$HOME"; echo "$PULUMI_BACKEND_URL"; ls; cat /proc/1/cmdline"#;
    let found = run(&["sh", "-c", script]).await;
    let found: Vec<_> = found.lines().collect();
    let (first, before) = found.split_last().unwrap();
    assert_eq!(
        before[..4],
        ["1000", "1000", "/home/pulumi", "file:///state"]
    );
    // It is where the program is.
    assert!(before[4..].contains(&"Pulumi.yaml"), "{found:?}");
    assert!(first.starts_with("/share/agent\0serve"), "{found:?}");

    // A process whose parent is gone belongs to the first one, which buries it.
    let orphan = run(&["sh", "-c", "sh -c 'sleep 0.1 & echo $!'"]).await;
    let alive = format!("test -e /proc/{}", orphan.trim());
    operator
        .until(
            "the orphan to be gone",
            Duration::from_secs(30),
            async || {
                let arguments = [
                    "exec",
                    pod,
                    "-n",
                    &operator.namespace,
                    "--",
                    "sh",
                    "-c",
                    &alive,
                ];
                !operator.plane.kubectl(&arguments).await.status.success()
            },
        )
        .await;

    let log = operator.kubectl(&["logs", pod]).await;
    assert!(
        log.contains("pulumi:index:Stash") && log.contains("Resources:"),
        "{log}"
    );
    for seen in [log, operator.kubectl(&["describe", "pod", pod]).await] {
        assert!(!seen.contains(SESAME), "{seen}");
    }
}

async fn an_image_that_is_not_there(operator: &OnNode) {
    let spec = |image: &str, policy: &str| {
        let spec = json!({"image": image, "imagePullPolicy": policy});
        json!({"spec": {"workspaceTemplate": {"spec": spec}}})
    };
    // Nobody listens there.
    let image = "127.0.0.1:1/none:1";
    operator.begun("absent", spec(image, "Never")).await;
    let said = format!("Container image \"{image}\" is not present with pull policy of Never");
    operator
        .says(
            "absent",
            &["ErrImageNeverPull", "container \"pulumi\"", &said],
        )
        .await;
    let change = spec(image, "IfNotPresent");
    operator.patch("stack", "absent", &change.to_string()).await;
    // Now it is tried, now it is not tried again yet: both say why.
    operator
        .says("absent", &["ErrImagePull", "container \"pulumi\"", image])
        .await;
    let change = spec(windlass_operator::PULUMI_IMAGE, "IfNotPresent");
    operator.patch("stack", "absent", &change.to_string()).await;
    operator.ready("absent").await;
}

/// An init container that crashes, and one that takes more memory than it may.
async fn containers_that_end(operator: &OnNode) {
    let setup = |script: &str| {
        template(json!({"initContainers": [{
            "name": "setup", "image": windlass_operator::PULUMI_IMAGE,
            "command": ["sh", "-c", script], "resources": {"limits": {"memory": "32Mi"}},
        }]}))
    };
    operator.begun("crash", setup("exit 3")).await;
    let said = "container \"setup\" ended with exit code 3 (Error)";
    operator.says("crash", &["CrashLoopBackOff", said]).await;
    let greedy = setup("exec dd if=/dev/zero of=/dev/null bs=200M");
    operator.patch("stack", "crash", &greedy.to_string()).await;
    // The runtime hears of the kernel's reason by another way than of the end, and not each time soon enough.
    let said = "container \"setup\" ended with exit code 137 (OOMKilled)";
    operator
        .stack_when("crash", &format!("saying {said}"), |stack| {
            let conditions = stack["status"]["conditions"].as_array().unwrap();
            let message = |condition: &Value| {
                let message = condition["message"].as_str();
                message.is_some_and(|message| message.contains(said))
            };
            conditions.iter().any(message)
        })
        .await;
    operator
        .patch(
            "stack",
            "crash",
            &template(json!({"initContainers": null})).to_string(),
        )
        .await;
    operator.ready("crash").await;
}

async fn containers_of_the_users_own(operator: &OnNode) {
    let own = |name: &str, script: &str| {
        json!({
            "name": name, "image": windlass_operator::PULUMI_IMAGE,
            "command": ["sh", "-c", script],
            "volumeMounts": [{"name": "share", "mountPath": "/share"}],
        })
    };
    let pod = json!({
        "initContainers": [own("prepare", "echo prepared > /share/note")],
        "containers": [
            {"name": "pulumi", "volumeMounts": [{"name": "state", "mountPath": "/state"}]},
            own("beside", "echo beside; exec sleep 100000"),
        ],
    });
    operator.begun("own", template(pod)).await;
    operator.ready("own").await;
    let pod = "own-workspace-0";
    let note = operator.exec(pod, "beside", &["cat", "/share/note"]).await;
    assert_eq!(note.trim(), "prepared");
    assert_eq!(
        operator
            .kubectl(&["logs", pod, "-c", "beside"])
            .await
            .trim(),
        "beside"
    );
}

/// Deploys a Stack whose resource takes its time, and begins a run of it that does not end by itself. The one after it
/// does.
async fn in_a_run(operator: &OnNode, name: &str) {
    operator.slow(name).await;
    let round = |round: &str, pause: &str| {
        let config = json!({"round": round, "pause": pause});
        json!({"spec": {"config": config}})
    };
    operator.changed(name, round("round-0", "0")).await;
    operator.ready(name).await;
    let patch = round("round-1", "3600000").to_string();
    operator.patch("stack", name, &patch).await;
    operator.operated(name, "update-begun", 1).await;
    let patch = round("round-1", "0").to_string();
    operator.patch("stack", name, &patch).await;
}

/// The run after the one that was cut off is the only one that did anything, and the lock is gone.
async fn made_up_for(operator: &OnNode, name: &str) -> Option<String> {
    operator
        .stack_when(name, "Ready after all", |stack| {
            is_ready(stack) && stack["status"]["outputs"]["round"] == "round-1"
        })
        .await;
    let all = operator.runs(name).await;
    assert_eq!(all[0], (1, true, None));
    assert!(all[1].1, "{all:?}");
    let (last, between) = all[2..].split_last().unwrap();
    assert!(last.1 && last.2.is_none(), "{all:?}");
    let locked = between
        .iter()
        .all(|run| run.2.as_deref() == Some("StackLocked"));
    assert!(between.len() <= 1 && locked, "{all:?}");
    let done = |operation: &str| {
        let operations = operator.operations(name);
        operations
            .iter()
            .filter(|done| **done == format!("{operation} thing"))
            .count()
    };
    assert_eq!((done("update-begun"), done("update")), (2, 1));
    assert_eq!(locks(operator, name), 0);
    all[1].2.clone()
}

async fn a_container_that_is_killed(operator: &OnNode) {
    in_a_run(operator, "killed").await;
    assert_eq!(locks(operator, "killed"), 1);
    let id = operator.container_id("killed-workspace-0", "pulumi").await;
    operator.kubelet.kill_container(&id).await.unwrap();
    // The workspace is the pod, which stays.
    let why = made_up_for(operator, "killed").await;
    assert_eq!(why.as_deref(), Some("RunLost"));
}

/// As the kernel does where memory is short: it takes the CLI and leaves the agent.
async fn a_cli_that_is_killed(operator: &OnNode) {
    in_a_run(operator, "shot").await;
    let script = r#"for process in /proc/[0-9]*; do
        read -r name < $process/comm
        if [ "$name" = pulumi ]; then kill -KILL "${process#/proc/}"; fi
    done"#;
    operator
        .exec("shot-workspace-0", "pulumi", &["sh", "-c", script])
        .await;
    let why = made_up_for(operator, "shot").await;
    assert_eq!(why.as_deref(), Some("RunLost"));
}

/// The kubelet falls silent in the middle of a run, and with it the network of its pods.
async fn a_node_that_is_lost(operator: &OnNode) {
    in_a_run(operator, "lost").await;
    let id = operator.container_id("lost-workspace-0", "pulumi").await;
    let node = &operator.kubelet;
    node.kill_kubelet();
    node.freeze_container(&id).await.unwrap();
    operator
        .stack_when(
            "lost",
            "saying that its workspace cannot be reached",
            |stack| {
                condition(stack, "Reconciling").is_some_and(|reconciling| {
                    reconciling["message"]
                        .as_str()
                        .unwrap()
                        .contains("cannot be reached")
                })
            },
        )
        .await;
    assert_eq!(operator.runs("lost").await.len(), 2);

    // The machine is off, and somebody says so.
    node.kill_container(&id).await.unwrap();
    let taint = "node.kubernetes.io/out-of-service=nodeshutdown:NoExecute";
    operator
        .kubectl(&["taint", "node", node.name(), taint])
        .await;
    operator
        .until(
            "the run to be given up",
            Duration::from_secs(120),
            async || operator.runs("lost").await[1].1,
        )
        .await;
    // Another one would take its place; here it is the same one, repaired.
    operator
        .kubectl(&["taint", "node", node.name(), &format!("{taint}-")])
        .await;
    node.start_kubelet().unwrap();
    let why = made_up_for(operator, "lost").await;
    assert_eq!(why.as_deref(), Some("WorkspaceLost"));
}

#[tokio::test(flavor = "multi_thread")]
async fn workspaces_on_a_real_node() {
    let Some(owned) = Operator::start_on_node().await else {
        return;
    };
    let operator = &owned;
    // What fails does not keep the others from being told.
    let part = async |name: &'static str,
                      part: std::pin::Pin<Box<dyn Future<Output = ()> + '_>>| {
        let begun = std::time::Instant::now();
        let failed = AssertUnwindSafe(part).catch_unwind().await.is_err();
        eprintln!(
            "{name}: {} after {:?}",
            if failed { "FAILED" } else { "ok" },
            begun.elapsed()
        );
        failed.then_some(name)
    };
    macro_rules! parts {
        ($($name:ident),* $(,)?) => { vec![$(part(stringify!($name), Box::pin($name(operator)))),*] };
    }
    let mut failed: Vec<_> = join_all(parts![
        a_workspace_is_at_home,
        an_image_that_is_not_there,
        containers_that_end,
        containers_of_the_users_own,
        a_container_that_is_killed,
        a_cli_that_is_killed,
    ])
    .await;
    // It takes the node from all of them.
    failed.extend(join_all(parts![a_node_that_is_lost]).await);
    let failed: Vec<_> = failed.into_iter().flatten().collect();
    assert!(
        failed.is_empty(),
        "{failed:?}\n{}",
        operator.kubelet.log_tails()
    );

    // It waits for the kubelet to be done with a pod, and does not try to replace it again and again: twelve are made.
    let made = operator.logs().matches("making the workspace").count();
    assert!((12..=24).contains(&made), "{made}");

    // Of all that was mounted, made and started nothing is left.
    let traces = owned.kubelet.traces();
    assert!(traces.found().len() > 5, "{:?}", traces.found());
    drop(owned);
    assert_eq!(traces.found(), [""; 0].map(str::to_owned));
}
