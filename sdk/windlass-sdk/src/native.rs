//! Plugins as plain functions: a host whose answers are data.

use std::cell::{Cell, RefCell};

use serde_json::{Value, json};

use crate::error::{ErrorClass, Fault, PluginError};
use crate::host::{Credential, Host, Level, Secret, SecretName};
use crate::question::{Answer, GitRef, HttpRequest, HttpResponse, Question};
use crate::recipe::{Derivation, Part, Recipe, Signature};
use crate::transcript::{Asked, LogLine};
use crate::types::ObjectRef;

/// Answers from a list, by question and occurrence; asks for what the list does not have.
#[derive(Debug, Default)]
pub struct Answers {
    asked: Vec<Asked>,
    used: RefCell<Vec<bool>>,
    config: Value,
    sealed: Cell<u32>,
    logs: RefCell<Vec<LogLine>>,
    puts: RefCell<Vec<(String, Value, u64)>>,
    recipes: RefCell<Vec<Recipe>>,
    exchanges: Cell<u32>,
    secret_puts: RefCell<Vec<SecretPut>>,
}

/// A secret that a plugin put into the cache, by names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SecretPut {
    pub key: String,
    pub origin: SecretName,
    pub value: SecretName,
    /// Milliseconds; 0 forgets.
    pub ttl_ms: u64,
}

impl Answers {
    pub fn new(asked: Vec<Asked>) -> Self {
        let used = RefCell::new(vec![false; asked.len()]);
        Answers {
            asked,
            used,
            config: json!({}),
            ..Answers::default()
        }
    }

    #[must_use]
    pub fn with_config(mut self, config: Value) -> Self {
        self.config = config;
        self
    }

    /// Lines logged so far.
    pub fn logs(&self) -> Vec<LogLine> {
        self.logs.borrow().clone()
    }

    /// What the plugin derived, signed and joined so far: the n-th is [`SecretName::Made`] `{ index: n }`.
    pub fn recipes(&self) -> Vec<Recipe> {
        self.recipes.borrow().clone()
    }

    /// Secrets that the plugin put into the cache so far.
    pub fn secret_puts(&self) -> Vec<SecretPut> {
        self.secret_puts.borrow().clone()
    }

    fn make(&self, recipe: Recipe) -> Secret {
        let mut recipes = self.recipes.borrow_mut();
        let index = u32::try_from(recipes.len()).unwrap_or(u32::MAX);
        recipes.push(recipe);
        named(SecretName::Made { index })
    }

    fn find(&self, question: Question) -> Result<Answer, PluginError> {
        let mut used = self.used.borrow_mut();
        for (asked, used) in self.asked.iter().zip(used.iter_mut()) {
            if !*used && asked.question == question {
                *used = true;
                return asked.answer.clone().map_err(PluginError::from);
            }
        }
        Err(PluginError::Ask(Box::new(question)))
    }
}

/// Calls `run` again and again, each time with one more answer from `answer`, until it asks no more.
///
/// # Errors
/// What `run` fails with; `internal` after 32 rounds.
pub fn evaluate<T>(
    mut run: impl FnMut(&Answers) -> Result<T, PluginError>,
    mut answer: impl FnMut(&Question) -> Result<Answer, Fault>,
) -> Result<(T, Vec<Asked>), Fault> {
    let mut asked: Vec<Asked> = Vec::new();
    for _ in 0..32 {
        match run(&Answers::new(asked.clone())) {
            Ok(value) => return Ok((value, asked)),
            Err(PluginError::Fault(fault)) => return Err(fault),
            Err(PluginError::Ask(question)) => {
                let answer = answer(&question);
                asked.push(Asked {
                    question: *question,
                    answer,
                });
            }
        }
    }
    Err(Fault {
        class: ErrorClass::Internal,
        reason: "TooManyQuestions".into(),
        message: "the plugin asked more than 32 questions".into(),
        retry_after_ms: None,
    })
}

fn mismatch<T>() -> Result<T, PluginError> {
    Err(PluginError::new(
        ErrorClass::Internal,
        "AnswerMismatch",
        "the answer is not of the question's kind",
    ))
}

impl Host for Answers {
    fn config(&self) -> Value {
        self.config.clone()
    }

    fn log(&self, level: Level, message: &str) {
        self.logs.borrow_mut().push(LogLine {
            level,
            message: message.into(),
        });
    }

    fn secret_at(&self, pointer: &str) -> Result<Secret, PluginError> {
        match self.find(Question::SecretAt {
            pointer: pointer.into(),
        })? {
            Answer::Secret => Ok(named(SecretName::At {
                pointer: pointer.into(),
            })),
            _ => mismatch(),
        }
    }

    fn secret_key_at(&self, pointer: &str, key: &str) -> Result<Secret, PluginError> {
        match self.find(Question::SecretKeyAt {
            pointer: pointer.into(),
            key: key.into(),
        })? {
            Answer::Secret => Ok(named(SecretName::KeyAt {
                pointer: pointer.into(),
                key: key.into(),
            })),
            _ => mismatch(),
        }
    }

