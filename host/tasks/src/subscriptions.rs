//! Which repositories Stacks watch: one poll for the whole fleet, and who is to be told of news.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::OnceCell;
use tokio::time::Instant;
use windlass_engine::{Handle, Key};
use windlass_fetch::{
    ErrorClass as FetchClass, FetchError, Pace, PollRequest, Poller, Subscription,
};
use windlass_sdk::{ErrorClass, Fault, GitRef};
use windlass_wasm::Credential;

/// How often a repository is looked at until its Stack's source says: the shortest interval that a Stack can ask for.
const POLL: Duration = Duration::from_secs(60);
/// A failure younger than this is not asked for again: many may try at the same time.
const FRESH: Duration = Duration::from_secs(5);
/// The same for a reference that is not followed. What is known of it serves other Stacks.
const RARELY: Duration = Duration::from_secs(24 * 3600);

/// What Stacks watch.
pub struct Subscriptions {
    poller: Poller,
    handle: OnceCell<Handle>,
    watched: Mutex<HashMap<Key, Watched>>,
}

/// What a Stack's source watches.
struct Watched {
    url: String,
    prefixes: Vec<String>,
    subscription: Arc<tokio::sync::Mutex<Subscription>>,
    credential: Option<windlass_fetch::Credential>,
    paces: [Pace; 2],
    /// Its next answer is not to come from a look that began before this.
    asked: Option<Instant>,
    /// Ends with this entry.
    follower: tokio::task::AbortHandle,
}

impl Drop for Watched {
    fn drop(&mut self) {
        self.follower.abort();
    }
}

impl Subscriptions {
    pub fn new(poller: Poller) -> Subscriptions {
        Subscriptions {
            poller,
            handle: OnceCell::new(),
            watched: Mutex::default(),
        }
    }

    /// The next answer about this Stack's repository is not to come from a look that began before now.
    pub fn look_afresh(&self, key: &Key) {
        let mut watched = self.watched.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(watched) = watched.get_mut(key) {
            watched.asked = Some(Instant::now());
        }
    }

    /// Whom to tell that a repository has changed.
    pub fn tells(&self, handle: Handle) {
        let _ = self.handle.set(handle);
    }

    /// The refs of a repository as the fleet's poller knows them; the Stack hears of changes from now on.
    ///
    /// # Errors
    /// The repository does not answer, or refuses.
    pub async fn refs(
        &self,
        key: Key,
        url: &str,
        prefixes: &[String],
        credential: Option<&Credential>,
    ) -> Result<Vec<GitRef>, Fault> {
        let credential = credential.map(fetch_credential);
        let refs = self
            .known(key, url, prefixes, credential)
            .await
            .map_err(|error| fetch_fault(&error))?;
        Ok(refs
            .iter()
            .map(|found| GitRef {
                name: found.name.clone(),
                oid: found.oid.clone(),
                peeled: found.peeled.clone(),
            })
            .collect())
    }

    async fn known(
        &self,
        key: Key,
        url: &str,
        prefixes: &[String],
        credential: Option<windlass_fetch::Credential>,
    ) -> Result<Arc<Vec<windlass_fetch::RemoteRef>>, FetchError> {
        let known = {
            let mut watched = self.watched.lock().unwrap_or_else(PoisonError::into_inner);
            watched
                .get_mut(&key)
                .filter(|w| w.url == url && w.prefixes == prefixes && w.credential == credential)
                .map(|w| (Arc::clone(&w.subscription), w.asked.take()))
        };
        let new = known.is_none();
        let (subscription, asked) = match known {
            Some(known) => known,
            None => (self.subscribe(key, url, prefixes, credential)?, None),
        };
        let mut subscription = subscription.lock().await;
        let now = subscription.current();
        let fresh = now.looked.is_some_and(|at| at.elapsed() < FRESH);
        let outdated = asked.is_some_and(|asked| now.began.is_none_or(|began| began < asked));
        let state = match &now.refs {
            None => subscription.changed().await,
            // Others have just heard the same. A person who asks is answered anew.
            Some(Err(_)) if fresh && !outdated => now,
            Some(Err(_)) => subscription.look_again().await,
            // What others knew a while ago may lack what this one was made for.
            Some(Ok(_)) if outdated || (new && !fresh) => subscription.look_again().await,
            Some(Ok(_)) => now,
        };
        match state.refs {
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
        let first = self.poller.subscribe(request())?;
        let mut news = self.poller.subscribe(request())?;
        let paces = [first.pace(), news.pace()];
        let subscription = Arc::new(tokio::sync::Mutex::new(first));
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
            paces,
            asked: None,
            follower,
        };
        self.watched
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(key, watched);
        Ok(subscription)
    }

    /// How often a Stack's source wants its repository to be looked at; none: it follows nothing there.
    pub fn pace(&self, key: &Key, interval: Option<Duration>) {
        let watched = self.watched.lock().unwrap_or_else(PoisonError::into_inner);
        for pace in watched.get(key).into_iter().flat_map(|one| &one.paces) {
            pace.set(interval.unwrap_or(RARELY));
        }
    }

    /// The Stack is gone: nobody watches for it.
    pub fn forget(&self, key: &Key) {
        self.watched
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .remove(key);
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

/// A failed fetch in the words of the plugin contract.
pub fn fetch_fault(error: &FetchError) -> Fault {
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
