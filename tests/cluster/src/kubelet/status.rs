//! A pod's status as a kubelet reports it.

use std::net::Ipv4Addr;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{
    Container, ContainerState, ContainerStateRunning, ContainerStateTerminated,
    ContainerStateWaiting, ContainerStatus, HostIP, Pod, PodCondition, PodIP, PodSpec, PodStatus,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::state::{Ended, Now, PodState, Record, init_containers, is_sidecar};

/// The status. `before` is the one reported last: it says when conditions changed.
pub fn status(
    pod: &Pod,
    state: &PodState,
    before: Option<&PodStatus>,
    pod_ip: Ipv4Addr,
    host_ip: Ipv4Addr,
) -> PodStatus {
    let Some(spec) = &pod.spec else {
        return PodStatus::default();
    };
    let phase = phase(spec, state);
    let generation = pod.metadata.generation;
    let pod_ip = state.sandbox.then(|| pod_ip.to_string());
    let of = |containers: &[Container]| -> Vec<ContainerStatus> {
        let mut all: Vec<_> = containers
            .iter()
            .filter_map(|container| {
                let record = state.containers.get(&container.name)?;
                Some(container_status(container, record))
            })
            .collect();
        all.sort_by(|a, b| a.name.cmp(&b.name));
        all
    };
    let inits = init_containers(spec);
    let init_statuses: Vec<_> = inits
        .iter()
        .filter_map(|container| {
            let record = state.containers.get(&container.name)?;
            Some(container_status(container, record))
        })
        .collect();
    PodStatus {
        conditions: Some(conditions(spec, state, phase, generation, before)),
        container_statuses: Some(of(&spec.containers)),
        init_container_statuses: (!inits.is_empty()).then_some(init_statuses),
        host_ip: Some(host_ip.to_string()),
        host_ips: Some(vec![HostIP {
            ip: host_ip.to_string(),
        }]),
        pod_ips: pod_ip.clone().map(|ip| vec![PodIP { ip }]),
        pod_ip,
        observed_generation: generation,
        phase: Some(phase.to_owned()),
        qos_class: pod
            .status
            .as_ref()
            .and_then(|status| status.qos_class.clone()),
        start_time: Some(Time(state.start)),
        ..PodStatus::default()
    }
}

fn record<'a>(state: &'a PodState, container: &Container) -> Option<&'a Record> {
    state.containers.get(&container.name)
}

/// Whether an init container has done what the next ones wait for.
fn initialized(state: &PodState, container: &Container) -> bool {
    record(state, container).is_some_and(|record| match &record.now {
        Now::Terminated(ended) => ended.code == 0,
        _ => is_sidecar(container) && record.started,
    })
}

fn phase(spec: &PodSpec, state: &PodState) -> &'static str {
    let inits = init_containers(spec);
    let policy = spec.restart_policy.as_deref().unwrap_or("Always");
    let failed_init = inits.iter().any(|container| {
        !is_sidecar(container)
            && matches!(record(state, container).map(|r| &r.now), Some(Now::Terminated(e)) if e.code != 0)
    });
    if failed_init && (policy == "Never" || state.over) {
        return "Failed";
    }
    let done = inits.iter().all(|container| initialized(state, container));
    if !done && !state.over {
        return "Pending";
    }
    let (mut waiting, mut running, mut stopped, mut failed) = (0, 0, 0, 0);
    for container in &spec.containers {
        match record(state, container) {
            Some(Record {
                now: Now::Running { .. },
                ..
            }) => running += 1,
            Some(Record {
                now: Now::Terminated(ended),
                ..
            }) => {
                stopped += 1;
                failed += usize::from(ended.code != 0);
            }
            Some(Record {
                last: Some(ended), ..
            }) => {
                stopped += 1;
                failed += usize::from(ended.code != 0);
            }
            _ => waiting += 1,
        }
    }
    match (waiting, running, stopped) {
        (1.., _, _) if state.over => "Failed",
        (1.., _, _) => "Pending",
        (_, 1.., _) => "Running",
        _ if state.over || policy != "Always" => match failed {
            0 => "Succeeded",
            _ if state.over || policy == "Never" => "Failed",
            _ => "Running",
        },
        _ => "Running",
    }
}

