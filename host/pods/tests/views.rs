//! What pods say: fixtures are statuses as the kubelet, the scheduler and the node controller write them.

use k8s_openapi::api::core::v1::{Event, Pod};
use pretty_assertions::assert_eq;
use windlass_pods::{PodView, node, read};

use crate::support::yaml;

/// A pod on a node, with this status.
fn pod(status: &str) -> Pod {
    with("", "nodeName: n1", status)
}

/// One whose deletion has begun.
fn deleted(status: &str) -> Pod {
    with(
        "deletionTimestamp: \"2026-01-02T03:14:05Z\"\n  deletionGracePeriodSeconds: 600",
        "nodeName: n1",
        status,
    )
}

fn with(metadata: &str, spec: &str, status: &str) -> Pod {
    let indented: String = status.lines().map(|line| format!("  {line}\n")).collect();
    yaml(&format!(
        "metadata:\n  name: shop-workspace-0\n  uid: u1\n  {metadata}\nspec:\n  containers: []\n  {spec}\nstatus:\n{indented}"
    ))
}

fn seen(pod: &Pod) -> PodView {
    read(pod, &[])
}

fn starting(message: &str) -> PodView {
    PodView::Starting {
        message: message.to_owned(),
    }
}

fn failing(reason: &str, message: &str) -> PodView {
    PodView::Failing {
        reason: reason.to_owned(),
        message: message.to_owned(),
    }
}

