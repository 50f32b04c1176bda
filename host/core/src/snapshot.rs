//! Everything that is known about one Stack at one moment. Serialisable: a saved snapshot can be decided again.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use windlass_api::health_check::HealthCheck;
use windlass_api::run::{LoginExchange, ProgramSource, ProjectInfo};
use windlass_api::{Stack, Update, Workspace};

use crate::obs::Obs;
use crate::time::Timestamp;
use windlass_api::intent::RunSummary;

/// The input of [`crate::decide`].
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Snapshot {
    pub now: Timestamp,
    /// Leader epoch of the process that decides.
    pub epoch: u64,
    pub config: Config,
    /// Whether another run may begin now (the fleet's limit is not reached).
    pub capacity: bool,
    pub objects: Objects,
    pub seen: Observations,
    /// Counts what has happened to the source that its revision does not show: a push announced, an object that the
    /// source follows changed, plugins reloaded. A new number asks again.
    pub source_signal: u64,
}

/// The administrator's settings that decisions depend on.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Config {
    /// How long an idle workspace is kept where the Stack does not say; none keeps it.
    pub default_idle_seconds: Option<u64>,
    /// Finished Updates kept per Stack, beside those of the last 24 hours.
    pub keep_updates: usize,
    /// Whether a program may already lie in the workspace (custom images, init containers).
    pub workspace_path: bool,
}

/// What is stored, as far as this Stack is concerned.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Objects {
    /// Absent once it is gone; what it left behind is then cleaned up.
    pub stack: Option<Stack>,
    /// The Workspace, where no Stack made it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by_hand: Option<Workspace>,
    /// All Updates of this workspace, also those that somebody made by hand.
    pub updates: Vec<Update>,
    pub workspace: WorkspaceView,
    /// The Stacks that this one waits for or takes outputs from, and theirs in turn, by name. A name that is asked
    /// for and absent here does not exist.
    pub stacks: BTreeMap<String, StackView>,
    /// Secrets and ConfigMaps that the Stack refers to, with their versions. None: missing.
    pub references: BTreeMap<Reference, Option<String>>,
    /// What was found of the Stack's health checks. One that is absent was not looked at.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub health: Vec<Verdict>,
    /// What the run needs was refused a moment ago: a quota, an admission rule, a namespace that is going. Absent once
    /// it is time to try again, or the Stack has changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refusal: Option<Refusal>,
}

/// The health of an object that a Stack waits for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Verdict {
    pub check: HealthCheck,
    pub healthy: bool,
    /// Why not, in the words of whoever judged.
    pub message: String,
    /// When the object was looked at.
    pub at: Timestamp,
}

/// Why a workspace or an Update could not be made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refusal {
    /// CamelCase; [`NAMESPACE_TERMINATING`] has a condition of its own.
    pub reason: String,
    pub message: String,
}

/// Reason of a refusal in a namespace that is being deleted.
pub const NAMESPACE_TERMINATING: &str = "NamespaceTerminating";

/// A key of a Secret or ConfigMap in the Stack's namespace. Never its value.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Reference {
    pub kind: ReferenceKind,
    pub name: String,
    /// None refers to the object as a whole.
    pub key: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ReferenceKind {
    Secret,
    ConfigMap,
}

impl std::fmt::Display for Reference {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let kind = match self.kind {
            ReferenceKind::Secret => "Secret",
            ReferenceKind::ConfigMap => "ConfigMap",
        };
        match &self.key {
            Some(key) => write!(f, "{kind}/{}/{key}", self.name),
            None => write!(f, "{kind}/{}", self.name),
        }
    }
}

impl std::str::FromStr for Reference {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut parts = text.splitn(3, '/');
        let kind = match parts.next() {
            Some("Secret") => ReferenceKind::Secret,
            Some("ConfigMap") => ReferenceKind::ConfigMap,
            _ => return Err(format!("{text}: expected Secret/NAME or ConfigMap/NAME")),
        };
        let name = parts
            .next()
            .ok_or_else(|| format!("{text}: the name is missing"))?
            .to_owned();
        Ok(Reference {
            kind,
            name,
            key: parts.next().map(str::to_owned),
        })
    }
}

