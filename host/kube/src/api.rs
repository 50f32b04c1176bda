//! Requests to the API server: typed by what they mean, each with a deadline, each failure with a class.

use std::fmt::Debug;
use std::future::Future;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use k8s_openapi::NamespaceResourceScope;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams, Preconditions};
use kube::core::PartialObjectMeta;
use kube::{Api, Client, Resource};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use windlass_api::lenient::Lenient;
use windlass_engine::StoreError;

use crate::metrics::Counters;

/// The longest that a request may take where nobody says otherwise. A watch is no request.
const DEADLINE: Duration = Duration::from_secs(15);
/// What somebody said.
static SET_DEADLINE: OnceLock<Duration> = OnceLock::new();

/// Sets how long a request of this process may take. Only the first word counts.
pub fn set_deadline(deadline: Duration) {
    // A second operator in one process, as in a test, keeps the first one's.
    let _ = SET_DEADLINE.set(deadline);
}

/// Why a request failed.
#[derive(Clone, Debug, thiserror::Error)]
pub enum ApiError {
    #[error("the object has changed in the meantime")]
    Conflict,
    #[error("the object exists already")]
    AlreadyExists,
    #[error("the object is gone")]
    NotFound,
    /// Nothing can be made in a namespace that is being deleted.
    #[error("{0}")]
    NamespaceTerminating(String),
    /// The request itself is refused: a quota, an admission rule, missing rights, an invalid object.
    #[error("{message}")]
    Refused { reason: String, message: String },
    #[error("the API server does not answer: {0}")]
    Unavailable(String),
}

impl ApiError {
    /// The variant as the label of a metric.
    fn label(&self) -> &'static str {
        match self {
            ApiError::Conflict => "conflict",
            ApiError::AlreadyExists => "already_exists",
            ApiError::NotFound => "not_found",
            ApiError::NamespaceTerminating(_) => "namespace_terminating",
            ApiError::Refused { .. } => "refused",
            ApiError::Unavailable(_) => "unavailable",
        }
    }
}

impl From<ApiError> for StoreError {
    fn from(error: ApiError) -> StoreError {
        match error {
            ApiError::Conflict | ApiError::AlreadyExists => StoreError::Conflict,
            ApiError::NotFound => StoreError::NotFound,
            ApiError::NamespaceTerminating(message) => StoreError::Rejected(message),
            ApiError::Refused { message, .. } => StoreError::Rejected(message),
            ApiError::Unavailable(message) => StoreError::Unavailable(message),
        }
    }
}

impl From<kube::Error> for ApiError {
    fn from(error: kube::Error) -> ApiError {
        let status = match error {
            kube::Error::Api(status) => status,
            other => return ApiError::Unavailable(other.to_string()),
        };
        let terminating = status.details.as_ref().is_some_and(|details| {
            details
                .causes
                .iter()
                .any(|cause| cause.reason == "NamespaceTerminating")
        });
        if terminating {
            return ApiError::NamespaceTerminating(status.message);
        }
        if status.is_already_exists() {
            return ApiError::AlreadyExists;
        }
        if status.is_conflict() {
            return ApiError::Conflict;
        }
        if status.is_not_found() {
            return ApiError::NotFound;
        }
        match status.code {
            429 | 500.. => ApiError::Unavailable(status.message),
            _ => ApiError::Refused {
                reason: status.reason,
                message: status.message,
            },
        }
    }
}

/// What is stored under a name, in a namespace.
pub trait Kind:
    Resource<Scope = NamespaceResourceScope, DynamicType = ()> + Clone + Debug + DeserializeOwned
{
}

impl<K> Kind for K where
    K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>
        + Clone
        + Debug
        + DeserializeOwned
{
}

/// The object that an answer holds.
///
/// # Errors
/// It was written by somebody whom an older definition let do so, and cannot be read.
pub fn readable<K>(object: Lenient<K>) -> Result<K, ApiError> {
    object.0.map_err(|invalid| ApiError::Refused {
        reason: "Unreadable".into(),
        message: invalid.to_string(),
    })
}

/// The API server.
#[derive(Clone)]
pub struct Cluster {
    pub client: Client,
    /// Name of this process, as events give it.
    pub instance: Arc<str>,
    /// Where requests are counted.
    pub counters: Counters,
}

impl Cluster {
    pub fn api<K: Kind>(&self, namespace: &str) -> Api<K> {
        Api::namespaced(self.client.clone(), namespace)
    }

    /// Makes a request within its deadline, and counts it.
    pub async fn ask<K: Resource<DynamicType = ()>, T>(
        &self,
        verb: &'static str,
        request: impl Future<Output = Result<T, kube::Error>>,
    ) -> Result<T, ApiError> {
        let begun = Instant::now();
        let answer = within(request).await;
        let result = answer.as_ref().map_or_else(ApiError::label, |_| "ok");
        self.counters
            .asked(&K::kind(&()), verb, result, begun.elapsed());
        answer
    }

    /// None if there is no such object.
    pub async fn get<K: Kind>(&self, namespace: &str, name: &str) -> Result<Option<K>, ApiError> {
        let api = self.api::<K>(namespace);
        self.ask::<K, _>("get", api.get_opt(name)).await
    }