#[test]
fn a_pod_that_is_on_its_way_says_what_it_waits_for() {
    assert_eq!(
        seen(&with("", "", "phase: Pending")),
        starting("waiting for a node")
    );
    assert_eq!(
        seen(&pod("phase: Pending")),
        starting("waiting for the containers to start")
    );
    assert_eq!(
        seen(&pod(r#"
phase: Pending
initContainerStatuses:
- {name: bootstrap, state: {waiting: {reason: PodInitializing}}}
containerStatuses:
- {name: pulumi, state: {waiting: {reason: PodInitializing}}}
"#)),
        starting("waiting for the containers to start")
    );
    assert_eq!(
        seen(&pod(r#"
phase: Pending
initContainerStatuses:
- {name: bootstrap, ready: true, state: {terminated: {exitCode: 0, reason: Completed}}}
- {name: prepare, state: {running: {startedAt: "2026-01-02T03:04:05Z"}}}
containerStatuses:
- {name: pulumi, state: {waiting: {reason: PodInitializing}}}
"#)),
        starting("init container \"prepare\" runs")
    );
    assert_eq!(
        seen(&pod(r#"
phase: Pending
containerStatuses:
- {name: pulumi, state: {waiting: {reason: ContainerCreating, message: "pulling image"}}}
"#)),
        starting("container \"pulumi\": ContainerCreating: pulling image")
    );
    assert_eq!(
        seen(&with(
            "",
            "",
            r#"
phase: Pending
conditions:
- {type: PodScheduled, status: "False", reason: SchedulingGated, message: "Scheduling is blocked due to non-empty scheduling gates"}
"#
        )),
        starting("SchedulingGated: Scheduling is blocked due to non-empty scheduling gates")
    );
}

#[test]
fn the_latest_warning_about_the_pod_says_what_no_container_can() {
    let event = |uid: &str, type_: &str, time: &str, message: &str| -> Event {
        yaml(&format!(
            "metadata: {{name: e}}\ninvolvedObject: {{uid: {uid}}}\ntype: {type_}\nreason: FailedMount\n{time}\nmessage: '{message}'"
        ))
    };
    let events = [
        event(
            "u1",
            "Warning",
            "lastTimestamp: \"2026-01-02T03:04:07Z\"",
            "secret \"b\" not found",
        ),
        event(
            "u1",
            "Warning",
            "lastTimestamp: \"2026-01-02T03:04:05Z\"",
            "secret \"a\" not found",
        ),
        event(
            "u2",
            "Warning",
            "lastTimestamp: \"2026-01-02T03:04:09Z\"",
            "of another pod",
        ),
        event(
            "u1",
            "Normal",
            "lastTimestamp: \"2026-01-02T03:04:09Z\"",
            "no warning",
        ),
    ];
    let waiting = pod(
        "phase: Pending\ncontainerStatuses:\n- {name: pulumi, state: {waiting: {reason: ContainerCreating}}}",
    );
    assert_eq!(
        read(&waiting, &events),
        starting("FailedMount: secret \"b\" not found")
    );
    // The newer form of events has a time of its own.
    let newer = [
        events[0].clone(),
        event(
            "u1",
            "Warning",
            "eventTime: \"2026-01-02T03:04:08.000001Z\"",
            "secret \"c\" not found",
        ),
    ];
    assert_eq!(
        read(&waiting, &newer),
        starting("FailedMount: secret \"c\" not found")
    );
    // What is over is not told any more.
    let up = pod("phase: Running\ncontainerStatuses:\n- {name: pulumi, state: {running: {}}}");
    assert!(matches!(read(&up, &events), PodView::Running { .. }));
}

#[test]
fn what_does_not_start_is_told_in_the_kubelets_words() {
    for (reason, said) in [
        ("ErrImagePull", "failed to pull and unpack image: not found"),
        ("ImagePullBackOff", "Back-off pulling image nope:1"),
        ("InvalidImageName", "couldn't parse image name"),
        ("CreateContainerConfigError", "secret \"pass\" not found"),
        ("CreateContainerError", "context deadline exceeded"),
        ("RunContainerError", "failed to create containerd task"),
    ] {
        let state = format!(
            "{{waiting: {{reason: {reason}, message: '{}'}}}}",
            said.replace('\'', "''")
        );
        let main = pod(&format!(
            "phase: Pending\ncontainerStatuses:\n- {{name: pulumi, state: {state}}}"
        ));
        assert_eq!(
            seen(&main),
            failing(reason, &format!("container \"pulumi\": {said}"))
        );
        let init = pod(&format!(
            "phase: Pending\ninitContainerStatuses:\n- {{name: prepare, state: {state}}}\n\
             containerStatuses:\n- {{name: pulumi, state: {{waiting: {{reason: PodInitializing}}}}}}"
        ));
        assert_eq!(
            seen(&init),
            failing(reason, &format!("container \"prepare\": {said}"))
        );
    }
    let crashing = |name: &str, seconds: &str| {
        let state = format!(
            "{{name: {name}, restartCount: 3, state: {{waiting: {{reason: CrashLoopBackOff, message: 'back-off {seconds} restarting failed container'}}}}, \
             lastState: {{terminated: {{exitCode: 3, reason: Error, message: \"no Pulumi.yaml\\n\"}}}}}}"
        );
        if name == "pulumi" {
            pod(&format!("phase: Running\ncontainerStatuses:\n- {state}"))
        } else {
            pod(&format!(
                "phase: Pending\ninitContainerStatuses:\n- {state}"
            ))
        }
    };
    for name in ["pulumi", "prepare"] {
        assert_eq!(
            seen(&crashing(name, "10s")),
            failing(
                "CrashLoopBackOff",
                &format!("container \"{name}\" ended with exit code 3 (Error): no Pulumi.yaml")
            )
        );
        // The same words while the pauses grow: a condition is not written again for them.
        assert_eq!(seen(&crashing(name, "10s")), seen(&crashing(name, "5m0s")));
    }
    assert_eq!(
        seen(&with(
            "",
            "",
            r#"
phase: Pending
conditions:
- {type: PodScheduled, status: "False", reason: Unschedulable, message: "0/1 nodes are available: 1 Insufficient memory."}
"#
        )),
        failing(
            "Unschedulable",
            "0/1 nodes are available: 1 Insufficient memory."
        )
    );
}

#[test]
fn a_container_between_two_starts_says_how_it_ended() {
    assert_eq!(
        seen(&pod(r#"
phase: Running
containerStatuses:
- {name: pulumi, restartCount: 1, state: {terminated: {exitCode: 137, signal: 9, reason: OOMKilled}}}
"#)),
        starting("container \"pulumi\" ended by signal 9 (OOMKilled); it is started again")
    );
    assert_eq!(
        seen(&pod(r#"
phase: Pending
initContainerStatuses:
- {name: prepare, state: {terminated: {exitCode: 1, reason: Error, message: no network}}}
containerStatuses:
- {name: pulumi, state: {waiting: {reason: PodInitializing}}}
"#)),
        starting(
            "container \"prepare\" ended with exit code 1 (Error): no network; it is started again"
        )
    );
}

#[test]
fn a_running_pod_is_told_by_its_pulumi_container() {
    let running = |rest: &str, ready: bool| {
        pod(&format!(
            r#"
phase: Running
podIP: 10.0.0.7
containerStatuses:
- {{name: side, ready: false, state: {{waiting: {{reason: CrashLoopBackOff}}}}}}
- name: pulumi
  containerID: containerd://c1
  ready: {ready}
  state: {{running: {{startedAt: "2026-01-02T03:04:05Z"}}}}
{rest}"#
        ))
    };
    for ready in [true, false] {
        let pod = running("", ready);
        assert_eq!(
            seen(&pod),
            PodView::Running {
                container_id: "containerd://c1".to_owned(),
                started_at: Some(windlass_api::Time("2026-01-02T03:04:05Z".parse().unwrap())),
                ready,
                pod_ip: Some("10.0.0.7".to_owned()),
            }
        );
        assert_eq!(node(&pod), Some("n1"));
    }
    // A sidecar alone is no workspace.
    assert!(matches!(
        seen(&pod(
            "phase: Running\ncontainerStatuses:\n- {name: side, state: {running: {}}}"
        )),
        PodView::Starting { .. }
    ));
}

#[test]
fn the_end_is_proven_by_a_final_phase_and_every_containers_end() {
    for (phase, code) in [("Failed", 137), ("Succeeded", 0)] {
        let done = format!(
            r#"
phase: {phase}
initContainerStatuses:
- {{name: bootstrap, state: {{terminated: {{exitCode: 0}}}}}}
containerStatuses:
- {{name: side, state: {{terminated: {{exitCode: 0}}}}}}
- {{name: pulumi, state: {{terminated: {{exitCode: {code}, reason: Error}}}}}}
"#
        );
        for pod in [pod(&done), deleted(&done)] {
            assert_eq!(
                seen(&pod),
                PodView::Ended {
                    reason: phase.to_owned(),
                    message: format!("container \"pulumi\" ended with exit code {code} (Error)"),
                }
            );
        }
    }
    // Put off the node by the kubelet, and refused by it before anything started.
    assert_eq!(
        seen(&pod(r#"
phase: Failed
reason: Evicted
message: "The node was low on resource: memory."
conditions:
- {type: DisruptionTarget, status: "True", reason: TerminationByKubelet}
containerStatuses:
- {name: pulumi, state: {terminated: {exitCode: 137, reason: Error}}}
"#)),
        PodView::Ended {
            reason: "Evicted".to_owned(),
            message: "The node was low on resource: memory.; container \"pulumi\" ended with exit code 137 (Error)".to_owned(),
        }
    );
    assert_eq!(
        seen(&pod(
            "phase: Failed\nreason: OutOfcpu\nmessage: Node didn't have enough resource"
        )),
        PodView::Ended {
            reason: "OutOfcpu".to_owned(),
            message: "Node didn't have enough resource".to_owned(),
        }
    );
    // Nothing was ever bound to a node.
    assert!(matches!(
        seen(&with(
            "deletionTimestamp: \"2026-01-02T03:14:05Z\"",
            "",
            "phase: Pending"
        )),
        PodView::Ended { .. }
    ));
}

/// States in which a container of the pod may be running, whatever else is said.
const NO_PROOF: &[(&str, &str)] = &[
    (
        "the kubelet has not reported yet",
        "phase: Running\ncontainerStatuses:\n- {name: pulumi, state: {running: {}}}",
    ),
    (
        "a container that ended may be about to be started again",
        "phase: Running\ncontainerStatuses:\n- {name: pulumi, state: {terminated: {exitCode: 1}}}",
    ),
    (
        "a sidecar still runs",
        "phase: Running\ncontainerStatuses:\n- {name: pulumi, state: {terminated: {exitCode: 0}}}\n- {name: side, state: {running: {}}}",
    ),
    (
        "nobody but the kubelet knows whether it got the pod",
        "phase: Pending",
    ),
    (
        "the phase alone",
        "phase: Failed\ncontainerStatuses:\n- {name: pulumi, state: {running: {}}}",
    ),
    (
        "an init container still runs",
        "phase: Failed\ninitContainerStatuses:\n- {name: prepare, state: {running: {}}}",
    ),
    (
        "a debugging container still runs",
        "phase: Failed\nephemeralContainerStatuses:\n- {name: debug, state: {running: {}}}\ncontainerStatuses:\n- {name: pulumi, state: {terminated: {exitCode: 1}}}",
    ),
    (
        "the collector of pods gave it up; the last word of the kubelet may be old",
        "phase: Failed\nconditions:\n- {type: DisruptionTarget, status: \"True\", reason: DeletionByPodGC}\ncontainerStatuses:\n- {name: pulumi, restartCount: 2, state: {waiting: {reason: CrashLoopBackOff}}}",
    ),
    (
        "the node is lost",
        "phase: Running\nreason: NodeLost\nmessage: Node n1 which was running pod is unresponsive\ncontainerStatuses:\n- {name: pulumi, state: {terminated: {exitCode: 1}}}",
    ),
    (
        "the taint of an unreachable node evicts",
        "phase: Running\nconditions:\n- {type: DisruptionTarget, status: \"True\", reason: DeletionByTaintManager}\n- {type: Ready, status: \"False\"}\ncontainerStatuses:\n- {name: pulumi, state: {running: {}}}",
    ),
    ("the phase is unknown", "phase: Unknown"),
];

#[test]
fn nothing_less_is_a_proof() {
    for (why, status) in NO_PROOF {
        for pod in [pod(status), deleted(status)] {
            let view = seen(&pod);
            assert!(!matches!(view, PodView::Ended { .. }), "{why}: {view:?}");
        }
        let view = seen(&deleted(status));
        assert!(
            matches!(view, PodView::Stopping { .. } | PodView::Unreachable { .. }),
            "{why}: {view:?}"
        );
    }
}

#[test]
fn a_pod_that_is_being_deleted_says_what_still_runs() {
    let status = "phase: Running\ncontainerStatuses:\n- {name: pulumi, state: {running: {}}}\n- {name: side, state: {terminated: {exitCode: 0}}}";
    assert_eq!(
        seen(&deleted(status)),
        PodView::Stopping {
            message: "the pod is being deleted; still running: pulumi".to_owned()
        }
    );
}

#[test]
fn a_node_that_cannot_be_asked_is_told_apart() {
    for (status, message) in [
        (
            "phase: Running\nreason: NodeLost\nmessage: Node n1 is unresponsive",
            "the node does not answer: Node n1 is unresponsive",
        ),
        ("phase: Unknown", "the state of the pod is unknown"),
        (
            "phase: Failed\nconditions:\n- {type: DisruptionTarget, status: \"True\", reason: DeletionByPodGC, message: \"PodGC: node no longer exists\"}\ncontainerStatuses:\n- {name: pulumi, state: {running: {}}}",
            "the pod was given up without a report of its containers' end: PodGC: node no longer exists",
        ),
    ] {
        for pod in [pod(status), deleted(status)] {
            assert_eq!(
                seen(&pod),
                PodView::Unreachable {
                    message: message.to_owned()
                }
            );
        }
    }
}

#[test]
fn long_last_words_are_cut() {
    let status = format!(
        "phase: Running\ncontainerStatuses:\n- {{name: pulumi, state: {{waiting: {{reason: CrashLoopBackOff}}}}, lastState: {{terminated: {{exitCode: 1, message: {}}}}}}}",
        "ä".repeat(5000)
    );
    let PodView::Failing { message, .. } = seen(&pod(&status)) else {
        panic!("not failing");
    };
    assert!(message.chars().count() < 1100, "{}", message.len());
    assert!(message.ends_with('…'));
}
