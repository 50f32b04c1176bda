//! [`Host`] over the component's imports.

use std::cell::Cell;
use std::rc::Rc;

use serde_json::Value;

use super::convert::{self, credential, from_host, object_ref};
use super::imports::windlass::plugin as wit;
use crate::error::PluginError;
use crate::host::{Credential, Host, Level, Secret, SecretName};
use crate::question::{GitRef, HttpRequest, HttpResponse};
use crate::recipe::{Derivation, Part, Signature};
use crate::types::ObjectRef;

/// The host, as a component sees it.
#[derive(Default)]
pub struct GuestHost {
    sealed: Cell<u32>,
    made: Cell<u32>,
    exchanges: Cell<u32>,
}

fn secret(name: SecretName, handle: wit::credentials::Secret) -> Secret {
    Secret {
        name,
        handle: Rc::new(handle),
    }
}

impl GuestHost {
    fn made(&self, handle: wit::credentials::Secret) -> Secret {
        let index = self.made.get();
        self.made.set(index + 1);
        secret(SecretName::Made { index }, handle)
    }
}

impl Host for GuestHost {
    fn config(&self) -> Value {
        serde_json::from_str(&wit::config::get()).unwrap_or_default()
    }

    fn log(&self, level: Level, message: &str) {
        let level = match level {
            Level::Debug => wit::log::Level::Debug,
            Level::Info => wit::log::Level::Info,
            Level::Warn => wit::log::Level::Warn,
            Level::Error => wit::log::Level::Error,
        };
        wit::log::log(level, message);
    }

    fn secret_at(&self, pointer: &str) -> Result<Secret, PluginError> {
        let handle = wit::secrets::secret_at(pointer).map_err(from_host)?;
        Ok(Secret {
            name: SecretName::At {
                pointer: pointer.into(),
            },
            handle: Rc::new(handle),
        })
    }

    fn secret_key_at(&self, pointer: &str, key: &str) -> Result<Secret, PluginError> {
        let handle = wit::secrets::secret_key_at(pointer, key).map_err(from_host)?;
        Ok(Secret {
            name: SecretName::KeyAt {
                pointer: pointer.into(),
                key: key.into(),
            },
            handle: Rc::new(handle),
        })
    }

    fn id_at(&self, pointer: &str) -> Result<u64, PluginError> {
        wit::secrets::id_at(pointer).map_err(from_host)
    }

    fn derive(&self, how: Derivation, key: &Secret, prefix: &[u8], payload: &[u8]) -> Secret {
        let how = convert::derivation(how);
        self.made(wit::credentials::derive(how, &key.handle, prefix, payload))
    }

    fn sign(&self, how: Signature, key: &Secret, payload: &[u8]) -> Secret {
        let how = convert::signature(how);
        self.made(wit::credentials::sign(how, &key.handle, payload))
    }

    fn join(&self, parts: &[Part<'_>]) -> Secret {
        let parts: Vec<_> = parts.iter().map(convert::part).collect();
        self.made(wit::credentials::join(&parts))
    }

    fn seal(&self, value: &[u8]) -> Secret {
        let index = self.sealed.get();
        self.sealed.set(index + 1);
        Secret {
            name: SecretName::Sealed { index },
            handle: Rc::new(wit::credentials::seal(value)),
        }
    }

    fn kube_get(&self, object: &ObjectRef) -> Result<Option<Value>, PluginError> {
        let text = wit::kube::get(&object_ref(object)).map_err(from_host)?;
        Ok(text.map(|text| serde_json::from_str(&text)).transpose()?)
    }

    fn http_send(
        &self,
        request: &HttpRequest,
        auth: Option<&Credential>,
    ) -> Result<HttpResponse, PluginError> {
        let auth = auth.map(credential);
        wit::http::send(&convert::request(request), auth.as_ref())
            .map(convert::response)
            .map_err(from_host)
    }

    fn http_capture(
        &self,
        request: &HttpRequest,
        auth: Option<&Credential>,
        capture: &[&str],
    ) -> Result<(HttpResponse, Vec<Option<Secret>>), PluginError> {
        let exchange = self.exchanges.get();
        self.exchanges.set(exchange + 1);
        let auth = auth.map(credential);
        let pointers: Vec<String> = capture.iter().map(|pointer| (*pointer).into()).collect();
        let wit::http::Exchange { response, captured } =
            wit::http::send_capturing(&convert::request(request), auth.as_ref(), &pointers)
                .map_err(from_host)?;
        let secrets = pointers.into_iter().zip(captured).map(|(pointer, handle)| {
            handle.map(|handle| secret(SecretName::Captured { exchange, pointer }, handle))
        });
        Ok((convert::response(response), secrets.collect()))
    }

    fn git_refs(
        &self,
        url: &str,
        prefixes: &[&str],
        auth: Option<&Credential>,
    ) -> Result<Vec<GitRef>, PluginError> {
        let auth = auth.map(credential);
        let prefixes: Vec<String> = prefixes.iter().map(|prefix| (*prefix).to_owned()).collect();
        let refs = wit::git::refs(url, &prefixes, auth.as_ref()).map_err(from_host)?;
        Ok(refs
            .into_iter()
            .map(|wit::git::Ref { name, oid, peeled }| GitRef { name, oid, peeled })
            .collect())
    }

    fn cache_get(&self, key: &str) -> Result<Option<Value>, PluginError> {
        Ok(wit::cache::get(key)
            .map(|text| serde_json::from_str(&text))
            .transpose()?)
    }

    fn cache_put(&self, key: &str, value: &Value, ttl_ms: u64) {
        wit::cache::put(key, &value.to_string(), ttl_ms);
    }

    fn cache_get_secret(&self, key: &str, origin: &Secret) -> Result<Option<Secret>, PluginError> {
        let name = || SecretName::Cached {
            key: key.into(),
            origin: Box::new(origin.name.clone()),
        };
        Ok(wit::cache::get_secret(key, &origin.handle).map(|handle| secret(name(), handle)))
    }

    fn cache_put_secret(&self, key: &str, origin: &Secret, value: &Secret, ttl_ms: u64) {
        wit::cache::put_secret(key, &origin.handle, &value.handle, ttl_ms);
    }
}
