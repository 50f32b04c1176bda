//! What a workspace looks like on a cluster, as pure functions: the Workspace that a Stack makes, the pod that a
//! Workspace makes, and what the status of a pod says.
//!
//! Nothing here talks to a cluster, and the same input always gives the same object, in the same order: a pod is
//! replaced because its specification differs, never because it was written down differently.
//!
//! Start reading at [`workspace_spec`], then [`pod()`], then [`read`].

mod check;
mod configuration;
mod containers;
mod environment;
mod error;
pub mod layout;
mod merge;
mod options;
mod pod;
mod resources;
mod view;
mod workspace;

pub use error::TemplateError;
pub use options::{Images, LoginToken, PodOptions, SecurityProfile, WorkspaceOptions};
pub use pod::{name_secret_variables, pod, secrets_of_environment};
pub use view::{PodView, hostname, node, read, spec_digest};
pub use workspace::workspace_spec;
