//! Whatever is killed, frozen or restarted in the middle of a run: the run is accounted for, once.
#![allow(clippy::unwrap_used)]

use std::time::Duration;

use pretty_assertions::assert_eq;
use serde_json::{Value, json};
use windlass_cluster::{AuditLog, Component, Identity};
use windlass_operator::{Operator, backend, is_ready};

/// The name of the Stack, its Program and its project.
const SLOW: &str = "slow";
const LIMIT: Duration = Duration::from_secs(120);
/// Each test has a control plane of its own, and times that a machine with several of them would not keep: one at a time.
static ALONE: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());

/// Asks for a run that takes so many milliseconds, and waits until it is in the middle of it.
async fn begin(operator: &Operator, round: usize, pause: u32) {
    let begun = done(operator, "update-begun");
    let config = json!({"round": text(round), "pause": pause.to_string()});
    let patch = json!({"spec": {"config": config}}).to_string();
    operator.patch("stack", SLOW, &patch).await;
    operator.operated(SLOW, "update-begun", begun + 1).await;
}

/// The CLI takes what looks like a number for one.
fn text(round: usize) -> String {
    format!("round-{round}")
}

fn done(operator: &Operator, operation: &str) -> usize {
    let line = format!("{operation} thing");
    let all = operator.operations(SLOW);
    all.iter().filter(|done| **done == line).count()
}

/// Waits until the Stack is Ready with the outputs of this round.
async fn ended(operator: &Operator, round: usize) -> Value {
    let what = format!("Ready with round {round}");
    operator
        .stack_when(SLOW, &what, |stack| {
            is_ready(stack) && stack["status"]["outputs"]["round"] == text(round)
        })
        .await
}

async fn deployed(operator: &Operator) {
    operator.slow(SLOW).await;
    let spec = format!(
        "programRef: {{name: {SLOW}}}\nconfig: {{round: {}}}",
        text(0)
    );
    operator.stack(SLOW, &spec).await;
    ended(operator, 0).await;
}

