//! Credentials for the repository, by reference.

use serde_json::Value;
use windlass_sdk::{Credential, ErrorClass, FieldError, Host, ObjectRef, PluginError, Secret};

use crate::spec::{GitAuth, Spec, field};

/// The user name that servers expect beside an access token.
const TOKEN_USER: &[u8] = b"git";

/// Checks what can be checked without reading a Secret.
///
/// # Errors
/// A form of authentication that is not there, or a reference that is not to a Secret.
pub fn check(spec: &Spec) -> Result<(), FieldError> {
    // gitAuthSecret wins, so what stands beside it is not looked at.
    if !spec.git_auth_secret.is_empty() {
        return Ok(());
    }
    let Some(auth) = &spec.git_auth else {
        return Ok(());
    };
    match auth {
        GitAuth {
            ssh_auth: Some(_), ..
        } => Err(field(
            "gitAuth.sshAuth",
            "ssh is not supported: use gitAuth.accessToken or gitAuth.basicAuth",
        )),
        GitAuth {
            access_token: Some(token),
            ..
        } => secret_ref("gitAuth.accessToken", Some(token)),
        GitAuth {
            github_app: Some(_),
            ..
        } => Err(field(
            "gitAuth.githubApp",
            "GitHub App authentication is not supported: use gitAuth.accessToken or gitAuth.basicAuth",
        )),
        GitAuth {
            basic_auth: Some(basic),
            ..
        } => {
            secret_ref("gitAuth.basicAuth.userName", basic.user_name.as_ref())?;
            secret_ref("gitAuth.basicAuth.password", basic.password.as_ref())
        }
        GitAuth {
            access_token: None,
            ssh_auth: None,
            basic_auth: None,
            github_app: None,
        } => Err(field(
            "gitAuth",
            "gitAuth config must specify exactly one of 'accessToken', 'sshAuth', 'githubApp' or 'basicAuth'",
        )),
    }
}

/// The credential that the spec describes, none for an anonymous repository.
///
/// # Errors
/// The host's, when a Secret or a key of it is missing.
pub fn credential(
    host: &(impl Host + ?Sized),
    spec: &Spec,
) -> Result<Option<Credential>, PluginError> {
    if !spec.git_auth_secret.is_empty() {
        return from_secret(host);
    }
    let Some(auth) = &spec.git_auth else {
        return Ok(None);
    };
    if auth.access_token.is_some() {
        let password = host.secret_at("/spec/gitAuth/accessToken")?;
        return Ok(Some(Credential::Basic {
            username: host.seal(TOKEN_USER),
            password,
        }));
    }
    let username = host.secret_at("/spec/gitAuth/basicAuth/userName")?;
    let password = host.secret_at("/spec/gitAuth/basicAuth/password")?;
    Ok(Some(Credential::Basic { username, password }))
}

/// By the keys that the Secret has, in PKO's order; none of them means anonymous.
fn from_secret(host: &(impl Host + ?Sized)) -> Result<Option<Credential>, PluginError> {
    if key(host, "sshPrivateKey")?.is_some() {
        return Err(PluginError::invalid(
            "SpecInvalid",
            "gitAuthSecret holds an sshPrivateKey, and ssh is not supported: use accessToken or username and password",
        ));
    }
    if let Some(password) = key(host, "accessToken")? {
        return Ok(Some(Credential::Basic {
            username: host.seal(TOKEN_USER),
            password,
        }));
    }
    match (key(host, "username")?, key(host, "password")?) {
        (Some(username), Some(password)) => Ok(Some(Credential::Basic { username, password })),
        (Some(_), None) => Err(PluginError::invalid(
            "SpecInvalid",
            "gitAuthSecret holds a username without a password",
        )),
        _ => Ok(None),
    }
}

fn key(host: &(impl Host + ?Sized), key: &str) -> Result<Option<Secret>, PluginError> {
    match host.secret_key_at("/spec/gitAuthSecret", key) {
        Ok(secret) => Ok(Some(secret)),
        // The Secret is there and has no such key. A missing Secret has another reason and ends the call.
        Err(PluginError::Fault(fault))
            if fault.class == ErrorClass::NotFound && fault.reason == "SecretKeyNotFound" =>
        {
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

/// Secrets whose change resolves again.
pub fn secrets(spec: &Spec) -> Vec<ObjectRef> {
    let mut names: Vec<String> = Vec::new();
    if spec.git_auth_secret.is_empty() {
        if let Some(auth) = &spec.git_auth {
            let basic = auth.basic_auth.as_ref();
            let refs = [
                auth.access_token.as_ref(),
                basic.and_then(|basic| basic.user_name.as_ref()),
                basic.and_then(|basic| basic.password.as_ref()),
            ];
            names.extend(refs.into_iter().flatten().filter_map(secret_name));
        }
    } else {
        names.push(spec.git_auth_secret.clone());
    }
    names.sort();
    names.dedup();
    names
        .into_iter()
        .map(|name| ObjectRef {
            api_version: "v1".into(),
            kind: "Secret".into(),
            name,
        })
        .collect()
}

fn secret_name(reference: &Value) -> Option<String> {
    reference
        .pointer("/secret/name")?
        .as_str()
        .map(str::to_owned)
}

fn secret_ref(path: &str, reference: Option<&Value>) -> Result<(), FieldError> {
    let Some(reference) = reference else {
        return Err(field(path, &format!("{path} is missing")));
    };
    match reference.get("type").and_then(Value::as_str) {
        Some("Secret") if secret_name(reference).is_some() => Ok(()),
        Some("Secret") => Err(field(path, &format!("{path}.secret.name is missing"))),
        Some(other) => Err(field(
            path,
            &format!(
                "{path}: {other} selectors are no longer supported in v2, use a reference of type Secret"
            ),
        )),
        None => Err(field(path, &format!("{path}.type is missing"))),
    }
}
