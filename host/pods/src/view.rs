//! What the status of a pod says, in the kubelet's words.

use k8s_openapi::api::core::v1::{
    ContainerState, ContainerStateTerminated, ContainerStatus, Event, Pod, PodCondition, PodStatus,
};
use windlass_api::Time;
use windlass_api::names::{POD_REVISION_HASH_ANNOTATION, PULUMI_CONTAINER};

use crate::layout::{FETCH, RECEIVE};

/// Where a workspace's pod is in its life.
#[derive(Clone, Debug, PartialEq)]
pub enum PodView {
    /// On its way; the message says what it waits for.
    Starting { message: String },
    /// An agent waits to be sent the program, so that the init containers after it find it in place.
    Receiving {
        /// Tells this start of the container from the ones before it.
        container_id: String,
        pod_ip: Option<String>,
    },
    /// Does not start, and will not by itself unless something outside changes. `reason` is the kubelet's or the
    /// scheduler's, such as ErrImagePull, CrashLoopBackOff, Unschedulable.
    Failing { reason: String, message: String },
    /// The `pulumi` container runs. An agent that is not ready yet may be listening already.
    Running {
        /// Tells this start of the container from the ones before it.
        container_id: String,
        started_at: Option<Time>,
        ready: bool,
        pod_ip: Option<String>,
    },
    /// Deleted, and not yet reported to have ended. Its containers may be running: this proves nothing.
    Stopping { message: String },
    /// The node cannot be asked. Its containers may be running: this proves nothing.
    Unreachable { message: String },
    /// The kubelet has reported the end of every container, or none was ever started: the proof that nothing of this
    /// pod runs, or will run again.
    Ended { reason: String, message: String },
}

/// Reasons with which a container waits for something that time alone does not bring.
const BLOCKED: &[&str] = &[
    "ErrImagePull",
    "ImagePullBackOff",
    "InvalidImageName",
    "ErrImageNeverPull",
    "ImageInspectError",
    "RegistryUnavailable",
    "SignatureValidationFailed",
    "CreateContainerConfigError",
    "CreateContainerError",
    "CreatePodSandboxError",
    "RunContainerError",
    "PreStartHookError",
    "PreCreateHookError",
    "PostStartHookError",
    "CrashLoopBackOff",
];
/// Reasons that say nothing.
const BUSY: &[&str] = &["ContainerCreating", "PodInitializing", ""];
/// Longest text taken from a container, in characters.
const TEXT_MAX: usize = 1024;

/// Reads the status of a pod. `events` may hold events of any object: the latest warning about this pod says what a pod
/// waits for that has no container yet.
pub fn read(pod: &Pod, events: &[Event]) -> PodView {
    let nothing = PodStatus::default();
    let status = pod.status.as_ref().unwrap_or(&nothing);
    if let Some(end) = ended(pod, status) {
        return end;
    }
    if let Some(message) = unreachable(status) {
        return PodView::Unreachable { message };
    }
    if pod.metadata.deletion_timestamp.is_some() {
        return PodView::Stopping {
            message: stopping(status),
        };
    }
    if let Some(running) = running(status) {
        return running;
    }
    if let Some(receiving) = receiving(pod, status) {
        return receiving;
    }
    let blocked = unschedulable(status).or_else(|| containers(status).find_map(blocked));
    if let Some((reason, message)) = blocked {
        return PodView::Failing { reason, message };
    }
    PodView::Starting {
        message: starting(pod, status, events),
    }
}

/// The node that the pod is bound to.
pub fn node(pod: &Pod) -> Option<&str> {
    let name = pod.spec.as_ref()?.node_name.as_deref()?;
    (!name.is_empty()).then_some(name)
}

/// The host name that processes in the pod see, and locks record. None where the pod shares the node's, which tells no
/// incarnation from another.
pub fn hostname(pod: &Pod) -> Option<&str> {
    let spec = pod.spec.as_ref()?;
    if spec.host_network == Some(true) {
        return None;
    }
    spec.hostname.as_deref()
}

/// Digest of the specification that the pod was made from, as it was given to [`crate::pod()`].
pub fn spec_digest(pod: &Pod) -> Option<&str> {
    let annotations = pod.metadata.annotations.as_ref()?;
    annotations
        .get(POD_REVISION_HASH_ANNOTATION)
        .map(String::as_str)
}

/// Every container with a status, in the order in which the kubelet starts them.
fn containers(status: &PodStatus) -> impl Iterator<Item = &ContainerStatus> {
    let init = status.init_container_statuses.iter().flatten();
    init.chain(status.container_statuses.iter().flatten())
}