async fn pod(operator: &Operator) -> Value {
    let pod = operator.get("pod", "slow-workspace-0").await.unwrap();
    pod["metadata"]["uid"].clone()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_outlives_whoever_watches_it() {
    if !backend::has_provider() {
        return;
    }
    let _alone = ALONE.lock().await;
    let Some(mut operator) = Operator::start().await else {
        return;
    };
    deployed(&operator).await;
    let first = pod(&operator).await;

    // The operator is killed.
    begin(&operator, 1, 3_000).await;
    operator.kill();
    operator.launch();
    ended(&operator, 1).await;

    // The store of the cluster is restarted.
    begin(&operator, 2, 4_000).await;
    operator.plane.restart(Component::Etcd).await.unwrap();
    ended(&operator, 2).await;

    // Nothing answers for longer than any request is waited for, and longer than the lease lasts.
    begin(&operator, 3, 8_000).await;
    operator.plane.pause(Component::ApiServer).unwrap();
    operator.operated(SLOW, "update", 3).await;
    tokio::time::sleep(Duration::from_secs(14)).await;
    operator.plane.resume(Component::ApiServer).unwrap();
    let stack = ended(&operator, 3).await;
    assert_eq!(stack["status"]["lastUpdate"]["sequence"], 4);

    let all = operator.runs(SLOW).await;
    let succeeded = |sequence| (sequence, true, None);
    assert_eq!(all, [1, 2, 3, 4].map(succeeded));
    assert_eq!(
        (done(&operator, "update-begun"), done(&operator, "update")),
        (3, 3)
    );
    assert_eq!(pod(&operator).await, first, "the pod was replaced");
    assert_eq!(operator.locks(), [""; 0].map(std::path::PathBuf::from));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_dies_is_recorded_as_lost_and_made_up_for() {
    if !backend::has_provider() {
        return;
    }
    let _alone = ALONE.lock().await;
    let Some(operator) = Operator::start().await else {
        return;
    };
    deployed(&operator).await;
    let first = pod(&operator).await;

    // The pod is taken away by force: its processes are killed.
    begin(&operator, 1, 5_000).await;
    assert_eq!(operator.locks().len(), 1);
    let force = [
        "delete",
        "pod",
        "slow-workspace-0",
        "--grace-period=0",
        "--force",
        "--wait=false",
    ];
    operator.kubectl(&force).await;
    ended(&operator, 1).await;
    let all = operator.runs(SLOW).await;
    let lost = (2, true, Some("WorkspaceLost".to_owned()));
    assert_eq!(all[..2], [(1, true, None), lost]);
    made_up_for(&all[2..]);
    assert_eq!(
        (done(&operator, "update-begun"), done(&operator, "update")),
        (2, 1)
    );
    assert!(operator.locks().is_empty(), "{:?}", operator.locks());
    assert_ne!(pod(&operator).await, first);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_container_that_dies_starts_again_and_makes_up_for_its_run() {
    if !backend::has_provider() {
        return;
    }
    let _alone = ALONE.lock().await;
    let Some(operator) = Operator::start().await else {
        return;
    };
    deployed(&operator).await;
    let first = pod(&operator).await;
    begin(&operator, 1, 5_000).await;
    operator
        .kubelet
        .kill_container(&operator.namespace, "slow-workspace-0", "pulumi")
        .unwrap();
    ended(&operator, 1).await;
    let all = operator.runs(SLOW).await;
    assert!(all[1].1 && all[1].2.is_some(), "{all:?}");
    made_up_for(&all[2..]);
    assert_eq!(
        (done(&operator, "update-begun"), done(&operator, "update")),
        (2, 1)
    );
    assert!(operator.locks().is_empty(), "{:?}", operator.locks());
    assert_eq!(pod(&operator).await, first, "the pod was replaced");
}

/// The lock that the dead run left stops at most one run, and is released by the next.
fn made_up_for(runs: &[(i64, bool, Option<String>)]) {
    let (last, before) = runs.split_last().unwrap();
    assert!(last.1 && last.2.is_none(), "{runs:?}");
    let locked = |run: &(i64, bool, Option<String>)| run.2.as_deref() == Some("StackLocked");
    assert!(before.len() <= 1 && before.iter().all(locked), "{runs:?}");
}

/// Writes of somebody that were accepted, but for those of the lease.
fn written(audit: &AuditLog, who: &Identity) -> usize {
    let user = who.user_name();
    audit
        .only(|event| {
            event.user == user && event.resource != "leases" && (1..300).contains(&event.code)
        })
        .writes()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_leader_that_was_frozen_does_nothing_when_it_is_thawed() {
    if !backend::has_provider() {
        return;
    }
    let _alone = ALONE.lock().await;
    let Some(mut operator) = Operator::prepare().await else {
        return;
    };
    let (first, kubeconfig) = operator.somebody("first").await;
    let (second, other_kubeconfig) = operator.somebody("second").await;
    operator.kubeconfig = kubeconfig;
    operator.launch();
    deployed(&operator).await;
    let replica = operator.replica("operator-1", &other_kubeconfig);
    let says = async |log: &dyn Fn() -> String, text: &str| {
        let what = format!("{text:?} in {}", log());
        operator
            .until(&what, LIMIT, async || log().contains(text))
            .await;
    };
    let (first_log, second_log) = (|| operator.logs(), || replica.log());
    says(&second_log, "another process leads").await;
    assert_eq!(written(&operator.plane.audit_log(), &second), 0);
    let history = operator.history("stack", SLOW);

    begin(&operator, 1, 10_000).await;
    operator.freeze();
    says(&second_log, "leading").await;
    ended(&operator, 1).await;
    // The old leader comes back in the middle of a run of the new one.
    begin(&operator, 2, 6_000).await;
    let before = written(&operator.plane.audit_log(), &first);
    operator.thaw();
    says(&first_log, "another process leads").await;
    ended(&operator, 2).await;
    assert_eq!(written(&operator.plane.audit_log(), &first), before);
    assert_eq!(
        (done(&operator, "update-begun"), done(&operator, "update")),
        (2, 2)
    );
    let all = operator.runs(SLOW).await;
    assert_eq!(all, [1, 2, 3].map(|sequence| (sequence, true, None)));

    // Asked to end in the middle of another one, it hands over at once.
    begin(&operator, 3, 3_000).await;
    let (code, said) = replica.terminate();
    assert_eq!(code, Some(0));
    assert!(said.contains("the lease is given back"), "{said}");
    ended(&operator, 3).await;
    assert!(written(&operator.plane.audit_log(), &first) > before);

    let seen = history.versions();
    assert!(seen.len() > 4, "{}", seen.len());
    let counts = |stack: &Value| {
        let of = |value: &Value| value.as_i64().unwrap_or_default();
        let status = &stack["status"];
        (
            of(&status["observedGeneration"]),
            of(&status["lastUpdate"]["sequence"]),
        )
    };
    for pair in seen.windows(2) {
        let (earlier, later) = (counts(&pair[0]), counts(&pair[1]));
        assert!(
            earlier.0 <= later.0 && earlier.1 <= later.1,
            "a status was overwritten: {:#}\n{:#}",
            pair[0]["status"],
            pair[1]["status"]
        );
    }
}
