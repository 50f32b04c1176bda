//! What the definitions of a cluster lack of ours.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, CustomResourceDefinitionVersion, JSONSchemaProps,
    JSONSchemaPropsOrArray, JSONSchemaPropsOrBool,
};

/// Paths of fields that our definition of this name has and the live one would prune or refuse, each behind its version, such as
/// `v1: spec.timeoutSeconds`. A version that is not served is named alone. Of a part that is missing as a whole only its top is
/// named. Empty if nothing is missing, or if the definition is none of ours.
pub fn missing_fields(live: &CustomResourceDefinition) -> Vec<String> {
    let mut missing = Vec::new();
    let name = live.metadata.name.as_deref();
    for ours in super::all() {
        if ours.metadata.name.as_deref() != name {
            continue;
        }
        for version in &ours.spec.versions {
            let served = live
                .spec
                .versions
                .iter()
                .find(|v| v.name == version.name && v.served);
            let Some(served) = served else {
                missing.push(format!("{}: not served", version.name));
                continue;
            };
            let empty = JSONSchemaProps::default();
            let (ours, live) = (schema_of(version), schema_of(served));
            let mut paths = Vec::new();
            compare(
                ours.unwrap_or(&empty),
                live.unwrap_or(&empty),
                "",
                &mut paths,
            );
            missing.extend(
                paths
                    .into_iter()
                    .map(|path| format!("{}: {path}", version.name)),
            );
        }
    }
    missing
}

fn schema_of(version: &CustomResourceDefinitionVersion) -> Option<&JSONSchemaProps> {
    version.schema.as_ref()?.open_api_v3_schema.as_ref()
}

fn compare(ours: &JSONSchemaProps, live: &JSONSchemaProps, path: &str, missing: &mut Vec<String>) {
    let keeps_all =
        |schema: &JSONSchemaProps| schema.x_kubernetes_preserve_unknown_fields == Some(true);
    // Where ours takes any value, one that takes only some refuses what we promise.
    if keeps_all(ours) && ours.type_.is_none() && !(keeps_all(live) && live.type_.is_none()) {
        return missing.push(path.to_owned());
    }
    for (name, inner) in ours.properties.iter().flatten() {
        let path = if path.is_empty() {
            name.clone()
        } else {
            format!("{path}.{name}")
        };
        match live.properties.as_ref().and_then(|p| p.get(name)) {
            Some(live) => compare(inner, live, &path, missing),
            None if keeps_all(live) => {}
            None => missing.push(path),
        }
    }
    if let (Some(ours), Some(live)) = (items(ours), items(live)) {
        compare(ours, live, &format!("{path}[]"), missing);
    }
    if let (Some(ours), Some(live)) = (values(ours), values(live)) {
        compare(ours, live, &format!("{path}{{}}"), missing);
    }
}

fn items(schema: &JSONSchemaProps) -> Option<&JSONSchemaProps> {
    match schema.items.as_ref()? {
        JSONSchemaPropsOrArray::Schema(schema) => Some(schema),
        JSONSchemaPropsOrArray::Schemas(_) => None,
    }
}

fn values(schema: &JSONSchemaProps) -> Option<&JSONSchemaProps> {
    match schema.additional_properties.as_ref()? {
        JSONSchemaPropsOrBool::Schema(schema) => Some(schema),
        JSONSchemaPropsOrBool::Bool(_) => None,
    }
}
