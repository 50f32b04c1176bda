//! What the operator serves to the kubelet: whether it lives, and whether it has seen the cluster.

use std::sync::Arc;

use axum::Router;
use axum::http::StatusCode;
use axum::routing::get;

use crate::watch::Readiness;

/// `/healthz` and `/readyz`.
pub fn router(readiness: Arc<Readiness>) -> Router {
    let ready = move || {
        let readiness = Arc::clone(&readiness);
        async move {
            if readiness.is_ready() {
                (StatusCode::OK, "ok")
            } else {
                (
                    StatusCode::SERVICE_UNAVAILABLE,
                    "watches have not listed yet",
                )
            }
        }
    };
    Router::new()
        .route("/healthz", get(|| async { "ok" }))
        .route("/readyz", get(ready))
}
