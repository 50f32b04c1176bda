//! From a Stack and the Update that pins a run to what the agent is asked.

use std::collections::BTreeMap;

use serde_json::Value;
use windlass_api::Stack;
use windlass_api::reference::Selector;
use windlass_api::run::{ConfigItem, ConfigValue, Operation, RunOptions, RunRequest};
use windlass_api::update::UpdateSpec;

use crate::run::Ours;

/// Where the values of ConfigMaps and Secrets are mounted beside the agent: `<root>/<object>/<key>`.
pub struct Mounts<'a> {
    pub config_maps: &'a str,
    pub secrets: &'a str,
}

/// Builds the request. Secret values stay where they are: the request names files.
pub fn run_request(stack: &Stack, update: Ours<'_>, epoch: u64, mounts: &Mounts<'_>) -> RunRequest {
    let spec = &stack.spec;
    let intent = update.intent;
    RunRequest {
        id: update.name.to_owned(),
        epoch,
        operation: update.operation,
        stack: intent.stack.clone(),
        create: !spec.use_local_stack_only && update.operation != Operation::Destroy,
        secrets_provider: spec.secrets_provider.clone(),
        program: intent.program.clone(),
        env: intent.env.clone(),
        login: intent.login.clone(),
        config: config(stack, mounts),
        environments: spec.environment.clone(),
        options: options(&update.update.spec),
        timeout_seconds: spec
            .timeout_seconds
            .and_then(|seconds| u64::try_from(seconds).ok())
            .filter(|s| *s > 0),
        release_locks: intent.release_locks.clone(),
    }
}

/// The options that an Update of this Stack carries, before its template is merged in.
pub fn update_spec(stack: &Stack, operation: Operation, message: String) -> UpdateSpec {
    let spec = &stack.spec;
    let deploys = matches!(operation, Operation::Up | Operation::Preview);
    let set = |value: bool| value.then_some(true);
    UpdateSpec {
        workspace_name: stack.metadata.name.clone(),
        stack_name: Some(spec.stack.clone()),
        type_: Some(operation.as_str().to_owned()),
        ttl_after_completed: Some("24h".to_owned()),
        message: Some(message),
        target: (deploys && !spec.targets.is_empty()).then(|| spec.targets.clone()),
        target_dependents: if deploys {
            set(spec.target_dependents)
        } else {
            None
        },
        refresh: if deploys { set(spec.refresh) } else { None },
        run_program: if operation == Operation::Destroy {
            set(spec.run_program)
        } else {
            None
        },
        ..UpdateSpec::default()
    }
}

fn options(spec: &UpdateSpec) -> RunOptions {
    RunOptions {
        parallel: spec.parallel,
        message: spec.message.clone(),
        expect_no_changes: spec.expect_no_changes.unwrap_or_default(),
        replace: spec.replace.clone().unwrap_or_default(),
        target: spec.target.clone().unwrap_or_default(),
        target_dependents: spec.target_dependents.unwrap_or_default(),
        refresh: spec.refresh.unwrap_or_default(),
        continue_on_error: spec.continue_on_error.unwrap_or_default(),
        remove: spec.remove.unwrap_or_default(),
        run_program: spec.run_program.unwrap_or_default(),
    }
}

fn config(stack: &Stack, mounts: &Mounts<'_>) -> Vec<ConfigItem> {
    let spec = &stack.spec;
    // One entry a key. The later ones win, so that a secret reference replaces a plain value of the same name.
    let mut items: BTreeMap<&str, ConfigItem> = BTreeMap::new();
    let item = |key: &str, value, secret| ConfigItem {
        key: key.to_owned(),
        path: false,
        value,
        secret,
    };
    for (key, value) in &spec.config {
        items.insert(
            key,
            item(
                key,
                ConfigValue::Inline {
                    value: value.clone(),
                },
                false,
            ),
        );
    }
    for (key, reference) in &spec.config_ref {
        let path = format!(
            "{}/{}/{}",
            mounts.config_maps, reference.name, reference.key
        );
        let value = ConfigValue::File {
            path,
            json: reference.json.unwrap_or_default(),
        };
        items.insert(key, item(key, value, false));
    }
    for (key, value) in &spec.secrets {
        let value = ConfigValue::Inline {
            value: Value::String(value.expose().to_owned()),
        };
        items.insert(key, item(key, value, true));
    }
    let namespace = stack.metadata.namespace.as_deref().unwrap_or("default");
    for (key, reference) in &spec.secrets_ref {
        let value = match reference.selector(namespace) {
            Ok(Selector::Secret(secret)) => {
                let path = format!("{}/{}/{}", mounts.secrets, secret.name, secret.key);
                ConfigValue::File { path, json: false }
            }
            Ok(Selector::Literal(text)) => ConfigValue::Inline {
                value: Value::String(text.expose().to_owned()),
            },
            // Refused by the strict reading of the specification, before any run.
            Ok(Selector::ConfigMap(_) | Selector::StackOutput { .. }) | Err(_) => continue,
        };
        items.insert(key, item(key, value, true));
    }
    items.into_values().collect()
}
