//! The contract's imports: each question is looked up among the answers.

use wasmtime::component::Resource;
use windlass_sdk::{
    Answer, Credential, Derivation, ErrorClass, Fault, Form, Level, NamedPart, Question, Recipe,
    Secret, SecretName, Signature,
};

use super::bindings::imports::windlass::plugin as wit;
use super::convert;
use super::handles::{CredentialHandle, SecretHandle};
use super::round::{Round, SecretPut};

impl wit::types::Host for Round {}

impl wit::config::Host for Round {
    fn get(&mut self) -> wasmtime::Result<String> {
        Ok(self.config.to_string())
    }
}

impl wit::log::Host for Round {
    fn log(&mut self, level: wit::log::Level, message: String) -> wasmtime::Result<()> {
        let level = match level {
            wit::log::Level::Debug => Level::Debug,
            wit::log::Level::Info => Level::Info,
            wit::log::Level::Warn => Level::Warn,
            wit::log::Level::Error => Level::Error,
        };
        Round::log(self, level, message)
    }
}

impl Round {
    fn secret(
        &mut self,
        question: Question,
        name: SecretName,
    ) -> wasmtime::Result<Result<Resource<SecretHandle>, wit::types::Error>> {
        match self.answer(question)? {
            Ok(Answer::Secret) => Ok(Ok(self.table.push(SecretHandle(name))?)),
            Ok(_) => Ok(Err(convert::fault(mismatch()))),
            Err(fault) => Ok(Err(convert::fault(fault))),
        }
    }

    fn named(&self, secret: &Resource<SecretHandle>) -> wasmtime::Result<SecretName> {
        Ok(self.table.get(secret)?.0.clone())
    }

    fn name(&self, secret: &Resource<SecretHandle>) -> wasmtime::Result<Secret> {
        Ok(Secret::named(self.named(secret)?))
    }

    fn handle(&mut self, name: SecretName) -> wasmtime::Result<Resource<SecretHandle>> {
        Ok(self.table.push(SecretHandle(name))?)
    }

    fn credential(
        &self,
        auth: Option<Resource<CredentialHandle>>,
    ) -> wasmtime::Result<Option<Credential>> {
        auth.map(|auth| Ok(self.table.get(&auth)?.0.clone()))
            .transpose()
    }
}

/// A transcript that was put together wrongly.
fn mismatch() -> Fault {
    Fault {
        class: ErrorClass::Internal,
        reason: "AnswerMismatch".into(),
        message: "the answer is not of the question's kind".into(),
        retry_after_ms: None,
    }
}

impl wit::secrets::Host for Round {
    fn secret_at(
        &mut self,
        pointer: String,
    ) -> wasmtime::Result<Result<Resource<SecretHandle>, wit::types::Error>> {
        self.secret(
            Question::SecretAt {
                pointer: pointer.clone(),
            },
            SecretName::At { pointer },
        )
    }

    fn secret_key_at(
        &mut self,
        pointer: String,
        key: String,
    ) -> wasmtime::Result<Result<Resource<SecretHandle>, wit::types::Error>> {
        let question = Question::SecretKeyAt {
            pointer: pointer.clone(),
            key: key.clone(),
        };
        self.secret(question, SecretName::KeyAt { pointer, key })
    }

    fn id_at(&mut self, pointer: String) -> wasmtime::Result<Result<u64, wit::types::Error>> {
        Ok(match self.answer(Question::IdAt { pointer })? {
            Ok(Answer::Id { value }) => Ok(value),
            Ok(_) => Err(convert::fault(mismatch())),
            Err(fault) => Err(convert::fault(fault)),
        })
    }
}

impl wit::credentials::Host for Round {
    fn seal(&mut self, value: Vec<u8>) -> wasmtime::Result<Resource<SecretHandle>> {
        let name = Round::seal(self, value)?;
        self.handle(name)
    }

    fn derive(
        &mut self,
        how: wit::credentials::Derivation,
        key: Resource<SecretHandle>,
        prefix: Vec<u8>,
        payload: Vec<u8>,
    ) -> wasmtime::Result<Resource<SecretHandle>> {
        let how = match how {
            wit::credentials::Derivation::Sha256 => Derivation::Sha256,
            wit::credentials::Derivation::HmacSha256 => Derivation::HmacSha256,
        };
        let key = self.named(&key)?;
        let name = self.make(Recipe::Derive {
            how,
            key,
            prefix,
            payload,
        })?;
        self.handle(name)
    }

