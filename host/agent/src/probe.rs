//! `windlass-agent probe`: is the agent of this workspace listening?
//!
//! A socket of its own in the state directory, which answers that and takes nothing: whoever shares the volume in the
//! pod cannot speak to the agent through it.

use std::io::{self, Read};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::io::AsyncWriteExt;

const ANSWER: &[u8] = b"listening\n";

#[derive(Debug, thiserror::Error)]
pub enum ProbeError {
    #[error("the agent does not listen yet, or no more ({path}: {source})")]
    NotListening { path: PathBuf, source: io::Error },
    #[error("what listens at {0} is no agent")]
    NoAgent(PathBuf),
}

fn socket(state_dir: &Path) -> PathBuf {
    state_dir.join("probe.sock")
}

/// Answers probes until it is dropped.
pub(crate) struct Answering {
    path: PathBuf,
    task: tokio::task::JoinHandle<()>,
}

impl Drop for Answering {
    fn drop(&mut self) {
        self.task.abort();
        let _ = std::fs::remove_file(&self.path);
    }
}

/// Begins to answer. Called when the agent listens, by the one agent that has the state directory.
pub(crate) fn answer(state_dir: &Path) -> io::Result<Answering> {
    let path = socket(state_dir);
    let listener = crate::socket::listen_at_once(&path)?;
    let task = tokio::spawn(async move {
        loop {
            match listener.accept().await {
                // Ten bytes fit into the socket's buffer: this waits for nobody.
                Ok((mut stream, _)) => {
                    let _ = stream.write_all(ANSWER).await;
                }
                Err(_) => tokio::time::sleep(Duration::from_millis(100)).await,
            }
        }
    });
    Ok(Answering { path, task })
}

/// Returns if the agent of this state directory listens.
pub fn probe(state_dir: &Path) -> Result<(), ProbeError> {
    let path = socket(state_dir);
    let ask = || {
        let mut stream = UnixStream::connect(&path)?;
        stream.set_read_timeout(Some(Duration::from_secs(5)))?;
        let mut said = vec![0; ANSWER.len()];
        stream.read_exact(&mut said)?;
        Ok(said)
    };
    match ask() {
        Ok(said) if said == ANSWER => Ok(()),
        Ok(_) => Err(ProbeError::NoAgent(path)),
        Err(source) => Err(ProbeError::NotListening { path, source }),
    }
}