fn conditions(
    spec: &PodSpec,
    state: &PodState,
    phase: &str,
    generation: Option<i64>,
    before: Option<&PodStatus>,
) -> Vec<PodCondition> {
    let inits = init_containers(spec);
    let names = |containers: Vec<&Container>| {
        let names: Vec<_> = containers.iter().map(|c| c.name.as_str()).collect();
        names.join(" ")
    };
    let incomplete: Vec<_> = inits.iter().filter(|c| !initialized(state, c)).collect();
    let unready: Vec<_> = spec
        .containers
        .iter()
        .filter(|container| !record(state, container).is_some_and(|record| record.ready))
        .collect();
    let finished = match phase {
        "Succeeded" => Some("PodCompleted"),
        "Failed" => Some("PodFailed"),
        _ => None,
    };
    let initialized = if incomplete.is_empty() {
        (
            true,
            finished.filter(|_| phase == "Succeeded"),
            String::new(),
        )
    } else {
        let message = format!("containers with incomplete status: [{}]", names(incomplete));
        (false, Some("ContainersNotInitialized"), message)
    };
    let ready = match finished {
        Some(reason) => (false, Some(reason), String::new()),
        None if unready.is_empty() => (true, None, String::new()),
        None => {
            let message = format!("containers with unready status: [{}]", names(unready));
            (false, Some("ContainersNotReady"), message)
        }
    };
    let sandbox = (state.sandbox && !state.over, None, String::new());
    [
        ("PodReadyToStartContainers", sandbox),
        ("Initialized", initialized),
        ("Ready", ready.clone()),
        ("ContainersReady", ready),
    ]
    .into_iter()
    .map(|(kind, (holds, reason, message))| {
        let status = if holds { "True" } else { "False" };
        let known = before
            .and_then(|before| before.conditions.as_ref())
            .and_then(|all| all.iter().find(|c| c.type_ == kind && c.status == status));
        let since = known.and_then(|known| known.last_transition_time.clone());
        PodCondition {
            last_probe_time: None,
            last_transition_time: since.or_else(|| Some(Time(Timestamp::now()))),
            message: (!message.is_empty()).then_some(message),
            observed_generation: generation,
            reason: reason.map(str::to_owned),
            status: status.to_owned(),
            type_: kind.to_owned(),
        }
    })
    .collect()
}

fn container_status(container: &Container, record: &Record) -> ContainerStatus {
    let image = container.image.clone().unwrap_or_default();
    let started = record.id.is_some();
    ContainerStatus {
        container_id: record.id.clone(),
        image_id: if started {
            image_id(&image)
        } else {
            String::new()
        },
        image,
        last_state: Some(ContainerState {
            terminated: record.last.as_ref().map(terminated),
            ..ContainerState::default()
        }),
        name: container.name.clone(),
        ready: record.ready,
        restart_count: record.restarts,
        started: Some(record.started),
        state: Some(container_state(&record.now)),
        ..ContainerStatus::default()
    }
}

/// A name for what stands for the image; there is no digest of a machine's files.
fn image_id(image: &str) -> String {
    format!("windlass-test/{image}")
}

fn container_state(now: &Now) -> ContainerState {
    match now {
        Now::Waiting { reason, message } => ContainerState {
            waiting: Some(ContainerStateWaiting {
                message: (!message.is_empty()).then(|| message.clone()),
                reason: Some(reason.clone()),
            }),
            ..ContainerState::default()
        },
        Now::Running { since } => ContainerState {
            running: Some(ContainerStateRunning {
                started_at: Some(Time(*since)),
            }),
            ..ContainerState::default()
        },
        Now::Terminated(ended) => ContainerState {
            terminated: Some(terminated(ended)),
            ..ContainerState::default()
        },
    }
}

fn terminated(ended: &Ended) -> ContainerStateTerminated {
    ContainerStateTerminated {
        container_id: ended.id.clone(),
        exit_code: ended.code,
        finished_at: Some(Time(ended.finished)),
        message: (!ended.message.is_empty()).then(|| ended.message.clone()),
        reason: Some(ended.reason.clone()),
        signal: None,
        started_at: ended.started.map(Time),
    }
}
