//! The objects of a manifest file, answering a plugin's questions where there is no store: `plugin run`, `health`.

use std::collections::BTreeMap;
use std::io::Read;
use std::path::Path;

use futures::future::BoxFuture;
use serde_json::Value;
use windlass_api::Stack;
use windlass_api::manifest::{self, Manifest};
use windlass_engine::Key;
use windlass_fetch::{FetchConfig, Fetcher, RefsRequest, WorkerCommand};
use windlass_sdk::{ErrorClass, Fault, GitRef, HttpRequest, HttpResponse, ObjectRef};
use windlass_wasm::outside::http::HttpClient;
use windlass_wasm::{Checked, Credential, Grants, Outside, Scope, SecretValue};
use zeroize::Zeroizing;

use crate::error::{AtPath, Error, Result};
use crate::{place, plugins};

/// Objects by namespace, `apiVersion`, kind and name.
#[derive(Default)]
pub struct World {
    pub stacks: Vec<Stack>,
    objects: BTreeMap<(String, String, String, String), Value>,
    secrets: BTreeMap<(String, String), windlass_api::Secret>,
}

/// The text of a file, or of stdin for `-`.
///
/// # Errors
/// `File`.
pub fn read(file: &Path) -> Result<String> {
    if file == Path::new("-") {
        let mut text = String::new();
        std::io::stdin().lock().read_to_string(&mut text).at(file)?;
        return Ok(text);
    }
    std::fs::read_to_string(file).at(file)
}

/// Every document of YAML or JSON text, lists taken apart.
///
/// # Errors
/// `BadFile` with the place of the mistake.
pub fn documents(file: &Path, text: &str) -> Result<Vec<Value>> {
    // A snippet would quote the file, which may hold secrets.
    let options = serde_saphyr::options! { with_snippet: false };
    let parsed: Vec<Value> =
        serde_saphyr::from_multiple_with_options(text, options).map_err(|error| {
            Error::BadFile {
                path: file.to_owned(),
                message: format!("not valid YAML: {error}"),
            }
        })?;
    let mut documents = Vec::new();
    for document in parsed {
        match document {
            Value::Null => {}
            Value::Object(mut list) if list.get("items").is_some_and(Value::is_array) => {
                if let Some(Value::Array(items)) = list.remove("items") {
                    documents.extend(items);
                }
            }
            other => documents.push(other),
        }
    }
    Ok(documents)
}

impl World {
    /// # Errors
    /// `Arguments` with every mistake in the manifests, each with its place.
    pub fn read(file: &Path) -> Result<World> {
        let text = read(file)?;
        let found = manifest::parse(&file.display().to_string(), &text);
        if !found.errors.is_empty() {
            let lines: Vec<String> = found.errors.iter().map(ToString::to_string).collect();
            return Err(Error::Arguments(lines.join("\n")));
        }
        for warning in &found.warnings {
            tracing::warn!("{warning}");
        }
        let mut world = World::default();
        for document in documents(file, &text)? {
            let (Some(version), Some(kind)) = (
                text_at(&document, "/apiVersion"),
                text_at(&document, "/kind"),
            ) else {
                continue;
            };
            let namespace = text_at(&document, "/metadata/namespace").unwrap_or("default");
            let name = text_at(&document, "/metadata/name").unwrap_or_default();
            let key = (
                namespace.to_owned(),
                version.to_owned(),
                kind.to_owned(),
                name.to_owned(),
            );
            world.objects.insert(key, document);
        }
        for located in found.objects {
            match located.manifest {
                Manifest::Stack(stack) => world.stacks.push(*stack),
                Manifest::Secret(secret) => {
                    let namespace = secret.metadata.namespace.clone();
                    let name = secret.metadata.name.clone().unwrap_or_default();
                    let key = (namespace.unwrap_or_else(|| "default".to_owned()), name);
                    world.secrets.insert(key, *secret);
                }
                Manifest::Program(_)
                | Manifest::Workspace(_)
                | Manifest::Update(_)
                | Manifest::ConfigMap(_) => {}
            }
        }
        Ok(world)
    }

    /// The Stack of this name, or the first.
    ///
    /// # Errors
    /// `Arguments` if there is none.
    pub fn stack(&self, file: &Path, wanted: Option<&Key>) -> Result<&Stack> {
        let found = match wanted {
            None => self.stacks.first(),
            Some(key) => self.stacks.iter().find(|stack| &key_of(stack) == key),
        };
        found.ok_or_else(|| {
            let what = wanted.map_or("a Stack".to_owned(), |key| format!("a Stack {key}"));
            Error::Arguments(format!("{}: there is not {what} in it", file.display()))
        })
    }
}

/// Namespace and name of a Stack.
pub fn key_of(stack: &Stack) -> Key {
    let metadata = &stack.metadata;
    Key::new(
        metadata.namespace.as_deref().unwrap_or("default"),
        metadata.name.as_deref().unwrap_or_default(),
    )
}

