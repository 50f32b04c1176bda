//! Strategic merge of a template over a pod specification.
//!
//! The structs are merged by k8s-openapi, which knows the merge keys. Three things are done here: the order of lists
//! (entries that only the template has come before those that only the base has, as kubectl and the API server do), the
//! fields of which only one may be set (a volume's source, a variable's value, a probe's handler: the template's
//! replaces the other), and entries that the template names twice (the last one counts).

use k8s_openapi::DeepMerge;
use windlass_api::{EnvVar, PodSpec};

use k8s_openapi::api::core::v1::{Container, ContainerPort, Volume, VolumeMount};

/// Where init containers of the template go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum InitOrder {
    TemplateFirst,
    /// Built-in ones prepare what the template's rely on.
    BaseFirst,
}

/// Merges `template` over `base`.
pub(crate) fn pod_spec(mut base: PodSpec, mut template: PodSpec, init: InitOrder) -> PodSpec {
    let containers = list(
        std::mem::take(&mut base.containers),
        alone(std::mem::take(&mut template.containers)),
        same_container,
        container,
    );
    let init_containers = optional(
        base.init_containers.take(),
        template.init_containers.take(),
        |base, template| match init {
            InitOrder::TemplateFirst => list(base, alone(template), same_container, container),
            InitOrder::BaseFirst => base_first(base, alone(template), same_container, container),
        },
    );
    let volumes = optional(
        base.volumes.take(),
        template.volumes.take(),
        |base, template| list(base, template, |a: &Volume, b| a.name == b.name, replace),
    );
    base.merge_from(template);
    base.containers = containers;
    base.init_containers = init_containers;
    base.volumes = volumes;
    base
}

/// Merges variables by name.
pub(crate) fn env(base: Vec<EnvVar>, template: Vec<EnvVar>) -> Vec<EnvVar> {
    list(
        base,
        template,
        |a, b| a.name == b.name,
        |current, new| {
            // A bare name leaves what is there.
            if new.value.is_some() || new.value_from.is_some() {
                *current = new;
            }
        },
    )
}

/// Each container with one entry a key in its lists, also where there is nothing to merge it with.
fn alone(containers: Vec<Container>) -> Vec<Container> {
    let merged = |new: Container| {
        let mut merged = Container {
            name: new.name.clone(),
            ..Container::default()
        };
        container(&mut merged, new);
        merged
    };
    containers.into_iter().map(merged).collect()
}

fn container(base: &mut Container, mut template: Container) {
    let env = optional(base.env.take(), template.env.take(), env);
    let ports = optional(
        base.ports.take(),
        template.ports.take(),
        |base, template| list(base, template, same_port, DeepMerge::merge_from),
    );
    let mounts = optional(
        base.volume_mounts.take(),
        template.volume_mounts.take(),
        |base, template| {
            list(
                base,
                template,
                |a: &VolumeMount, b| a.mount_path == b.mount_path,
                // A mount of another volume keeps nothing of the one it replaces.
                |current, new| {
                    if current.name == new.name {
                        current.merge_from(new);
                    } else {
                        *current = new;
                    }
                },
            )
        },
    );
    // A probe has one handler.
    for (current, new) in [
        (&mut base.readiness_probe, &template.readiness_probe),
        (&mut base.liveness_probe, &template.liveness_probe),
        (&mut base.startup_probe, &template.startup_probe),
    ] {
        if let (Some(probe), Some(new)) = (current, new)
            && (new.exec.is_some()
                || new.grpc.is_some()
                || new.http_get.is_some()
                || new.tcp_socket.is_some())
        {
            probe.exec = None;
            probe.grpc = None;
            probe.http_get = None;
            probe.tcp_socket = None;
        }
    }
    base.merge_from(template);
    base.env = env;
    base.ports = ports;
    base.volume_mounts = mounts;
}

fn same_container(a: &Container, b: &Container) -> bool {
    a.name == b.name
}

fn same_port(a: &ContainerPort, b: &ContainerPort) -> bool {
    let protocol = |port: &ContainerPort| port.protocol.clone().unwrap_or_else(|| "TCP".to_owned());
    a.container_port == b.container_port && protocol(a) == protocol(b)
}

fn replace<T>(current: &mut T, new: T) {
    *current = new;
}

fn optional<T>(
    base: Option<Vec<T>>,
    template: Option<Vec<T>>,
    merge: impl FnOnce(Vec<T>, Vec<T>) -> Vec<T>,
) -> Option<Vec<T>> {
    match (base, template) {
        (None, None) => None,
        (base, template) => Some(merge(
            base.unwrap_or_default(),
            template.unwrap_or_default(),
        )),
    }
}

/// Merges two lists of entries with keys, in the order of a strategic merge: the template's entries in the template's
/// order; one of the base alone stands before the first of both that it preceded in the base, else behind all.
pub(crate) fn list<T>(
    base: Vec<T>,
    template: Vec<T>,
    same: impl Fn(&T, &T) -> bool,
    merge: impl Fn(&mut T, T),
) -> Vec<T> {
    let mut known: Vec<(usize, T)> = base.into_iter().enumerate().collect();
    // The template's entries, each with its place in the base if it has one.
    let mut patched: Vec<(Option<usize>, T)> = Vec::new();
    for entry in template {
        if let Some((_, earlier)) = patched.iter_mut().find(|(_, e)| same(e, &entry)) {
            merge(earlier, entry);
        } else if let Some(at) = known.iter().position(|(_, e)| same(e, &entry)) {
            let (place, mut current) = known.remove(at);
            merge(&mut current, entry);
            patched.push((Some(place), current));
        } else {
            patched.push((None, entry));
        }
    }
    let mut merged = Vec::new();
    let mut rest = known.into_iter().peekable();
    for (place, entry) in patched {
        if let Some(place) = place {
            while let Some((_, earlier)) = rest.next_if(|(other, _)| *other < place) {
                merged.push(earlier);
            }
        }
        merged.push(entry);
    }
    merged.extend(rest.map(|(_, entry)| entry));
    merged
}

/// Merges two lists of entries with keys; entries of the template alone come last.
fn base_first<T>(
    mut base: Vec<T>,
    template: Vec<T>,
    same: impl Fn(&T, &T) -> bool,
    merge: impl Fn(&mut T, T),
) -> Vec<T> {
    for entry in template {
        match base.iter_mut().find(|e| same(e, &entry)) {
            Some(current) => merge(current, entry),
            None => base.push(entry),
        }
    }
    base
}
