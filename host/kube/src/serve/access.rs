//! Who may read what is not an object: asked of the API server, as kube-rbac-proxy and controller-runtime ask.
//!
//! A TokenReview says whose a token is, a SubjectAccessReview whether that user may. Answers are kept for a short while, by
//! a hash of the token, and no more than a bounded number of them.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use k8s_openapi::api::authentication::v1::{TokenReview, TokenReviewSpec, UserInfo};
use k8s_openapi::api::authorization::v1::{
    NonResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec,
};
use kube::Api;
use kube::api::PostParams;
use sha2::{Digest, Sha256};
use tokio::sync::Semaphore;

use crate::api::{ApiError, Cluster};

/// How long it is believed that somebody may, and that somebody may not.
const ALLOWED_FOR: Duration = Duration::from_secs(60);
const REFUSED_FOR: Duration = Duration::from_secs(10);
/// Answers kept at most.
const KEPT: usize = 256;
/// Questions under way at most: strangers with new tokens shall not be the API server's worst client.
const QUESTIONS: usize = 4;
/// No token of a cluster is longer.
const LONGEST_TOKEN: usize = 16 << 10;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    Allowed,
    Forbidden,
    /// No token, or none that the cluster knows.
    Unauthenticated,
}

/// Asks, and remembers for a while.
pub struct Access {
    cluster: Cluster,
    known: Mutex<Known>,
    questions: Semaphore,
}

impl Access {
    pub fn new(cluster: Cluster) -> Access {
        Access {
            cluster,
            known: Mutex::default(),
            questions: Semaphore::new(QUESTIONS),
        }
    }

    /// Whether the bearer of the token may do `verb` (as RBAC names it) with the URL.
    ///
    /// # Errors
    /// The API server does not say.
    pub async fn verdict(
        &self,
        token: Option<&str>,
        path: &str,
        verb: &str,
    ) -> Result<Verdict, ApiError> {
        let Some(token) = token.filter(|token| token.len() <= LONGEST_TOKEN) else {
            return Ok(Verdict::Unauthenticated);
        };
        let question = fingerprint(token, path, verb);
        if let Some(verdict) = self.known().get(&question, Instant::now()) {
            return Ok(verdict);
        }
        let _question = self.questions.acquire().await;
        // The one before may have asked the same.
        if let Some(verdict) = self.known().get(&question, Instant::now()) {
            return Ok(verdict);
        }
        let verdict = match self.bearer(token).await? {
            None => Verdict::Unauthenticated,
            Some(user) => self.may(user, path, verb).await?,
        };
        self.known().put(question, verdict, Instant::now());
        Ok(verdict)
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn bearer(&self, token: &str) -> Result<Option<UserInfo>, ApiError> {
        let api: Api<TokenReview> = Api::all(self.cluster.client.clone());
        let review = TokenReview {
            spec: TokenReviewSpec {
                token: token.to_owned(),
                audiences: None,
            },
            ..TokenReview::default()
        };
        let params = PostParams::default();
        let review = self
            .cluster
            .ask::<TokenReview, _>("create", api.create(&params, &review))
            .await?;
        let status = review.status.unwrap_or_default();
        let authenticated = status.authenticated == Some(true);
        Ok(status.user.filter(|_| authenticated))
    }

    async fn may(&self, user: UserInfo, path: &str, verb: &str) -> Result<Verdict, ApiError> {
        let api: Api<SubjectAccessReview> = Api::all(self.cluster.client.clone());
        let UserInfo {
            username,
            uid,
            groups,
            extra,
        } = user;
        let review = SubjectAccessReview {
            spec: SubjectAccessReviewSpec {
                non_resource_attributes: Some(NonResourceAttributes {
                    path: Some(path.to_owned()),
                    verb: Some(verb.to_owned()),
                }),
                user: username,
                uid,
                groups,
                extra,
                ..SubjectAccessReviewSpec::default()
            },
            ..SubjectAccessReview::default()
        };
        let params = PostParams::default();
        let review = self
            .cluster
            .ask::<SubjectAccessReview, _>("create", api.create(&params, &review))
            .await?;
        let allowed = review.status.is_some_and(|status| status.allowed);
        Ok(if allowed {
            Verdict::Allowed
        } else {
            Verdict::Forbidden
        })
    }
}

type Fingerprint = [u8; 32];

/// Tokens are not kept, only what tells them apart.
fn fingerprint(token: &str, path: &str, verb: &str) -> Fingerprint {
    let mut hash = Sha256::new();
    for part in [path, verb, token] {
        hash.update(part.len().to_le_bytes());
        hash.update(part);
    }
    hash.finalize().into()
}

/// What was answered, until when.
#[derive(Default)]
struct Known(HashMap<Fingerprint, (Verdict, Instant)>);

impl Known {
    fn get(&self, question: &Fingerprint, now: Instant) -> Option<Verdict> {
        let (verdict, until) = self.0.get(question)?;
        (now < *until).then_some(*verdict)
    }

    fn put(&mut self, question: Fingerprint, verdict: Verdict, now: Instant) {
        let lasts = match verdict {
            Verdict::Allowed => ALLOWED_FOR,
            Verdict::Forbidden | Verdict::Unauthenticated => REFUSED_FOR,
        };
        if self.0.len() >= KEPT {
            self.0.retain(|_, (_, until)| now < *until);
        }
        if self.0.len() >= KEPT {
            // Refusals can be had by the thousand: who may read stays known.
            self.0
                .retain(|_, (verdict, _)| *verdict == Verdict::Allowed);
        }
        if self.0.len() < KEPT {
            self.0.insert(question, (verdict, now + lasts));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_end_and_are_bounded_and_a_flood_of_refusals_does_not_push_out_who_may() {
        let now = Instant::now();
        let mut known = Known::default();
        let scraper = fingerprint("scraper", "/metrics", "get");
        known.put(scraper, Verdict::Allowed, now);
        for stranger in 0..2 * KEPT {
            let token = stranger.to_string();
            known.put(
                fingerprint(&token, "/metrics", "get"),
                Verdict::Unauthenticated,
                now,
            );
        }
        assert!(known.0.len() <= KEPT);
        assert_eq!(known.get(&scraper, now), Some(Verdict::Allowed));
        assert_eq!(known.get(&scraper, now + ALLOWED_FOR), None);
    }

    #[test]
    fn questions_are_told_apart_by_every_part() {
        let all = [
            fingerprint("ab", "c", "get"),
            fingerprint("a", "bc", "get"),
            fingerprint("ab", "c", "head"),
        ];
        assert!(all[0] != all[1] && all[1] != all[2] && all[0] != all[2]);
    }
}
