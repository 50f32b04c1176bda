//! The protocol on a unix socket that only its owner may use.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio::net::{UnixListener, UnixStream};
use tokio::sync::watch;
use tokio_stream::wrappers::UnixListenerStream;

use crate::agent::Agent;
use crate::server::Service;

/// Time for the last answers to reach their clients.
const FAREWELL: Duration = Duration::from_secs(2);

#[derive(Debug, thiserror::Error)]
pub enum SocketError {
    #[error("another agent listens at {0}")]
    SocketTaken(PathBuf),
    #[error("cannot listen at {0}: {1}")]
    SocketUnusable(PathBuf, std::io::Error),
    #[error("the server ended: {0}")]
    ServerEnded(#[from] tonic::transport::Error),
}

async fn bind(path: &Path) -> Result<UnixListener, SocketError> {
    let unusable = |e| SocketError::SocketUnusable(path.to_owned(), e);
    if UnixStream::connect(path).await.is_ok() {
        return Err(SocketError::SocketTaken(path.to_owned()));
    }
    match std::fs::remove_file(path) {
        Err(e) if e.kind() != std::io::ErrorKind::NotFound => return Err(unusable(e)),
        _ => {}
    }
    if let Some(dir) = path.parent() {
        std::fs::create_dir_all(dir).map_err(unusable)?;
    }
    // Made under a name that nobody looks for until its mode is right.
    let aside = path.with_extension("new");
    let _ = std::fs::remove_file(&aside);
    let listener = UnixListener::bind(&aside).map_err(unusable)?;
    std::fs::set_permissions(&aside, std::fs::Permissions::from_mode(0o600)).map_err(unusable)?;
    std::fs::rename(&aside, path).map_err(unusable)?;
    Ok(listener)
}

/// Serves an agent until `stop` says so or a client asks it to end; then lets the open run finish first.
pub async fn serve(
    agent: Arc<Agent>,
    path: &Path,
    mut stop: watch::Receiver<bool>,
) -> Result<(), SocketError> {
    let listener = bind(path).await?;
    let (shutdown, mut asked) = watch::channel(false);
    let (idle, mut is_idle) = watch::channel(false);
    let service = Service {
        agent: agent.clone(),
        shutdown,
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
    let serving = tonic::transport::Server::builder().serve_with_incoming_shutdown(
        service,
        UnixListenerStream::new(listener),
        ending,
    );
    let served = tokio::select! {
        served = serving => served,
        // A client that does not hang up must not keep the agent.
        () = async { let _ = is_idle.wait_for(|i| *i).await; tokio::time::sleep(FAREWELL).await } => Ok(()),
    };
    let _ = std::fs::remove_file(path);
    Ok(served?)
}
