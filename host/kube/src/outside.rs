//! Answers to the questions of plugins, from the API server and the fleet's poller.

use std::sync::Arc;

use futures::future::BoxFuture;
use k8s_openapi::api::core::v1::Secret;
use kube::api::{ApiResource, DynamicObject};
use kube::core::GroupVersionKind;
use kube::{Api, ResourceExt};
use serde_json::Value;
use windlass_engine::Key;
use windlass_sdk::{ErrorClass, Fault, GitRef, HttpRequest, HttpResponse, ObjectRef};
use windlass_tasks::Subscriptions;
use windlass_wasm::outside::http::HttpClient;
use windlass_wasm::{Checked, Credential, Grants, Outside, Scope, SecretValue};
use zeroize::Zeroizing;

use crate::api::{ApiError, Cluster, within};
use crate::world::World;

pub struct KubeOutside {
    pub cluster: Cluster,
    pub world: Arc<World>,
    pub subscriptions: Subscriptions,
    pub http: HttpClient,
}

impl KubeOutside {
    async fn object(&self, namespace: &str, object: &ObjectRef) -> Result<Option<Value>, Fault> {
        let group_kind = object.group_kind();
        // Programs are watched in any case, and had been listed before the first Stack was looked at: one that is not known
        // is not there, or the watch is about to tell everybody who follows it.
        if group_kind == "pulumi.com/Program" {
            let program = self.world.programs.get(namespace, &object.name);
            return Ok(program.and_then(|program| serde_json::to_value(&*program).ok()));
        }
        let Some(gvk) = group_version_kind(object) else {
            return Err(fault(
                ErrorClass::Invalid,
                "ApiVersionInvalid",
                format!("{:?} is no apiVersion", object.api_version),
            ));
        };
        let pinned = kube::discovery::pinned_kind(&self.cluster.client, &gvk);
        let resource = match within(pinned).await {
            Ok((resource, _)) => resource,
            Err(ApiError::NotFound) => {
                return Err(fault(
                    ErrorClass::NotFound,
                    "KindUnknown",
                    format!(
                        "the cluster does not know {} {}",
                        object.api_version, object.kind
                    ),
                ));
            }
            // A group that answers and does not have the kind.
            Err(ApiError::Unavailable(message))
                if message.contains("not found") || message.contains("Missing") =>
            {
                return Err(fault(ErrorClass::NotFound, "KindUnknown", message));
            }
            Err(error) => return Err(api_fault(&error)),
        };
        let api: Api<DynamicObject> = namespaced(&self.cluster, namespace, &resource);
        let found = within(api.get_opt(&object.name))
            .await
            .map_err(|error| api_fault(&error))?;
        Ok(found.and_then(|mut object| {
            object.managed_fields_mut().clear();
            serde_json::to_value(&object).ok()
        }))
    }
}

fn namespaced(cluster: &Cluster, namespace: &str, resource: &ApiResource) -> Api<DynamicObject> {
    Api::namespaced_with(cluster.client.clone(), namespace, resource)
}

/// The parts of an `apiVersion`; none if it has none that make sense.
pub fn group_version_kind(object: &ObjectRef) -> Option<GroupVersionKind> {
    let (group, version) = match object.api_version.split_once('/') {
        Some((group, version)) => (group, version),
        None => ("", object.api_version.as_str()),
    };
    (!version.is_empty() && !version.contains('/'))
        .then(|| GroupVersionKind::gvk(group, version, &object.kind))
}

impl Outside for KubeOutside {
    fn kube_get<'a>(
        &'a self,
        scope: &'a Scope,
        object: &'a ObjectRef,
    ) -> BoxFuture<'a, Result<Option<Value>, Fault>> {
        Box::pin(self.object(&scope.namespace, object))
    }

    fn secret<'a>(
        &'a self,
        scope: &'a Scope,
        name: &'a str,
        key: &'a str,
    ) -> BoxFuture<'a, Result<SecretValue, Fault>> {
        Box::pin(async move {
            let secret = self
                .cluster
                .get::<Secret>(&scope.namespace, name)
                .await
                .map_err(|error| api_fault(&error))?;
            Ok(match secret {
                None => SecretValue::NoSecret,
                Some(mut secret) => match secret.data.as_mut().and_then(|data| data.remove(key)) {
                    None => SecretValue::NoKey,
                    Some(value) => SecretValue::Value(Zeroizing::new(value.0)),
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
            self.subscriptions
                .refs(key, url.url.as_str(), prefixes, credential)
                .await
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

fn api_fault(error: &ApiError) -> Fault {
    let (class, reason) = match error {
        ApiError::NotFound => (ErrorClass::NotFound, "NotFound"),
        ApiError::Refused { .. } | ApiError::NamespaceTerminating(_) => {
            (ErrorClass::Denied, "Forbidden")
        }
        ApiError::Conflict | ApiError::AlreadyExists | ApiError::Unavailable(_) => {
            (ErrorClass::Unavailable, "ApiServerUnavailable")
        }
    };
    fault(class, reason, error.to_string())
}

fn fault(class: ErrorClass, reason: &str, message: String) -> Fault {
    Fault {
        class,
        reason: reason.into(),
        message,
        retry_after_ms: None,
    }
}
