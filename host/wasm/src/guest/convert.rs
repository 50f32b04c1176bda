//! Bindings to the SDK's types and back.

use wasmtime::component::ResourceTable;
use windlass_sdk::{
    Artifact, ErrorClass, Failure, FailureClass, Fault, FieldError, File, Health, HealthStatus,
    HttpRequest, HttpResponse, LockVerdict, ObjectRef, Resolution,
};

use super::bindings::backend::exports::windlass::plugin::backend as wit_backend;
use super::bindings::health::exports::windlass::plugin::health_check as wit_health;
use super::bindings::imports::windlass::plugin::{http, types};
use super::bindings::source::exports::windlass::plugin::source_provider as wit_source;
use crate::error::PluginError;

/// A fault for the guest.
pub fn fault(fault: Fault) -> types::Error {
    let Fault {
        class,
        reason,
        message,
        retry_after_ms,
    } = fault;
    let class = match class {
        ErrorClass::Invalid => types::ErrorClass::Invalid,
        ErrorClass::NotFound => types::ErrorClass::NotFound,
        ErrorClass::Denied => types::ErrorClass::Denied,
        ErrorClass::Conflict => types::ErrorClass::Conflict,
        ErrorClass::Unavailable => types::ErrorClass::Unavailable,
        ErrorClass::Internal => types::ErrorClass::Internal,
    };
    types::Error {
        class,
        reason,
        message,
        retry_after_ms,
        details: "{}".into(),
    }
}

/// A fault from the guest.
pub fn from_guest(error: types::Error) -> Fault {
    let types::Error {
        class,
        reason,
        message,
        retry_after_ms,
        details: _,
    } = error;
    let class = match class {
        types::ErrorClass::Invalid => ErrorClass::Invalid,
        types::ErrorClass::NotFound => ErrorClass::NotFound,
        types::ErrorClass::Denied => ErrorClass::Denied,
        types::ErrorClass::Conflict => ErrorClass::Conflict,
        types::ErrorClass::Unavailable => ErrorClass::Unavailable,
        types::ErrorClass::Internal => ErrorClass::Internal,
    };
    Fault {
        class,
        reason,
        message,
        retry_after_ms,
    }
}

pub fn request(request: http::Request) -> HttpRequest {
    let http::Request {
        method,
        url,
        headers,
        body,
    } = request;
    HttpRequest {
        method,
        url,
        headers,
        body,
    }
}

pub fn response(response: HttpResponse) -> http::Response {
    let HttpResponse {
        status,
        headers,
        body,
    } = response;
    http::Response {
        status,
        headers,
        body,
    }
}

pub fn object_ref(object: types::ObjectRef) -> ObjectRef {
    let types::ObjectRef {
        api_version,
        kind,
        name,
    } = object;
    ObjectRef {
        api_version,
        kind,
        name,
    }
}

pub fn field_errors(errors: Vec<types::FieldError>) -> Vec<FieldError> {
    errors
        .into_iter()
        .map(|types::FieldError { field, message }| FieldError { field, message })
        .collect()
}

/// A resolution with its credential by name.
pub fn resolution(
    table: &ResourceTable,
    resolution: wit_source::Resolution,
) -> Result<Resolution, PluginError> {
    let wit_source::Resolution {
        revision,
        artifact,
        dir,
        poll_after_ms,
    } = resolution;
    let credential =
        |auth: Option<wasmtime::component::Resource<super::handles::CredentialHandle>>| {
            auth.map(|auth| table.get(&auth).map(|handle| handle.0.clone()))
                .transpose()
                .map_err(|error| PluginError::BadResult {
                    expected: "a credential",
                    message: error.to_string(),
                })
        };
    let artifact = match artifact {
        wit_source::Artifact::GitTree(wit_source::GitTree {
            url,
            commit,
            auth,
            depth,
        }) => Artifact::GitTree {
            url,
            commit,
            auth: credential(auth)?,
            depth,
        },
        wit_source::Artifact::Archive(wit_source::Archive { url, digest, auth }) => {
            Artifact::Archive {
                url,
                digest,
                auth: credential(auth)?,
            }
        }
        wit_source::Artifact::Files(files) => Artifact::Files {
            files: files
                .into_iter()
                .map(|wit_source::File { path, content }| File { path, content })
                .collect(),
        },
        wit_source::Artifact::WorkspacePath(path) => Artifact::WorkspacePath { path },
        wit_source::Artifact::Other(json) => Artifact::Other {
            value: json_value("JSON", &json)?,
        },
    };
    Ok(Resolution {
        revision,
        artifact,
        dir,
        poll_after_ms,
    })
}

/// JSON from the guest as a type of the SDK.
pub fn json_value<T: serde::de::DeserializeOwned>(
    expected: &'static str,
    json: &str,
) -> Result<T, PluginError> {
    serde_json::from_str(json).map_err(|error| PluginError::BadResult {
        expected,
        message: error.to_string(),
    })
}

pub fn failure(failure: wit_backend::Failure) -> Failure {
    let wit_backend::Failure {
        class,
        reason,
        message,
    } = failure;
    let class = match class {
        wit_backend::FailureClass::Program => FailureClass::Program,
        wit_backend::FailureClass::Policy => FailureClass::Policy,
        wit_backend::FailureClass::Unavailable => FailureClass::Unavailable,
        wit_backend::FailureClass::Conflict => FailureClass::Conflict,
        wit_backend::FailureClass::Lost => FailureClass::Lost,
        wit_backend::FailureClass::Invalid => FailureClass::Invalid,
        wit_backend::FailureClass::Other(json) => FailureClass::Other(json),
    };
    Failure {
        class,
        reason,
        message,
    }
}

pub fn lock_verdict(verdict: wit_backend::LockVerdict) -> LockVerdict {
    match verdict {
        wit_backend::LockVerdict::Keep => LockVerdict::Keep,
        wit_backend::LockVerdict::Release => LockVerdict::Release,
    }
}

pub fn health(health: wit_health::Health) -> Health {
    let status = match health.status {
        wit_health::HealthStatus::Healthy => HealthStatus::Healthy,
        wit_health::HealthStatus::Progressing => HealthStatus::Progressing,
        wit_health::HealthStatus::Degraded => HealthStatus::Degraded,
        wit_health::HealthStatus::Suspended => HealthStatus::Suspended,
        wit_health::HealthStatus::Missing => HealthStatus::Missing,
        wit_health::HealthStatus::Unknown => HealthStatus::Unknown,
    };
    Health {
        status,
        message: health.message,
    }
}
