//! What pods say about themselves, as the kubelet reads it: field and resource references, `$(NAME)`
//! in strings, quantities.

use std::net::Ipv4Addr;

use k8s_openapi::api::core::v1::{Container, ObjectFieldSelector, Pod, ResourceFieldSelector};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

/// What a pod's fields are resolved with beside the pod itself.
#[derive(Debug, Clone, Copy)]
pub struct Place {
    pub pod_ip: Ipv4Addr,
    pub host_ip: Ipv4Addr,
    /// Memory of the node, in bytes: the limit of what has none.
    pub memory: i128,
    /// Processors of the node: the limit of what has none.
    pub processors: i128,
}

/// The value of a `fieldRef`.
///
/// # Errors
/// The kubelet's sentence about a field that there is not.
pub fn field(pod: &Pod, place: Place, reference: &ObjectFieldSelector) -> Result<String, String> {
    let path = reference.field_path.as_str();
    let metadata = &pod.metadata;
    let spec = pod.spec.as_ref();
    if let Some((map, key)) = subscript(path) {
        let map = match map {
            "metadata.labels" => metadata.labels.as_ref(),
            "metadata.annotations" => metadata.annotations.as_ref(),
            _ => return Err(format!("unsupported fieldPath: {path}")),
        };
        return Ok(map
            .and_then(|map| map.get(key))
            .cloned()
            .unwrap_or_default());
    }
    let value = match path {
        "metadata.name" => metadata.name.clone(),
        "metadata.namespace" => metadata.namespace.clone(),
        "metadata.uid" => metadata.uid.clone(),
        "metadata.labels" => metadata.labels.as_ref().map(lines),
        "metadata.annotations" => metadata.annotations.as_ref().map(lines),
        "spec.nodeName" => spec.and_then(|spec| spec.node_name.clone()),
        "spec.serviceAccountName" => spec.and_then(|spec| spec.service_account_name.clone()),
        "status.podIP" | "status.podIPs" => Some(place.pod_ip.to_string()),
        "status.hostIP" | "status.hostIPs" => Some(place.host_ip.to_string()),
        _ => return Err(format!("unsupported fieldPath: {path}")),
    };
    Ok(value.unwrap_or_default())
}

/// `metadata.labels['key']` in two.
fn subscript(path: &str) -> Option<(&str, &str)> {
    let (map, rest) = path.split_once("['")?;
    Some((map, rest.strip_suffix("']")?))
}

/// A whole map, as the downward API writes it into a file.
fn lines(map: &std::collections::BTreeMap<String, String>) -> String {
    let lines: Vec<_> = map
        .iter()
        .map(|(key, value)| format!("{key}={value:?}"))
        .collect();
    lines.join("\n")
}

/// The value of a `resourceFieldRef`; `own` is the container that it stands in.
///
/// # Errors
/// The kubelet's sentence about what there is not.
pub fn resource(
    pod: &Pod,
    place: Place,
    own: Option<&Container>,
    reference: &ResourceFieldSelector,
) -> Result<String, String> {
    let container = match reference.container_name.as_deref() {
        None | Some("") => own,
        Some(name) => pod
            .spec
            .iter()
            .flat_map(|spec| {
                spec.init_containers
                    .iter()
                    .flatten()
                    .chain(&spec.containers)
            })
            .find(|container| container.name == name),
    };
    let container = container.ok_or_else(|| {
        let name = reference.container_name.as_deref().unwrap_or_default();
        format!("container {name} not found")
    })?;
    let (kind, resource) = reference
        .resource
        .split_once('.')
        .ok_or_else(|| format!("unsupported container resource : {}", reference.resource))?;
    let resources = container.resources.as_ref();
    let listed = match kind {
        "limits" => resources.and_then(|resources| resources.limits.as_ref()),
        "requests" => resources.and_then(|resources| resources.requests.as_ref()),
        _ => {
            return Err(format!(
                "unsupported container resource : {}",
                reference.resource
            ));
        }
    };
    let stated = listed
        .and_then(|listed| listed.get(resource))
        .and_then(thousandths);
    let value = match (stated, kind, resource) {
        (Some(value), _, _) => value,
        (None, "limits", "memory") => place.memory * 1000,
        (None, "limits", "cpu") => place.processors * 1000,
        (None, _, _) => 0,
    };
    let divisor = reference.divisor.as_ref().and_then(thousandths);
    let divisor = divisor.filter(|divisor| *divisor > 0).unwrap_or(1000);
    Ok((value + divisor - 1).div_euclid(divisor).to_string())
}

