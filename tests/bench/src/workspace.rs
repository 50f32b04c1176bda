//! A workspace with a real agent, the real CLI and a backend in a directory.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;
use windlass_agent::AgentClient;
use windlass_api::run::{Operation, ProgramSource, RunOptions, RunRequest, RunResult, RunState};

use crate::setup::{Setup, Trouble, failed};

const PROJECT: &str = "bench";
pub const STACK: &str = "organization/bench/dev";
const PROGRAM: &str = "name: bench
runtime: yaml
resources:
  kept:
    type: pulumi:Stash
    properties:
      input: hello
outputs:
  word: ${kept.output}
";
/// Nothing here takes longer unless it hangs.
const PATIENCE: Duration = Duration::from_secs(120);

/// A workspace; its agent ends with it.
pub struct Workspace {
    home: TempDir,
    env: BTreeMap<String, String>,
    agent: Child,
    client: AgentClient,
    runs: usize,
}

impl Workspace {
    /// Starts an agent over a program of one `pulumi:Stash`.
    ///
    /// # Errors
    /// `Skipped` where the CLI or the agent is missing; an agent that does not start.
    pub async fn start(setup: &Setup) -> Result<Self, Trouble> {
        let tools = setup.tools()?;
        let agent = setup.binaries(&["windlass-agent"])?.join("windlass-agent");
        let home = tempfile::tempdir()?;
        let program = home.path().join("workspace").join(PROJECT);
        std::fs::create_dir_all(&program)?;
        std::fs::create_dir(home.path().join("backend"))?;
        std::fs::write(program.join("Pulumi.yaml"), PROGRAM)?;
        let text = |path: &Path| path.display().to_string();
        let env = BTreeMap::from([
            ("PATH".to_owned(), format!("{}:/usr/bin:/bin", text(&tools))),
            ("HOME".to_owned(), text(home.path())),
            (
                "PULUMI_HOME".to_owned(),
                text(&home.path().join("pulumi-home")),
            ),
            ("PULUMI_CONFIG_PASSPHRASE".to_owned(), "bench".to_owned()),
            (
                "PULUMI_DISABLE_AUTOMATIC_PLUGIN_ACQUISITION".to_owned(),
                "true".to_owned(),
            ),
        ]);
        let socket = home.path().join("agent.sock");
        let log = std::fs::File::create(home.path().join("agent.log"))?;
        let mut agent = Command::new(agent)
            .arg("serve")
            .arg("--socket")
            .arg(&socket)
            .arg("--workspace")
            .arg(home.path().join("workspace"))
            .arg("--state-dir")
            .arg(home.path().join("state"))
            .env_clear()
            .envs(&env)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()?;
        match connect(&socket).await {
            Ok(client) => Ok(Workspace {
                home,
                env,
                agent,
                client,
                runs: 0,
            }),
            Err(trouble) => {
                agent.kill()?;
                agent.wait()?;
                Err(trouble)
            }
        }
    }

    pub fn agent_pid(&self) -> u32 {
        self.agent.id()
    }

    /// Where the program lies.
    pub fn program(&self) -> PathBuf {
        self.home.path().join("workspace").join(PROJECT)
    }

    /// What the agent adds to the environment of every CLI process, and what it was given itself.
    pub fn environment(&self) -> BTreeMap<String, String> {
        let mut env = self.env.clone();
        env.insert("PULUMI_BACKEND_URL".to_owned(), self.backend());
        for (name, value) in [
            ("PULUMI_SKIP_UPDATE_CHECK", "true"),
            ("PULUMI_DEBUG_COMMANDS", "true"),
            ("PULUMI_AUTOMATION_API", "true"),
            ("PULUMI_FALLBACK_TO_STATE_SECRETS_MANAGER", "true"),
            ("PULUMI_CREDENTIAL_STORE", "plaintext"),
            ("PULUMI_DISABLE_CI_DETECTION", "1"),
        ] {
            env.insert(name.to_owned(), value.to_owned());
        }
        env
    }

    fn backend(&self) -> String {
        format!("file://{}", self.home.path().join("backend").display())
    }

    /// One `up` from the request to its result.
    ///
    /// # Errors
    /// The run does not succeed.
    pub async fn up(&mut self) -> Result<RunResult, Trouble> {
        self.runs += 1;
        let request = RunRequest {
            id: format!("up-{}", self.runs),
            epoch: 1,
            operation: Operation::Up,
            stack: STACK.to_owned(),
            create: true,
            secrets_provider: None,
            program: ProgramSource::WorkspacePath {
                dir: PROJECT.to_owned(),
            },
            env: BTreeMap::from([("PULUMI_BACKEND_URL".to_owned(), self.backend())]),
            login: None,
            config: Vec::new(),
            environments: Vec::new(),
            options: RunOptions::default(),
            timeout_seconds: None,
            release_locks: Vec::new(),
        };
        self.client.start_run(&request).await?;
        let result = tokio::time::timeout(PATIENCE, self.client.wait_run(&request.id)).await??;
        if result.state != RunState::Succeeded {
            return failed(format!(
                "the agent's run: {}: {:?}",
                result.message, result.failure
            ));
        }
        Ok(result)
    }
}

impl Drop for Workspace {
    fn drop(&mut self) {
        // It is idle: nothing of a run is left behind.
        let _ = self.agent.kill();
        let _ = self.agent.wait();
    }
}

/// Asks until the agent listens.
async fn connect(socket: &Path) -> Result<AgentClient, Trouble> {
    let begun = Instant::now();
    loop {
        match AgentClient::connect(socket, 1).await {
            Ok(client) => return Ok(client),
            Err(error) if begun.elapsed() > PATIENCE => return Err(error.into()),
            Err(_) => tokio::time::sleep(Duration::from_millis(10)).await,
        }
    }
}
