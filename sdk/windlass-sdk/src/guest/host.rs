//! [`Host`] over the component's imports.

use std::cell::Cell;
use std::rc::Rc;

use serde_json::Value;

use super::convert::{credential, from_host, object_ref};
use super::imports::windlass::plugin as wit;
use crate::error::PluginError;
use crate::host::{Credential, Host, Level, Secret, SecretName};
use crate::question::{GitRef, HttpRequest, HttpResponse};
use crate::types::ObjectRef;

/// The host, as a component sees it.
#[derive(Default)]
pub struct GuestHost {
    sealed: Cell<u32>,
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
        let HttpRequest {
            method,
            url,
            headers,
            body,
        } = request.clone();
        let request = wit::http::Request {
            method,
            url,
            headers,
            body,
        };
        let wit::http::Response {
            status,
            headers,
            body,
        } = wit::http::send(&request, auth.as_ref()).map_err(from_host)?;
        Ok(HttpResponse {
            status,
            headers,
            body,
        })
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
}