/// A quantity in thousandths of its unit; `None` for what is none.
pub fn thousandths(quantity: &Quantity) -> Option<i128> {
    let text = quantity.0.trim();
    let end = text
        .find(|letter: char| !(letter.is_ascii_digit() || letter == '.' || letter == '-'))
        .unwrap_or(text.len());
    let (number, suffix) = text.split_at(end);
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let digits = format!("{fraction:0<3}");
    let negative = whole.starts_with('-');
    let whole: i128 = if whole.is_empty() {
        0
    } else {
        whole.parse().ok()?
    };
    let fraction: i128 = digits.get(..3)?.parse().ok()?;
    let value = whole * 1000 + if negative { -fraction } else { fraction };
    let kibi = |power: u32| Some(1024_i128.pow(power));
    let kilo = |power: u32| Some(1000_i128.pow(power));
    let factor = match suffix {
        "" => kilo(0),
        "m" => return Some((value + 999).div_euclid(1000)),
        "k" => kilo(1),
        "M" => kilo(2),
        "G" => kilo(3),
        "T" => kilo(4),
        "Ki" => kibi(1),
        "Mi" => kibi(2),
        "Gi" => kibi(3),
        "Ti" => kibi(4),
        _ => None,
    };
    Some(value * factor?)
}

/// Replaces `$(NAME)` by the value that `find` gives; names without a value stay as they are, and
/// `$$` is a dollar sign.
pub fn expand<'a>(text: &str, find: impl Fn(&str) -> Option<&'a str>) -> String {
    let mut result = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('$') {
        result.push_str(&rest[..at]);
        rest = &rest[at..];
        let reference = rest
            .strip_prefix("$(")
            .and_then(|inner| inner.split_once(')'));
        if let Some(after) = rest.strip_prefix("$$") {
            result.push('$');
            rest = after;
        } else if let Some((name, after)) = reference {
            match find(name) {
                Some(value) => result.push_str(value),
                None => result.push_str(&rest[..name.len() + 3]),
            }
            rest = after;
        } else {
            result.push('$');
            rest = &rest[1..];
        }
    }
    result.push_str(rest);
    result
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use pretty_assertions::assert_eq;

    #[test]
    fn references_in_strings_are_replaced_as_kubernetes_does() {
        let find = |name: &str| (name == "A").then_some("1");
        for (text, expanded) in [
            ("$(A)", "1"),
            ("x$(A)y$(A)", "x1y1"),
            ("$(B)", "$(B)"),
            ("$$(A)", "$(A)"),
            ("$$$(A)", "$1"),
            ("$A $", "$A $"),
            ("$(A", "$(A"),
        ] {
            assert_eq!(expand(text, find), expanded, "{text}");
        }
    }

    #[test]
    fn quantities_are_read() {
        for (text, value) in [
            ("1", 1000),
            ("100m", 100),
            ("1.5", 1500),
            ("64Mi", 64 * 1024 * 1024 * 1000),
            ("2k", 2_000_000),
            ("0.5Gi", 512 * 1024 * 1024 * 1000),
        ] {
            assert_eq!(
                thousandths(&Quantity(text.to_owned())),
                Some(value),
                "{text}"
            );
        }
        assert_eq!(thousandths(&Quantity("much".to_owned())), None);
    }

    #[test]
    fn fields_and_resources_are_found() {
        let pod: Pod = serde_json::from_value(serde_json::json!({
            "metadata": {"name": "p", "namespace": "n", "labels": {"a/b": "c"}},
            "spec": {"serviceAccountName": "sa", "containers": [{"name": "main", "resources":
                {"requests": {"memory": "64Mi"}, "limits": {"cpu": "1500m"}}}]},
        }))
        .unwrap();
        let place = Place {
            pod_ip: Ipv4Addr::new(127, 1, 0, 2),
            host_ip: Ipv4Addr::new(127, 1, 0, 1),
            memory: 1 << 30,
            processors: 2,
        };
        for (path, value) in [
            ("metadata.labels['a/b']", "c"),
            ("metadata.labels", "a/b=\"c\""),
            ("spec.serviceAccountName", "sa"),
            ("status.podIP", "127.1.0.2"),
        ] {
            let reference = ObjectFieldSelector {
                field_path: path.to_owned(),
                ..ObjectFieldSelector::default()
            };
            assert_eq!(field(&pod, place, &reference).unwrap(), value);
        }
        let own = pod.spec.as_ref().unwrap().containers.first();
        for (resource_name, value) in [
            ("requests.memory", "67108864"),
            ("limits.memory", "1073741824"),
            ("limits.cpu", "2"),
            ("requests.cpu", "0"),
        ] {
            let reference = ResourceFieldSelector {
                resource: resource_name.to_owned(),
                ..ResourceFieldSelector::default()
            };
            assert_eq!(resource(&pod, place, own, &reference).unwrap(), value);
        }
    }
}
