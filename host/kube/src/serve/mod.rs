//! What the operator serves: its health, its metrics, the archives of Programs.
//!
//! `listen` takes connections, bounded in number and time, with TLS where it is wanted; `health`, `metrics` and the
//! programs' server are what stands behind it; `access` asks the API server who may read metrics.

mod access;
mod health;
mod listen;
mod metrics;
mod tls;

use std::net::SocketAddr;

use crate::operator::Operator;
use crate::programs;

pub use listen::Listening;
use listen::{Listen, listen};

/// Where to serve what.
#[derive(Clone, Debug)]
pub struct ServeConfig {
    /// `/healthz` and `/readyz`.
    pub health: Option<SocketAddr>,
    /// `/metrics`.
    pub metrics: Option<SocketAddr>,
    /// Serve metrics over TLS, and only to those whom the cluster lets read them.
    pub metrics_secure: bool,
    /// Archives of Programs.
    pub programs: Option<SocketAddr>,
    /// Speak HTTP/2 too, where there is TLS.
    pub http2: bool,
}

/// Why something is not served.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    #[error(
        "{what} cannot be served on {address}: {error}; free the address or choose another with {flag}"
    )]
    Bind {
        what: &'static str,
        address: SocketAddr,
        flag: &'static str,
        error: std::io::Error,
    },
    #[error("no certificate for the metrics: {0}")]
    Certificate(String),
}

/// Serves what is asked for, until the result is dropped.
///
/// # Errors
/// An address cannot be bound.
pub async fn start(
    operator: &Operator,
    config: &ServeConfig,
) -> Result<Vec<Listening>, ServeError> {
    let ServeConfig {
        health,
        metrics,
        metrics_secure,
        programs,
        http2,
    } = config.clone();
    let mut all = Vec::new();
    if let Some(address) = health {
        let router = health::router(operator.readiness());
        let plain = Listen::plain(router, "health", "--health-probe-bind-address");
        all.push(listen(address, plain).await?);
    }
    if let Some(address) = metrics {
        let exposed = operator.metrics();
        let access = metrics_secure.then(|| access::Access::new(operator.cluster()));
        let router = metrics::router(exposed, access);
        let mut listening = Listen::plain(router, "metrics", "--metrics-bind-address");
        if metrics_secure {
            listening.tls = Some(tls::self_signed(&operator.cluster().instance, http2)?);
            listening.http2 = http2;
        }
        all.push(listen(address, listening).await?);
    }
    if let Some(address) = programs {
        let router = programs::router(
            operator.world(),
            operator.readiness(),
            operator.cluster().counters,
        );
        let plain = Listen::plain(router, "Programs", "--program-fs-addr");
        all.push(listen(address, plain).await?);
    }
    Ok(all)
}
