//! Whether a Stack's service account may get an object: asked of the API server, kept for a short while.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use k8s_openapi::api::authorization::v1::{
    ResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec,
};
use kube::Api;
use kube::api::{ApiResource, PostParams};
use windlass_api::Stack;
use windlass_engine::Key;

use crate::api::{ApiError, Cluster};
use crate::world::Followed;

/// How long an answer holds; a refusal is asked again sooner, for somebody is about to mend it.
const ALLOWED: Duration = Duration::from_secs(60);
const REFUSED: Duration = Duration::from_secs(5);

type Question = (String, String, Followed);

pub struct Access {
    cluster: Cluster,
    answers: Mutex<HashMap<Question, (bool, Instant)>>,
    refused: Mutex<BTreeSet<Key>>,
}

impl Access {
    pub fn new(cluster: Cluster) -> Access {
        Access {
            cluster,
            answers: Mutex::default(),
            refused: Mutex::default(),
        }
    }

    fn answers(&self) -> MutexGuard<'_, HashMap<Question, (bool, Instant)>> {
        self.answers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn refusals(&self) -> MutexGuard<'_, BTreeSet<Key>> {
        self.refused.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// None if it may; else a sentence that says what to do.
    ///
    /// # Errors
    /// The API server does not answer.
    pub async fn may_get(
        &self,
        key: &Key,
        stack: &Stack,
        followed: &Followed,
        resource: &ApiResource,
    ) -> Result<Option<String>, ApiError> {
        let account = service_account(stack);
        let question = (key.namespace.clone(), account.clone(), followed.clone());
        let known = self.answers().get(&question).and_then(|(allowed, at)| {
            let holds = if *allowed { ALLOWED } else { REFUSED };
            (at.elapsed() < holds).then_some(*allowed)
        });
        let allowed = match known {
            Some(allowed) => allowed,
            None => {
                let allowed = self
                    .ask(&key.namespace, &account, followed, resource)
                    .await?;
                self.answers().insert(question, (allowed, Instant::now()));
                allowed
            }
        };
        if allowed {
            self.refusals().remove(key);
            return Ok(None);
        }
        self.refusals().insert(key.clone());
        Ok(Some(format!(
            "the service account {account} may not get {}; bind a role that lets it",
            resource.plural
        )))
    }

    async fn ask(
        &self,
        namespace: &str,
        account: &str,
        followed: &Followed,
        resource: &ApiResource,
    ) -> Result<bool, ApiError> {
        let group = resource.group.clone();
        let review = SubjectAccessReview {
            spec: SubjectAccessReviewSpec {
                user: Some(format!("system:serviceaccount:{namespace}:{account}")),
                groups: Some(vec![
                    "system:serviceaccounts".to_owned(),
                    format!("system:serviceaccounts:{namespace}"),
                    "system:authenticated".to_owned(),
                ]),
                resource_attributes: Some(ResourceAttributes {
                    verb: Some("get".to_owned()),
                    group: Some(group),
                    version: Some(resource.version.clone()),
                    resource: Some(resource.plural.clone()),
                    namespace: Some(followed.namespace.clone()).filter(|name| !name.is_empty()),
                    name: Some(followed.name.clone()),
                    ..ResourceAttributes::default()
                }),
                ..SubjectAccessReviewSpec::default()
            },
            ..SubjectAccessReview::default()
        };
        let api: Api<SubjectAccessReview> = Api::all(self.cluster.client.clone());
        let params = PostParams::default();
        let review = self
            .cluster
            .ask::<SubjectAccessReview, _>("create", api.create(&params, &review))
            .await?;
        Ok(review.status.is_some_and(|status| status.allowed))
    }

    /// Stacks whose service account was refused something: they are looked at again.
    pub fn refused(&self) -> Vec<Key> {
        self.refusals().iter().cloned().collect()
    }

    pub fn forget(&self, key: &Key) {
        self.refusals().remove(key);
        // Answers are of accounts, and end by themselves: what is old goes with the next one that is.
        self.answers().retain(|_, (_, at)| at.elapsed() < ALLOWED);
    }
}

/// The account that the Stack's workspace runs as.
fn service_account(stack: &Stack) -> String {
    let spec = &stack.spec;
    let template = spec.workspace_template.as_ref();
    let template = template.and_then(|template| template.spec.as_ref());
    let named = template.and_then(|spec| spec.service_account_name.clone());
    named
        .or_else(|| spec.service_account_name.clone())
        .filter(|name| !name.is_empty())
        .unwrap_or_else(|| "default".to_owned())
}
