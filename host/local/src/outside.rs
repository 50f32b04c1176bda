//! Answers to the questions of plugins, from the store and the fleet's poller.

use std::sync::Arc;

use futures::future::BoxFuture;
use serde_json::Value;
use windlass_api::secret::Secret;
use windlass_engine::Key;
use windlass_sdk::{ErrorClass, Fault, GitRef, HttpRequest, HttpResponse, ObjectRef};
use windlass_tasks::Subscriptions;
use windlass_wasm::outside::http::HttpClient;
use windlass_wasm::{Checked, Credential, Grants, Outside, Scope, SecretValue};
use zeroize::Zeroizing;

use crate::db::{Db, DbError, kind};

pub struct LocalOutside {
    pub db: Arc<Db>,
    pub subscriptions: Subscriptions,
    pub http: HttpClient,
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
