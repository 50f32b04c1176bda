//! Requests and results, the same in a component and natively.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::host::Credential;

/// An object in the namespace of the object under work.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ObjectRef {
    pub api_version: String,
    pub kind: String,
    pub name: String,
}

impl ObjectRef {
    /// `group/Kind`, the form in which grants name kinds; core kinds have no group: `/ConfigMap`.
    pub fn group_kind(&self) -> String {
        let group = self
            .api_version
            .split_once('/')
            .map_or("", |(group, _)| group);
        format!("{group}/{}", self.kind)
    }
}

/// One thing that is wrong with a spec.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FieldError {
    /// Dotted path below `spec`.
    pub field: String,
    /// The whole sentence.
    pub message: String,
}

/// Who a plugin is and what it wants.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Descriptor {
    pub name: String,
    pub version: String,
    pub summary: String,
    /// Source types it answers for.
    pub sources: Vec<String>,
    /// URL schemes it answers for.
    pub backends: Vec<String>,
    /// `group/Kind` it judges, or patterns for that (see [`crate::glob`]).
    pub health_kinds: Vec<String>,
    pub wants: Wants,
    /// A plugin that has one may name nothing at all as long as nothing is configured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub config_schema: Option<Value>,
    /// What is wrong with the administrator's configuration; a plugin that says so is not served.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub config_error: Option<String>,
}

/// What a plugin asks the administrator for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Wants {
    /// Host interfaces beyond `log` and `config`: `secrets`, `kube`, `http`, `git`, `cache`.
    pub interfaces: Vec<String>,
    /// `group/Kind` to read; `*`: those that users name, as far as the administrator lists them.
    pub kinds: Vec<String>,
    /// Host patterns: `api.example.org`, `*.example.org`, each with an optional `:port`.
    pub hosts: Vec<String>,
    /// Hosts are named by users, in their specs.
    pub any_host: bool,
    /// `file:` URLs, where the host runs on one machine.
    pub file_urls: bool,
    /// Audiences of the tokens that its sessions have workspaces exchange; `*` at the end stands for any ending.
    pub audiences: Vec<String>,
}

/// Asks a source provider for a program.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SourceRequest {
    /// The object's metadata; `name` and `namespace` at least.
    pub metadata: Value,
    pub spec: Value,
    /// What the last resolution said.
    pub previous: Option<Previous>,
    /// Milliseconds since the epoch.
    pub now_ms: u64,
}

/// The last resolution, as far as it matters for the next.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Previous {
    pub revision: String,
}

/// Where a program is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Resolution {
    /// Identifies the content; a change of it is a reason to run.
    pub revision: String,
    pub artifact: Artifact,
    /// The project's directory in the tree, "" for its root.
    #[serde(default)]
    pub dir: String,
    /// Ask again after so many milliseconds; none: only when something watched changes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub poll_after_ms: Option<u64>,
}

/// What the host shall fetch.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", tag = "type")]
pub enum Artifact {
    #[serde(rename_all = "camelCase")]
    GitTree {
        url: String,
        /// Full hash.
        commit: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        auth: Option<Credential>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        depth: Option<u32>,
    },
    #[serde(rename_all = "camelCase")]
    Archive {
        url: String,
        /// `sha256:<hex>`.
        digest: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        auth: Option<Credential>,
    },
    #[serde(rename_all = "camelCase")]
    Files { files: Vec<File> },
    #[serde(rename_all = "camelCase")]
    WorkspacePath { path: String },
    #[serde(rename_all = "camelCase")]
    Other { value: Value },
}

/// One small file of a program.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct File {
    /// Relative, slashes, no `..`.
    pub path: String,
    pub content: Vec<u8>,
}

/// Asks a backend adapter to open a stack.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct BackendRequest {
    /// Name of the project, if it is known already.
    pub project: Option<String>,
    /// As the user wrote it.
    pub stack: String,
    /// As the user wrote it.
    pub url: String,
    pub spec: Value,
    /// Milliseconds since the epoch.
    pub now_ms: u64,
}

/// What a workspace needs to work with a stack.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Session {
    /// Canonical name.
    pub stack: String,
    /// Plain variables for the CLI.
    #[serde(default)]
    pub env: BTreeMap<String, String>,
    #[serde(default)]
    pub login: Login,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub console_url: Option<String>,
}

/// How the workspace gets its token.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", tag = "type")]
pub enum Login {
    #[default]
    None,
    /// Exchanged in the workspace for its projected service account token.
    #[serde(rename_all = "camelCase")]
    Exchange {
        audience: String,
        url: String,
        form: BTreeMap<String, String>,
    },
}

/// How a run ended, as its agent saw it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Outcome {
    pub exit_code: Option<i32>,
    pub signal: Option<i32>,
    /// `cancelled`, `deadlineExceeded` or `agentStopping` if the agent sent a signal.
    pub interrupted: Option<String>,
    /// Failed before the CLI was started.
    pub before_cli: bool,
    /// Error diagnostics, newest last.
    pub diagnostics: Vec<Diagnostic>,
    pub stderr_tail: String,
    pub locks: Vec<ReportedLock>,
}

/// One diagnostic of the engine.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Diagnostic {
    /// `error`, `info#err` for what a program printed to its standard error, `policy` for what a mandatory policy refused.
    pub severity: String,
    pub urn: Option<String>,
    pub message: String,
}

/// A backend lock as the CLI reported it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ReportedLock {
    pub id: String,
    pub user: String,
    pub hostname: String,
    pub pid: i64,
    /// RFC 3339.
    pub created: String,
}

/// An incarnation of the workspace that may have held a lock.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct LockHolder {
    pub hostname: String,
    /// The host has proof that it is dead.
    pub dead: bool,
}

/// What to do about the locks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum LockVerdict {
    Keep,
    Release,
}

/// Why a run failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Failure {
    pub class: FailureClass,
    /// CamelCase.
    pub reason: String,
    pub message: String,
}

/// Decides how a failed run is tried again.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum FailureClass {
    /// The user's program or its resources.
    Program,
    /// A mandatory policy refused.
    Policy,
    /// May work later.
    Unavailable,
    /// Another update holds the stack.
    Conflict,
    /// The process or its workspace is gone.
    Lost,
    /// Waits for an edit.
    Invalid,
    Other(String),
}

/// A verdict on an object.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Health {
    pub status: HealthStatus,
    #[serde(default)]
    pub message: String,
}

/// Argo CD's health codes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum HealthStatus {
    Healthy,
    Progressing,
    Degraded,
    Suspended,
    Missing,
    Unknown,
}
