//! SDK types to bindings and back.

use super::imports::windlass::plugin::{credentials, http, types};
use super::source::exports::windlass::plugin::source_provider as wit_source;
use super::{
    backend::exports::windlass::plugin::backend as wit_backend,
    health_check::exports::windlass::plugin::health_check as wit_health,
};
use crate::error::{ErrorClass, Fault, PluginError};
use crate::host::Credential;
use crate::question::{HttpRequest, HttpResponse};
use crate::recipe::{Derivation, Part, Signature};
use crate::types::{
    Artifact, Descriptor, Failure, FailureClass, FieldError, Health, HealthStatus, LockVerdict,
    ObjectRef, Resolution,
};

pub fn describe(descriptor: &Descriptor) -> String {
    serde_json::to_string(descriptor).unwrap_or_default()
}

/// A spec; what is no JSON becomes null, which no spec passes as.
pub fn json(text: &str) -> serde_json::Value {
    serde_json::from_str(text).unwrap_or_default()
}

pub fn parse<T: serde::de::DeserializeOwned>(text: &str) -> Result<T, types::Error> {
    serde_json::from_str(text).map_err(|error| fault(error.into()))
}

pub fn print<T: serde::Serialize>(value: &T) -> Result<String, types::Error> {
    serde_json::to_string(value).map_err(|error| fault(error.into()))
}

pub fn fault(error: PluginError) -> types::Error {
    let fault = match error {
        PluginError::Fault(fault) => fault,
        // The host ends a call that asks; this is for the type's sake.
        PluginError::Ask(_) => Fault {
            class: ErrorClass::Internal,
            reason: "Asked".into(),
            message: "a question reached the guest".into(),
            retry_after_ms: None,
        },
    };
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

pub fn from_host(error: types::Error) -> PluginError {
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
    PluginError::Fault(Fault {
        class,
        reason,
        message,
        retry_after_ms,
    })
}

pub fn credential(credential: &Credential) -> credentials::Credential {
    match credential {
        Credential::Basic { username, password } => {
            credentials::Credential::basic(&username.handle, &password.handle)
        }
        Credential::Bearer { token } => credentials::Credential::bearer(&token.handle),
        Credential::Header { name, value } => credentials::Credential::header(name, &value.handle),
        Credential::SshKey {
            private_key,
            passphrase,
            known_hosts,
        } => credentials::Credential::ssh_key(
            &private_key.handle,
            passphrase.as_ref().map(|secret| &*secret.handle),
            known_hosts.as_ref().map(|secret| &*secret.handle),
        ),
    }
}

pub fn derivation(how: Derivation) -> credentials::Derivation {
    match how {
        Derivation::Sha256 => credentials::Derivation::Sha256,
        Derivation::HmacSha256 => credentials::Derivation::HmacSha256,
    }
}

pub fn signature(how: Signature) -> credentials::Signature {
    match how {
        Signature::HmacSha256 => credentials::Signature::HmacSha256,
        Signature::Rs256 => credentials::Signature::Rs256,
    }
}

pub fn part<'a>(part: &Part<'a>) -> credentials::Part<'a> {
    match *part {
        Part::Text(text) => credentials::Part::Text(text.to_owned()),
        Part::Plain(secret) => credentials::Part::Plain(&secret.handle),
        Part::Hex(secret) => credentials::Part::Hex(&secret.handle),
        Part::Base64(secret) => credentials::Part::Base64(&secret.handle),
        Part::Base64Url(secret) => credentials::Part::Base64url(&secret.handle),
    }
}

pub fn request(request: &HttpRequest) -> http::Request {
    let HttpRequest {
        method,
        url,
        headers,
        body,
    } = request.clone();
    http::Request {
        method,
        url,
        headers,
        body,
    }
}

pub fn response(response: http::Response) -> HttpResponse {
    let http::Response {
        status,
        headers,
        body,
    } = response;
    HttpResponse {
        status,
        headers,
        body,
    }
}

pub fn object_ref(object: &ObjectRef) -> types::ObjectRef {
    let ObjectRef {
        api_version,
        kind,
        name,
    } = object.clone();
    types::ObjectRef {
        api_version,
        kind,
        name,
    }
}

pub fn object_refs(objects: Vec<ObjectRef>) -> Vec<types::ObjectRef> {
    objects.iter().map(object_ref).collect()
}

pub fn field_errors(errors: Vec<FieldError>) -> Vec<types::FieldError> {
    errors
        .into_iter()
        .map(|FieldError { field, message }| types::FieldError { field, message })
        .collect()
}

pub fn resolution(resolution: Resolution) -> wit_source::Resolution {
    let Resolution {
        revision,
        artifact,
        dir,
        poll_after_ms,
    } = resolution;
    let artifact = match artifact {
        Artifact::GitTree {
            url,
            commit,
            auth,
            depth,
        } => wit_source::Artifact::GitTree(wit_source::GitTree {
            url,
            commit,
            auth: auth.as_ref().map(credential),
            depth,
        }),
        Artifact::Archive { url, digest, auth } => {
            wit_source::Artifact::Archive(wit_source::Archive {
                url,
                digest,
                auth: auth.as_ref().map(credential),
            })
        }
        Artifact::Files { files } => wit_source::Artifact::Files(
            files
                .into_iter()
                .map(|file| wit_source::File {
                    path: file.path,
                    content: file.content,
                })
                .collect(),
        ),
        Artifact::WorkspacePath { path } => wit_source::Artifact::WorkspacePath(path),
        Artifact::Other { value } => wit_source::Artifact::Other(value.to_string()),
    };
    wit_source::Resolution {
        revision,
        artifact,
        dir,
        poll_after_ms,
    }
}

pub fn failure(failure: Failure) -> wit_backend::Failure {
    let Failure {
        class,
        reason,
        message,
    } = failure;
    let class = match class {
        FailureClass::Program => wit_backend::FailureClass::Program,
        FailureClass::Policy => wit_backend::FailureClass::Policy,
        FailureClass::Unavailable => wit_backend::FailureClass::Unavailable,
        FailureClass::Conflict => wit_backend::FailureClass::Conflict,
        FailureClass::Lost => wit_backend::FailureClass::Lost,
        FailureClass::Invalid => wit_backend::FailureClass::Invalid,
        FailureClass::Other(json) => wit_backend::FailureClass::Other(json),
    };
    wit_backend::Failure {
        class,
        reason,
        message,
    }
}

pub fn lock_verdict(verdict: LockVerdict) -> wit_backend::LockVerdict {
    match verdict {
        LockVerdict::Keep => wit_backend::LockVerdict::Keep,
        LockVerdict::Release => wit_backend::LockVerdict::Release,
    }
}

pub fn health(health: Health) -> wit_health::Health {
    let status = match health.status {
        HealthStatus::Healthy => wit_health::HealthStatus::Healthy,
        HealthStatus::Progressing => wit_health::HealthStatus::Progressing,
        HealthStatus::Degraded => wit_health::HealthStatus::Degraded,
        HealthStatus::Suspended => wit_health::HealthStatus::Suspended,
        HealthStatus::Missing => wit_health::HealthStatus::Missing,
        HealthStatus::Unknown => wit_health::HealthStatus::Unknown,
    };
    wit_health::Health {
        status,
        message: health.message,
    }
}