fn text_at<'a>(value: &'a Value, pointer: &str) -> Option<&'a str> {
    value.pointer(pointer)?.as_str()
}

/// Answers from a [`World`]; Git and HTTP for real.
pub struct Answers {
    world: World,
    fetcher: Fetcher,
    http: HttpClient,
    _store: tempfile::TempDir,
}

impl Answers {
    /// # Errors
    /// If there is no place for temporary files.
    pub fn new(world: World) -> Result<Answers> {
        let store = tempfile::tempdir()?;
        let (program, args) = place::fetch_worker()?;
        let mut config = FetchConfig::new(store.path(), WorkerCommand { program, args });
        config.allow_file_urls = true;
        config.allow_loopback = true;
        let fetcher = Fetcher::new(config).map_err(|error| Error::Arguments(error.to_string()))?;
        Ok(Answers {
            world,
            fetcher,
            http: HttpClient::new(plugins::network()),
            _store: store,
        })
    }
}

impl Outside for Answers {
    fn kube_get<'a>(
        &'a self,
        scope: &'a Scope,
        object: &'a ObjectRef,
    ) -> BoxFuture<'a, std::result::Result<Option<Value>, Fault>> {
        let key = (
            scope.namespace.clone(),
            object.api_version.clone(),
            object.kind.clone(),
            object.name.clone(),
        );
        let found = self.world.objects.get(&key).cloned();
        Box::pin(async move { Ok(found) })
    }

    fn secret<'a>(
        &'a self,
        scope: &'a Scope,
        name: &'a str,
        key: &'a str,
    ) -> BoxFuture<'a, std::result::Result<SecretValue, Fault>> {
        let place = (scope.namespace.clone(), name.to_owned());
        let found = match self.world.secrets.get(&place) {
            None => SecretValue::NoSecret,
            Some(secret) => match secret.get(key) {
                None => SecretValue::NoKey,
                Some(bytes) => SecretValue::Value(Zeroizing::new(bytes.to_vec())),
            },
        };
        Box::pin(async move { Ok(found) })
    }

    fn git_refs<'a>(
        &'a self,
        _: &'a Scope,
        url: &'a Checked,
        prefixes: &'a [String],
        credential: Option<&'a Credential>,
    ) -> BoxFuture<'a, std::result::Result<Vec<GitRef>, Fault>> {
        let request = RefsRequest {
            url: url.url.to_string(),
            prefixes: prefixes.to_vec(),
            credential: credential.map(for_fetch),
        };
        Box::pin(async move {
            let refs = self.fetcher.refs(request).await.map_err(|error| Fault {
                class: class(error.class()),
                reason: error.reason(),
                message: error.to_string(),
                retry_after_ms: None,
            })?;
            Ok(refs.iter().map(git_ref).collect())
        })
    }

    fn http_send<'a>(
        &'a self,
        _: &'a Scope,
        request: &'a HttpRequest,
        url: &'a Checked,
        credential: Option<&'a Credential>,
        grants: &'a Grants,
        longest: usize,
    ) -> BoxFuture<'a, std::result::Result<HttpResponse, Fault>> {
        Box::pin(self.http.send(request, url, credential, grants, longest))
    }
}

fn for_fetch(credential: &Credential) -> windlass_fetch::Credential {
    match credential {
        Credential::Basic { username, password } => windlass_fetch::Credential::Basic {
            user: username.to_string(),
            pass: password.to_string(),
        },
        Credential::Bearer { token } => windlass_fetch::Credential::Bearer {
            token: token.to_string(),
        },
        Credential::Header { name, value } => windlass_fetch::Credential::Header {
            name: name.clone(),
            value: value.to_string(),
        },
        Credential::SshKey {
            private_key,
            passphrase,
            known_hosts,
        } => windlass_fetch::Credential::SshKey {
            private_key: private_key.to_string(),
            passphrase: passphrase.as_ref().map(|text| text.to_string()),
            known_hosts: known_hosts.as_ref().map(|text| text.to_string()),
        },
    }
}

fn git_ref(found: &windlass_fetch::RemoteRef) -> GitRef {
    let windlass_fetch::RemoteRef { name, oid, peeled } = found.clone();
    GitRef { name, oid, peeled }
}

fn class(class: windlass_fetch::ErrorClass) -> ErrorClass {
    match class {
        windlass_fetch::ErrorClass::Unavailable => ErrorClass::Unavailable,
        windlass_fetch::ErrorClass::Denied => ErrorClass::Denied,
        windlass_fetch::ErrorClass::NotFound => ErrorClass::NotFound,
        windlass_fetch::ErrorClass::Invalid | windlass_fetch::ErrorClass::Limit => {
            ErrorClass::Invalid
        }
    }
}
