//! The contract's imports: each question is looked up among the answers.

use wasmtime::component::Resource;
use windlass_sdk::{
    Answer, Credential, ErrorClass, Fault, HttpRequest, Level, Question, Secret, SecretName,
};

use super::bindings::imports::windlass::plugin as wit;
use super::convert;
use super::handles::{CredentialHandle, SecretHandle};
use super::round::Round;

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

    fn name(&self, secret: &Resource<SecretHandle>) -> wasmtime::Result<Secret> {
        Ok(Secret::named(self.table.get(secret)?.0.clone()))
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
}

impl wit::credentials::Host for Round {
    fn seal(&mut self, value: Vec<u8>) -> wasmtime::Result<Resource<SecretHandle>> {
        let index = u32::try_from(self.sealed.len())?;
        let handle = self
            .table
            .push(SecretHandle(SecretName::Sealed { index }))?;
        Round::seal(self, value)?;
        Ok(handle)
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
        let wit::http::Request {
            method,
            url,
            headers,
            body,
        } = request;
        let request = HttpRequest {
            method,
            url,
            headers,
            body,
        };
        Ok(match self.answer(Question::HttpSend { request, auth })? {
            Ok(Answer::Http { response }) => Ok(wit::http::Response {
                status: response.status,
                headers: response.headers,
                body: response.body,
            }),
            Ok(_) => Err(convert::fault(mismatch())),
            Err(fault) => Err(convert::fault(fault)),
        })
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
        if let Some((_, value, _)) = self.puts.iter().rev().find(|(name, _, _)| *name == key) {
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
}
