//! What every step of a run looks at.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use windlass_api::run::{ProgramSource, ProjectInfo, RunRequest};
use zeroize::Zeroizing;

use crate::cli::{Cli, CliError, Finder};
use crate::config::{PathError, ValueError};
use crate::crypter::{Crypter, CrypterError};
use crate::environment::{self, Env};
use crate::file_backend::FileStack;
use crate::login::{self, LoginError, Logins};
use crate::mounts::MountError;
use crate::project::{Project, ProjectError};
use crate::redact::Redactor;
use crate::tree::Trees;

/// What all runs of one agent share.
#[derive(Debug)]
pub struct Workspace {
    /// Directory that relative names of files belong to.
    pub dir: PathBuf,
    pub state_dir: PathBuf,
    /// Directories that absolute names of files may lead into.
    pub mounts: Vec<PathBuf>,
    /// The workspace's own environment.
    pub env: Env,
    /// The CLI's home, unless the environment names another.
    pub home: PathBuf,
    /// A person who comes into the pod is to find the program and its stack.
    pub in_pod: bool,
    /// Bytes of a run's log that are kept.
    pub log_bytes: usize,
    pub logins: Logins,
    /// Verbosity of the CLI's own log.
    pub pulumi_log_level: Option<u8>,
    pub trees: Trees,
    /// The program that is started as supervisor: this very binary.
    pub supervisor: PathBuf,
    /// From the first signal to the second, which makes the CLI leave its plugins alone and end.
    pub grace: Duration,
    pub finder: Finder,
    /// The key of the last stack: deriving it takes 0.2 s.
    pub crypter: Mutex<Option<Arc<Crypter>>>,
}

impl Workspace {
    pub fn run_dir(&self, id: &str) -> PathBuf {
        self.state_dir.join("runs").join(id)
    }

    /// The environment of a run without its backend's token.
    pub fn env_with(&self, added: &Env) -> Env {
        environment::compose(&self.env, added, &self.home)
    }

    /// Reads a mounted file, or one of the workspace directory.
    pub fn read(&self, name: &str, most: u64) -> Result<Vec<u8>, MountError> {
        crate::mounts::read(name, &self.dir, &self.mounts, most)
    }

    /// The token that a request's exchange gives; none where there is none, or the environment has one.
    pub async fn login(
        &self,
        request: &RunRequest,
        env: &Env,
    ) -> Result<Option<Zeroizing<String>>, LoginError> {
        match &request.login {
            Some(exchange) if !login::has_token(env) => {
                self.logins.token(exchange, env).await.map(Some)
            }
            _ => Ok(None),
        }
    }

    /// The crypter of a passphrase and a salt, made once.
    pub fn crypter(&self, passphrase: &str, salt: &str) -> Result<Arc<Crypter>, CrypterError> {
        if let Ok(known) = self.crypter.lock()
            && let Some(crypter) = &*known
            && crypter.is_for(passphrase, salt)
        {
            return Ok(crypter.clone());
        }
        let crypter = Arc::new(Crypter::open(passphrase, salt)?);
        if let Ok(mut known) = self.crypter.lock() {
            *known = Some(crypter.clone());
        }
        Ok(crypter)
    }
}

/// One run.
#[derive(Debug)]
pub struct Context {
    pub workspace: Arc<Workspace>,
    pub request: RunRequest,
    pub dir: PathBuf,
    pub env: Env,
    pub redactor: Redactor,
    pub cli: Cli,
    pub project: Project,
    /// The stack, where its backend is a directory.
    pub file_stack: Option<FileStack>,
}

