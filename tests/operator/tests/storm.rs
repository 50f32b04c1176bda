//! Sixty Stacks on two processors: a repository that is out of order, two tenants, an operator that is killed again and
//! again, a node that reboots.
#![allow(clippy::unwrap_used)]

use std::time::{Duration, Instant};

use serde_json::Value;
use windlass_cluster::kubelet::Processes;
use windlass_e2e::git_server::{Behaviour, GitServer};
use windlass_operator::{Operator, backend, condition, is_ready, stack_manifest};

/// What one tenant asks for at once, and another one later in the alphabet.
const MANY: usize = 60;
const FEW: usize = 2;
/// Runs at a time.
const PLACES: &str = "12";
/// How often the operator is killed, each time after so many more runs have begun.
const KILLS: usize = 4;
const BETWEEN: usize = 8;
/// Stacks that run while the node reboots.
const REBOOTED: usize = 8;
const LIMIT: Duration = Duration::from_secs(400);

fn many() -> Vec<String> {
    (0..MANY).map(|number| format!("s{number}")).collect()
}

fn few() -> Vec<String> {
    (0..FEW).map(|number| format!("other{number}")).collect()
}

/// A program whose resource is named like its Stack and notes in one file for all what is done to it.
fn program(name: &str) -> String {
    format!(
        "name: {name}\nruntime: yaml\nconfig:\n  round: {{type: string, default: zero}}\n  pause: {{type: integer, default: \
         200}}\n  file: {{type: string, default: \"\"}}\nresources:\n  {name}:\n    type: windlasstest:index:Thing\n    \
         properties: {{value: \"${{round}}\", sleepMs: \"${{pause}}\", waitFile: \"${{file}}\", logFile: /state/storm.log}}\n\
         outputs: {{round: \"${{{name}.value}}\"}}\n"
    )
}

/// What was done so far, oldest first, such as `create-begun s1`, `create s1`.
fn done(operator: &Operator) -> Vec<String> {
    operator.operations("storm")
}

fn count(operator: &Operator, operation: &str) -> usize {
    let prefix = format!("{operation} ");
    done(operator)
        .iter()
        .filter(|line| line.starts_with(&prefix))
        .count()
}

async fn stacks(operator: &Operator, namespace: &str) -> Vec<Value> {
    let arguments = ["get", "stacks", "-n", namespace, "-o", "json"];
    let output = operator.plane.kubectl(&arguments).await;
    let list: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
    list["items"].as_array().cloned().unwrap_or_default()
}

