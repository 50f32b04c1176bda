//! One Pulumi operation, as it is asked for and as it ended.
//!
//! These are the words that the decision core, the engine and the agent share. How they travel (gRPC messages) is
//! known to the agent crate alone; what they mean is fixed here.
//!
//! Values of secrets never stand in a [`RunRequest`]: it names files and variables that exist beside the agent.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// What the CLI is asked to do. The names are those of `Update.spec.type`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Operation {
    Preview,
    Up,
    Refresh,
    Destroy,
}

impl Operation {
    /// Whether the operation can change resources or the backend's state.
    pub fn mutates(self) -> bool {
        !matches!(self, Operation::Preview)
    }

    /// The CLI's own word.
    pub fn as_str(self) -> &'static str {
        match self {
            Operation::Preview => "preview",
            Operation::Up => "up",
            Operation::Refresh => "refresh",
            Operation::Destroy => "destroy",
        }
    }
}

impl std::fmt::Display for Operation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Asks an agent for one operation. `id` is the Update's name: the same id asked twice is one run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RunRequest {
    /// Name of the Update this run belongs to.
    pub id: String,
    /// Leader epoch of the asker. An agent refuses an epoch lower than the highest it has seen.
    pub epoch: u64,
    pub operation: Operation,
    /// Canonical stack name, as the backend adapter answered it (`organization/project/stack` on a DIY backend).
    pub stack: String,
    /// Create the stack if the backend does not know it.
    pub create: bool,
    /// Handed to the creation of the stack; ignored for an existing one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secrets_provider: Option<String>,
    pub program: ProgramSource,
    /// Plain variables from the backend adapter, added to the workspace's own environment.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub env: BTreeMap<String, String>,
    /// How to get the backend's token, where the workspace's environment has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub login: Option<LoginExchange>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub config: Vec<ConfigItem>,
    /// Pulumi ESC environments to import, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub environments: Vec<String>,
    #[serde(default)]
    pub options: RunOptions,
    /// Seconds until the agent interrupts the CLI; none means no deadline.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_seconds: Option<u64>,
    /// Ids of the backend locks that the adapter judged stale; each is released once, before the operation, and only
    /// if it is still exactly this lock.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub release_locks: Vec<String>,
}

/// Where the program to run is found beside the agent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase", tag = "type")]
pub enum ProgramSource {
    /// A tree that was put into the workspace, by its digest, and the directory of `Pulumi.yaml` in it.
    #[serde(rename_all = "camelCase")]
    Tree { digest: String, dir: String },
    /// What lies in the workspace already: in its directory, where an init container has put it, or in the image, where
    /// `dir` is absolute.
    #[serde(rename_all = "camelCase")]
    WorkspacePath { dir: String },
    /// No program: a project file of these two fields is enough to destroy.
    #[serde(rename_all = "camelCase")]
    ProjectOnly { name: String, runtime: String },
}

/// Exchanges the workspace's own token for one of the backend (OAuth 2.0 token exchange, RFC 8693). It is carried out in
/// the workspace: neither token is ever with the operator.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LoginExchange {
    /// Whom the workspace's own token is made for.
    pub audience: String,
    /// Where to exchange, `https` only.
    pub url: String,
    /// Fields to send. The agent adds `subject_token`, from where it is mounted in the workspace.
    pub form: BTreeMap<String, String>,
}

/// One configuration value.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ConfigItem {
    /// Configuration key; without a colon it belongs to the project.
    pub key: String,
    /// `key` is a property path (`a.b[0]`) instead of a literal name.
    #[serde(default)]
    pub path: bool,
    pub value: ConfigValue,
    #[serde(default)]
    pub secret: bool,
}

/// A configuration value, or where the agent reads it at each run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", tag = "from")]
pub enum ConfigValue {
    /// Stated in the Stack itself.
    #[serde(rename_all = "camelCase")]
    Inline { value: Value },
    /// A file below the workspace's mounts, `.../OBJECT/KEY`; a relative one is below the workspace directory. With `json`
    /// its content is parsed.
    #[serde(rename_all = "camelCase")]
    File { path: String, json: bool },
    /// A variable of the workspace's environment.
    #[serde(rename_all = "camelCase")]
    Env { name: String, json: bool },
}

