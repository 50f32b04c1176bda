//! What the objects depend on beside the user's specification.

use windlass_api::OwnerReference;

use crate::error::TemplateError;

/// How much a workspace's containers may do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SecurityProfile {
    /// Not root, no escalation, no capabilities but binding low ports.
    #[default]
    Restricted,
    /// As the image says, below the runtime's default seccomp filter.
    Baseline,
}

impl SecurityProfile {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Restricted => "restricted",
            Self::Baseline => "baseline",
        }
    }

    /// Reads `securityProfile`; an empty one is the default.
    pub(crate) fn parse(field: &str, text: Option<&str>) -> Result<Self, TemplateError> {
        match text {
            None | Some("") => Ok(Self::default()),
            Some("restricted") => Ok(Self::Restricted),
            Some("baseline") => Ok(Self::Baseline),
            Some(other) => Err(TemplateError::invalid(
                field,
                format!("unknown profile {other:?}; use restricted or baseline"),
            )),
        }
    }
}

/// The administrator's defaults for the Workspaces that Stacks make.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkspaceOptions {
    /// For Stacks that name no service account.
    pub service_account: String,
    /// For Stacks whose template names no profile.
    pub security_profile: SecurityProfile,
}

impl Default for WorkspaceOptions {
    fn default() -> Self {
        Self {
            service_account: "default".to_owned(),
            security_profile: SecurityProfile::default(),
        }
    }
}

/// The images of the built-in containers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Images {
    /// Holds the agent at [`crate::layout::AGENT_IN_IMAGE`].
    pub agent: String,
    /// Always, IfNotPresent or Never; none leaves it to Kubernetes.
    pub agent_pull_policy: Option<String>,
    /// Of the `pulumi` container where the Workspace names none, under the restricted profile: its user is 1000.
    pub pulumi_nonroot: String,
    /// The same under the baseline profile.
    pub pulumi: String,
}

impl Images {
    /// The agent out of `agent`, and the published images of the CLI at a fixed version.
    pub fn new(agent: impl Into<String>) -> Self {
        Self {
            agent: agent.into(),
            agent_pull_policy: Some("IfNotPresent".to_owned()),
            pulumi_nonroot: "pulumi/pulumi:3.259.0-nonroot".to_owned(),
            pulumi: "pulumi/pulumi:3.259.0".to_owned(),
        }
    }
}

/// A token of the pod's service account, to be exchanged for a login to the backend.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoginToken {
    pub audience: String,
    /// At least 600, says Kubernetes.
    pub expiration_seconds: i64,
}

/// What a pod depends on beside its Workspace.
#[derive(Clone, Debug, PartialEq)]
pub struct PodOptions {
    /// A DNS label that no other incarnation of this workspace ever had; locks record it.
    pub hostname: String,
    /// Digest of the specification that the pod is made from; kept in an annotation.
    pub spec_digest: String,
    /// None once the deletion of the owner has begun.
    pub owner: Option<OwnerReference>,
    pub images: Images,
    /// Secret with the agent's server certificate: `tls.crt`, `tls.key`, `ca.crt`.
    pub tls_secret: String,
    /// Mounts a token where the backend's login is an exchange.
    pub login: Option<LoginToken>,
    /// Where the template has init containers of its own, a built-in one before them ([`crate::layout::RECEIVE`]) waits
    /// until the program is in place. Needs an agent that knows the command.
    pub source_first: bool,
}
