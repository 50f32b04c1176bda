//! The protocol on a unix socket that only its owner may use.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tokio::net::{UnixListener, UnixStream};
use tokio::sync::watch;
use tokio_stream::wrappers::UnixListenerStream;

use crate::agent::Agent;
use crate::serving::until_stopped;

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
    if let Some(dir) = path.parent() {
        std::fs::create_dir_all(dir).map_err(unusable)?;
    }
    listen_at_once(path).map_err(unusable)
}

/// Listens at a path, for this user alone, in place of a file that may be there. The socket comes under its name when
/// it is heard and has its mode: nobody who finds it is refused.
pub(crate) fn listen_at_once(path: &Path) -> std::io::Result<UnixListener> {
    let aside = path.with_extension("new");
    match std::fs::remove_file(&aside) {
        Err(e) if e.kind() != std::io::ErrorKind::NotFound => return Err(e),
        _ => {}
    }
    let listener = UnixListener::bind(&aside)?;
    std::fs::set_permissions(&aside, std::fs::Permissions::from_mode(0o600))?;
    std::fs::rename(&aside, path)?;
    Ok(listener)
}

/// Serves an agent until `stop` says so or a client asks it to end; then lets the open run finish first.
pub async fn serve(
    agent: Arc<Agent>,
    path: &Path,
    stop: watch::Receiver<bool>,
) -> Result<(), SocketError> {
    let listener = bind(path).await?;
    tracing::info!(boot = %agent.boot_id, socket = %path.display(), "serving");
    let served = until_stopped(agent, UnixListenerStream::new(listener), stop, false).await;
    let _ = std::fs::remove_file(path);
    Ok(served?)
}
