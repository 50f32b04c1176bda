//! Sets up the plugin host for commands that ask plugins outside of `local`: same code, same limits.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use tempfile::TempDir;
use windlass_wasm::{
    Builtins, Examined, HostOptions, LoadError, Network, Outside, PluginError, PluginHost,
    PluginPolicy, PluginStatus, Policy,
};

use crate::args::Plugins;
use crate::error::{AtPath, Error, Result};
use crate::place;
use crate::script::Script;

/// Plugins that were loaded, and what must live as long as they do.
pub struct Loaded {
    pub host: PluginHost,
    /// How long loading took.
    pub took: Duration,
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
    let begun = Instant::now();
    let host = host(dirs, policy, builtins, outside).await?;
    Ok(Loaded {
        host,
        took: begun.elapsed(),
        _stage: None,
    })
}

/// Under what a single file is loaded.
#[derive(Default)]
pub struct Setting<'a> {
    /// The plugin's name; the file's where it is not given.
    pub name: Option<&'a str>,
    /// The policy's file.
    pub policy: Option<&'a Path>,
    /// Answers that are made up: without a policy the plugin has all that it asks for, since nothing real is reached.
    pub script: Option<&'a Script>,
    /// Where machine code is kept; the user's own cache where it is not given.
    pub cache: Option<&'a Path>,
}

/// Loads one file under the name that it will be installed by.
///
/// # Errors
/// As [`load`]; whether the plugin loads shows in its status.
pub async fn load_file(
    file: &Path,
    setting: &Setting<'_>,
    outside: Arc<dyn Outside>,
) -> Result<(Loaded, PluginStatus)> {
    let name = setting
        .name
        .map_or_else(|| installed_name(file), str::to_owned);
    let (stage, _) = stage(file, &name)?;
    let mut policy = read_policy(setting.policy)?;
    if let (Some(script), None) = (setting.script, setting.policy) {
        // What does not load is told by the load itself.
        if let Ok(examined) = examine(file, &name).await? {
            let mut wanted = PluginPolicy::wanted(&examined);
            wanted.kinds.extend(script.kinds());
            policy.plugins.insert(name.clone(), wanted);
        }
    }
    if let Some(config) = setting.script.and_then(|script| script.config.clone()) {
        policy.plugins.entry(name).or_default().config = Some(config);
    }
    // Over an empty directory, so that setting a host up is not counted as loading.
    let file_dir = stage.path().join("plugins");
    let options = HostOptions {
        plugin_dirs: vec![file_dir.clone()],
        cache_dir: setting.cache.map_or_else(cache_dir, Path::to_owned),
        policy,
        builtins: builtins_beside(file)?,
        leave_idle: false,
        // One machine, as `local`.
        file_urls: true,
        network: Network {
            scripted: setting.script.is_some(),
            ..network()
        },
        threads: 0,
    };
    let host = PluginHost::new(options, outside).await?;
    let begun = Instant::now();
    std::fs::rename(stage.path().join("staged"), &file_dir).at(&file_dir)?;
    host.reload().await;
    let took = begun.elapsed();
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
        took,
        _stage: Some(stage),
    };
    Ok((loaded, status))
}

/// What a file says of itself, whatever the policy.
///
/// # Errors
/// Of the file system and the machine. Why it would be refused under every policy is the inner error.
pub async fn examine(file: &Path, name: &str) -> Result<std::result::Result<Examined, LoadError>> {
    let (_stage, staged) = stage(file, name)?;
    let empty = tempfile::tempdir()?;
    let outside = Arc::new(Script::default());
    let host = host(
        vec![empty.path().to_owned()],
        Policy::default(),
        Builtins::default(),
        outside,
    )
    .await?;
    Ok(host.examine(staged, name).await)
}

