//! Finds the answer to one question, within the grants of the plugin that asks.

use std::collections::HashMap;

use serde_json::Value;
use windlass_sdk::{Answer, Credential as Named, ErrorClass, Fault, Question, SecretName};
use zeroize::Zeroizing;

use crate::cache::Cache;
use crate::egress::{self, Network};
use crate::grants::Grants;
use crate::outside::http::denied;
use crate::outside::{Credential, Outside, Scope, SecretValue};

/// Values of the secrets of one evaluation. They live here, beside the component, and nowhere else.
#[derive(Default)]
pub struct Vault(HashMap<SecretName, Zeroizing<Vec<u8>>>);

impl Vault {
    /// Takes what the plugin sealed in this round.
    pub fn seal(&mut self, sealed: Vec<Vec<u8>>) {
        for (index, value) in (0..).zip(sealed) {
            self.0
                .insert(SecretName::Sealed { index }, Zeroizing::new(value));
        }
    }

    /// A credential with its values.
    ///
    /// # Errors
    /// A secret that was never read, or is no text.
    pub fn credential(&self, named: &Named) -> Result<Credential, Fault> {
        let text = |secret: &windlass_sdk::Secret| {
            let value = self.0.get(secret.name()).ok_or_else(|| {
                fault(
                    ErrorClass::Internal,
                    "SecretUnknown",
                    "a secret that was not asked for",
                )
            })?;
            let text = std::str::from_utf8(value).map_err(|_| {
                fault(
                    ErrorClass::Invalid,
                    "SecretInvalid",
                    "the secret is no text",
                )
            })?;
            // Secrets made by hand often end in a line feed.
            Ok(Zeroizing::new(
                text.trim_end_matches(['\n', '\r']).to_owned(),
            ))
        };
        Ok(match named {
            Named::Basic { username, password } => Credential::Basic {
                username: text(username)?,
                password: text(password)?,
            },
            Named::Bearer { token } => Credential::Bearer {
                token: text(token)?,
            },
            Named::Header { name, value } => Credential::Header {
                name: name.clone(),
                value: text(value)?,
            },
        })
    }
}

/// What is needed to answer.
pub struct Answering<'a> {
    pub outside: &'a dyn Outside,
    pub cache: &'a Cache,
    pub network: &'a Network,
    pub scope: &'a Scope,
    pub grants: &'a Grants,
    /// The object under work: `{metadata, spec}`.
    pub object: &'a Value,
    pub response_bytes: usize,
}