// As text, so that it can be the key of a JSON object.
impl Serialize for Reference {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Reference {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?
            .parse()
            .map_err(serde::de::Error::custom)
    }
}

/// Another Stack, as far as this one depends on it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct StackView {
    pub generation: i64,
    pub reconcile_request: Option<String>,
    pub deleting: bool,
    pub last: Option<LastRunView>,
    /// Names of its own prerequisites.
    pub prerequisites: Vec<String>,
    /// Digest of each output's value.
    pub outputs: BTreeMap<String, String>,
}

/// The last run of another Stack.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LastRunView {
    pub name: String,
    pub generation: i64,
    pub reconcile_request: Option<String>,
    pub succeeded: bool,
    pub at: Timestamp,
}

/// The place where runs happen: a pod on a cluster, an agent process on one machine.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct WorkspaceView {
    pub current: Option<Instance>,
    /// Uids of earlier instances whose end is proven: nothing of them can still run. Absence proves nothing.
    pub ended: Vec<String>,
}

/// One incarnation of the workspace.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Instance {
    pub uid: String,
    pub hostname: String,
    /// The node that it is on, once that is known and if there are any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// Digest of the specification it was made from.
    pub spec_digest: String,
    pub phase: InstancePhase,
    /// When it was made, or last ended a run.
    pub idle_since: Timestamp,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "phase", rename_all = "camelCase")]
pub enum InstancePhase {
    /// Being made; the text says what it waits for.
    Starting {
        message: String,
    },
    /// Its own init containers wait for the program; an agent takes it in.
    #[serde(rename_all = "camelCase")]
    Receiving {
        boot_id: String,
    },
    #[serde(rename_all = "camelCase")]
    Ready {
        boot_id: String,
    },
    /// The process is gone, its state is not: ensured again, it comes back as the same instance.
    Down,
    /// Does not start, and why.
    Failing {
        reason: String,
        message: String,
    },
    /// Cannot be reached and is not proven to have ended.
    Unreachable {
        message: String,
    },
    Stopping,
}

/// What tasks have found out. The engine keeps this in memory only.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Observations {
    pub source: Obs<Resolution>,
    pub tree: Obs<Tree>,
    pub backend: Obs<Session>,
    /// Known: the program was delivered to init containers that waited for it.
    #[serde(default)]
    pub program: Obs<()>,
    pub run: Obs<RunEnd>,
    /// Known: the agent has taken note that the run is to be interrupted. Asked once, not until the run ends.
    #[serde(default)]
    pub cancel: Obs<()>,
}

/// What a source provider answered.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Resolution {
    pub revision: String,
    /// Directory of the program in the tree.
    pub dir: String,
    pub poll_after_ms: Option<u64>,
    /// The program lies in the workspace already; there is no tree to fetch.
    pub workspace_path: bool,
    /// The provider's artifact, opaque here but for its digest, handed back to the task that fetches it.
    pub artifact: serde_json::Value,
}

impl Resolution {
    /// What the artifact states as the digest of its content; a commit is its own.
    pub fn digest(&self) -> Option<&str> {
        self.artifact.get("digest")?.as_str()
    }
}

/// A fetched program.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Tree {
    pub program: ProgramSource,
    /// Digest of the program's directory alone.
    pub subtree: String,
    pub project: Option<ProjectInfo>,
}

/// What the backend adapter answered.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Session {
    /// Canonical stack name.
    pub stack: String,
    pub env: BTreeMap<String, String>,
    /// How the workspace gets a token, where its environment has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub login: Option<LoginExchange>,
}

/// How the task that follows a run ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunEnd {
    pub update: String,
    pub summary: RunSummary,
    /// The run has outputs to be kept in a Secret (the values are with the port that saw them).
    pub has_outputs: bool,
}