fn ended(pod: &Pod, status: &PodStatus) -> Option<PodView> {
    // A binding is refused once deletion has begun.
    if pod.metadata.deletion_timestamp.is_some() && node(pod).is_none() {
        return Some(PodView::Ended {
            reason: "NeverScheduled".to_owned(),
            message: "deleted before it had a node".to_owned(),
        });
    }
    // The last phases are final: no container of the pod is started again. Terminated containers alone are not, the
    // kubelet may be about to start them.
    if !is_final(status) || !all_ended(status) {
        return None;
    }
    let mut text: Vec<String> = status.message.iter().map(|m| clip(m)).collect();
    text.extend(
        containers(status)
            .filter(|c| c.name == PULUMI_CONTAINER)
            .filter_map(|c| Some(end_of(&c.name, c.state.as_ref()?.terminated.as_ref()?))),
    );
    Some(PodView::Ended {
        reason: given(status.reason.as_deref())
            .or(status.phase.clone())
            .unwrap_or_default(),
        message: text.join("; "),
    })
}

fn is_final(status: &PodStatus) -> bool {
    matches!(status.phase.as_deref(), Some("Succeeded" | "Failed"))
}

fn all_ended(status: &PodStatus) -> bool {
    // The garbage collector of pods writes the phase without asking the kubelet, whose last word may be old.
    let by_collector = condition(status, "DisruptionTarget")
        .is_some_and(|c| c.reason.as_deref() == Some("DeletionByPodGC"));
    let ephemeral = status.ephemeral_container_statuses.iter().flatten();
    containers(status).chain(ephemeral).all(|container| {
        match container.state.as_ref() {
            Some(state) if state.terminated.is_some() => true,
            Some(state) if state.running.is_some() => false,
            // Waiting: not started (any more), if that is the kubelet's last word.
            _ => !by_collector,
        }
    })
}

fn unreachable(status: &PodStatus) -> Option<String> {
    let said = status.message.as_deref().map(clip).unwrap_or_default();
    if status.reason.as_deref() == Some("NodeLost") {
        return Some(sentence("the node does not answer", &said));
    }
    if status.phase.as_deref() == Some("Unknown") {
        return Some(sentence("the state of the pod is unknown", &said));
    }
    if is_final(status) {
        let by = condition(status, "DisruptionTarget").and_then(|c| c.message.as_deref());
        return Some(sentence(
            "the pod was given up without a report of its containers' end",
            by.unwrap_or(&said),
        ));
    }
    None
}

fn stopping(status: &PodStatus) -> String {
    let running: Vec<&str> = containers(status)
        .filter(|c| c.state.as_ref().is_some_and(|s| s.running.is_some()))
        .map(|c| c.name.as_str())
        .collect();
    match running.as_slice() {
        [] => "the pod is being deleted".to_owned(),
        names => format!(
            "the pod is being deleted; still running: {}",
            names.join(", ")
        ),
    }
}

fn running(status: &PodStatus) -> Option<PodView> {
    let pulumi = status
        .container_statuses
        .iter()
        .flatten()
        .find(|c| c.name == PULUMI_CONTAINER)?;
    let state = pulumi.state.as_ref()?.running.as_ref()?;
    Some(PodView::Running {
        container_id: pulumi.container_id.clone().unwrap_or_default(),
        started_at: state.started_at.clone(),
        ready: pulumi.ready,
        pod_ip: given(status.pod_ip.as_deref()),
    })
}

fn receiving(pod: &Pod, status: &PodStatus) -> Option<PodView> {
    let init = pod.spec.as_ref()?.init_containers.as_deref()?;
    // One of the user's own may have that name.
    let ours = |command: &[String]| command.iter().eq(RECEIVE);
    init.iter()
        .find(|c| c.name == FETCH && c.command.as_deref().is_some_and(ours))?;
    let container = status
        .init_container_statuses
        .iter()
        .flatten()
        .find(|c| c.name == FETCH)?;
    container.state.as_ref()?.running.as_ref()?;
    Some(PodView::Receiving {
        container_id: container.container_id.clone().unwrap_or_default(),
        pod_ip: given(status.pod_ip.as_deref()),
    })
}

fn unschedulable(status: &PodStatus) -> Option<(String, String)> {
    let scheduled = condition(status, "PodScheduled")?;
    if scheduled.status != "False" || scheduled.reason.as_deref() != Some("Unschedulable") {
        return None;
    }
    let message = scheduled.message.as_deref().map(clip).unwrap_or_default();
    Some(("Unschedulable".to_owned(), message))
}

