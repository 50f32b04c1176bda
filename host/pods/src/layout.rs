//! The places and names in a workspace's pod that others rely on: users' templates, people with `kubectl exec`, network
//! policies, the agent, and the requests that the operator sends it.

use windlass_core::request::Mounts;

/// Volume that every built-in container shares, and where it is mounted.
pub const SHARE_VOLUME: &str = "share";
pub const SHARE: &str = "/share";
/// Working directory of the `pulumi` container; the program is found here.
pub const WORKSPACE_DIR: &str = "/share/workspace";
/// Where the agent is installed by the `bootstrap` container, out of its own image.
pub const AGENT: &str = "/share/agent";
/// Where the agent's image has it.
pub const AGENT_IN_IMAGE: &str = "/windlass-agent";
/// Journal and runs; they survive a restart of the container.
pub const STATE_DIR: &str = "/share/state";
/// Lines of NAME=value that init containers may leave for the agent.
pub const ENV_FILE: &str = "/share/.env";
/// The agent's server certificate; mounted into the `pulumi` container alone.
pub const TLS_DIR: &str = "/var/run/secrets/windlass/tls";
/// Directory of the token that is exchanged for a login to the backend.
pub const LOGIN_DIR: &str = "/var/run/secrets/windlass/login";
/// File name of that token.
pub const LOGIN_TOKEN: &str = "token";

/// Roots of the mounted ConfigMaps and Secrets: `<root>/<object>/<key>`.
pub const CONFIG_MAPS: &str = "/var/run/configmaps/stacks.pulumi.com/configmaps";
pub const SECRETS: &str = "/var/run/secrets/stacks.pulumi.com/secrets";

/// Port of the agent.
pub const PORT: i32 = 50051;
pub const PORT_NAME: &str = "grpc";

/// Init container that installs the agent, and the one that waits for the program where the user's own init containers
/// need it.
pub use windlass_api::workspace::{BOOTSTRAP, FETCH};

/// Volumes of the operator's own; a template may not use these names.
pub const TLS_VOLUME: &str = "windlass-tls";
pub const LOGIN_VOLUME: &str = "windlass-login";

/// Verbosity of the CLI's log, where a Workspace asks for one. A variable and not a flag: an agent that does not know it
/// goes on without.
pub const LOG_LEVEL_VARIABLE: &str = "WINDLASS_PULUMI_LOG_LEVEL";

/// How the agent is started in the `pulumi` container. It listens on POD_IP where that is set, and reads the file that
/// PULUMI_ENV names.
pub const SERVE: &[&str] = &[
    AGENT,
    "serve",
    "--listen",
    "0.0.0.0:50051",
    "--tls-dir",
    TLS_DIR,
    "--workspace",
    WORKSPACE_DIR,
    "--state-dir",
    STATE_DIR,
    "--mounts",
    CONFIG_MAPS,
    "--mounts",
    SECRETS,
];
/// Readiness: does the agent listen?
pub const PROBE: &[&str] = &[AGENT, "probe"];
/// What `bootstrap` runs, in an image without a shell.
pub const INSTALL: &[&str] = &[AGENT_IN_IMAGE, "install", AGENT];
/// What `fetch` runs until the tree is in place.
pub const RECEIVE: &[&str] = &[
    AGENT,
    "receive",
    "--listen",
    "0.0.0.0:50051",
    "--tls-dir",
    TLS_DIR,
    "--workspace",
    WORKSPACE_DIR,
    "--state-dir",
    STATE_DIR,
];

/// Where a run request finds the values of references.
pub fn mounts() -> Mounts<'static> {
    Mounts {
        config_maps: CONFIG_MAPS,
        secrets: SECRETS,
    }
}

/// Name of the Secret that holds a Stack's latest outputs, one key each (`windlass_api::names::output_key`): a string
/// as it is, any other value as JSON.
pub fn stack_outputs_secret(stack: &str) -> String {
    format!("{stack}-outputs")
}
