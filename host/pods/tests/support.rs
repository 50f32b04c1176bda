//! Fixtures as people write them, and short ways to what a test looks at.

use k8s_openapi::api::core::v1::{Container, EnvVar, Pod, PodSpec};
use serde::de::DeserializeOwned;
use windlass_api::{OwnerReference, Stack, Workspace};
use windlass_pods::{Images, PodOptions, TemplateError, WorkspaceOptions, pod, workspace_spec};

pub fn yaml<T: DeserializeOwned>(text: &str) -> T {
    serde_saphyr::from_str(text).unwrap_or_else(|e| panic!("{e}\n{text}"))
}

/// A Stack "shop" in "team" with these fields of its specification, as YAML with no indentation.
pub fn stack(fields: &str) -> Stack {
    let indented: String = fields.lines().map(|line| format!("  {line}\n")).collect();
    yaml(&format!(
        "apiVersion: pulumi.com/v1\nkind: Stack\nmetadata:\n  name: shop\n  namespace: team\n  uid: stack-uid\n\
         spec:\n  stack: prod\n{indented}"
    ))
}

/// A Workspace "shop" in "team" with these fields of its specification.
pub fn workspace(fields: &str) -> Workspace {
    let indented: String = fields.lines().map(|line| format!("  {line}\n")).collect();
    let spec = if fields.trim().is_empty() {
        "spec: {}\n".to_owned()
    } else {
        format!("spec:\n{indented}")
    };
    yaml(&format!(
        "apiVersion: auto.pulumi.com/v1alpha1\nkind: Workspace\nmetadata:\n  name: shop\n  namespace: team\n{spec}"
    ))
}

pub fn options() -> PodOptions {
    PodOptions {
        hostname: "shop-1a2b3c".to_owned(),
        spec_digest: "d1".to_owned(),
        owner: Some(OwnerReference {
            api_version: "auto.pulumi.com/v1alpha1".to_owned(),
            kind: "Workspace".to_owned(),
            name: "shop".to_owned(),
            uid: "workspace-uid".to_owned(),
            controller: Some(true),
            block_owner_deletion: Some(true),
        }),
        images: Images::new("registry.example/windlass-agent:1.0"),
        tls_secret: "shop-agent-tls".to_owned(),
        login: None,
        source_first: false,
    }
}

pub fn make_workspace(stack: &Stack) -> Workspace {
    workspace_spec(stack, &WorkspaceOptions::default()).unwrap_or_else(|e| panic!("{e}"))
}

pub fn make_pod(workspace: &Workspace) -> Pod {
    pod(workspace, &options()).unwrap_or_else(|e| panic!("{e}"))
}

/// All the way from a Stack.
pub fn pod_of(fields: &str) -> Pod {
    make_pod(&make_workspace(&stack(fields)))
}

pub fn refused(stack: &Stack) -> TemplateError {
    workspace_spec(stack, &WorkspaceOptions::default())
        .err()
        .unwrap_or_else(|| panic!("accepted"))
}

pub fn spec(pod: &Pod) -> &PodSpec {
    pod.spec.as_ref().unwrap()
}

pub fn container<'a>(pod: &'a Pod, name: &str) -> &'a Container {
    let spec = spec(pod);
    let mut all = spec
        .init_containers
        .iter()
        .flatten()
        .chain(&spec.containers);
    all.find(|c| c.name == name)
        .unwrap_or_else(|| panic!("no container {name}"))
}

pub fn names<'a>(containers: impl IntoIterator<Item = &'a Container>) -> Vec<&'a str> {
    containers.into_iter().map(|c| c.name.as_str()).collect()
}

/// "NAME=value" or "NAME<-where it comes from", in order.
pub fn env(list: &[EnvVar]) -> Vec<String> {
    list.iter().map(entry).collect()
}

fn entry(variable: &EnvVar) -> String {
    let name = &variable.name;
    let Some(from) = &variable.value_from else {
        return format!("{name}={}", variable.value.as_deref().unwrap_or_default());
    };
    assert!(variable.value.is_none(), "{name} has two sources");
    if let Some(secret) = &from.secret_key_ref {
        return format!("{name}<-Secret {}/{}", secret.name, secret.key);
    }
    if let Some(map) = &from.config_map_key_ref {
        return format!("{name}<-ConfigMap {}/{}", map.name, map.key);
    }
    if let Some(field) = &from.field_ref {
        return format!("{name}<-{}", field.field_path);
    }
    let resource = from.resource_field_ref.as_ref().unwrap();
    format!(
        "{name}<-{}:{}",
        resource.container_name.as_deref().unwrap_or_default(),
        resource.resource
    )
}

/// "path: volume", in order.
pub fn mounts(container: &Container) -> Vec<String> {
    container
        .volume_mounts
        .iter()
        .flatten()
        .map(|mount| format!("{}: {}", mount.mount_path, mount.name))
        .collect()
}

pub fn volumes(spec: &PodSpec) -> Vec<&str> {
    spec.volumes
        .iter()
        .flatten()
        .map(|v| v.name.as_str())
        .collect()
}
