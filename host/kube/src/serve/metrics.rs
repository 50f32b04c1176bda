//! `GET /metrics`, to whoever may.

use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::http::{HeaderMap, Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;

use crate::metrics::{CodeLabels, Format, Metrics};
use crate::serve::access::{Access, Verdict};

const PATH: &str = "/metrics";

#[derive(Clone)]
struct Served {
    metrics: Arc<Metrics>,
    /// None: anybody may.
    access: Option<Arc<Access>>,
}

pub fn router(metrics: Arc<Metrics>, access: Option<Access>) -> Router {
    Router::new().route(PATH, get(serve)).with_state(Served {
        metrics,
        access: access.map(Arc::new),
    })
}

async fn serve(State(served): State<Served>, method: Method, headers: HeaderMap) -> Response {
    let response = answer(&served, &method, &headers).await;
    let code = response.status().as_u16();
    let requests = &served.metrics.counters.metrics_requests;
    requests.get_or_create(&CodeLabels { code }).inc();
    response
}

async fn answer(served: &Served, method: &Method, headers: &HeaderMap) -> Response {
    if let Some(access) = &served.access {
        let verb = method.as_str().to_ascii_lowercase();
        match access.verdict(bearer(headers), PATH, &verb).await {
            Ok(Verdict::Allowed) => {}
            Ok(Verdict::Forbidden) => {
                return (
                    StatusCode::FORBIDDEN,
                    "the bearer of this token may not get the non-resource URL /metrics\n",
                )
                    .into_response();
            }
            Ok(Verdict::Unauthenticated) => {
                return (
                    StatusCode::UNAUTHORIZED,
                    [(header::WWW_AUTHENTICATE, "Bearer")],
                    "a token of the cluster is wanted, as Authorization: Bearer\n",
                )
                    .into_response();
            }
            Err(error) => {
                tracing::warn!(
                    %error,
                    "who may read metrics is not known; the operator's service account needs to create tokenreviews \
                     and subjectaccessreviews (ClusterRole system:auth-delegator)"
                );
                return (
                    StatusCode::INTERNAL_SERVER_ERROR,
                    "the cluster does not say who may read this\n",
                )
                    .into_response();
            }
        }
    }
    let accept = headers
        .get(header::ACCEPT)
        .and_then(|value| value.to_str().ok())
        .unwrap_or_default();
    let format = Format::accepted(accept);
    match served.metrics.render(format) {
        Ok(text) => ([(header::CONTENT_TYPE, format.content_type())], text).into_response(),
        Err(_) => (
            StatusCode::INTERNAL_SERVER_ERROR,
            "the metrics cannot be written\n",
        )
            .into_response(),
    }
}

/// The token of the request.
fn bearer(headers: &HeaderMap) -> Option<&str> {
    let value = headers.get(header::AUTHORIZATION)?.to_str().ok()?;
    let (scheme, token) = value.split_once(' ')?;
    let token = token.trim();
    (scheme.eq_ignore_ascii_case("bearer") && !token.is_empty()).then_some(token)
}