/// The options of `Update.spec` that reach the CLI. All default to the CLI's own default.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RunOptions {
    pub parallel: Option<i32>,
    pub message: Option<String>,
    pub expect_no_changes: bool,
    pub replace: Vec<String>,
    pub target: Vec<String>,
    pub target_dependents: bool,
    pub refresh: bool,
    pub continue_on_error: bool,
    /// Destroy removes the stack from the backend too.
    pub remove: bool,
    /// Destroy and refresh run the program.
    pub run_program: bool,
}

/// How far a run is. Sent while it goes on and kept by the agent afterwards.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RunProgress {
    /// What the agent is doing: `preparing`, `installing`, `running`, `finishing`.
    pub stage: String,
    /// Resources whose step is done.
    pub done: u32,
    /// Resources known so far; grows while the program runs.
    pub total: u32,
    /// The resource under work, if one is.
    pub current: Option<String>,
}

/// How a run ended. `Running` has no result yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum RunState {
    Running,
    Succeeded,
    Failed,
    /// Interrupted on request or by its deadline.
    Cancelled,
    /// The process that ran it is gone and its outcome was never seen (the journal says that it started).
    Lost,
}

/// The end of a run, as the agent saw it. Texts are redacted already.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RunResult {
    pub id: String,
    pub operation: Operation,
    pub state: RunState,
    /// Milliseconds since the epoch.
    pub started_at_ms: i64,
    /// Milliseconds since the epoch.
    pub ended_at_ms: i64,
    /// One line for a person: why it failed; empty on success.
    #[serde(default)]
    pub message: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<FailureEvidence>,
    /// Outputs of the stack after the operation; none where it has none to report (preview, failure before the engine).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outputs: Option<BTreeMap<String, OutputValue>>,
    /// Counts by operation (`create`, `update`, `same`, ...), as the CLI's summary reports them.
    #[serde(default)]
    pub changes: BTreeMap<String, u32>,
    /// Resources in the state afterwards, without the stack itself and default providers, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resources: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub permalink: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub project: Option<ProjectInfo>,
    /// Whether the engine was reached, so that resources or state may have changed.
    #[serde(default)]
    pub reached_engine: bool,
}

/// Name and runtime of the project that ran; enough to destroy without its source. A template may hold one of the two.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ProjectInfo {
    #[serde(default)]
    pub name: String,
    #[serde(default)]
    pub runtime: String,
}

/// One stack output.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OutputValue {
    pub value: Value,
    pub secret: bool,
}

/// What a backend adapter needs to tell one failure from another.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct FailureEvidence {
    pub exit_code: Option<i32>,
    pub signal: Option<i32>,
    /// The agent sent a signal: on request, or at the deadline.
    pub interrupted: Option<InterruptCause>,
    /// Failed before the CLI was started (no binary, no such config file, ...).
    pub before_cli: bool,
    /// The agent's own name for what went wrong (`PulumiMissing`, `PulumiVersionTooLow`, `ConfigFileMissing`, ...);
    /// none where only the CLI's words tell.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Error diagnostics of the engine and refusals of mandatory policies (severity `policy`), newest last, at most 20.
    pub diagnostics: Vec<Diagnostic>,
    /// Last 4 KiB of what the CLI printed to stderr.
    pub stderr_tail: String,
    /// Locks that stood in the way, as the backend holds them.
    pub locks: Vec<LockInfo>,
}

/// Why the agent interrupted the CLI.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum InterruptCause {
    Cancelled,
    DeadlineExceeded,
    AgentStopping,
}

/// One diagnostic of the engine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Diagnostic {
    pub severity: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub urn: Option<String>,
    pub message: String,
}

/// A backend lock as the CLI reports it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LockInfo {
    /// Identity of the lock in the backend (the file's name on a DIY backend).
    pub id: String,
    pub user: String,
    pub hostname: String,
    pub pid: i64,
    /// As the backend states it, RFC 3339.
    pub created: String,
    /// The agent that reports it knows that its holder ran beside it and has ended. False says nothing.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub gone: bool,
}
