//! What the operator serves to the kubelet: whether it lives, and whether it has seen the cluster.

use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;
use axum::http::StatusCode;
use axum::routing::get;
use tokio::task::AbortHandle;

use crate::watch::Readiness;

/// Serves `/healthz` and `/readyz`.
///
/// # Errors
/// The address cannot be bound.
pub async fn start(address: SocketAddr, readiness: Arc<Readiness>) -> std::io::Result<AbortHandle> {
    let listener = tokio::net::TcpListener::bind(address).await?;
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
    let router = Router::new()
        .route("/healthz", get(|| async { "ok" }))
        .route("/readyz", get(ready));
    let task = tokio::spawn(async move {
        if let Err(error) = axum::serve(listener, router).await {
            tracing::error!(%error, "serving health");
        }
    });
    Ok(task.abort_handle())
}
