//! Where the program of `source: {type: @SHORT@, configMap: NAME}` is: in the ConfigMap itself.

use serde_json::Value;
use windlass_sdk::{
    Artifact, Descriptor, ErrorClass, FieldError, File, Host, ObjectRef, Plugin, PluginError, Resolution,
    SourceProvider, SourceRequest, Wants,
};

pub struct @TYPE@;

impl Plugin for @TYPE@ {
    fn describe() -> Descriptor {
        Descriptor {
            name: "@NAME@".into(),
            version: env!("CARGO_PKG_VERSION").into(),
            summary: "Programs in ConfigMaps".into(),
            sources: vec!["@SHORT@".into()],
            wants: Wants { interfaces: vec!["kube".into()], kinds: vec!["/ConfigMap".into()], ..Wants::default() },
            ..Descriptor::default()
        }
    }
}

impl SourceProvider for @TYPE@ {
    fn validate(_: &(impl Host + ?Sized), spec: &Value) -> Vec<FieldError> {
        if !reference(spec).name.is_empty() {
            return Vec::new();
        }
        let message = "spec.source.configMap must name a ConfigMap".into();
        vec![FieldError { field: "source.configMap".into(), message }]
    }

    fn watches(_: &(impl Host + ?Sized), spec: &Value) -> Vec<ObjectRef> {
        vec![reference(spec)]
    }

    fn resolve(host: &(impl Host + ?Sized), request: &SourceRequest) -> Result<Resolution, PluginError> {
        let wanted = reference(&request.spec);
        let found = host.kube_get(&wanted)?.ok_or_else(|| {
            let message = format!("there is no ConfigMap {}", wanted.name);
            PluginError::new(ErrorClass::NotFound, "ConfigMapMissing", message)
        })?;
        let data = found["data"].as_object().cloned().unwrap_or_default();
        let file = |(path, text): (String, Value)| File { path, content: text.as_str().unwrap_or_default().into() };
        Ok(Resolution {
            revision: format!("{}@{}", wanted.name, found["metadata"]["resourceVersion"].as_str().unwrap_or("?")),
            artifact: Artifact::Files { files: data.into_iter().map(file).collect() },
            dir: String::new(),
            poll_after_ms: None, // watched instead
        })
    }
}

fn reference(spec: &Value) -> ObjectRef {
    let name = spec["source"]["configMap"].as_str().unwrap_or_default().into();
    ObjectRef { api_version: "v1".into(), kind: "ConfigMap".into(), name }
}

windlass_sdk::export_plugin!(@TYPE@: source);
