//! Everything between the request and the operation: stale locks, the stack, its settings file, dependencies.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::Value;
use sha2::{Digest, Sha256};

use super::context::{Context, RunError, make_project};
use super::judge::error_in;
use crate::cli::{Given, Said};
use crate::config::{self, Plan, SealedBy, Settings};
use crate::crypter::Crypter;
use crate::environment;
use crate::file_backend::{LEFT_AFTER, Lookup, SecretsProvider, StackState, locks_in_text};

/// Names in a run's folder.
pub const SETTINGS: &str = "settings.json";

fn failed(context: &Context, what: &'static str, said: Said) -> RunError {
    let stderr = context.redactor.redact(&said.stderr);
    let message = error_in(&stderr).unwrap_or_else(|| "it did not say why".to_owned());
    RunError::CommandFailed {
        what,
        message,
        code: said.code,
        stderr,
    }
}

async fn say(
    context: &Context,
    what: &'static str,
    cwd: &Path,
    args: &[&str],
    given: Given,
) -> Result<Said, RunError> {
    let args: Vec<String> = args.iter().map(|a| (*a).to_owned()).collect();
    let said = context.cli.say(&context.env, cwd, &args, given).await?;
    if said.code == Some(0) {
        Ok(said)
    } else {
        Err(failed(context, what, said))
    }
}

