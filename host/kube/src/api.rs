//! Requests to the API server: typed by what they mean, each with a deadline, each failure with a class.

use std::fmt::Debug;
use std::future::Future;
use std::time::Duration;

use k8s_openapi::NamespaceResourceScope;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams, Preconditions};
use kube::core::PartialObjectMeta;
use kube::{Api, Client, Resource};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use windlass_api::lenient::Lenient;
use windlass_engine::StoreError;

/// The longest that a request may take. A watch is none.
const DEADLINE: Duration = Duration::from_secs(15);

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
}

impl Cluster {
    pub fn api<K: Kind>(&self, namespace: &str) -> Api<K> {
        Api::namespaced(self.client.clone(), namespace)
    }

    /// None if there is no such object.
    pub async fn get<K: Kind>(&self, namespace: &str, name: &str) -> Result<Option<K>, ApiError> {
        let api = self.api::<K>(namespace);
        within(api.get_opt(name)).await
    }

    /// The metadata alone: of a Secret, say, whose values are nobody's business here.
    pub async fn metadata<K: Kind>(
        &self,
        namespace: &str,
        name: &str,
    ) -> Result<Option<PartialObjectMeta<K>>, ApiError> {
        let api = self.api::<K>(namespace);
        within(api.get_metadata_opt(name)).await
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
        within(api.create(&params, object)).await
    }

    /// Server-side apply. Whatever the manager applied before and leaves out now goes.
    pub async fn apply<K: Kind>(
        &self,
        namespace: &str,
        name: &str,
        object: &Value,
        manager: &str,
    ) -> Result<K, ApiError> {
        let api = self.api::<K>(namespace);
        let params = PatchParams::apply(manager).force();
        within(api.patch(name, &params, &Patch::Apply(object))).await
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
        within(api.patch_status(name, &params, &Patch::Apply(object))).await
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
        match within(api.patch(name, &params, &patch)).await {
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
        within(api.patch(name, &params, &Patch::Merge(patch))).await
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
        match within(api.delete(name, &params)).await {
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
    match tokio::time::timeout(DEADLINE, request).await {
        Ok(result) => result.map_err(ApiError::from),
        Err(_) => Err(ApiError::Unavailable(format!(
            "no answer within {} s",
            DEADLINE.as_secs()
        ))),
    }
}
