//! Watches refs: each (repository, credential) is asked once for everybody who
//! wants to know, at the smallest interval that anybody asked for.

use std::collections::{BTreeSet, HashMap};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use futures::future::BoxFuture;
use tokio::sync::{Notify, watch};
use tokio::time::Instant;

use crate::access::Reader;
use crate::credential::Credential;
use crate::error::FetchError;
use crate::fetcher::Fetcher;
use crate::request::RefsRequest;
use crate::wire::RemoteRef;

/// Longest pause after failures, unless the interval itself is longer.
const MAX_BACKOFF: Duration = Duration::from_secs(600);
/// Shortest interval that is honoured.
const MIN_INTERVAL: Duration = Duration::from_secs(1);

/// What somebody wants to watch.
#[derive(Debug, Clone)]
pub struct PollRequest {
    pub url: String,
    /// As in [`RefsRequest`].
    pub prefixes: Vec<String>,
    pub credential: Option<Credential>,
    /// Time between two looks, at least one second.
    pub interval: Duration,
}

/// What a repository was like when last looked at.
#[derive(Debug, Clone)]
pub struct PollState {
    /// The refs, or why they are not known; `None` before the first look.
    pub refs: Option<Result<Arc<Vec<RemoteRef>>, FetchError>>,
    /// Looks so far.
    pub polls: u64,
    /// When the last look that is over began; `None` before it.
    pub began: Option<Instant>,
    /// When the last look ended; `None` before it.
    pub looked: Option<Instant>,
}

type Lister = dyn Fn(RefsRequest) -> BoxFuture<'static, Result<Arc<Vec<RemoteRef>>, FetchError>>
    + Send
    + Sync;

/// Looks at repositories for a whole fleet.
#[derive(Clone)]
pub struct Poller {
    shared: Arc<Shared>,
}

struct Shared {
    fetcher: Fetcher,
    list: Box<Lister>,
    groups: Mutex<HashMap<Reader, Arc<Group>>>,
}

/// Everybody who watches one repository with one credential.
struct Group {
    url: String,
    credential: Option<Credential>,
    members: Mutex<Members>,
    state: watch::Sender<PollState>,
    /// Something changed that may bring the next look forward.
    wake: Notify,
    /// Counts the looks, also those that bring no news.
    looks: watch::Sender<u64>,
}

#[derive(Default)]
struct Members {
    next_id: u64,
    wanted: HashMap<u64, Wanted>,
    /// A look is wanted now.
    due: bool,
    /// Prefixes of the last look; `None` before it.
    covered: Option<BTreeSet<String>>,
}

struct Wanted {
    prefixes: BTreeSet<String>,
    interval: Duration,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Poller {
    /// A poller that asks through this fetcher. Must be used within a tokio runtime.
    pub fn new(fetcher: Fetcher) -> Self {
        let asking = fetcher.clone();
        let list = move |request| -> BoxFuture<'static, _> {
            let fetcher = asking.clone();
            Box::pin(async move { fetcher.refs(request).await })
        };
        Poller {
            shared: Arc::new(Shared {
                fetcher,
                list: Box::new(list),
                groups: Mutex::default(),
            }),
        }
    }

    /// Starts watching. Dropping the subscription ends it.
    ///
    /// # Errors
    /// When the address or the credential cannot be used.
    pub fn subscribe(&self, request: PollRequest) -> Result<Subscription, FetchError> {
        let PollRequest {
            url,
            prefixes,
            credential,
            interval,
        } = request;
        let reader = self.shared.fetcher.reader(&url, credential.as_ref())?;
        let wanted = Wanted {
            prefixes: prefixes.into_iter().collect(),
            interval: interval.max(MIN_INTERVAL),
        };
        let mut groups = locked(&self.shared.groups);
        let (group, new) = match groups.get(&reader) {
            Some(group) => (Arc::clone(group), false),
            None => {
                let (state, _) = watch::channel(PollState {
                    refs: None,
                    polls: 0,
                    began: None,
                    looked: None,
                });
                let url = reader.address.as_str().to_owned();
                let (members, wake) = (Mutex::default(), Notify::new());
                let group = Arc::new(Group {
                    url,
                    credential,
                    members,
                    state,
                    wake,
                    looks: watch::channel(0).0,
                });
                groups.insert(reader.clone(), Arc::clone(&group));
                (group, true)
            }
        };
        let id = group.join(wanted);
        drop(groups);
        let mut receiver = group.state.subscribe();
        // What is known already is news to this one.
        receiver.mark_changed();
        if new {
            tokio::spawn(run(Arc::downgrade(&self.shared), Arc::clone(&group)));
        }
        Ok(Subscription {
            receiver,
            id,
            reader,
            group,
            shared: Arc::downgrade(&self.shared),
        })
    }

    /// Looks at a repository now, whoever watches it: a webhook said that it changed.
    pub fn poll_now(&self, url: &str) {
        for (reader, group) in locked(&self.shared.groups).iter() {
            if reader.address.as_str() == url {
                locked(&group.members).due = true;
                group.wake.notify_one();
            }
        }
    }
}

impl Group {
    fn join(&self, wanted: Wanted) -> u64 {
        let mut members = locked(&self.members);
        let id = members.next_id;
        members.next_id += 1;
        if let Some(covered) = &members.covered
            && !covers(covered, &wanted.prefixes)
        {
            members.due = true;
        }
        members.wanted.insert(id, wanted);
        self.wake.notify_one();
        id
    }