impl Answering<'_> {
    /// # Errors
    /// What the plugin is told instead: a denial, or the outside's trouble.
    pub async fn answer(&self, question: &Question, vault: &mut Vault) -> Result<Answer, Fault> {
        match question {
            Question::SecretAt { pointer } => {
                let (name, key) = reference(self.object, pointer, &self.scope.namespace)?;
                self.secret(
                    &name,
                    &key,
                    SecretName::At {
                        pointer: pointer.clone(),
                    },
                    vault,
                )
                .await
            }
            Question::SecretKeyAt { pointer, key } => {
                let name = secret_name(self.object, pointer)?;
                let kept = SecretName::KeyAt {
                    pointer: pointer.clone(),
                    key: key.clone(),
                };
                self.secret(&name, key, kept, vault).await
            }
            Question::KubeGet { object } => {
                if !self.grants.may_read(object) {
                    let message =
                        format!("objects of kind {} are not granted", object.group_kind());
                    return Err(fault(ErrorClass::Denied, "KindDenied", &message));
                }
                Ok(Answer::Object {
                    object: self.outside.kube_get(self.scope, object).await?,
                })
            }
            Question::GitRefs {
                url,
                prefixes,
                auth,
            } => {
                self.interface("git")?;
                let url = self.url(url).await?;
                let credential = auth
                    .as_ref()
                    .map(|auth| vault.credential(auth))
                    .transpose()?;
                let refs = self
                    .outside
                    .git_refs(self.scope, &url, prefixes, credential.as_ref())
                    .await?;
                Ok(Answer::Refs { refs })
            }
            Question::HttpSend { request, auth } => {
                self.interface("http")?;
                let url = self.url(&request.url).await?;
                let credential = auth
                    .as_ref()
                    .map(|auth| vault.credential(auth))
                    .transpose()?;
                let response = self
                    .outside
                    .http_send(
                        self.scope,
                        request,
                        &url,
                        credential.as_ref(),
                        self.grants,
                        self.response_bytes,
                    )
                    .await?;
                Ok(Answer::Http { response })
            }
            Question::CacheGet { key } => Ok(Answer::Cached {
                value: self.cache.get(self.scope, key),
            }),
        }
    }

    // The import list was checked at load; this holds for questions from anywhere else, such as a replay.
    fn interface(&self, name: &str) -> Result<(), Fault> {
        if self.grants.interfaces.iter().any(|granted| granted == name) {
            return Ok(());
        }
        Err(fault(
            ErrorClass::Denied,
            "InterfaceDenied",
            &format!("{name} is not granted"),
        ))
    }

    async fn url(&self, url: &str) -> Result<egress::Checked, Fault> {
        egress::check(url, self.grants, self.network)
            .await
            .map_err(|error| denied(&error))
    }

    async fn secret(
        &self,
        name: &str,
        key: &str,
        kept: SecretName,
        vault: &mut Vault,
    ) -> Result<Answer, Fault> {
        self.interface("secrets")?;
        match self.outside.secret(self.scope, name, key).await? {
            SecretValue::Value(value) => {
                vault.0.insert(kept, value);
                Ok(Answer::Secret)
            }
            SecretValue::NoSecret => Err(fault(
                ErrorClass::NotFound,
                "SecretNotFound",
                &format!("secret {name:?} does not exist"),
            )),
            SecretValue::NoKey => Err(fault(
                ErrorClass::NotFound,
                "SecretKeyNotFound",
                &format!("secret {name:?} has no key {key:?}"),
            )),
        }
    }
}

/// The Secret and key of the reference at a pointer. Only what stands in the spec as a reference is one.
fn reference(object: &Value, pointer: &str, namespace: &str) -> Result<(String, String), Fault> {
    let value = in_spec(object, pointer)?;
    let body = match value.get("type").and_then(Value::as_str) {
        Some("Secret") => value.get("secret"),
        Some(_) => None,
        None => Some(value),
    };
    let part = |name: &str| body.and_then(|body| body.get(name)).and_then(Value::as_str);
    let (Some(name), Some(key)) = (part("name"), part("key")) else {
        return Err(not_named(pointer));
    };
    if part("namespace").is_some_and(|other| !other.is_empty() && other != namespace) {
        return Err(fault(
            ErrorClass::Denied,
            "SecretDenied",
            &format!("{pointer} names another namespace"),
        ));
    }
    Ok((name.to_owned(), key.to_owned()))
}

/// The name at a pointer, whose field says that it names a Secret: any other text is not the user's consent.
fn secret_name(object: &Value, pointer: &str) -> Result<String, Fault> {
    let field = pointer.rsplit('/').next().unwrap_or_default();
    let says_so = ["Secret", "secret", "secretName", "secretRef"]
        .iter()
        .any(|suffix| field.ends_with(suffix));
    match in_spec(object, pointer)?.as_str() {
        Some(name) if says_so && !name.is_empty() => Ok(name.to_owned()),
        _ => Err(not_named(pointer)),
    }
}

fn in_spec<'a>(object: &'a Value, pointer: &str) -> Result<&'a Value, Fault> {
    if !pointer.starts_with("/spec/") {
        return Err(not_named(pointer));
    }
    object.pointer(pointer).ok_or_else(|| not_named(pointer))
}

fn not_named(pointer: &str) -> Fault {
    fault(
        ErrorClass::Denied,
        "SecretDenied",
        &format!("the spec names no secret at {pointer}"),
    )
}

fn fault(class: ErrorClass, reason: &str, message: &str) -> Fault {
    Fault {
        class,
        reason: reason.into(),
        message: message.into(),
        retry_after_ms: None,
    }
}
