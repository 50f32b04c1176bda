//! Secrets that sources follow, such as the credentials of a repository. They are neither listed nor watched: their metadata
//! is looked at, one by one, so seldom that it does not matter how many there are.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use k8s_openapi::api::core::v1::Secret;
use tokio::sync::Notify;

use crate::api::Cluster;
use crate::world::{Followed, World};

/// How often each of a few Secrets is looked at.
const PERIOD: Duration = Duration::from_secs(30);
/// The least time between two looks: of many Secrets, each is looked at less often.
const PAUSE: Duration = Duration::from_secs(1);

/// Whether something that is followed is a Secret.
pub fn is_secret(followed: &Followed) -> bool {
    followed.api_version == "v1" && followed.kind == "Secret"
}

/// What was seen of the Secrets that are followed.
#[derive(Default)]
pub struct Secrets {
    /// The version; none: there is no such Secret.
    seen: Mutex<BTreeMap<Followed, Option<String>>>,
    new: Notify,
}

impl Secrets {
    fn seen(&self) -> MutexGuard<'_, BTreeMap<Followed, Option<String>>> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// One more is followed: it is looked at soon.
    pub fn follow(&self) {
        self.new.notify_one();
    }

    /// Takes what was seen; whether it differs from what was seen before.
    fn take(&self, followed: &Followed, version: Option<String>) -> bool {
        let before = self.seen().insert(followed.clone(), version.clone());
        before.is_some_and(|before| before != version)
    }

    /// Looks at the Secrets and asks the sources again that follow one that has changed. Never returns; meant to be
    /// spawned.
    pub async fn keep(self: Arc<Self>, cluster: Cluster, world: Arc<World>) {
        loop {
            let followed: Vec<Followed> = world.followed().into_iter().filter(is_secret).collect();
            self.seen().retain(|name, _| followed.contains(name));
            let Ok(count @ 1..) = u32::try_from(followed.len()) else {
                self.new.notified().await;
                continue;
            };
            let pause = (PERIOD / count).max(PAUSE);
            for secret in &followed {
                if self.seen().contains_key(secret) {
                    // Whoever is new does not wait for the others' turns.
                    let new = tokio::time::timeout(pause, self.new.notified()).await;
                    if new.is_ok() {
                        break;
                    }
                }
                self.look(secret, &cluster, &world).await;
            }
        }
    }

    async fn look(&self, secret: &Followed, cluster: &Cluster, world: &World) {
        let found = cluster
            .metadata::<Secret>(&secret.namespace, &secret.name)
            .await;
        match found {
            Ok(found) => {
                let version = found.and_then(|found| found.metadata.resource_version);
                if self.take(secret, version) {
                    world.followed_changed(secret);
                }
            }
            Err(error) => {
                tracing::debug!(namespace = secret.namespace, name = secret.name, %error, "looking at a Secret");
                tokio::time::sleep(PAUSE).await;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_differs_from_what_was_seen_is_news() {
        let secret = Followed {
            api_version: "v1".into(),
            kind: "Secret".into(),
            namespace: "apps".into(),
            name: "git".into(),
        };
        assert!(is_secret(&secret));
        let secrets = Secrets::default();
        let take = |version: Option<&str>| secrets.take(&secret, version.map(str::to_owned));
        assert!(!take(Some("1")), "the source has just read it");
        assert!(!take(Some("1")));
        assert!(take(Some("2")));
        assert!(take(None));
        assert!(!take(None));
        assert!(take(Some("3")));
    }
}
