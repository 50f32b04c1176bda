//! Taking connections: so many at a time, none for ever, none that says nothing.

use std::convert::Infallible;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::{AbortHandle, JoinSet};
use tokio_rustls::TlsAcceptor;

use crate::serve::ServeError;

/// Connections at a time.
const CONNECTIONS: usize = 64;
/// How long a client may take for its handshake, and for the head of a request.
const GREETING: Duration = Duration::from_secs(10);
/// How long a connection may last. Whoever needs one for longer makes another.
const LONGEST: Duration = Duration::from_secs(300);
/// How long to wait when the machine has no more connections to give.
const PAUSE: Duration = Duration::from_millis(100);

/// What is served, and how.
pub struct Listen {
    pub router: Router,
    pub tls: Option<TlsAcceptor>,
    pub http2: bool,
    /// For errors: what this is, and the option that says where.
    pub what: &'static str,
    pub flag: &'static str,
}

impl Listen {
    pub fn plain(router: Router, what: &'static str, flag: &'static str) -> Listen {
        Listen {
            router,
            tls: None,
            http2: false,
            what,
            flag,
        }
    }
}

/// A server that goes on until this is dropped.
pub struct Listening {
    pub address: SocketAddr,
    task: AbortHandle,
}

impl Drop for Listening {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Begins to serve.
///
/// # Errors
/// The address cannot be bound.
pub async fn listen(address: SocketAddr, serve: Listen) -> Result<Listening, ServeError> {
    let failed = |error| ServeError::Bind {
        what: serve.what,
        address,
        flag: serve.flag,
        error,
    };
    let listener = bind(address).await.map_err(failed)?;
    let address = listener.local_addr().map_err(failed)?;
    tracing::info!(%address, tls = serve.tls.is_some(), "serving {}", serve.what);
    let task = tokio::spawn(async move { match accept(listener, serve).await {} });
    Ok(Listening {
        address,
        task: task.abort_handle(),
    })
}

/// Every address of the machine, of both families, is asked for as `[::]`; where there is only one, it is that one.
async fn bind(address: SocketAddr) -> std::io::Result<TcpListener> {
    match TcpListener::bind(address).await {
        Err(_) if address.is_ipv6() && address.ip().is_unspecified() => {
            TcpListener::bind((Ipv4Addr::UNSPECIFIED, address.port())).await
        }
        bound => bound,
    }
}

async fn accept(listener: TcpListener, serve: Listen) -> Infallible {
    let places = Arc::new(Semaphore::new(CONNECTIONS));
    let serve = Arc::new(serve);
    // They end with this loop.
    let mut connections = JoinSet::new();
    loop {
        while connections.try_join_next().is_some() {}
        let Ok(place) = Arc::clone(&places).acquire_owned().await else {
            // Nobody closes it.
            std::future::pending().await
        };
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(error) => {
                tracing::debug!(%error, "taking a connection");
                tokio::time::sleep(PAUSE).await;
                continue;
            }
        };
        let serve = Arc::clone(&serve);
        connections.spawn(async move {
            // What a client does wrong is its own affair.
            let _ = tokio::time::timeout(LONGEST, connection(stream, &serve)).await;
            drop(place);
        });
    }
}

async fn connection(stream: TcpStream, serve: &Listen) {
    match &serve.tls {
        None => talk(stream, serve).await,
        Some(tls) => {
            if let Ok(Ok(stream)) = tokio::time::timeout(GREETING, tls.accept(stream)).await {
                talk(stream, serve).await;
            }
        }
    }
}

async fn talk(stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static, serve: &Listen) {
    let mut builder = Builder::new(TokioExecutor::new());
    if !serve.http2 {
        builder = builder.http1_only();
    }
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(GREETING);
    let service = TowerToHyperService::new(serve.router.clone());
    if let Err(error) = builder
        .serve_connection(TokioIo::new(stream), service)
        .await
    {
        tracing::debug!(error, "a connection has ended: {}", serve.what);
    }
}
