//! The protocol on any stream of connections, until the agent is to end.

use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::watch;
use tokio_stream::Stream;
use tonic::transport::server::Connected;

use crate::agent::Agent;
use crate::server::Service;

/// Time for the last answers to reach their clients.
const FAREWELL: Duration = Duration::from_secs(2);

/// Serves until `stop` says so or a client asks the agent to end; then lets the open run finish first. While `receiving`
/// there are no runs, and a tree that is shown is the end.
pub async fn until_stopped<C>(
    agent: Arc<Agent>,
    connections: impl Stream<Item = std::io::Result<C>>,
    mut stop: watch::Receiver<bool>,
    receiving: bool,
) -> Result<(), tonic::transport::Error>
where
    C: AsyncRead + AsyncWrite + Connected + Unpin + Send + 'static,
{
    let (shutdown, mut asked) = watch::channel(false);
    let (idle, mut is_idle) = watch::channel(false);
    let service = Service {
        agent: agent.clone(),
        shutdown,
        receiving,
    }
    .into_server();
    let ending = async move {
        tokio::select! {
            _ = stop.wait_for(|s| *s) => {}
            _ = asked.wait_for(|s| *s) => {}
        }
        // Watchers are still served while the run ends.
        agent.stop().await;
        idle.send_replace(true);
    };
    let serving = tonic::transport::Server::builder()
        // An operator whose node is gone does not hang up.
        .http2_keepalive_interval(Some(Duration::from_secs(30)))
        .http2_keepalive_timeout(Some(Duration::from_secs(20)))
        .serve_with_incoming_shutdown(service, connections, ending);
    tokio::select! {
        served = serving => served,
        // A client that does not hang up must not keep the agent.
        () = async { let _ = is_idle.wait_for(|i| *i).await; tokio::time::sleep(FAREWELL).await } => Ok(()),
    }
}
