//! What went wrong in a plugin, a fetch or an agent, as the engine's kinds of failure.

use windlass_agent::ClientError;
use windlass_core::failure::{Failure, FailureClass};
use windlass_fetch::{ErrorClass as FetchClass, FetchError};
use windlass_sdk::ErrorClass;
use windlass_wasm::PluginError;

/// Something that waits for an edit.
pub fn invalid(reason: &str, message: String) -> Failure {
    Failure::new(FailureClass::Invalid, reason, message)
}

/// Something that may work later.
pub fn unavailable(message: &str) -> Failure {
    Failure::new(FailureClass::Unavailable, "Unavailable", message)
}

pub fn plugin_failure(error: &PluginError) -> Failure {
    let class = match error.class() {
        ErrorClass::Invalid => FailureClass::Invalid,
        ErrorClass::Conflict => FailureClass::Conflict,
        // It may be put there, granted or allowed later.
        ErrorClass::NotFound
        | ErrorClass::Denied
        | ErrorClass::Unavailable
        | ErrorClass::Internal => FailureClass::Unavailable,
    };
    let class = match error {
        // No plugin of that name: an edit of the Stack, or a new plugin, which asks again by itself.
        PluginError::Unknown { .. } => FailureClass::Invalid,
        _ => class,
    };
    Failure::new(class, error.reason(), error.to_string())
}

pub fn fetch_failure(error: &FetchError) -> Failure {
    let class = match error.class() {
        FetchClass::Invalid | FetchClass::Limit => FailureClass::Invalid,
        FetchClass::Unavailable | FetchClass::Denied | FetchClass::NotFound => {
            FailureClass::Unavailable
        }
    };
    Failure::new(class, error.reason(), error.to_string())
}

pub fn agent_failure(error: &ClientError) -> Failure {
    let (class, reason) = match error {
        ClientError::Busy(_) => (FailureClass::Conflict, "WorkspaceBusy"),
        ClientError::Refused(_) => (FailureClass::Invalid, "AgentRefused"),
        ClientError::StaleEpoch(_) => (FailureClass::Unavailable, "NotLeader"),
        ClientError::TreeUnreadable(_) => (FailureClass::Unavailable, "TreeUnreadable"),
        ClientError::Untrusted { .. } => (FailureClass::Unavailable, "AgentUntrusted"),
        ClientError::Unreachable { .. }
        | ClientError::UnknownRun(_)
        | ClientError::Stopping(_)
        | ClientError::Unreadable(_) => (FailureClass::Unavailable, "AgentUnavailable"),
    };
    Failure::new(class, reason, error.to_string())
}

pub fn failure_class(class: &windlass_sdk::FailureClass) -> FailureClass {
    use windlass_sdk::FailureClass as Theirs;
    match class {
        Theirs::Program => FailureClass::Program,
        Theirs::Policy => FailureClass::Policy,
        Theirs::Unavailable => FailureClass::Unavailable,
        Theirs::Conflict => FailureClass::Conflict,
        Theirs::Lost => FailureClass::Lost,
        Theirs::Invalid => FailureClass::Invalid,
        // A class of a newer contract: tried again, as anything unknown is.
        Theirs::Other(_) => FailureClass::Unavailable,
    }
}
