//! Answers from a file, for tests of plugins: nothing real is reached.

use std::collections::BTreeMap;
use std::path::Path;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use futures::future::BoxFuture;
use serde::Deserialize;
use serde_json::Value;
use windlass_sdk::{ErrorClass, Fault, GitRef, HttpRequest, HttpResponse, ObjectRef};
use windlass_wasm::{Checked, Credential, Grants, Outside, Scope, SecretValue};
use zeroize::Zeroizing;

use crate::error::{AtPath, Error, Result};

/// The file, YAML or JSON.
#[derive(Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct Script {
    /// The plugin's configuration.
    pub config: Option<Value>,
    /// What `kube` finds, in the namespace under work whatever theirs.
    pub objects: Vec<Value>,
    /// Values by Secret and key.
    secrets: BTreeMap<String, BTreeMap<String, String>>,
    http: Vec<HttpAnswer>,
    git: Vec<GitAnswer>,
}

/// The answer to a request of this method and URL.
#[derive(Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
struct HttpAnswer {
    method: Option<String>,
    url: String,
    /// The `Authorization` that the request must carry, `NAME: VALUE` for another header.
    authorization: Option<String>,
    status: Option<u16>,
    headers: BTreeMap<String, String>,
    /// Text; or `json`, or bytes as base64.
    body: Option<String>,
    json: Option<Value>,
    base64: Option<String>,
}

/// What a repository advertises: hashes by full name.
#[derive(Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
struct GitAnswer {
    url: String,
    refs: BTreeMap<String, String>,
}

impl Script {
    /// # Errors
    /// `BadFile` with what is wrong, and no line of the file, which holds secrets.
    pub fn read(path: &Path) -> Result<Script> {
        let text = std::fs::read_to_string(path).at(path)?;
        let options = serde_saphyr::options! { with_snippet: false };
        let script: Script =
            serde_saphyr::from_str_with_options(&text, options).map_err(|error| {
                Error::BadFile {
                    path: path.to_owned(),
                    message: format!("not a file of answers: {error}"),
                }
            })?;
        for answer in &script.http {
            let bodies = [
                answer.body.is_some(),
                answer.json.is_some(),
                answer.base64.is_some(),
            ];
            let fine = answer
                .base64
                .as_ref()
                .is_none_or(|text| STANDARD.decode(text).is_ok());
            if bodies.iter().filter(|given| **given).count() > 1 || !fine {
                return Err(Error::BadFile {
                    path: path.to_owned(),
                    message: format!(
                        "http {}: give one of body, json and base64, and that well-formed",
                        answer.url
                    ),
                });
            }
        }
        Ok(script)
    }

    /// `group/Kind` of all objects.
    pub fn kinds(&self) -> Vec<String> {
        self.objects.iter().map(crate::health::group_kind).collect()
    }
}

impl HttpAnswer {
    fn response(&self) -> HttpResponse {
        let body = match (&self.body, &self.json, &self.base64) {
            (Some(text), _, _) => text.clone().into_bytes(),
            (_, Some(json), _) => json.to_string().into_bytes(),
            (_, _, Some(text)) => STANDARD.decode(text).unwrap_or_default(),
            _ => Vec::new(),
        };
        HttpResponse {
            status: self.status.unwrap_or(200),
            headers: self
                .headers
                .iter()
                .map(|(name, value)| (name.to_ascii_lowercase(), value.clone()))
                .collect(),
            body,
        }
    }
}

impl Outside for Script {
    fn kube_get<'a>(
        &'a self,
        _: &'a Scope,
        wanted: &'a ObjectRef,
    ) -> BoxFuture<'a, std::result::Result<Option<Value>, Fault>> {
        let found = self.objects.iter().find(|object| {
            object["apiVersion"] == *wanted.api_version
                && object["kind"] == *wanted.kind
                && object["metadata"]["name"] == *wanted.name
        });
        Box::pin(async move { Ok(found.cloned()) })
    }

    fn secret<'a>(
        &'a self,
        _: &'a Scope,
        name: &'a str,
        key: &'a str,
    ) -> BoxFuture<'a, std::result::Result<SecretValue, Fault>> {
        let found = match self.secrets.get(name) {
            None => SecretValue::NoSecret,
            Some(keys) => keys.get(key).map_or(SecretValue::NoKey, |value| {
                SecretValue::Value(Zeroizing::new(value.clone().into_bytes()))
            }),
        };
        Box::pin(async move { Ok(found) })
    }

    fn git_refs<'a>(
        &'a self,
        _: &'a Scope,
        url: &'a Checked,
        prefixes: &'a [String],
        _: Option<&'a Credential>,
    ) -> BoxFuture<'a, std::result::Result<Vec<GitRef>, Fault>> {
        let found = self.git.iter().find(|answer| same(&answer.url, url));
        let found = found
            .map(|answer| {
                let wanted =
                    |name: &&String| prefixes.iter().any(|prefix| name.starts_with(prefix));
                let names = answer.refs.keys().filter(wanted);
                names
                    .map(|name| GitRef {
                        name: name.clone(),
                        oid: answer.refs[name].clone(),
                        peeled: None,
                    })
                    .collect()
            })
            .ok_or_else(|| none("git", url.url.as_str()));
        Box::pin(async move { found })
    }

    fn http_send<'a>(
        &'a self,
        _: &'a Scope,
        request: &'a HttpRequest,
        url: &'a Checked,
        credential: Option<&'a Credential>,
        _: &'a Grants,
        _: usize,
    ) -> BoxFuture<'a, std::result::Result<HttpResponse, Fault>> {
        let sent = credential.map(spelled);
        let found = self.http.iter().find(|answer| {
            answer.method.as_deref().unwrap_or("GET") == request.method
                && same(&answer.url, url)
                && answer
                    .authorization
                    .as_ref()
                    .is_none_or(|wanted| sent.as_ref().is_some_and(|sent| **sent == **wanted))
        });
        let what = format!("{} {}", request.method, url.url);
        let found = found
            .map(HttpAnswer::response)
            .ok_or_else(|| none("http", &what));
        Box::pin(async move { found })
    }
}

fn same(answer: &str, url: &Checked) -> bool {
    answer == url.url.as_str() || answer == url.url.as_str().trim_end_matches('/')
}

/// As the header that a request carries.
fn spelled(credential: &Credential) -> Zeroizing<String> {
    Zeroizing::new(match credential {
        Credential::Basic { username, password } => {
            let pair = Zeroizing::new(format!("{}:{}", **username, **password));
            format!("Basic {}", STANDARD.encode(pair.as_bytes()))
        }
        Credential::Bearer { token } => format!("Bearer {}", **token),
        Credential::Header { name, value } if name.eq_ignore_ascii_case("authorization") => {
            value.to_string()
        }
        Credential::Header { name, value } => format!("{name}: {}", **value),
        Credential::SshKey { .. } => String::new(),
    })
}

fn none(section: &str, what: &str) -> Fault {
    Fault {
        class: ErrorClass::NotFound,
        reason: "NoAnswer".into(),
        message: format!("the answers have nothing for {what} under {section}"),
        retry_after_ms: None,
    }
}
