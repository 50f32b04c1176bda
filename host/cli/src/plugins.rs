//! Sets up the plugin host for commands that ask plugins outside of `local`: same code, same limits.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tempfile::TempDir;
use windlass_wasm::{
    Builtins, HostOptions, LoadError, Network, Outside, PluginHost, PluginStatus, Policy,
};

use crate::args::Plugins;
use crate::error::{AtPath, Error, Result};
use crate::place;

/// Plugins that were loaded, and what must live as long as they do.
pub struct Loaded {
    pub host: PluginHost,
    _stage: Option<TempDir>,
}

/// Loads everything in the plugin directories.
///
/// # Errors
/// Of the directories, the policy, the machine; a plugin that does not load is in the list.
pub async fn load(plugins: &Plugins, outside: Arc<dyn Outside>) -> Result<Loaded> {
    load_with(plugins, outside, |_| ()).await
}

/// Loads everything in the plugin directories, under the policy as `change` leaves it.
///
/// # Errors
/// As [`load`].
pub async fn load_with(
    plugins: &Plugins,
    outside: Arc<dyn Outside>,
    change: impl FnOnce(&mut Policy),
) -> Result<Loaded> {
    let dirs = plugins.dirs()?;
    let builtins = builtins(&dirs)?;
    let mut policy = read_policy(plugins.policy.as_deref())?;
    change(&mut policy);
    let host = host(dirs, policy, builtins, outside).await?;
    Ok(Loaded { host, _stage: None })
}

/// Loads one file under the name that it will be installed by.
///
/// # Errors
/// As [`load`]; whether the plugin loads shows in its status.
pub async fn load_file(
    file: &Path,
    policy: Option<&Path>,
    outside: Arc<dyn Outside>,
) -> Result<(Loaded, PluginStatus)> {
    let real = std::fs::canonicalize(file).at(file)?;
    if !real.is_file() {
        return Err(Error::BadFile {
            path: file.to_owned(),
            message: "not a file; name the component".to_owned(),
        });
    }
    let stage = tempfile::tempdir()?;
    let staged = stage.path().join(format!("{}.wasm", installed_name(file)));
    std::os::unix::fs::symlink(&real, &staged).at(&staged)?;
    // A built-in is one by its digest, wherever it lies.
    let mut beside: Vec<PathBuf> = real.parent().map(Path::to_owned).into_iter().collect();
    beside.extend(Plugins::default().dirs().unwrap_or_default());
    let builtins = builtins(&beside)?;
    let policy = read_policy(policy)?;
    let host = host(vec![stage.path().to_owned()], policy, builtins, outside).await?;
    let mut list = host.list();
    let Some(mut status) = list.pop() else {
        return Err(Error::BadFile {
            path: file.to_owned(),
            message: "cannot be read".to_owned(),
        });
    };
    status.file = file.to_owned();
    let loaded = Loaded {
        host,
        _stage: Some(stage),
    };
    Ok((loaded, status))
}

/// Cargo writes `my_plugin.wasm` for the plugin `my-plugin`.
pub fn installed_name(file: &Path) -> String {
    let stem = file.file_stem().unwrap_or_default().to_string_lossy();
    stem.replace('_', "-")
}

async fn host(
    plugin_dirs: Vec<PathBuf>,
    policy: Policy,
    builtins: Builtins,
    outside: Arc<dyn Outside>,
) -> Result<PluginHost> {
    let options = HostOptions {
        plugin_dirs,
        cache_dir: cache_dir(),
        policy,
        builtins,
        // One machine, as `local`.
        file_urls: true,
        network: network(),
        threads: 0,
    };
    Ok(PluginHost::new(options, outside).await?)
}

fn read_policy(file: Option<&Path>) -> Result<Policy> {
    Ok(file.map(Policy::read).transpose()?.unwrap_or_default())
}

/// What may be reached from one machine: its own servers too.
pub fn network() -> Network {
    Network {
        loopback: true,
        api_server: Vec::new(),
    }
}

fn builtins(dirs: &[PathBuf]) -> Result<Builtins> {
    let Some(file) = place::digests(dirs) else {
        return Ok(Builtins::default());
    };
    let text = std::fs::read_to_string(&file).at(&file)?;
    let digests: BTreeMap<String, String> =
        serde_json::from_str(&text).map_err(|error| Error::BadFile {
            path: file,
            message: format!("not a list of digests: {error}"),
        })?;
    Ok(Builtins(digests))
}

/// The user's own; shared by all commands. The host authenticates what it reads from there.
fn cache_dir() -> PathBuf {
    let named = |name: &str| {
        std::env::var_os(name)
            .filter(|it| !it.is_empty())
            .map(PathBuf::from)
    };
    named("XDG_CACHE_HOME")
        .or_else(|| named("HOME").map(|home| home.join(".cache")))
        .unwrap_or_else(std::env::temp_dir)
        .join("windlass/plugins")
}

/// What to do about a plugin that does not load.
pub fn advice(error: &LoadError) -> &'static str {
    match error {
        LoadError::TooLarge { .. } => "build it with `opt-level = \"s\"` and `strip = true`",
        LoadError::Unreadable(_) => "check its permissions",
        LoadError::CoreModule => "add `--target wasm32-wasip2` to the build",
        LoadError::NotAComponent => "name a file that `cargo build --target wasm32-wasip2` made",
        LoadError::Invalid(_) => "build or copy it again: the file is damaged",
        LoadError::DigestMismatch { .. } => {
            "write the digest of this file into the policy if you trust it"
        }
        LoadError::BuiltinName { .. } => "give the plugin another name",
        LoadError::DigestRequired { .. } => "name the file's digest in the policy",
        LoadError::ContractVersion { .. } => "see the versions above",
        LoadError::ImportsDenied { .. } => {
            "grant them under `interfaces` in the policy, or build without them"
        }
        LoadError::GrantsMissing { .. } => "allow them in the policy",
        LoadError::NoExports => "implement one of them, and export it with the SDK's macro",
        LoadError::Compile(_) => "report it with the file",
        LoadError::Descriptor(_) => "mend `describe`",
        LoadError::Config(_) => "mend its `config` in the policy",
        LoadError::Trial(_) => "mend `describe`: it must answer at once, without questions",
        LoadError::NameTaken { .. } => "remove one of them",
    }
}
