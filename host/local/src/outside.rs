//! Answers to the questions of plugins, from the store and the fleet's poller.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::future::BoxFuture;
use serde_json::Value;
use tokio::sync::OnceCell;
use windlass_api::secret::Secret;
use windlass_engine::{Handle, Key};
use windlass_fetch::{ErrorClass as FetchClass, FetchError, PollRequest, Poller, Subscription};
use windlass_sdk::{ErrorClass, Fault, GitRef, HttpRequest, HttpResponse, ObjectRef};
use windlass_wasm::outside::http::HttpClient;
use windlass_wasm::{Checked, Credential, Grants, Outside, Scope, SecretValue};
use zeroize::Zeroizing;

use crate::db::{Db, DbError, kind};

/// How often a repository is looked at: the shortest interval that a Stack can ask for.
const POLL: Duration = Duration::from_secs(60);

pub struct LocalOutside {
    db: Arc<Db>,
    poller: Poller,
    http: HttpClient,
    handle: OnceCell<Handle>,
    watched: Mutex<HashMap<Key, Watched>>,
}

/// What a Stack's source watches.
struct Watched {
    url: String,
    prefixes: Vec<String>,
    subscription: Arc<tokio::sync::Mutex<Subscription>>,
    credential: Option<windlass_fetch::Credential>,
    /// Ends with this entry.
    follower: tokio::task::AbortHandle,
}

impl Drop for Watched {
    fn drop(&mut self) {
        self.follower.abort();
    }
}

impl LocalOutside {
    pub fn new(db: Arc<Db>, poller: Poller, http: HttpClient) -> LocalOutside {
        LocalOutside {
            db,
            poller,
            http,
            handle: OnceCell::new(),
            watched: Mutex::default(),
        }
    }

    /// Whom to tell that a repository has changed.
    pub fn tells(&self, handle: Handle) {
        let _ = self.handle.set(handle);
    }

    /// The refs of a repository as the fleet's poller knows them; the Stack hears of changes from now on.
    async fn refs(
        &self,
        key: Key,
        url: &str,
        prefixes: &[String],
        credential: Option<windlass_fetch::Credential>,
    ) -> Result<Arc<Vec<windlass_fetch::RemoteRef>>, FetchError> {
        let known = {
            let watched = self.watched.lock().unwrap_or_else(PoisonError::into_inner);
            watched
                .get(&key)
                .filter(|w| w.url == url && w.prefixes == prefixes && w.credential == credential)
                .map(|w| Arc::clone(&w.subscription))
        };
        let subscription = match known {
            Some(subscription) => subscription,
            None => self.subscribe(key, url, prefixes, credential)?,
        };
        let mut subscription = subscription.lock().await;
        if let Some(Ok(refs)) = subscription.current().refs {
            return Ok(refs);
        }
        match subscription.changed().await.refs {
            Some(known) => known,
            None => Err(FetchError::WorkerFailed {
                detail: "the poller has no answer".into(),
            }),
        }
    }

    fn subscribe(
        &self,
        key: Key,
        url: &str,
        prefixes: &[String],
        credential: Option<windlass_fetch::Credential>,
    ) -> Result<Arc<tokio::sync::Mutex<Subscription>>, FetchError> {
        let request = || PollRequest {
            url: url.to_owned(),
            prefixes: prefixes.to_vec(),
            credential: credential.clone(),
            interval: POLL,
        };
        let subscription = Arc::new(tokio::sync::Mutex::new(self.poller.subscribe(request())?));
        let mut news = self.poller.subscribe(request())?;
        let handle = self.handle.get().cloned();
        let told = key.clone();
        let follower = tokio::spawn(async move {
            // The first answer goes to whoever asks; what comes after it is news.
            news.changed().await;
            loop {
                news.changed().await;
                if let Some(handle) = &handle {
                    handle.source_changed(told.clone());
                }
            }
        })
        .abort_handle();
        let watched = Watched {
            url: url.to_owned(),
            prefixes: prefixes.to_vec(),
            subscription: Arc::clone(&subscription),
            credential,
            follower,
        };
        self.watched
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(key, watched);
        Ok(subscription)
    }

    /// The Stack is gone: nobody watches for it.
    pub fn forget(&self, key: &Key) {
        self.watched
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .remove(key);
    }
}

