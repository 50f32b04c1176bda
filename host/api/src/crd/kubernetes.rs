//! What Kubernetes' own types need beside their fields: how lists are merged, what is atomic, what is defaulted, what a
//! quantity looks like. The types carry none of it.

use serde_json::{Value, json};

use super::structural::{Place, relax};

const CORE: &str = "io.k8s.api.core.v1.";
const META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.";

/// Whether a type is Kubernetes' own.
pub(super) fn is_kubernetes(name: &str) -> bool {
    name.starts_with("io.k8s.")
}

/// Adds what is known about a type of Kubernetes.
pub(super) fn amend(name: &str, schema: &mut Value, place: Place) {
    if name == "io.k8s.apimachinery.pkg.api.resource.Quantity" {
        schema["pattern"] = json!(QUANTITY);
    } else if let Some(kind) = name.strip_prefix(CORE) {
        amend_core(kind, schema);
    } else if let Some(kind) = name.strip_prefix(META) {
        match kind {
            "LabelSelector" => {
                schema["x-kubernetes-map-type"] = json!("atomic");
                lists_are_merged(schema);
            }
            "LabelSelectorRequirement" => lists_are_merged(schema),
            "Condition" => amend_condition(schema, place),
            "ObjectMeta" => embedded_metadata(schema),
            "OwnerReference" => relax(schema),
            _ => {}
        }
    }
}

/// Of a pod's parts.
fn amend_core(kind: &str, schema: &mut Value) {
    lists_are_merged(schema);
    if ATOMIC.contains(&kind) {
        schema["x-kubernetes-map-type"] = json!("atomic");
    }
    for (of, property, value) in DEFAULTS {
        if of == kind {
            schema["properties"][property]["default"] = json!(value);
            // What is filled in need not be stated.
            not_required(schema, property);
        }
    }
    for (of, property, value) in SWITCHES {
        if of == kind {
            schema["properties"][property]["default"] = json!(value);
        }
    }
    match kind {
        "PodSpec" => {
            schema["properties"]["nodeSelector"]["x-kubernetes-map-type"] = json!("atomic");
        }
        "ContainerRestartRuleOnExitCodes" => {
            schema["properties"]["values"]["x-kubernetes-list-type"] = json!("set");
        }
        _ => {}
    }
}

/// An API server leaves out a list of nothing, so that each apply would find a difference.
fn not_required(schema: &mut Value, property: &str) {
    let Value::Object(schema) = schema else {
        return;
    };
    if let Some(Value::Array(required)) = schema.get_mut("required") {
        required.retain(|name| name != property);
        if required.is_empty() {
            schema.remove("required");
        }
    }
}

/// Every list of a pod is atomic but those that are maps by a key.
fn lists_are_merged(schema: &mut Value) {
    let Some(Value::Object(properties)) = schema.get_mut("properties") else {
        return;
    };
    for (name, property) in properties {
        if property["type"] != "array" {
            continue;
        }
        match MAPS.iter().find(|(list, _)| list == name) {
            Some((_, keys)) => {
                property["x-kubernetes-list-type"] = json!("map");
                property["x-kubernetes-list-map-keys"] = json!(keys);
            }
            None => property["x-kubernetes-list-type"] = json!("atomic"),
        }
    }
}

/// Lists of pods and containers that are merged item by item, and what tells items apart.
const MAPS: [(&str, &[&str]); 14] = [
    ("claims", &["name"]),
    ("containers", &["name"]),
    ("env", &["name"]),
    ("ephemeralContainers", &["name"]),
    ("hostAliases", &["ip"]),
    ("imagePullSecrets", &["name"]),
    ("initContainers", &["name"]),
    ("ports", &["containerPort", "protocol"]),
    ("resourceClaims", &["name"]),
    ("schedulingGates", &["name"]),
    (
        "topologySpreadConstraints",
        &["topologyKey", "whenUnsatisfiable"],
    ),
    ("volumeDevices", &["devicePath"]),
    ("volumeMounts", &["mountPath"]),
    ("volumes", &["name"]),
];

/// Types that have one owner as a whole.
const ATOMIC: [&str; 15] = [
    "ConfigMapEnvSource",
    "ConfigMapKeySelector",
    "ConfigMapProjection",
    "ConfigMapVolumeSource",
    "FileKeySelector",
    "LocalObjectReference",
    "NodeSelector",
    "NodeSelectorTerm",
    "ObjectFieldSelector",
    "ResourceFieldSelector",
    "SecretEnvSource",
    "SecretKeySelector",
    "SecretProjection",
    "SecretReference",
    "TypedLocalObjectReference",
];

/// Texts that Kubernetes fills in. Without those of keys of lists, the lists could not be maps.
const DEFAULTS: [(&str, &str, &str); 17] = [
    ("AzureDiskVolumeSource", "fsType", "ext4"),
    ("ConfigMapEnvSource", "name", ""),
    ("ConfigMapKeySelector", "name", ""),
    ("ConfigMapProjection", "name", ""),
    ("ConfigMapVolumeSource", "name", ""),
    ("ContainerPort", "protocol", "TCP"),
    ("GRPCAction", "service", ""),
    ("ISCSIVolumeSource", "iscsiInterface", "default"),
    ("LocalObjectReference", "name", ""),
    ("RBDVolumeSource", "keyring", "/etc/ceph/keyring"),
    ("RBDVolumeSource", "pool", "rbd"),
    ("RBDVolumeSource", "user", "admin"),
    ("ScaleIOVolumeSource", "fsType", "xfs"),
    ("ScaleIOVolumeSource", "storageMode", "ThinProvisioned"),
    ("SecretEnvSource", "name", ""),
    ("SecretKeySelector", "name", ""),
    ("SecretProjection", "name", ""),
];

const SWITCHES: [(&str, &str, bool); 2] = [
    ("AzureDiskVolumeSource", "readOnly", false),
    ("FileKeySelector", "optional", false),
];

/// A number with an optional suffix (`100m`, `64Mi`, `1e3`); written as a number or as text.
const QUANTITY: &str = r"^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$";

/// Conditions keep to the form that all of Kubernetes shares; those in a template mean nothing and may have any.
fn amend_condition(schema: &mut Value, place: Place) {
    if place == Place::Template {
        return relax(schema);
    }
    let properties = &mut schema["properties"];
    properties["message"]["maxLength"] = json!(32768);
    properties["observedGeneration"]["minimum"] = json!(0);
    properties["reason"]["minLength"] = json!(1);
    properties["reason"]["maxLength"] = json!(1024);
    properties["reason"]["pattern"] = json!(r"^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$");
    properties["status"]["enum"] = json!(["True", "False", "Unknown"]);
    properties["type"]["maxLength"] = json!(316);
    properties["type"]["pattern"] = json!(
        r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$"
    );
}

/// Metadata inside an object: without what only a server keeps for itself.
fn embedded_metadata(schema: &mut Value) {
    if let Some(Value::Object(properties)) = schema.get_mut("properties") {
        properties.remove("managedFields");
        properties.remove("selfLink");
    }
}
