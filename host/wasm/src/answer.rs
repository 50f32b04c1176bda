//! Finds the answer to one question, within the grants of the plugin that asks.

use serde_json::Value;
use windlass_sdk::{
    Answer, Credential as Named, ErrorClass, Fault, HttpRequest, HttpResponse, Question, SecretName,
};
use zeroize::Zeroizing;

use crate::cache::Cache;
use crate::capture::{self, Taken};
use crate::egress::{self, Network};
use crate::grants::Grants;
use crate::outside::http::denied;
use crate::outside::{Outside, Scope, SecretValue};
use crate::vault::Vault;

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
            Question::IdAt { pointer } => self.id(pointer).await,
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
                let url = egress::check_repository(url, self.grants, self.network)
                    .await
                    .map_err(|error| denied(&error))?;
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
            Question::HttpSend { request, auth } => Ok(Answer::Http {
                response: self.send(request, auth.as_ref(), vault).await?,
            }),
            Question::HttpCapture {
                request,
                auth,
                capture,
                exchange,
            } => {
                let response = self.send(request, auth.as_ref(), vault).await?;
                let Taken { response, values } = capture::take(response, capture);
                let found = values.iter().map(Option::is_some).collect();
                for (pointer, value) in capture.iter().zip(values) {
                    let name = SecretName::Captured {
                        exchange: *exchange,
                        pointer: pointer.clone(),
                    };
                    if let Some(value) = value {
                        vault.keep(name, value);
                    }
                }
                Ok(Answer::Captured { response, found })
            }
            Question::CacheGetSecret { key, origin } => {
                let held = vault.value(origin)?;
                let Some(value) = self.cache.get_secret(self.scope, key, &held) else {
                    return Ok(Answer::NoSecret);
                };
                let name = SecretName::Cached {
                    key: key.clone(),
                    origin: Box::new(origin.clone()),
                };
                vault.keep(name, value);
                Ok(Answer::Secret)
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

    async fn send(
        &self,
        request: &HttpRequest,
        auth: Option<&Named>,
        vault: &mut Vault,
    ) -> Result<HttpResponse, Fault> {
        self.interface("http")?;
        let url = egress::check(&request.url, self.grants, self.network)
            .await
            .map_err(|error| denied(&error))?;
        let credential = auth.map(|auth| vault.credential(auth)).transpose()?;
        self.outside
            .http_send(
                self.scope,
                request,
                &url,
                credential.as_ref(),
                self.grants,
                self.response_bytes,
            )
            .await
    }

    /// The number behind a reference that says it is an identifier.
    async fn id(&self, pointer: &str) -> Result<Answer, Fault> {
        self.interface("secrets")?;
        if !(pointer.ends_with("ID") || pointer.ends_with("Id")) {
            let message = format!("{pointer} does not say by its name that it is an identifier");
            return Err(fault(ErrorClass::Denied, "SecretDenied", &message));
        }
        let (name, key) = reference(self.object, pointer, &self.scope.namespace)?;
        let value = self.read(&name, &key).await?;
        let digits = std::str::from_utf8(&value).map_or("", str::trim);
        let number = (!digits.is_empty()
            && digits.len() <= 15
            && digits.bytes().all(|byte| byte.is_ascii_digit()))
        .then(|| digits.parse().ok())
        .flatten();
        number.map(|value| Answer::Id { value }).ok_or_else(|| {
            let message = format!("what {pointer} refers to is no number of up to 15 digits");
            fault(ErrorClass::Denied, "SecretDenied", &message)
        })
    }

    async fn secret(
        &self,
        name: &str,
        key: &str,
        kept: SecretName,
        vault: &mut Vault,
    ) -> Result<Answer, Fault> {
        self.interface("secrets")?;
        let value = self.read(name, key).await?;
        vault.keep(kept, value);
        Ok(Answer::Secret)
    }

    async fn read(&self, name: &str, key: &str) -> Result<Zeroizing<Vec<u8>>, Fault> {
        match self.outside.secret(self.scope, name, key).await? {
            SecretValue::Value(value) => Ok(value),
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
