//! Credentials for the repository, by reference.

use serde_json::Value;
use windlass_sdk::{Credential, ErrorClass, FieldError, Host, ObjectRef, PluginError, Secret};

use crate::github_app::{self, Token};
use crate::spec::{GitAuth, Spec, field, is_ssh};

/// The user name that servers expect beside an access token.
const TOKEN_USER: &[u8] = b"git";

/// Which form of `gitAuth` is used: the one that fits the URL, and among those the first in PKO's order.
enum Form {
    Ssh,
    AccessToken,
    GithubApp,
    Basic,
}

/// What opens the repository.
pub enum Opening {
    Anonymous,
    With(Credential),
    GithubApp(Token),
}

impl Opening {
    pub fn credential(&self) -> Option<&Credential> {
        match self {
            Opening::Anonymous => None,
            Opening::With(credential) => Some(credential),
            Opening::GithubApp(token) => Some(&token.credential),
        }
    }
}

fn form(auth: &GitAuth, ssh: bool) -> Result<Form, FieldError> {
    let GitAuth {
        access_token,
        ssh_auth,
        basic_auth,
        github_app,
    } = auth;
    let over_http = [
        (access_token.is_some(), Form::AccessToken),
        (github_app.is_some(), Form::GithubApp),
        (basic_auth.is_some(), Form::Basic),
    ];
    let over_http = over_http.into_iter().find(|(there, _)| *there);
    match (ssh, ssh_auth, over_http) {
        (true, Some(_), _) => Ok(Form::Ssh),
        (true, None, Some(_)) => Err(field(
            "gitAuth",
            "\"projectRepo\" is an ssh address, which needs gitAuth.sshAuth",
        )),
        (false, _, Some((_, form))) => Ok(form),
        (false, Some(_), None) => Err(field(
            "gitAuth.sshAuth",
            "gitAuth.sshAuth needs an ssh address in \"projectRepo\", such as ssh://git@host/path",
        )),
        (_, None, None) => Err(field(
            "gitAuth",
            "gitAuth config must specify exactly one of 'accessToken', 'sshAuth', 'githubApp' or 'basicAuth'",
        )),
    }
}

/// Checks what can be checked without reading a Secret.
///
/// # Errors
/// A form of authentication that does not fit the URL, or a reference that is not to a Secret.
pub fn check(spec: &Spec) -> Result<(), FieldError> {
    // gitAuthSecret wins, so what stands beside it is not looked at.
    if !spec.git_auth_secret.is_empty() {
        return Ok(());
    }
    let ssh = is_ssh(&spec.project_repo);
    let Some(auth) = &spec.git_auth else {
        return if ssh { Err(needs_key()) } else { Ok(()) };
    };
    let form = form(auth, ssh)?;
    if let Form::GithubApp = form {
        github_app::api(&spec.project_repo)?;
    }
    for (path, reference, required) in references(auth, &form) {
        if required || reference.is_some() {
            secret_ref(&format!("gitAuth.{path}"), reference)?;
        }
    }
    Ok(())
}

/// The references of a form: place, reference, whether it must be there.
fn references<'a>(auth: &'a GitAuth, form: &Form) -> Vec<(&'static str, Option<&'a Value>, bool)> {
    match form {
        Form::Ssh => {
            let ssh = auth.ssh_auth.as_ref();
            let part = |pick: fn(&crate::spec::SshAuth) -> &Option<Value>| {
                ssh.and_then(|ssh| pick(ssh).as_ref())
            };
            vec![
                (
                    "sshAuth.sshPrivateKey",
                    part(|ssh| &ssh.ssh_private_key),
                    true,
                ),
                ("sshAuth.password", part(|ssh| &ssh.password), false),
            ]
        }
        Form::AccessToken => vec![("accessToken", auth.access_token.as_ref(), true)],
        Form::GithubApp => {
            let app = auth.github_app.as_ref();
            let part = |pick: fn(&crate::spec::GithubApp) -> &Option<Value>| {
                app.and_then(|app| pick(app).as_ref())
            };
            vec![
                ("githubApp.appID", part(|app| &app.app_id), true),
                (
                    "githubApp.installationID",
                    part(|app| &app.installation_id),
                    true,
                ),
                ("githubApp.privateKey", part(|app| &app.private_key), true),
            ]
        }
        Form::Basic => {
            let basic = auth.basic_auth.as_ref();
            let part = |pick: fn(&crate::spec::BasicAuth) -> &Option<Value>| {
                basic.and_then(|basic| pick(basic).as_ref())
            };
            vec![
                ("basicAuth.userName", part(|basic| &basic.user_name), true),
                ("basicAuth.password", part(|basic| &basic.password), true),
            ]
        }
    }
}

