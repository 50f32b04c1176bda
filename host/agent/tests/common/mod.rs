//! A workspace with a real agent process, a real CLI and a backend in a directory.
#![allow(clippy::unwrap_used, clippy::expect_used, dead_code)]

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;
use windlass_agent::{AgentClient, ClientError};
use windlass_api::run::{
    ConfigItem, ConfigValue, Operation, ProgramSource, RunOptions, RunRequest, RunResult,
};

/// Nothing here takes longer unless it hangs.
pub const PATIENCE: Duration = Duration::from_secs(120);

/// The folder of the real CLI, or a visible skip.
pub fn tools() -> Option<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let dir = std::env::var_os("WINDLASS_TOOLS_DIR")
        .map_or_else(|| root.join("target/tools"), PathBuf::from);
    if dir.join("pulumi").is_file() && dir.join("pulumi-language-yaml").is_file() {
        return Some(std::fs::canonicalize(dir).unwrap());
    }
    eprintln!(
        "SKIP: no pulumi and pulumi-language-yaml in {}",
        dir.display()
    );
    None
}

/// The test provider, built once by cargo and found beside this test's own binary, or a visible skip.
pub fn provider() -> Option<PathBuf> {
    let exe = std::env::current_exe().unwrap();
    let dir = exe.parent().unwrap().parent().unwrap();
    let binary = dir.join("pulumi-resource-windlasstest");
    if !binary.is_file() {
        let target = dir.parent().unwrap();
        let built = Command::new(env!("CARGO"))
            .args([
                "build",
                "-q",
                "-p",
                "windlass-test-provider",
                "--target-dir",
            ])
            .arg(target)
            .current_dir(env!("CARGO_MANIFEST_DIR"))
            .status();
        if !built.is_ok_and(|s| s.success()) || !binary.is_file() {
            eprintln!("SKIP: the test provider cannot be built");
            return None;
        }
    }
    Some(dir.to_owned())
}

pub const PASSPHRASE: &str = "passphrase-canary-61c5";

/// A workspace and its agent. The agent is ended with it.
pub struct Bench {
    pub home: TempDir,
    pub env: BTreeMap<String, String>,
    pub agent: Option<Child>,
    pub grace: u64,
    stdout: usize,
}

impl Bench {
    /// A workspace with everything, its agent not started.
    pub fn new(tools: &Path) -> Bench {
        let home = TempDir::new().unwrap();
        for dir in ["workspace", "backend", "bin"] {
            std::fs::create_dir(home.path().join(dir)).unwrap();
        }
        let text = |p: &Path| p.display().to_string();
        let path = format!(
            "{}:{}:/usr/bin:/bin",
            text(&home.path().join("bin")),
            text(tools)
        );
        let env = BTreeMap::from([
            ("PATH".to_owned(), path),
            ("HOME".to_owned(), text(home.path())),
            ("PULUMI_CONFIG_PASSPHRASE".to_owned(), PASSPHRASE.to_owned()),
            (
                "PULUMI_DISABLE_AUTOMATIC_PLUGIN_ACQUISITION".to_owned(),
                "true".to_owned(),
            ),
            ("PULUMI_OPTION_PARALLEL".to_owned(), "4".to_owned()),
        ]);
        Bench {
            home,
            env,
            agent: None,
            grace: 600,
            stdout: 0,
        }
    }

    pub fn with_provider(tools: &Path, provider: &Path) -> Bench {
        let mut bench = Bench::new(tools);
        let path = bench.env["PATH"].clone();
        bench
            .env
            .insert("PATH".into(), format!("{path}:{}", provider.display()));
        bench
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.home.path().join(name)
    }

    pub fn backend(&self) -> String {
        format!("file://{}", self.path("backend").display())
    }

    /// Puts a program into the workspace.
    pub fn program(&self, dir: &str, yaml: &str) {
        let dir = self.path("workspace").join(dir);
        std::fs::create_dir_all(&dir).unwrap();
        std::fs::write(dir.join("Pulumi.yaml"), yaml).unwrap();
    }