    fn sign(
        &mut self,
        how: wit::credentials::Signature,
        key: Resource<SecretHandle>,
        payload: Vec<u8>,
    ) -> wasmtime::Result<Resource<SecretHandle>> {
        let how = match how {
            wit::credentials::Signature::HmacSha256 => Signature::HmacSha256,
            wit::credentials::Signature::Rs256 => Signature::Rs256,
        };
        let key = self.named(&key)?;
        let name = self.make(Recipe::Sign { how, key, payload })?;
        self.handle(name)
    }

    fn join(
        &mut self,
        parts: Vec<wit::credentials::Part>,
    ) -> wasmtime::Result<Resource<SecretHandle>> {
        let parts = parts.into_iter().map(|part| {
            let (secret, form) = match part {
                wit::credentials::Part::Text(text) => return Ok(NamedPart::Text(text)),
                wit::credentials::Part::Plain(secret) => (secret, Form::Plain),
                wit::credentials::Part::Hex(secret) => (secret, Form::Hex),
                wit::credentials::Part::Base64(secret) => (secret, Form::Base64),
                wit::credentials::Part::Base64url(secret) => (secret, Form::Base64Url),
            };
            let name = self.named(&secret)?;
            Ok(NamedPart::Secret { name, form })
        });
        let parts = parts.collect::<wasmtime::Result<Vec<_>>>()?;
        let name = self.make(Recipe::Join { parts })?;
        self.handle(name)
    }
}

impl wit::credentials::HostSecret for Round {
    fn drop(&mut self, secret: Resource<SecretHandle>) -> wasmtime::Result<()> {
        self.table.delete(secret)?;
        Ok(())
    }
}

impl wit::credentials::HostCredential for Round {
    fn basic(
        &mut self,
        username: Resource<SecretHandle>,
        password: Resource<SecretHandle>,
    ) -> wasmtime::Result<Resource<CredentialHandle>> {
        let credential = Credential::Basic {
            username: self.name(&username)?,
            password: self.name(&password)?,
        };
        Ok(self.table.push(CredentialHandle(credential))?)
    }

    fn bearer(
        &mut self,
        token: Resource<SecretHandle>,
    ) -> wasmtime::Result<Resource<CredentialHandle>> {
        let credential = Credential::Bearer {
            token: self.name(&token)?,
        };
        Ok(self.table.push(CredentialHandle(credential))?)
    }

    fn header(
        &mut self,
        name: String,
        value: Resource<SecretHandle>,
    ) -> wasmtime::Result<Resource<CredentialHandle>> {
        let credential = Credential::Header {
            name,
            value: self.name(&value)?,
        };
        Ok(self.table.push(CredentialHandle(credential))?)
    }

    fn ssh_key(
        &mut self,
        private_key: Resource<SecretHandle>,
        passphrase: Option<Resource<SecretHandle>>,
        known_hosts: Option<Resource<SecretHandle>>,
    ) -> wasmtime::Result<Resource<CredentialHandle>> {
        let optional =
            |secret: Option<Resource<SecretHandle>>| secret.map(|it| self.name(&it)).transpose();
        let credential = Credential::SshKey {
            private_key: self.name(&private_key)?,
            passphrase: optional(passphrase)?,
            known_hosts: optional(known_hosts)?,
        };
        Ok(self.table.push(CredentialHandle(credential))?)
    }

    fn drop(&mut self, credential: Resource<CredentialHandle>) -> wasmtime::Result<()> {
        self.table.delete(credential)?;
        Ok(())
    }
}

impl wit::kube::Host for Round {
    fn get(
        &mut self,
        object: wit::types::ObjectRef,
    ) -> wasmtime::Result<Result<Option<String>, wit::types::Error>> {
        let object = convert::object_ref(object);
        Ok(match self.answer(Question::KubeGet { object })? {
            Ok(Answer::Object { object }) => Ok(object.map(|object| object.to_string())),
            Ok(_) => Err(convert::fault(mismatch())),
            Err(fault) => Err(convert::fault(fault)),
        })
    }
}