/// What ends a run before the CLI's operation began.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    #[error(transparent)]
    Cli(#[from] CliError),
    #[error(transparent)]
    Project(#[from] ProjectError),
    #[error(transparent)]
    Value(#[from] ValueError),
    #[error(transparent)]
    Path(#[from] PathError),
    #[error(transparent)]
    Crypter(#[from] CrypterError),
    #[error(transparent)]
    Login(#[from] LoginError),
    #[error("the tree {digest} is not in this workspace")]
    TreeMissing { digest: String },
    #[error("the directory {dir:?} leads out of the source")]
    DirOutside { dir: String },
    /// A short command of the CLI failed; what it said is the evidence.
    #[error("{what} failed: {message}")]
    CommandFailed {
        what: &'static str,
        message: String,
        code: Option<i32>,
        stderr: String,
    },
    #[error("the agent's own files cannot be used: {0}")]
    StateDir(#[from] std::io::Error),
    #[error("the agent was restarted before the operation began")]
    AgentRestarted,
    #[error("cancelled before the operation began")]
    CancelledBefore,
}

impl RunError {
    /// The public reason.
    pub fn reason(&self) -> &'static str {
        match self {
            RunError::Cli(e) => e.reason(),
            RunError::Project(e) => e.reason(),
            RunError::Value(e) => e.reason(),
            RunError::Path(_) => "ConfigPathInvalid",
            RunError::Crypter(_) => "SecretsUnreadable",
            RunError::Login(e) => e.reason(),
            RunError::TreeMissing { .. } => "TreeMissing",
            RunError::DirOutside { .. } => "DirOutside",
            RunError::CommandFailed { .. } => "CommandFailed",
            RunError::StateDir(_) => "StateDirUnusable",
            RunError::AgentRestarted => "AgentRestarted",
            RunError::CancelledBefore => "CancelledBefore",
        }
    }
}

/// A directory below another, named by a request: no way out of it.
pub fn below(base: &Path, dir: &str) -> Option<PathBuf> {
    use std::path::Component;
    let mut path = base.to_owned();
    for part in Path::new(dir.trim_start_matches('/')).components() {
        match part {
            Component::Normal(name) => path.push(name),
            Component::CurDir => {}
            Component::ParentDir | Component::RootDir | Component::Prefix(_) => return None,
        }
    }
    Some(path)
}

impl Context {
    /// Finds everything that a run stands on. Changes nothing but the run's own folder.
    pub async fn open(workspace: Arc<Workspace>, request: RunRequest) -> Result<Context, RunError> {
        let dir = workspace.run_dir(&request.id);
        let env = workspace.env_with(&request.env);
        environment::prepare_home(&env)?;
        let mut redactor = Redactor::default();
        environment::note_secrets(&workspace.env, &env, &mut redactor);
        let cli = workspace.finder.find(&env).await?;
        let inside = |base: &Path, dir: &str| {
            below(base, dir).ok_or_else(|| RunError::DirOutside {
                dir: dir.to_owned(),
            })
        };
        let project = match &request.program {
            ProgramSource::Tree { digest, dir } => {
                let tree = workspace
                    .trees
                    .path(digest)
                    .ok_or_else(|| RunError::TreeMissing {
                        digest: digest.clone(),
                    })?;
                Project::find(&inside(&tree, dir)?, dir)?
            }
            // Whoever chose a pod's image chose what lies in it.
            ProgramSource::WorkspacePath { dir } if workspace.in_pod && dir.starts_with('/') => {
                Project::find(&inside(Path::new("/"), dir)?, dir)?
            }
            ProgramSource::WorkspacePath { dir } => {
                Project::find(&inside(&workspace.dir, dir)?, dir)?
            }
            ProgramSource::ProjectOnly { name, runtime } => {
                let info = ProjectInfo {
                    name: name.clone(),
                    runtime: runtime.clone(),
                };
                let made = make_project(&dir.join("project"), &info)?;
                Project::find(&made, name)?
            }
        };
        let url = env
            .get("PULUMI_BACKEND_URL")
            .or(project.backend_url.as_ref());
        let home = env.get("HOME").map(String::as_str);
        let file_stack = url.and_then(|url| FileStack::locate(url, &request.stack, home));
        Ok(Context {
            workspace,
            request,
            dir,
            env,
            redactor,
            cli,
            project,
            file_stack,
        })
    }

    /// Gets the backend's token, if that is how the backend is entered. Only CLI processes see it.
    pub async fn log_in(&mut self) -> Result<(), RunError> {
        if let Some(token) = self.workspace.login(&self.request, &self.env).await? {
            self.redactor.add(&token);
            self.env
                .insert(login::TOKEN.to_owned(), token.as_str().to_owned());
        }
        Ok(())
    }

    /// The stack's own name, without organization and project.
    pub fn stack_name(&self) -> &str {
        self.request.stack.rsplit('/').next().unwrap_or_default()
    }
}

/// A directory that is a project and nothing else.
pub fn make_project(dir: &Path, info: &ProjectInfo) -> std::io::Result<PathBuf> {
    std::fs::create_dir_all(dir)?;
    let text = serde_json::json!({"name": info.name, "runtime": info.runtime}).to_string();
    // JSON is YAML.
    std::fs::write(dir.join("Pulumi.yaml"), text)?;
    Ok(dir.to_owned())
}