    /// The metadata alone: of a Secret, say, whose values are nobody's business here.
    pub async fn metadata<K: Kind>(
        &self,
        namespace: &str,
        name: &str,
    ) -> Result<Option<PartialObjectMeta<K>>, ApiError> {
        let api = self.api::<K>(namespace);
        self.ask::<K, _>("get", api.get_metadata_opt(name)).await
    }

    pub async fn create<K: Kind + Serialize>(
        &self,
        namespace: &str,
        object: &K,
        manager: &str,
    ) -> Result<K, ApiError> {
        let api = self.api::<K>(namespace);
        let params = PostParams {
            field_manager: Some(manager.to_owned()),
            ..PostParams::default()
        };
        self.ask::<K, _>("create", api.create(&params, object))
            .await
    }

    /// Server-side apply. Whatever the manager applied before and leaves out now goes.
    pub async fn apply<K: Kind>(
        &self,
        namespace: &str,
        name: &str,
        object: &Value,
        manager: &str,
    ) -> Result<K, ApiError> {
        let params = PatchParams::apply(manager).force();
        self.applied(namespace, name, object, params).await
    }

    /// Server-side apply of what nobody else applies. A field of another manager with another value is a
    /// [`ApiError::Conflict`], and nothing is written.
    pub async fn apply_if_unowned<K: Kind>(
        &self,
        namespace: &str,
        name: &str,
        object: &Value,
        manager: &str,
    ) -> Result<K, ApiError> {
        let params = PatchParams::apply(manager);
        self.applied(namespace, name, object, params).await
    }

    async fn applied<K: Kind>(
        &self,
        namespace: &str,
        name: &str,
        object: &Value,
        params: PatchParams,
    ) -> Result<K, ApiError> {
        let api = self.api::<K>(namespace);
        self.ask::<K, _>("apply", api.patch(name, &params, &Patch::Apply(object)))
            .await
    }

    /// Server-side apply of the status. With a `resourceVersion` in the object's metadata, only if it is still that.
    pub async fn apply_status<K: Kind>(
        &self,
        namespace: &str,
        name: &str,
        object: &Value,
        manager: &str,
    ) -> Result<K, ApiError> {
        let api = self.api::<K>(namespace);
        let params = PatchParams::apply(manager).force();
        let patch = Patch::Apply(object);
        let request = api.patch_status(name, &params, &patch);
        self.ask::<K, _>("apply_status", request).await
    }

    /// A JSON patch (RFC 6902). A `test` that fails is a [`ApiError::Conflict`].
    pub async fn json_patch<K: Kind>(
        &self,
        namespace: &str,
        name: &str,
        patch: &Value,
        manager: &str,
    ) -> Result<K, ApiError> {
        let api = self.api::<K>(namespace);
        let patch: kube::api::Patch<Value> = match serde_json::from_value(patch.clone()) {
            Ok(patch) => Patch::Json(patch),
            Err(error) => {
                return Err(ApiError::Refused {
                    reason: "BadPatch".into(),
                    message: error.to_string(),
                });
            }
        };
        let params = PatchParams {
            field_manager: Some(manager.to_owned()),
            ..PatchParams::default()
        };
        match self
            .ask::<K, _>("patch", api.patch(name, &params, &patch))
            .await
        {
            Err(ApiError::Refused { reason, .. }) if reason == "Invalid" => Err(ApiError::Conflict),
            other => other,
        }
    }

    /// Merges into the object (RFC 7386).
    pub async fn merge<K: Kind>(
        &self,
        namespace: &str,
        name: &str,
        patch: &Value,
        manager: &str,
    ) -> Result<K, ApiError> {
        let api = self.api::<K>(namespace);
        let params = PatchParams {
            field_manager: Some(manager.to_owned()),
            ..PatchParams::default()
        };
        self.ask::<K, _>("patch", api.patch(name, &params, &Patch::Merge(patch)))
            .await
    }

    /// Deletes the object, if it is still this one. Gone already is done.
    pub async fn delete<K: Kind>(
        &self,
        namespace: &str,
        name: &str,
        uid: Option<&str>,
    ) -> Result<(), ApiError> {
        let api = self.api::<K>(namespace);
        let params = DeleteParams {
            preconditions: uid.map(|uid| Preconditions {
                uid: Some(uid.to_owned()),
                resource_version: None,
            }),
            ..DeleteParams::background()
        };
        match self.ask::<K, _>("delete", api.delete(name, &params)).await {
            // Another object of that name is none of ours.
            Ok(_) | Err(ApiError::NotFound | ApiError::Conflict) => Ok(()),
            Err(error) => Err(error),
        }
    }
}

/// Runs a request within its deadline.
pub async fn within<T>(
    request: impl Future<Output = Result<T, kube::Error>>,
) -> Result<T, ApiError> {
    let deadline = *SET_DEADLINE.get().unwrap_or(&DEADLINE);
    match tokio::time::timeout(deadline, request).await {
        Ok(result) => result.map_err(ApiError::from),
        Err(_) => Err(ApiError::Unavailable(format!(
            "no answer within {} s",
            deadline.as_secs()
        ))),
    }
}
