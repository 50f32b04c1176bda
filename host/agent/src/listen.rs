//! The protocol over TCP, for connections whose other side has proven to be the operator.

use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, mpsc, watch};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::server::Connected;

use crate::agent::Agent;
use crate::serving::until_stopped;
use crate::tls::{ServerFiles, TlsError};

/// Time to prove who one is.
const PATIENCE: Duration = Duration::from_secs(10);
/// Time to hear why not.
const FAREWELL: Duration = Duration::from_secs(1);
/// Those who have not proven it yet, at once. The operator needs one.
const STRANGERS: usize = 128;

#[derive(Debug, thiserror::Error)]
pub enum ListenError {
    #[error("cannot listen at {0}: {1}")]
    AddressUnusable(SocketAddr, std::io::Error),
    #[error("the certificates cannot be used: {0}")]
    Tls(#[from] TlsError),
    #[error("probes cannot be answered in {0}: {1}")]
    ProbeUnusable(PathBuf, std::io::Error),
    #[error("the server ended: {0}")]
    ServerEnded(#[from] tonic::transport::Error),
}

/// A place where the operator may come to.
#[derive(Debug)]
pub struct Listener {
    listener: TcpListener,
    address: SocketAddr,
    files: Arc<ServerFiles>,
}

impl Listener {
    /// Listens, with `tls.crt`, `tls.key` and `ca.crt` of a directory.
    pub async fn bind(at: SocketAddr, tls_dir: &Path) -> Result<Listener, ListenError> {
        let files = Arc::new(ServerFiles::open(tls_dir.to_owned())?);
        let unusable = |e| ListenError::AddressUnusable(at, e);
        let listener = TcpListener::bind(at).await.map_err(unusable)?;
        // Tells the port where any was asked for.
        let address = listener.local_addr().map_err(unusable)?;
        Ok(Listener {
            listener,
            address,
            files,
        })
    }

    /// Serves an agent, and answers probes, until `stop` says so or the operator asks it to end; then lets the open run
    /// finish first.
    pub async fn serve(
        self,
        agent: Arc<Agent>,
        stop: watch::Receiver<bool>,
    ) -> Result<(), ListenError> {
        let state_dir = &agent.workspace.state_dir;
        let _answering = crate::probe::answer(state_dir)
            .map_err(|e| ListenError::ProbeUnusable(state_dir.clone(), e))?;
        // Said when it is true: whoever has read it finds the operator's way in and the probe's.
        tracing::info!(boot = %agent.boot_id, address = %self.address, "serving");
        Ok(until_stopped(
            agent.clone(),
            operators(self.listener, self.files),
            stop,
            false,
        )
        .await?)
    }

    /// Takes a tree and shows it in the workspace directory, then ends; no run begins here. False if `stop` came first.
    pub async fn receive(
        self,
        agent: Arc<Agent>,
        stop: watch::Receiver<bool>,
    ) -> Result<bool, ListenError> {
        tracing::info!(boot = %agent.boot_id, address = %self.address, "receiving");
        let stopped = stop.clone();
        until_stopped(agent, operators(self.listener, self.files), stop, true).await?;
        Ok(!*stopped.borrow())
    }
}

/// Where to listen: what was asked for, but on the pod's own address where that is known and no other was asked.
pub fn address(asked: SocketAddr, pod_ip: Option<IpAddr>) -> SocketAddr {
    match pod_ip {
        Some(ip) if asked.ip().is_unspecified() => SocketAddr::new(ip, asked.port()),
        _ => asked,
    }
}

/// A connection of the operator.
struct TlsConnection(TlsStream<TcpStream>);

impl Connected for TlsConnection {
    type ConnectInfo = ();
    fn connect_info(&self) {}
}

impl AsyncRead for TlsConnection {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.get_mut().0).poll_read(cx, buf)
    }
}

impl AsyncWrite for TlsConnection {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<std::io::Result<usize>> {
        Pin::new(&mut self.get_mut().0).poll_write(cx, buf)
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.get_mut().0).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.get_mut().0).poll_shutdown(cx)
    }
}

/// Connections that passed. Whoever does not pass is told so by TLS and nothing else.
fn operators(
    listener: TcpListener,
    files: Arc<ServerFiles>,
) -> ReceiverStream<std::io::Result<TlsConnection>> {
    let (passed, connections) = mpsc::channel(16);
    tokio::spawn(async move {
        let strangers = Arc::new(Semaphore::new(STRANGERS));
        loop {
            let accepted = tokio::select! {
                accepted = listener.accept() => accepted,
                () = passed.closed() => return,
            };
            let (stream, from) = match accepted {
                Ok(accepted) => accepted,
                Err(e) => {
                    tracing::warn!("a connection could not be accepted: {e}");
                    // Out of descriptors, most likely: they come back when connections end.
                    tokio::time::sleep(Duration::from_millis(100)).await;
                    continue;
                }
            };
            // Too many at once: the newest goes.
            let Ok(place) = strangers.clone().try_acquire_owned() else {
                continue;
            };
            let (files, passed) = (files.clone(), passed.clone());
            tokio::spawn(async move {
                let _place = place;
                let _ = stream.set_nodelay(true);
                let handshake = TlsAcceptor::from(files.current()).accept(stream);
                match tokio::time::timeout(PATIENCE, handshake.into_fallible()).await {
                    Ok(Ok(stream)) => {
                        let _ = passed.send(Ok(TlsConnection(stream))).await;
                    }
                    Ok(Err((e, stream))) => {
                        tracing::warn!(%from, "refused a connection: {e}");
                        let _ = tokio::time::timeout(FAREWELL, part(stream)).await;
                    }
                    Err(_) => {
                        tracing::warn!(%from, "refused a connection: it did not say who it is")
                    }
                }
            });
        }
    });
    ReceiverStream::new(connections)
}

/// Lets the other side read the alert: closing over what it has sent since would take that away from it.
async fn part(mut stream: TcpStream) -> std::io::Result<()> {
    stream.shutdown().await?;
    let mut sink = [0; 4096];
    while stream.read(&mut sink).await? > 0 {}
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn the_pods_own_address_is_taken_unless_another_was_asked() {
        let any: SocketAddr = "0.0.0.0:50051".parse().unwrap();
        let one: SocketAddr = "127.0.0.5:50051".parse().unwrap();
        let pod: IpAddr = "fd00::7".parse().unwrap();
        assert_eq!(address(any, None), any);
        assert_eq!(address(any, Some(pod)).to_string(), "[fd00::7]:50051");
        assert_eq!(address(one, Some(pod)), one);
    }
}