impl wit::http::Host for Round {
    fn send(
        &mut self,
        request: wit::http::Request,
        auth: Option<Resource<CredentialHandle>>,
    ) -> wasmtime::Result<Result<wit::http::Response, wit::types::Error>> {
        let auth = self.credential(auth)?;
        let request = convert::request(request);
        Ok(match self.answer(Question::HttpSend { request, auth })? {
            Ok(Answer::Http { response }) => Ok(convert::response(response)),
            Ok(_) => Err(convert::fault(mismatch())),
            Err(fault) => Err(convert::fault(fault)),
        })
    }

    fn send_capturing(
        &mut self,
        request: wit::http::Request,
        auth: Option<Resource<CredentialHandle>>,
        capture: Vec<String>,
    ) -> wasmtime::Result<Result<wit::http::Exchange, wit::types::Error>> {
        let auth = self.credential(auth)?;
        let exchange = self.exchanges;
        self.exchanges = exchange.saturating_add(1);
        let question = Question::HttpCapture {
            request: convert::request(request),
            auth,
            capture: capture.clone(),
            exchange,
        };
        let (response, found) = match self.answer(question)? {
            Ok(Answer::Captured { response, found }) if found.len() == capture.len() => {
                (response, found)
            }
            Ok(_) => return Ok(Err(convert::fault(mismatch()))),
            Err(fault) => return Ok(Err(convert::fault(fault))),
        };
        let mut captured = Vec::new();
        for (pointer, found) in capture.into_iter().zip(found) {
            let name = SecretName::Captured { exchange, pointer };
            captured.push(found.then(|| self.handle(name)).transpose()?);
        }
        Ok(Ok(wit::http::Exchange {
            response: convert::response(response),
            captured,
        }))
    }
}

impl wit::git::Host for Round {
    fn refs(
        &mut self,
        url: String,
        prefixes: Vec<String>,
        auth: Option<Resource<CredentialHandle>>,
    ) -> wasmtime::Result<Result<Vec<wit::git::Ref>, wit::types::Error>> {
        let auth = self.credential(auth)?;
        Ok(
            match self.answer(Question::GitRefs {
                url,
                prefixes,
                auth,
            })? {
                Ok(Answer::Refs { refs }) => Ok(refs
                    .into_iter()
                    .map(|found| wit::git::Ref {
                        name: found.name,
                        oid: found.oid,
                        peeled: found.peeled,
                    })
                    .collect()),
                Ok(_) => Err(convert::fault(mismatch())),
                Err(fault) => Err(convert::fault(fault)),
            },
        )
    }
}

impl wit::cache::Host for Round {
    fn get(&mut self, key: String) -> wasmtime::Result<Option<String>> {
        if let Some((_, value, _)) = self
            .puts
            .values
            .iter()
            .rev()
            .find(|(name, _, _)| *name == key)
        {
            return Ok(Some(value.clone()));
        }
        Ok(match self.answer(Question::CacheGet { key })? {
            Ok(Answer::Cached { value }) => value.map(|value| value.to_string()),
            // A cache may forget at any time.
            _ => None,
        })
    }

    fn put(&mut self, key: String, value: String, ttl_ms: u64) -> wasmtime::Result<()> {
        Round::put(self, key, value, ttl_ms)
    }

    fn get_secret(
        &mut self,
        key: String,
        origin: Resource<SecretHandle>,
    ) -> wasmtime::Result<Option<Resource<SecretHandle>>> {
        let origin = self.named(&origin)?;
        let mut puts = self.puts.secrets.iter().rev();
        if let Some(put) = puts.find(|put| put.key == key && put.origin == origin) {
            let value = (put.ttl_ms > 0).then(|| put.value.clone());
            return value.map(|name| self.handle(name)).transpose();
        }
        let question = Question::CacheGetSecret {
            key: key.clone(),
            origin: origin.clone(),
        };
        match self.answer(question)? {
            Ok(Answer::Secret) => {
                let origin = Box::new(origin);
                self.handle(SecretName::Cached { key, origin }).map(Some)
            }
            // A cache may forget at any time.
            _ => Ok(None),
        }
    }

    fn put_secret(
        &mut self,
        key: String,
        origin: Resource<SecretHandle>,
        value: Resource<SecretHandle>,
        ttl_ms: u64,
    ) -> wasmtime::Result<()> {
        let (origin, value) = (self.named(&origin)?, self.named(&value)?);
        Round::put_secret(
            self,
            SecretPut {
                key,
                origin,
                value,
                ttl_ms,
            },
        )
    }
}