    /// What the next look asks for: empty for all refs.
    fn prefixes(&self) -> BTreeSet<String> {
        let members = locked(&self.members);
        if members.wanted.values().any(|one| one.prefixes.is_empty()) {
            return BTreeSet::new();
        }
        members
            .wanted
            .values()
            .flat_map(|one| one.prefixes.iter().cloned())
            .collect()
    }

    /// The pause after look number `polls`; `None` to look now.
    fn pause(&self, polls: u64, failures: u32) -> Option<Duration> {
        let members = locked(&self.members);
        if members.due {
            return None;
        }
        let interval = members
            .wanted
            .values()
            .map(|one| one.interval)
            .min()
            .unwrap_or(MAX_BACKOFF);
        let longest = MAX_BACKOFF.max(interval);
        let backed_off = interval
            .saturating_mul(1u32.checked_shl(failures).unwrap_or(u32::MAX))
            .min(longest);
        Some(spread(&self.url, polls, backed_off))
    }
}

/// Whether everything in `wanted` is asked for by `covered`.
fn covers(covered: &BTreeSet<String>, wanted: &BTreeSet<String>) -> bool {
    let by = |prefix: &String| covered.iter().any(|one| prefix.starts_with(one));
    covered.is_empty() || (!wanted.is_empty() && wanted.iter().all(by))
}

/// The pause, 10 % more or less by a hash, so that repositories do not fall into step.
fn spread(url: &str, polls: u64, pause: Duration) -> Duration {
    let mut hash = DefaultHasher::new();
    (url, polls).hash(&mut hash);
    let permille = 900 + hash.finish() % 200;
    pause.mul_f64(permille as f64 / 1000.0)
}

/// Looks at one repository until nobody watches it.
async fn run(shared: Weak<Shared>, group: Arc<Group>) {
    let mut polls = 0;
    let mut failures = 0;
    loop {
        let prefixes = group.prefixes();
        {
            let mut members = locked(&group.members);
            members.due = false;
            members.covered = Some(prefixes.clone());
        }
        let asking = {
            let Some(shared) = shared.upgrade() else {
                return;
            };
            (shared.list)(RefsRequest {
                url: group.url.clone(),
                prefixes: prefixes.into_iter().collect(),
                credential: group.credential.clone(),
            })
        };
        let looked = Instant::now();
        let refs = asking.await;
        if let Some(shared) = shared.upgrade() {
            shared.fetcher.polled(refs.is_ok());
        }
        polls += 1;
        failures = if refs.is_ok() {
            0
        } else {
            (failures + 1).min(16)
        };
        group.state.send_if_modified(|state| {
            state.polls = polls;
            state.began = Some(looked);
            state.looked = Some(Instant::now());
            let news = state.refs.as_ref() != Some(&refs);
            if news {
                state.refs = Some(refs);
            }
            news
        });
        group.looks.send_replace(polls);
        while let Some(pause) = group.pause(polls, failures) {
            if locked(&group.members).wanted.is_empty() {
                return;
            }
            tokio::select! {
                () = tokio::time::sleep_until(looked + pause) => break,
                () = group.wake.notified() => {}
            }
        }
        if locked(&group.members).wanted.is_empty() {
            return;
        }
    }
}

/// Somebody's interest in a repository.
pub struct Subscription {
    receiver: watch::Receiver<PollState>,
    id: u64,
    reader: Reader,
    group: Arc<Group>,
    shared: Weak<Shared>,
}

impl Subscription {
    /// Waits until the refs, or why they are not known, are other than last seen
    /// here; at first, until they were looked at.
    pub async fn changed(&mut self) -> PollState {
        loop {
            if self.receiver.changed().await.is_err() {
                // Cannot happen while the group is held; waiting is harmless.
                std::future::pending::<()>().await;
            }
            let state = self.receiver.borrow_and_update().clone();
            if state.refs.is_some() {
                return state;
            }
        }
    }

    /// By which the interval can be changed.
    pub fn pace(&self) -> Pace {
        Pace {
            id: self.id,
            group: Arc::downgrade(&self.group),
        }
    }

    /// Has the repository looked at now, whatever the interval, and waits for what comes of it. A look that goes on has
    /// begun too early; whoever asks meanwhile shares the next.
    pub async fn look_again(&mut self) -> PollState {
        let asked = Instant::now();
        let mut looks = self.group.looks.subscribe();
        locked(&self.group.members).due = true;
        self.group.wake.notify_one();
        loop {
            // It cannot end before this subscription does.
            let _ = looks.changed().await;
            let state = self.receiver.borrow_and_update().clone();
            if state.began.is_some_and(|began| began >= asked) {
                return state;
            }
        }
    }

    /// What is known now.
    pub fn current(&self) -> PollState {
        self.receiver.borrow().clone()
    }
}

/// Changes how often somebody's repository is looked at. Does nothing once the subscription has ended.
#[derive(Clone)]
pub struct Pace {
    id: u64,
    group: Weak<Group>,
}

impl Pace {
    /// Time between two looks from now on, at least one second; others may want the same repository more often.
    pub fn set(&self, interval: Duration) {
        let Some(group) = self.group.upgrade() else {
            return;
        };
        if let Some(wanted) = locked(&group.members).wanted.get_mut(&self.id) {
            wanted.interval = interval.max(MIN_INTERVAL);
        }
        group.wake.notify_one();
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        let shared = self.shared.upgrade();
        // Groups before members, as in `subscribe`, so that nobody joins a dead group.
        let mut groups = shared.as_ref().map(|shared| locked(&shared.groups));
        let mut members = locked(&self.group.members);
        members.wanted.remove(&self.id);
        if members.wanted.is_empty()
            && let Some(groups) = &mut groups
        {
            groups.remove(&self.reader);
        }
        drop(members);
        self.group.wake.notify_one();
    }
}