impl Outside for LocalOutside {
    fn kube_get<'a>(
        &'a self,
        scope: &'a Scope,
        object: &'a ObjectRef,
    ) -> BoxFuture<'a, Result<Option<Value>, Fault>> {
        Box::pin(async move {
            let kind = match object.group_kind().as_str() {
                "pulumi.com/Program" => kind::PROGRAM,
                "pulumi.com/Stack" => kind::STACK,
                "/ConfigMap" => kind::CONFIG_MAP,
                other => return Err(only_on_a_cluster(other)),
            };
            let found = self
                .db
                .get::<Value>(kind, &scope.namespace, &object.name)
                .map_err(store_fault)?;
            Ok(found.map(|stored| {
                let mut value = stored.object;
                value["metadata"]["resourceVersion"] = Value::String(stored.version.to_string());
                value
            }))
        })
    }

    fn secret<'a>(
        &'a self,
        scope: &'a Scope,
        name: &'a str,
        key: &'a str,
    ) -> BoxFuture<'a, Result<SecretValue, Fault>> {
        Box::pin(async move {
            let stored = self
                .db
                .get::<Secret>(kind::SECRET, &scope.namespace, name)
                .map_err(store_fault)?;
            Ok(match stored {
                None => SecretValue::NoSecret,
                Some(stored) => match stored.object.get(key) {
                    None => SecretValue::NoKey,
                    Some(value) => SecretValue::Value(Zeroizing::new(value.to_vec())),
                },
            })
        })
    }

    fn git_refs<'a>(
        &'a self,
        scope: &'a Scope,
        url: &'a Checked,
        prefixes: &'a [String],
        credential: Option<&'a Credential>,
    ) -> BoxFuture<'a, Result<Vec<GitRef>, Fault>> {
        Box::pin(async move {
            let key = Key::new(&scope.namespace, &scope.object);
            let credential = credential.map(fetch_credential);
            let refs = self
                .refs(key, url.url.as_str(), prefixes, credential)
                .await
                .map_err(|e| fetch_fault(&e))?;
            Ok(refs
                .iter()
                .map(|found| GitRef {
                    name: found.name.clone(),
                    oid: found.oid.clone(),
                    peeled: found.peeled.clone(),
                })
                .collect())
        })
    }

    fn http_send<'a>(
        &'a self,
        _scope: &'a Scope,
        request: &'a HttpRequest,
        url: &'a Checked,
        credential: Option<&'a Credential>,
        grants: &'a Grants,
        longest: usize,
    ) -> BoxFuture<'a, Result<HttpResponse, Fault>> {
        Box::pin(self.http.send(request, url, credential, grants, longest))
    }
}

/// The same credential in the words of the fetcher.
pub fn fetch_credential(credential: &Credential) -> windlass_fetch::Credential {
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

fn fetch_fault(error: &FetchError) -> Fault {
    let class = match error.class() {
        FetchClass::Unavailable => ErrorClass::Unavailable,
        FetchClass::Denied => ErrorClass::Denied,
        FetchClass::NotFound => ErrorClass::NotFound,
        FetchClass::Invalid | FetchClass::Limit => ErrorClass::Invalid,
    };
    Fault {
        class,
        reason: error.reason(),
        message: error.to_string(),
        retry_after_ms: None,
    }
}

/// Nothing else exists here, nor ever will: waiting would help nobody.
fn only_on_a_cluster(kind: &str) -> Fault {
    Fault {
        class: ErrorClass::Invalid,
        reason: "ClusterRequired".into(),
        message: format!(
            "objects of kind {kind} exist only on a cluster; on one machine name the repository itself (spec.projectRepo) or a Program"
        ),
        retry_after_ms: None,
    }
}

fn store_fault(error: DbError) -> Fault {
    Fault {
        class: ErrorClass::Unavailable,
        reason: "StoreUnavailable".into(),
        message: error.to_string(),
        retry_after_ms: None,
    }
}

/// Files of a program, checked to lie below its root.
pub fn files(files: Vec<windlass_sdk::File>) -> BTreeMap<String, Vec<u8>> {
    files
        .into_iter()
        .map(|file| (file.path, file.content))
        .collect()
}
