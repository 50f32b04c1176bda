//! The variables of a workspace, by reference: the kubelet resolves them, the operator never sees a secret's value.

use k8s_openapi::api::core::v1::{
    ConfigMapEnvSource, ConfigMapKeySelector, EnvVarSource, SecretEnvSource, SecretKeySelector,
};
use windlass_api::names::output_key;
use windlass_api::reference::Selector;
use windlass_api::stack::StackSpec;
use windlass_api::{EnvFromSource, EnvVar};

use crate::error::TemplateError;
use crate::layout::stack_outputs_secret;

/// `backend`, `accessTokenSecret` and `envRefs`, one entry a name: an explicit `envRefs` wins over the other two.
pub(crate) fn env(spec: &StackSpec, namespace: &str) -> Result<Vec<EnvVar>, TemplateError> {
    let mut env: Vec<EnvVar> = Vec::new();
    if let Some(url) = spec.backend.as_deref().filter(|url| !url.is_empty()) {
        env.push(value("PULUMI_BACKEND_URL", url));
    }
    if let Some(secret) = spec
        .access_token_secret
        .as_deref()
        .filter(|s| !s.is_empty())
    {
        env.push(from_secret("PULUMI_ACCESS_TOKEN", secret, "accessToken"));
    }
    for (name, reference) in &spec.env_refs {
        let field = format!("spec.envRefs.{name}");
        variable_name(&field, name)?;
        let selector =
            reference
                .selector(namespace)
                .map_err(|source| TemplateError::Reference {
                    field: field.clone(),
                    source,
                })?;
        let entry = match selector {
            Selector::Literal(text) => value(name, text.expose()),
            Selector::Secret(secret) => from_secret(name, &secret.name, &secret.key),
            Selector::ConfigMap(map) => EnvVar {
                name: name.clone(),
                value_from: Some(EnvVarSource {
                    config_map_key_ref: Some(ConfigMapKeySelector {
                        name: map.name.clone(),
                        key: map.key.clone(),
                        optional: None,
                    }),
                    ..EnvVarSource::default()
                }),
                ..EnvVar::default()
            },
            Selector::StackOutput { stack, output } => {
                from_secret(name, &stack_outputs_secret(stack), &output_key(output))
            }
        };
        match env.iter_mut().find(|e| e.name == *name) {
            Some(implied) => *implied = entry,
            None => env.push(entry),
        }
    }
    Ok(env)
}

/// `envs`, then `envSecrets`: whole ConfigMaps and Secrets.
pub(crate) fn env_from(spec: &StackSpec) -> Vec<EnvFromSource> {
    let maps = spec.envs.iter().map(|name| EnvFromSource {
        config_map_ref: Some(ConfigMapEnvSource {
            name: name.clone(),
            optional: None,
        }),
        ..EnvFromSource::default()
    });
    let secrets = spec.env_secrets.iter().map(|name| EnvFromSource {
        secret_ref: Some(SecretEnvSource {
            name: name.clone(),
            optional: None,
        }),
        ..EnvFromSource::default()
    });
    maps.chain(secrets).collect()
}

/// What Kubernetes allows as a variable's name.
pub(crate) fn variable_name(field: &str, name: &str) -> Result<(), TemplateError> {
    if name.is_empty() {
        return Err(TemplateError::invalid(field, "the variable has no name"));
    }
    if name.contains('=') || !name.bytes().all(|b| (b' '..=b'~').contains(&b)) {
        return Err(TemplateError::invalid(
            field,
            "a variable's name is of printable ASCII characters without \"=\"",
        ));
    }
    Ok(())
}

pub(crate) fn value(name: &str, value: &str) -> EnvVar {
    EnvVar {
        name: name.to_owned(),
        value: Some(value.to_owned()),
        value_from: None,
    }
}

fn from_secret(name: &str, secret: &str, key: &str) -> EnvVar {
    EnvVar {
        name: name.to_owned(),
        value: None,
        value_from: Some(EnvVarSource {
            secret_key_ref: Some(SecretKeySelector {
                name: secret.to_owned(),
                key: key.to_owned(),
                optional: None,
            }),
            ..EnvVarSource::default()
        }),
    }
}