/// What the spec opens the repository with.
///
/// # Errors
/// The host's, when a Secret or a key of it is missing; GitHub's, where an App is refused.
pub fn open(
    host: &(impl Host + ?Sized),
    spec: &Spec,
    url: &str,
    now_ms: u64,
) -> Result<Opening, PluginError> {
    let ssh = is_ssh(&spec.project_repo);
    if !spec.git_auth_secret.is_empty() {
        return from_secret(host, ssh);
    }
    let Some(auth) = &spec.git_auth else {
        return Ok(Opening::Anonymous);
    };
    let form = form(auth, ssh).map_err(|error| invalid(&error.message))?;
    let at = |path: &str| host.secret_at(&format!("/spec/gitAuth/{path}"));
    Ok(Opening::With(match form {
        Form::GithubApp => {
            return github_app::token(host, url, now_ms).map(Opening::GithubApp);
        }
        Form::AccessToken => Credential::Basic {
            password: at("accessToken")?,
            username: host.seal(TOKEN_USER),
        },
        Form::Basic => Credential::Basic {
            username: at("basicAuth/userName")?,
            password: at("basicAuth/password")?,
        },
        Form::Ssh => Credential::SshKey {
            private_key: at("sshAuth/sshPrivateKey")?,
            passphrase: auth
                .ssh_auth
                .as_ref()
                .and_then(|ssh| ssh.password.as_ref())
                .map(|_| at("sshAuth/password"))
                .transpose()?,
            known_hosts: None,
        },
    }))
}

/// By the keys that the Secret has, in PKO's order among those that fit the URL; none of them means anonymous.
fn from_secret(host: &(impl Host + ?Sized), ssh: bool) -> Result<Opening, PluginError> {
    if ssh {
        let Some(private_key) = key(host, "sshPrivateKey")? else {
            return Err(invalid(
                "\"projectRepo\" is an ssh address, which needs the key sshPrivateKey in gitAuthSecret",
            ));
        };
        return Ok(Opening::With(Credential::SshKey {
            private_key,
            passphrase: key(host, "password")?,
            known_hosts: key(host, "known_hosts")?,
        }));
    }
    if let Some(password) = key(host, "accessToken")? {
        return Ok(Opening::With(Credential::Basic {
            username: host.seal(TOKEN_USER),
            password,
        }));
    }
    match (key(host, "username")?, key(host, "password")?) {
        (Some(username), Some(password)) => {
            Ok(Opening::With(Credential::Basic { username, password }))
        }
        (Some(_), None) => Err(invalid("gitAuthSecret holds a username without a password")),
        _ if key(host, "sshPrivateKey")?.is_some() => Err(invalid(
            "gitAuthSecret holds an sshPrivateKey, which needs an ssh address in \"projectRepo\", such as ssh://git@host/path",
        )),
        _ => Ok(Opening::Anonymous),
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
        if let Some(auth) = &spec.git_auth
            && let Ok(form) = form(auth, is_ssh(&spec.project_repo))
        {
            let references = references(auth, &form).into_iter();
            names.extend(references.filter_map(|(_, reference, _)| secret_name(reference?)));
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

fn needs_key() -> FieldError {
    field(
        "gitAuth",
        "\"projectRepo\" is an ssh address, which needs gitAuth.sshAuth, or gitAuthSecret with the key sshPrivateKey",
    )
}

fn invalid(message: &str) -> PluginError {
    PluginError::invalid("SpecInvalid", message)
}
