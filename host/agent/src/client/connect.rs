//! Ways to an agent: a unix socket, or TCP with a certificate on both sides.

use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpStream, UnixStream};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tonic::transport::Endpoint;
use windlass_api::identity::WorkspaceIdentity;

use super::{AgentClient, ClientError};
use crate::tls::{ClientTls, TlsError, trust_problem};

const PATIENCE: Duration = Duration::from_secs(5);

/// The name is not used: the connector knows where to go.
fn endpoint() -> Endpoint {
    Endpoint::from_static("http://agent.invalid").connect_timeout(PATIENCE)
}

fn failed(place: &str, error: &(dyn std::error::Error + 'static)) -> ClientError {
    let place = place.to_owned();
    match trust_problem(error) {
        Some(message) => ClientError::Untrusted { place, message },
        None => ClientError::Unreachable {
            place,
            message: deepest(error),
        },
    }
}

impl AgentClient {
    /// Connects to an agent's unix socket. Every request carries the epoch.
    pub async fn connect(socket: &Path, epoch: u64) -> Result<AgentClient, ClientError> {
        let place = socket.display().to_string();
        let path = socket.to_owned();
        let channel = endpoint()
            .connect_with_connector(tower::service_fn(move |_| {
                let path = path.clone();
                async move { Ok::<_, io::Error>(TokioIo::new(UnixStream::connect(path).await?)) }
            }))
            .await
            .map_err(|e| failed(&place, &e))?;
        Ok(AgentClient::over(channel, place, epoch))
    }

    /// Connects to the agent of a workspace on a cluster. Only this incarnation of it is believed, at every connection
    /// that this client makes. Whether the agent takes this side for the operator is told by the first request.
    pub async fn connect_tls(
        address: SocketAddr,
        tls: &ClientTls,
        expected: &WorkspaceIdentity,
        epoch: u64,
    ) -> Result<AgentClient, ClientError> {
        let place = address.to_string();
        let unusable = |e: TlsError| ClientError::Untrusted {
            place: address.to_string(),
            message: e.to_string(),
        };
        let connector = TlsConnector::from(tls.config_for(expected).map_err(unusable)?);
        let distrust = Distrust::default();
        let noted = distrust.clone();
        let channel = endpoint()
            .http2_keep_alive_interval(Duration::from_secs(15))
            .keep_alive_timeout(Duration::from_secs(10))
            .keep_alive_while_idle(true)
            .connect_with_connector(tower::service_fn(move |_| {
                let (connector, noted) = (connector.clone(), noted.clone());
                async move {
                    noted.note(None);
                    let whole = async {
                        let stream = TcpStream::connect(address).await?;
                        stream.set_nodelay(true)?;
                        let name = ServerName::from(address.ip());
                        connector.connect(name, stream).await
                    };
                    let stream = tokio::time::timeout(PATIENCE, whole).await.map_err(|_| {
                        io::Error::new(io::ErrorKind::TimedOut, "it does not answer within 5 s")
                    })??;
                    Ok::<_, io::Error>(TokioIo::new(Watched { stream, noted }))
                }
            }))
            .await
            .map_err(|e| failed(&place, &e))?;
        Ok(AgentClient {
            distrust,
            ..AgentClient::over(channel, place, epoch)
        })
    }
}

/// What the agent has against the operator. In TLS 1.3 it says so after the client's side of the handshake is done, and
/// HTTP/2 forgets the words.
#[derive(Clone, Debug, Default)]
pub(super) struct Distrust(Arc<Mutex<Option<String>>>);

impl Distrust {
    fn note(&self, message: Option<String>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = message;
    }

    pub fn said(&self) -> Option<String> {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }
}

/// Notes why the other side hung up.
struct Watched {
    stream: TlsStream<TcpStream>,
    noted: Distrust,
}

impl AsyncRead for Watched {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let read = Pin::new(&mut self.stream).poll_read(cx, buf);
        if let Poll::Ready(Err(e)) = &read
            && let Some(message) = trust_problem(e)
        {
            self.noted.note(Some(message));
        }
        read
    }
}

impl AsyncWrite for Watched {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

/// The cause at the end of a chain: the outer ones only say that there was an error.
fn deepest(error: &dyn std::error::Error) -> String {
    let mut error = error;
    while let Some(source) = error.source() {
        error = source;
    }
    error.to_string()
}