    /// Puts a `pulumi` before the real one on the PATH.
    pub fn shim(&self, script: &str) {
        let file = self.path("bin/pulumi");
        std::fs::write(&file, script).unwrap();
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o755)).unwrap();
    }

    /// Where the next agent's output goes, without an extension.
    pub fn next_log(&mut self) -> PathBuf {
        self.stdout += 1;
        self.path(&format!("agent-{}", self.stdout))
    }

    /// Starts the agent and connects to it.
    pub async fn start(&mut self) -> AgentClient {
        self.stdout += 1;
        let log = |name: &str| {
            let file = self.path(&format!("agent-{}.{name}", self.stdout));
            Stdio::from(std::fs::File::create(file).unwrap())
        };
        let mut command = Command::new(env!("CARGO_BIN_EXE_windlass-agent"));
        command.args([
            "serve",
            "--interrupt-grace-seconds",
            &self.grace.to_string(),
        ]);
        command.arg("--socket").arg(self.path("agent.sock"));
        command.arg("--workspace").arg(self.path("workspace"));
        command.arg("--state-dir").arg(self.path("state"));
        command
            .env_clear()
            .envs(&self.env)
            .stdin(Stdio::null())
            .stdout(log("out"))
            .stderr(log("err"));
        self.agent = Some(command.spawn().unwrap());
        self.connect(1).await
    }

    pub async fn connect(&self, epoch: u64) -> AgentClient {
        let socket = self.path("agent.sock");
        wait_for("the agent to listen", || {
            AgentClient::connect(&socket, epoch)
        })
        .await
    }

    /// Kills the agent as a full node would, and nothing else.
    pub fn kill_agent(&mut self) {
        let mut agent = self.agent.take().unwrap();
        agent.kill().unwrap();
        agent.wait().unwrap();
    }

    /// Everything that all agents of this workspace printed.
    pub fn logs(&self) -> String {
        let mut text = String::new();
        for n in 1..=self.stdout {
            for name in ["out", "err"] {
                text += &std::fs::read_to_string(self.path(&format!("agent-{n}.{name}"))).unwrap();
            }
        }
        text
    }

    pub fn request(&self, id: &str, operation: Operation, project: &str) -> RunRequest {
        RunRequest {
            id: id.to_owned(),
            epoch: 1,
            operation,
            stack: format!("organization/{project}/dev"),
            create: operation != Operation::Destroy,
            secrets_provider: None,
            program: ProgramSource::WorkspacePath {
                dir: project.to_owned(),
            },
            env: BTreeMap::from([("PULUMI_BACKEND_URL".to_owned(), self.backend())]),
            login: None,
            config: Vec::new(),
            environments: Vec::new(),
            options: RunOptions::default(),
            timeout_seconds: None,
            release_locks: Vec::new(),
        }
    }

    /// The state of a stack, from the backend's own file.
    pub fn state(&self, project: &str) -> Value {
        let file = self.path(&format!("backend/.pulumi/stacks/{project}/dev.json"));
        serde_json::from_slice(&std::fs::read(file).unwrap()).unwrap()
    }

    pub fn locks(&self, project: &str) -> usize {
        let dir = self.path(&format!("backend/.pulumi/locks/organization/{project}/dev"));
        std::fs::read_dir(dir).map_or(0, |d| {
            d.flatten()
                .filter(|e| e.file_name().to_string_lossy().ends_with(".json"))
                .count()
        })
    }
}

impl Drop for Bench {
    fn drop(&mut self) {
        if let Some(mut agent) = self.agent.take() {
            let _ = agent.kill();
            let _ = agent.wait();
        }
        if std::thread::panicking() {
            eprintln!("{}", self.logs());
        }
    }
}

/// Asks until the answer is there.
pub async fn wait_for<T, E: std::fmt::Debug, F: Future<Output = Result<T, E>>>(
    what: &str,
    mut ask: impl FnMut() -> F,
) -> T {
    let deadline = Instant::now() + PATIENCE;
    loop {
        match ask().await {
            Ok(answer) => return answer,
            Err(e) => assert!(
                Instant::now() < deadline,
                "waited in vain for {what}: {e:?}"
            ),
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Waits until something holds.
pub async fn until(what: &str, mut holds: impl FnMut() -> bool) {
    wait_for(what, || {
        std::future::ready(if holds() { Ok(()) } else { Err("not yet") })
    })
    .await;
}

pub async fn run(client: &AgentClient, request: &RunRequest) -> RunResult {
    client.start_run(request).await.unwrap();
    ended(client, &request.id).await
}

pub async fn ended(client: &AgentClient, id: &str) -> RunResult {
    tokio::time::timeout(PATIENCE, client.wait_run(id))
        .await
        .expect("the run hangs")
        .unwrap()
}

pub fn inline(key: &str, value: Value, secret: bool) -> ConfigItem {
    ConfigItem {
        key: key.into(),
        path: false,
        value: ConfigValue::Inline { value },
        secret,
    }
}

pub fn file(key: &str, path: &str, json: bool, secret: bool) -> ConfigItem {
    ConfigItem {
        key: key.into(),
        path: false,
        value: ConfigValue::File {
            path: path.into(),
            json,
        },
        secret,
    }
}

pub fn env_var(key: &str, name: &str, secret: bool) -> ConfigItem {
    ConfigItem {
        key: key.into(),
        path: false,
        value: ConfigValue::Env {
            name: name.into(),
            json: false,
        },
        secret,
    }
}

/// One resource that the CLI brings along, and its input as an output.
pub const STASH: &str = "name: stash
runtime: yaml
resources:
  kept:
    type: pulumi:Stash
    properties:
      input: hello
outputs:
  word: ${kept.output}
";

pub fn is_busy(error: &ClientError) -> bool {
    matches!(error, ClientError::Busy(_))
}