/// Takes away what a killed CLI left half made in a directory backend: the next one would fail on it.
pub async fn mend_backend(context: &Context) {
    let Some(stack) = &context.file_stack else {
        return;
    };
    // A run that comes right after a kill waits until it is plain whether a lock is left.
    let begun = Instant::now();
    while stack.has_lock_underway() && begun.elapsed() <= LEFT_AFTER {
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    match stack.mend() {
        Ok(files) => files.iter().for_each(|file| {
            let file = file.display();
            tracing::info!(%file, "took away what a killed CLI left half made");
        }),
        // The CLI will say what it cannot do with it.
        Err(e) => tracing::warn!("what a killed CLI left half made cannot be taken away: {e}"),
    }
}

/// Takes away the locks that the adapter judged stale, each only if it still stands.
pub fn release_locks(context: &Context) -> Result<(), RunError> {
    let Some(stack) = &context.file_stack else {
        return Ok(());
    };
    for id in &context.request.release_locks {
        if stack.release(id)? {
            tracing::info!(lock = %id, "released a stale lock");
        }
    }
    Ok(())
}

/// Where the backend is no directory: takes away the one lock that the CLI refused for, if the adapter judged it stale.
/// `pulumi cancel` takes away all locks of the stack, so there must be no other.
pub async fn release_by_cli(context: &Context, refusal: &str) -> Result<bool, RunError> {
    let locks = locks_in_text(refusal);
    let [lock] = locks.as_slice() else {
        return Ok(false);
    };
    if context.file_stack.is_some() || !context.request.release_locks.contains(&lock.id) {
        return Ok(false);
    }
    let args = ["cancel", "--yes", "--stack", &context.request.stack];
    say(
        context,
        "releasing a stale lock",
        &context.project.dir,
        &args,
        Given::default(),
    )
    .await?;
    tracing::info!(lock = %lock.id, "released a stale lock");
    Ok(true)
}

/// Creates the stack and tells the salt of its secrets, if it has one.
pub async fn create_stack(context: &Context) -> Result<Option<String>, RunError> {
    // In a folder of its own: the CLI writes a settings file beside the project file.
    let dir = make_project(&context.dir.join("init"), &context.project.info)?;
    let stack = context.request.stack.as_str();
    let mut args = vec!["stack", "init", stack, "--no-select"];
    if let Some(provider) = &context.request.secrets_provider {
        args.extend(["--secrets-provider", provider]);
    }
    match say(context, "creating the stack", &dir, &args, Given::default()).await {
        Err(RunError::CommandFailed { message, .. }) if message.contains("already exists") => {
            Ok(None)
        }
        Err(e) => Err(e),
        Ok(_) => {
            let file = dir.join(format!("Pulumi.{}.yaml", context.stack_name()));
            let text = std::fs::read_to_string(file).unwrap_or_default();
            let value: Option<Value> = serde_saphyr::from_str(&text).ok();
            Ok(value.and_then(|v| v.get("encryptionsalt")?.as_str().map(str::to_owned)))
        }
    }
}

/// Asks the CLI for the state of a stack that cannot be read here.
async fn export(context: &Context) -> Result<Lookup, RunError> {
    let args = ["stack", "export", "--stack", &context.request.stack];
    let said = match say(
        context,
        "reading the stack",
        &context.project.dir,
        &args,
        Given::default(),
    )
    .await
    {
        Err(RunError::CommandFailed { code: Some(6), .. }) => return Ok(Lookup::Missing),
        other => other?,
    };
    let value: Value = serde_json::from_slice(&said.stdout).unwrap_or_default();
    let secrets = value.pointer("/deployment/secrets_providers").cloned();
    let secrets: Option<SecretsProvider> = secrets.and_then(|s| serde_json::from_value(s).ok());
    Ok(Lookup::Found(StackState {
        secrets,
        resources: 0,
        outputs: Value::Null,
    }))
}

/// What the run knows of the stack's secrets.
enum Secrets {
    Unknown,
    Passphrase(String),
    /// The key is with a service.
    Elsewhere,
}

impl From<Option<SecretsProvider>> for Secrets {
    fn from(provider: Option<SecretsProvider>) -> Secrets {
        match provider {
            None => Secrets::Unknown,
            Some(SecretsProvider { kind, state }) if kind == "passphrase" => {
                match state.get("salt") {
                    Some(Value::String(salt)) => Secrets::Passphrase(salt.clone()),
                    _ => Secrets::Unknown,
                }
            }
            Some(_) => Secrets::Elsewhere,
        }
    }
}

/// Finds the stack, creating it if that is asked for, and how its secrets are sealed.
async fn find_stack(context: &Context, any_secret: bool) -> Result<Secrets, RunError> {
    let lookup = match &context.file_stack {
        Some(stack) => stack.state(),
        // Only secrets are worth a process: whether the stack exists, the operation itself will tell.
        None if any_secret => export(context).await?,
        None => return Ok(Secrets::Unknown),
    };
    match lookup {
        Lookup::Missing if context.request.create => {
            let salt = create_stack(context).await?;
            Ok(salt.map_or(Secrets::Unknown, Secrets::Passphrase))
        }
        Lookup::Missing => Ok(Secrets::Unknown),
        Lookup::Found(state) => Ok(state.secrets.into()),
        Lookup::Opaque if any_secret => match export(context).await? {
            Lookup::Found(state) => Ok(state.secrets.into()),
            _ => Ok(Secrets::Unknown),
        },
        Lookup::Opaque => Ok(Secrets::Unknown),
    }
}

/// The stack's crypter, where the agent can have it. A wrong passphrase is left for the CLI to tell, in its words.
pub fn crypter(context: &Context, salt: Option<&str>) -> Option<Arc<Crypter>> {
    let passphrase = environment::passphrase(&context.env)?;
    context.workspace.crypter(&passphrase, salt?).ok()
}

/// Writes the settings file of this run. Secret values are in it sealed, or not at all.
pub async fn write_settings(context: &mut Context) -> Result<(), RunError> {
    let name = context.project.info.name.clone();
    let items = config::resolve(
        &context.request.config,
        &name,
        |name, most| context.workspace.read(name, most),
        &context.env,
    )?;
    for item in items.iter().filter(|i| i.secret) {
        context.redactor.add_json(&item.value);
    }
    let any_secret = items.iter().any(|i| i.secret);
    let secrets = find_stack(context, any_secret).await?;
    let mut settings = Settings::from_base(context.project.settings(context.stack_name())?);
    settings.import(&context.request.environments);
    if let (None, false, Secrets::Passphrase(salt)) =
        (settings.salt(), settings.names_provider(), &secrets)
    {
        settings.set_salt(salt);
    }
    let sealer = match secrets {
        Secrets::Elsewhere => None,
        Secrets::Unknown | Secrets::Passphrase(_) if any_secret => {
            crypter(context, settings.salt())
        }
        Secrets::Unknown | Secrets::Passphrase(_) => None,
    };
    let seal = sealer.as_deref().map_or(SealedBy::Cli, SealedBy::Agent);
    let plan = settings.apply(&items, &seal).map_err(|e| match e {
        config::ApplyError::Path(e) => RunError::Path(e),
        config::ApplyError::Crypter(e) => RunError::Crypter(e),
    })?;
    let file = context.dir.join(SETTINGS);
    crate::supervise::write_synced(&file, &settings.to_json())?;
    seal_by_cli(context, &file, plan).await
}

async fn seal_by_cli(context: &Context, file: &Path, plan: Plan) -> Result<(), RunError> {
    let Plan { set_all, set_paths } = plan;
    let file = file.display().to_string();
    let stack = context.request.stack.as_str();
    let tail = ["--stack", stack, "--config-file", &file];
    if !set_all.is_empty() {
        let mut args = vec!["config", "set-all"];
        args.extend(tail);
        let env = vec![("PULUMI_OPTION_JSON", Value::Object(set_all).to_string())];
        say(
            context,
            "sealing the secret config",
            &context.project.dir,
            &args,
            Given { stdin: None, env },
        )
        .await?;
    }
    for (path, value) in set_paths {
        let mut args = vec!["config", "set", "--secret", "--path"];
        args.extend(tail);
        args.extend(["--", &path]);
        let given = Given {
            stdin: Some(value),
            env: Vec::new(),
        };
        say(
            context,
            "sealing the secret config",
            &context.project.dir,
            &args,
            given,
        )
        .await?;
    }
    Ok(())
}

/// Files whose change means other dependencies.
const LOCK_FILES: [&str; 16] = [
    "Pulumi.yaml",
    "package.json",
    "package-lock.json",
    "yarn.lock",
    "pnpm-lock.yaml",
    "bun.lock",
    "requirements.txt",
    "pyproject.toml",
    "poetry.lock",
    "uv.lock",
    "go.mod",
    "go.sum",
    "pom.xml",
    "build.gradle",
    "packages.lock.json",
    "sdks.lock",
];

/// The mark of an installation: what it was made from.
pub fn dependencies_mark(context: &Context) -> Option<(PathBuf, String)> {
    if !context.project.needs_install
        || matches!(
            context.request.program,
            windlass_api::run::ProgramSource::ProjectOnly { .. }
        )
    {
        return None;
    }
    let dir = &context.project.dir;
    let mut hash = Sha256::new();
    for name in LOCK_FILES {
        if let Ok(bytes) = std::fs::read(dir.join(name)) {
            hash.update(name);
            hash.update((bytes.len() as u64).to_le_bytes());
            hash.update(bytes);
        }
    }
    // Plugins are installed into the CLI's home. In a pod that goes with the container, while this mark stays.
    if let Some(home) = context.env.get("PULUMI_HOME") {
        let made = std::fs::metadata(home).and_then(|m| m.created());
        hash.update(format!("{home} {made:?}", made = made.ok()));
    }
    let place = hex::encode(Sha256::digest(dir.as_os_str().as_encoded_bytes()));
    Some((
        context.workspace.state_dir.join("installed").join(place),
        hex::encode(hash.finalize()),
    ))
}

/// Installs the program's dependencies unless that was done for the same lock files in the same place.
pub async fn install(context: &Context, mark: (PathBuf, String)) -> Result<(), RunError> {
    let (file, wanted) = mark;
    if std::fs::read_to_string(&file).is_ok_and(|done| done == wanted) {
        return Ok(());
    }
    say(
        context,
        "pulumi install",
        &context.project.dir,
        &["install"],
        Given::default(),
    )
    .await?;
    if let Some(dir) = file.parent() {
        std::fs::create_dir_all(dir)?;
    }
    std::fs::write(file, wanted)?;
    Ok(())
}