fn blocked(container: &ContainerStatus) -> Option<(String, String)> {
    let waiting = container.state.as_ref()?.waiting.as_ref()?;
    let reason = waiting.reason.as_deref()?;
    if !BLOCKED.contains(&reason) {
        return None;
    }
    let said = waiting.message.as_deref().map(clip).unwrap_or_default();
    let last = container
        .last_state
        .as_ref()
        .and_then(|last| last.terminated.as_ref());
    let message = match last {
        // The kubelet's own text counts seconds, which would be news each time.
        Some(last) if reason == "CrashLoopBackOff" => end_of(&container.name, last),
        Some(last) => format!(
            "{}; {}",
            sentence(&named(&container.name), &said),
            end_of(&container.name, last)
        ),
        None => sentence(&named(&container.name), &said),
    };
    Some((reason.to_owned(), message))
}

fn starting(pod: &Pod, status: &PodStatus, events: &[Event]) -> String {
    for container in containers(status) {
        let Some(state) = &container.state else {
            continue;
        };
        if let Some(message) = waits(container, state) {
            return message;
        }
    }
    if let Some(warning) = latest_warning(pod, events) {
        return warning;
    }
    if let Some(gate) = condition(status, "PodScheduled").filter(|c| c.status == "False") {
        return sentence(
            gate.reason.as_deref().unwrap_or("not scheduled"),
            &gate.message.as_deref().map(clip).unwrap_or_default(),
        );
    }
    if node(pod).is_none() {
        return "waiting for a node".to_owned();
    }
    let init = status.init_container_statuses.iter().flatten();
    for container in init {
        if container
            .state
            .as_ref()
            .is_some_and(|s| s.running.is_some())
            && !container.ready
        {
            return format!("init {} runs", named(&container.name));
        }
    }
    "waiting for the containers to start".to_owned()
}

/// What a container waits for, if it says more than that it waits; one that has failed and is about to be started again
/// says how it ended.
fn waits(container: &ContainerStatus, state: &ContainerState) -> Option<String> {
    if let Some(waiting) = &state.waiting {
        let reason = waiting.reason.as_deref().unwrap_or_default();
        let said = given(waiting.message.as_deref());
        if said.is_none() && BUSY.contains(&reason) {
            return None;
        }
        let said = said.map(|text| clip(&text)).unwrap_or_default();
        return Some(format!(
            "{}: {}",
            named(&container.name),
            sentence(reason, &said)
        ));
    }
    let end = state.terminated.as_ref()?;
    let init_done = end.exit_code == 0 && container.name != PULUMI_CONTAINER;
    (!init_done).then(|| format!("{}; it is started again", end_of(&container.name, end)))
}

fn latest_warning(pod: &Pod, events: &[Event]) -> Option<String> {
    let time = |event: &Event| {
        let series = event
            .series
            .as_ref()
            .and_then(|s| s.last_observed_time.as_ref());
        let exact = series.or(event.event_time.as_ref()).map(|time| time.0);
        let coarse = event.last_timestamp.as_ref().map(|time| time.0);
        exact.max(coarse)
    };
    let latest = events
        .iter()
        .filter(|event| event.type_.as_deref() == Some("Warning"))
        .filter(|event| pod.metadata.uid.is_some() && event.involved_object.uid == pod.metadata.uid)
        .max_by_key(|event| time(event))?;
    Some(sentence(
        latest.reason.as_deref().unwrap_or("Warning"),
        &latest.message.as_deref().map(clip).unwrap_or_default(),
    ))
}

/// "container "pulumi" ended with exit code 3 (Error): its last words".
fn end_of(name: &str, end: &ContainerStateTerminated) -> String {
    let how = match end.signal {
        Some(signal) if signal != 0 => format!("by signal {signal}"),
        _ => format!("with exit code {}", end.exit_code),
    };
    let reason = given(end.reason.as_deref()).map_or(String::new(), |r| format!(" ({r})"));
    let said = end.message.as_deref().map(clip).unwrap_or_default();
    sentence(&format!("{} ended {how}{reason}", named(name)), &said)
}

fn named(name: &str) -> String {
    format!("container \"{name}\"")
}

fn sentence(what: &str, said: &str) -> String {
    match (what, said) {
        (what, "") => what.to_owned(),
        ("", said) => said.to_owned(),
        (what, said) => format!("{what}: {said}"),
    }
}

fn given(text: Option<&str>) -> Option<String> {
    text.filter(|t| !t.is_empty()).map(str::to_owned)
}

/// The text without its outer whitespace, cut to a length that a condition can carry.
fn clip(text: &str) -> String {
    let text = text.trim();
    match text.char_indices().nth(TEXT_MAX) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

fn condition<'a>(status: &'a PodStatus, type_: &str) -> Option<&'a PodCondition> {
    status
        .conditions
        .iter()
        .flatten()
        .find(|c| c.type_ == type_)
}
