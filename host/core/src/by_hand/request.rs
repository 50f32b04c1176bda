//! What the agent is asked for an Update that was made by hand.

use windlass_api::run::{ConfigItem, ConfigValue, RunRequest};
use windlass_api::workspace::{ConfigValueFrom, WorkspaceConfigItem, WorkspaceStack};
use windlass_api::{Stack, Workspace};

use crate::request::{Mounts, run_request};
use crate::run::Ours;

/// The request. On a Workspace made by hand, configuration is that of its entry of this name in `spec.stacks`.
pub fn request(
    stack: &Stack,
    workspace: Option<&Workspace>,
    update: Ours<'_>,
    epoch: u64,
    mounts: &Mounts<'_>,
) -> RunRequest {
    let mut request = run_request(stack, update, epoch, mounts);
    let entry = workspace
        .into_iter()
        .flat_map(|workspace| &workspace.spec.stacks)
        .find(|entry| entry.name == update.intent.stack);
    if let Some(WorkspaceStack {
        name: _,
        create,
        secrets_provider,
        config,
        environment,
    }) = entry
    {
        request.create = create.unwrap_or_default();
        request.secrets_provider.clone_from(secrets_provider);
        request.environments.clone_from(environment);
        request.config = config.iter().filter_map(item).collect();
    }
    request
}

fn item(item: &WorkspaceConfigItem) -> Option<ConfigItem> {
    let WorkspaceConfigItem {
        key,
        path,
        value,
        value_from,
        secret,
    } = item;
    let value = match (value, value_from) {
        (Some(value), _) => ConfigValue::Inline {
            value: value.clone(),
        },
        (None, Some(ConfigValueFrom { env, path, json })) => {
            let json = json.unwrap_or_default();
            match (env, path) {
                (Some(name), _) => ConfigValue::Env {
                    name: name.clone(),
                    json,
                },
                (None, Some(path)) => ConfigValue::File {
                    path: path.clone(),
                    json,
                },
                (None, None) => return None,
            }
        }
        (None, None) => return None,
    };
    Some(ConfigItem {
        key: key.clone(),
        path: path.unwrap_or_default(),
        value,
        secret: secret.unwrap_or_default(),
    })
}