/// The file under the name that it will be installed by, its signature beside it.
fn stage(file: &Path, name: &str) -> Result<(TempDir, PathBuf)> {
    let real = std::fs::canonicalize(file).at(file)?;
    if !real.is_file() {
        return Err(Error::BadFile {
            path: file.to_owned(),
            message: "not a file; name the component".to_owned(),
        });
    }
    let stage = tempfile::tempdir()?;
    let folder = stage.path().join("staged");
    std::fs::create_dir(&folder).at(&folder)?;
    let staged = folder.join(format!("{name}.wasm"));
    std::os::unix::fs::symlink(&real, &staged).at(&staged)?;
    let signature = windlass_wasm::signature_of(file);
    if signature.is_file() {
        let beside = windlass_wasm::signature_of(&staged);
        std::fs::copy(&signature, &beside).at(&signature)?;
    }
    Ok((stage, staged))
}

/// A built-in is one by its digest, wherever it lies.
fn builtins_beside(file: &Path) -> Result<Builtins> {
    let real = std::fs::canonicalize(file).at(file)?;
    let mut beside: Vec<PathBuf> = real.parent().map(Path::to_owned).into_iter().collect();
    beside.extend(Plugins::default().dirs().unwrap_or_default());
    builtins(&beside)
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
        leave_idle: true,
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
        scripted: false,
    }
}

fn builtins(dirs: &[PathBuf]) -> Result<Builtins> {
    let Some(file) = place::digests(dirs) else {
        return Ok(Builtins::default());
    };
    Ok(Builtins(digests_in(&file)?))
}

/// The digests of built-ins by name.
///
/// # Errors
/// If the file is no such list.
pub fn digests_in(file: &Path) -> Result<BTreeMap<String, String>> {
    let text = std::fs::read_to_string(file).at(file)?;
    serde_json::from_str(&text).map_err(|error| Error::BadFile {
        path: file.to_owned(),
        message: format!("not a list of digests: {error}"),
    })
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
        LoadError::TooLarge { .. } => {
            "build it with `--release` and, in [profile.release], `opt-level = \"s\"`, `lto = \"fat\"`, `strip = true` (the \
             preset of `windlass plugin new`), or allow more in the policy (`limits: {fileBytes: ...}`, at most 64 MiB)"
        }
        LoadError::Unreadable(_) => "check its permissions",
        LoadError::CoreModule => {
            "add `--target wasm32-wasip2` to the build; where the tool makes modules, `wasm-tools component new`"
        }
        LoadError::NotAComponent => "name a file that `cargo build --target wasm32-wasip2` made",
        LoadError::Invalid(_) => "build or copy it again: the file is damaged",
        LoadError::DigestMismatch { .. } => {
            "write the digest of this file into the policy if you trust it"
        }
        LoadError::BuiltinName { .. } => "give the plugin another name",
        LoadError::Signature(_) => {
            "get the file with its `.sig` from its author, or sign it: `windlass plugin sign`"
        }
        LoadError::DigestRequired { .. } => {
            "name the file's digest in the policy; `windlass plugin policy FILE` prints the entry"
        }
        LoadError::ContractVersion { .. } => "the file itself is sound",
        LoadError::ImportsDenied { .. } => {
            "grant what begins with windlass: under `interfaces` in the policy (`windlass plugin policy FILE` prints the \
             entry); anything else no host provides: build without it"
        }
        LoadError::GrantsMissing { .. } => {
            "allow them in the policy; `windlass plugin policy FILE` prints the entry"
        }
        LoadError::NoExports => "implement one of them, and export it with the SDK's macro",
        LoadError::Compile(_) => "report it with the file",
        LoadError::Descriptor(_) => "mend `describe`",
        LoadError::Config(_) => "mend its `config` in the policy",
        LoadError::Trial(error) => match **error {
            PluginError::Panic { .. } | PluginError::Trap { .. } | PluginError::Exit => {
                "mend `describe`: it must return, and it is not asynchronous: a promise is no answer"
            }
            PluginError::MemoryExceeded { .. } => {
                "keep less: memory is bounded in production too (`limits: {memoryBytes: ...}`, at most 64 MiB)"
            }
            _ => "mend `describe`: it must answer at once, without questions",
        },
        LoadError::NameTaken { .. } => "remove one of them",
    }
}