    fn id_at(&self, pointer: &str) -> Result<u64, PluginError> {
        match self.find(Question::IdAt {
            pointer: pointer.into(),
        })? {
            Answer::Id { value } => Ok(value),
            _ => mismatch(),
        }
    }

    fn derive(&self, how: Derivation, key: &Secret, prefix: &[u8], payload: &[u8]) -> Secret {
        self.make(Recipe::Derive {
            how,
            key: key.name.clone(),
            prefix: prefix.into(),
            payload: payload.into(),
        })
    }

    fn sign(&self, how: Signature, key: &Secret, payload: &[u8]) -> Secret {
        self.make(Recipe::Sign {
            how,
            key: key.name.clone(),
            payload: payload.into(),
        })
    }

    fn join(&self, parts: &[Part<'_>]) -> Secret {
        self.make(Recipe::Join {
            parts: parts.iter().map(Part::named).collect(),
        })
    }

    fn seal(&self, _value: &[u8]) -> Secret {
        let index = self.sealed.get();
        self.sealed.set(index + 1);
        named(SecretName::Sealed { index })
    }

    fn kube_get(&self, object: &ObjectRef) -> Result<Option<Value>, PluginError> {
        match self.find(Question::KubeGet {
            object: object.clone(),
        })? {
            Answer::Object { object } => Ok(object),
            _ => mismatch(),
        }
    }

    fn http_send(
        &self,
        request: &HttpRequest,
        auth: Option<&Credential>,
    ) -> Result<HttpResponse, PluginError> {
        match self.find(Question::HttpSend {
            request: request.clone(),
            auth: auth.cloned(),
        })? {
            Answer::Http { response } => Ok(response),
            _ => mismatch(),
        }
    }

    fn http_capture(
        &self,
        request: &HttpRequest,
        auth: Option<&Credential>,
        capture: &[&str],
    ) -> Result<(HttpResponse, Vec<Option<Secret>>), PluginError> {
        let exchange = self.exchanges.get();
        self.exchanges.set(exchange + 1);
        match self.find(Question::HttpCapture {
            request: request.clone(),
            auth: auth.cloned(),
            capture: capture.iter().map(|pointer| (*pointer).into()).collect(),
            exchange,
        })? {
            Answer::Captured { response, found } if found.len() == capture.len() => {
                let secrets = capture.iter().zip(found).map(|(pointer, found)| {
                    found.then(|| {
                        named(SecretName::Captured {
                            exchange,
                            pointer: (*pointer).into(),
                        })
                    })
                });
                Ok((response, secrets.collect()))
            }
            _ => mismatch(),
        }
    }

    fn git_refs(
        &self,
        url: &str,
        prefixes: &[&str],
        auth: Option<&Credential>,
    ) -> Result<Vec<GitRef>, PluginError> {
        let prefixes = prefixes.iter().map(|prefix| (*prefix).to_owned()).collect();
        match self.find(Question::GitRefs {
            url: url.into(),
            prefixes,
            auth: auth.cloned(),
        })? {
            Answer::Refs { refs } => Ok(refs),
            _ => mismatch(),
        }
    }

    fn cache_get(&self, key: &str) -> Result<Option<Value>, PluginError> {
        let puts = self.puts.borrow();
        if let Some((_, value, _)) = puts.iter().rev().find(|(name, _, _)| name == key) {
            return Ok(Some(value.clone()));
        }
        match self.find(Question::CacheGet { key: key.into() })? {
            Answer::Cached { value } => Ok(value),
            _ => mismatch(),
        }
    }

    fn cache_put(&self, key: &str, value: &Value, ttl_ms: u64) {
        self.puts
            .borrow_mut()
            .push((key.into(), value.clone(), ttl_ms));
    }

    fn cache_get_secret(&self, key: &str, origin: &Secret) -> Result<Option<Secret>, PluginError> {
        let puts = self.secret_puts.borrow();
        if let Some(put) = puts
            .iter()
            .rev()
            .find(|put| put.key == key && put.origin == origin.name)
        {
            return Ok((put.ttl_ms > 0).then(|| named(put.value.clone())));
        }
        match self.find(Question::CacheGetSecret {
            key: key.into(),
            origin: origin.name.clone(),
        })? {
            Answer::Secret => Ok(Some(named(SecretName::Cached {
                key: key.into(),
                origin: Box::new(origin.name.clone()),
            }))),
            Answer::NoSecret => Ok(None),
            _ => mismatch(),
        }
    }

    fn cache_put_secret(&self, key: &str, origin: &Secret, value: &Secret, ttl_ms: u64) {
        self.secret_puts.borrow_mut().push(SecretPut {
            key: key.into(),
            origin: origin.name.clone(),
            value: value.name.clone(),
            ttl_ms,
        });
    }
}

fn named(name: SecretName) -> Secret {
    Secret::named(name)
}