/// Waits until all Stacks of a namespace are as they should be. Rarely looked at: the processors have other work.
async fn all(operator: &Operator, namespace: &str, what: &str, is: impl Fn(&Value) -> bool) {
    let wanted = if namespace == operator.namespace {
        MANY
    } else {
        FEW
    };
    let begun = Instant::now();
    loop {
        let all = stacks(operator, namespace).await;
        let (are, others): (Vec<&Value>, Vec<&Value>) = all.iter().partition(|stack| is(stack));
        if are.len() == wanted {
            return;
        }
        assert!(
            begun.elapsed() < LIMIT,
            "not within {LIMIT:?}: {what}\n{:#?}\n{}",
            others
                .iter()
                .map(|stack| &stack["status"])
                .collect::<Vec<_>>(),
            operator.logs()
        );
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
}

/// Nobody can read the repository: every Stack says so, and goes on by itself when somebody can.
async fn an_outage(operator: &mut Operator, other: &str, server: &GitServer) {
    let repo = server.repo("storm").unwrap();
    let files: Vec<(String, String)> = many()
        .into_iter()
        .chain(few())
        .map(|name| (format!("{name}/Pulumi.yaml"), program(&name)))
        .collect();
    let files: Vec<_> = files
        .iter()
        .map(|(path, text)| (path.as_str(), "100644", text.as_bytes()))
        .collect();
    repo.commit("main", &files).unwrap();
    server.set_behaviour("storm", Behaviour::Fail(503));
    let manifests = |names: Vec<String>| -> String {
        let spec = |name: &str| {
            let url = server.url("storm");
            format!("projectRepo: {url}\nbranch: main\nrepoDir: {name}")
        };
        names
            .iter()
            .map(|name| stack_manifest(name, &spec(name)))
            .collect()
    };
    let namespace = operator.namespace.clone();
    operator.apply(&manifests(many())).await;
    operator.namespace = other.to_owned();
    operator.apply(&manifests(few())).await;
    operator.namespace.clone_from(&namespace);
    let waits = |stack: &Value| {
        condition(stack, "Reconciling").is_some_and(|one| one["reason"] == "SourceUnavailable")
    };
    for namespace in [namespace.as_str(), other] {
        all(
            operator,
            namespace,
            "every Stack says that its source is unavailable",
            waits,
        )
        .await;
    }
    assert!(done(operator).is_empty());
    server.set_behaviour("storm", Behaviour::Serve);

    // Who asks for little does not wait for who asks for much.
    all(
        operator,
        other,
        "the other tenant's Stacks are Ready",
        is_ready,
    )
    .await;
    killed_again_and_again(operator).await;
    for namespace in [namespace.as_str(), other] {
        all(operator, namespace, "every Stack is Ready", is_ready).await;
    }
    let begun: Vec<String> = done(operator)
        .into_iter()
        .filter_map(|line| line.strip_prefix("create-begun ").map(str::to_owned))
        .collect();
    let last = begun
        .iter()
        .rposition(|name| name.starts_with("other"))
        .unwrap();
    let after = begun.len() - last - 1;
    assert!(
        after >= MANY / 3,
        "only {after} runs began after the other tenant's: {begun:?}"
    );
}

async fn killed_again_and_again(operator: &mut Operator) {
    for kill in 0..KILLS {
        let before = count(operator, "create-begun");
        let wanted = (before + BETWEEN).min(MANY + FEW - KILLS + kill);
        let what = format!("{wanted} runs have begun");
        operator
            .until(&what, LIMIT, async || {
                count(operator, "create-begun") >= wanted
            })
            .await;
        operator.kill();
        operator.launch();
    }
}

/// Every change was made once, by a run that is recorded; nothing is left behind.
async fn all_is_accounted_for(operator: &Operator, other: &str) {
    let mut done = done(operator);
    done.sort_unstable();
    let mut wanted: Vec<String> = many()
        .into_iter()
        .chain(few())
        .flat_map(|name| [format!("create-begun {name}"), format!("create {name}")])
        .collect();
    wanted.sort_unstable();
    assert_eq!(done, wanted);
    assert!(operator.locks().is_empty(), "{:?}", operator.locks());
    for namespace in [operator.namespace.as_str(), other] {
        let output = operator
            .plane
            .kubectl(&["get", "updates", "-n", namespace, "-o", "json"])
            .await;
        let list: Value = serde_json::from_slice(&output.stdout).unwrap();
        let mut succeeded = std::collections::BTreeMap::new();
        for update in list["items"].as_array().unwrap() {
            let is = |type_| condition(update, type_).is_some_and(|one| one["status"] == "True");
            assert!(is("Complete"), "stranded: {update:#}");
            let stack = update["spec"]["stackName"].as_str().unwrap().to_owned();
            *succeeded.entry(stack).or_insert(0) += u32::from(!is("Failed"));
        }
        assert!(succeeded.values().all(|runs| *runs == 1), "{succeeded:?}");
    }
}

/// The machine is gone in the middle of several runs, and comes back.
async fn a_reboot(operator: &Operator) {
    let names = &many()[..REBOOTED];
    let patch = r#"{"spec":{"config":{"round":"one","file":"/state/go"}}}"#;
    for name in names {
        operator.patch("stack", name, patch).await;
    }
    let what = "most of them run";
    operator
        .until(what, LIMIT, async || {
            count(operator, "update-begun") >= REBOOTED / 2
        })
        .await;
    operator.kubelet.vanish_node(Processes::Killed);
    assert_eq!(count(operator, "update"), 0);
    operator.kubelet.come_back();
    std::fs::write(operator.state().join("go"), "").unwrap();
    for name in names {
        operator
            .stack_when(name, "Ready after the reboot", |stack| {
                is_ready(stack) && stack["status"]["outputs"]["round"] == "one"
            })
            .await;
    }
    assert_eq!(count(operator, "update"), REBOOTED);
    assert!(operator.locks().is_empty(), "{:?}", operator.locks());
}

#[tokio::test(flavor = "multi_thread")]
async fn sixty_stacks_come_through_an_outage_kills_and_a_reboot() {
    if !backend::has_provider() {
        return;
    }
    let arguments = ["--max-runs", PLACES];
    let Some(mut operator) = Operator::start_with(&arguments).await else {
        return;
    };
    let other = operator.plane.namespace("zz-other").await;
    let server = GitServer::start().await.unwrap();
    an_outage(&mut operator, &other, &server).await;
    all_is_accounted_for(&operator, &other).await;
    a_reboot(&operator).await;
}
