//! What the tasks need of the place where workspaces live: one machine, or a cluster.

use std::future::Future;
use std::time::Duration;

use windlass_agent::AgentClient;
use windlass_api::Stack;
use windlass_api::run::{LockInfo, RunProgress};
use windlass_core::failure::Failure;
use windlass_core::request::Mounts;
use windlass_engine::{Key, TaskInput};
use windlass_sdk::{LockHolder, ObjectRef};

/// Where the CLI keeps state if nobody says otherwise.
pub const PULUMI_CLOUD: &str = "https://api.pulumi.com";

/// Where workspaces live.
pub trait Place: Send + Sync + 'static {
    /// Whether a program may lie in the workspace already (custom images, init containers).
    const WORKSPACE_PATH: bool;

    /// Connects to the agent of this very incarnation of the workspace.
    fn client(
        &self,
        key: &Key,
        instance: &str,
    ) -> impl Future<Output = Result<AgentClient, Failure>> + Send;

    /// The URL of the Stack's backend: `spec.backend`, else what the workspace's environment says, else [`PULUMI_CLOUD`].
    fn backend_url(&self, stack: &Stack) -> impl Future<Output = Result<String, Failure>> + Send;

    /// Sees to it that the values which the configuration refers to can be read by the agent, and says where.
    fn mounts(
        &self,
        key: &Key,
        stack: &Stack,
    ) -> impl Future<Output = Result<Mounts<'static>, Failure>> + Send;

    /// What is known of those who hold these locks. A host name counts as dead only if everyone of that name is.
    fn holders(
        &self,
        input: &TaskInput,
        locks: &[LockInfo],
    ) -> impl Future<Output = Vec<LockHolder>> + Send;

    /// The objects whose change is to ask the Stack's source again.
    fn follows(&self, key: &Key, objects: Vec<ObjectRef>);

    /// How often the source wants its repository to be looked at; none: it follows nothing there.
    fn polls(&self, key: &Key, interval: Option<Duration>);

    /// How far a run is.
    /// The next answer about this Stack's source is not to come from what was learned before now.
    fn look_afresh(&self, key: &Key);

    fn progress(&self, key: &Key, update: &str, progress: &RunProgress);

    /// A line of a run's log, redacted by the agent.
    fn log(&self, key: &Key, line: &str);
}
