//! Speaks to an agent in the words of `windlass_api::run`. Nobody else sees the messages.

mod words;

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use hyper_util::rt::TokioIo;
use sha2::{Digest, Sha256};
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::net::UnixStream;
use tokio::sync::mpsc;
use tokio_stream::StreamExt;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Status;
use tonic::transport::{Channel, Endpoint};
use windlass_api::run::{RunRequest, RunResult};

use crate::proto::put_tree_request::Part;
use crate::proto::watch_run_reply::Event;
use crate::proto::{self, agent_client};
use crate::server::{LARGEST_MESSAGE, PROTOCOL};

pub use crate::agent::LogLine;
pub use words::{AgentInfo, ClientError, RunEvent, RunEvents, RunSummary, Started, TreePut};

/// An agent is trusted for its own workspace only: a result beyond this is refused.
const LARGEST_RESULT: usize = 64 << 20;
const CHUNK: usize = 256 << 10;

/// A connection to one agent. Cheap to clone; clones share the connection.
#[derive(Clone, Debug)]
pub struct AgentClient {
    inner: agent_client::AgentClient<Channel>,
    place: PathBuf,
    epoch: u64,
}

impl AgentClient {
    /// Connects to an agent's unix socket. Every request carries the epoch.
    pub async fn connect(socket: &Path, epoch: u64) -> Result<AgentClient, ClientError> {
        let place = socket.to_owned();
        let unreachable = |e: &dyn std::error::Error| ClientError::Unreachable {
            place: place.display().to_string(),
            message: deepest(e),
        };
        let path = place.clone();
        // The name is not used: the connector knows where to go.
        let endpoint =
            Endpoint::from_static("http://agent.invalid").connect_timeout(Duration::from_secs(5));
        let channel = endpoint
            .connect_with_connector(tower::service_fn(move |_| {
                let path = path.clone();
                async move { Ok::<_, io::Error>(TokioIo::new(UnixStream::connect(path).await?)) }
            }))
            .await
            .map_err(|e| unreachable(&e))?;
        let inner = agent_client::AgentClient::new(channel)
            .max_decoding_message_size(LARGEST_MESSAGE)
            .max_encoding_message_size(LARGEST_MESSAGE);
        Ok(AgentClient {
            inner,
            place,
            epoch,
        })
    }

    fn error(&self, status: Status) -> ClientError {
        ClientError::of(&self.place, status)
    }

    pub async fn hello(&self) -> Result<AgentInfo, ClientError> {
        let request = proto::HelloRequest {
            protocol: PROTOCOL,
            epoch: self.epoch,
        };
        let reply = self
            .inner
            .clone()
            .hello(request)
            .await
            .map_err(|s| self.error(s))?
            .into_inner();
        let proto::HelloReply {
            protocol,
            boot_id,
            pid,
            agent_version,
            pulumi_version,
            pulumi_problem,
            open_run,
            hostname,
        } = reply;
        Ok(AgentInfo {
            protocol,
            boot_id,
            pid,
            agent_version,
            pulumi: if pulumi_problem.is_empty() {
                Ok(pulumi_version)
            } else {
                Err(pulumi_problem)
            },
            open_run: (!open_run.is_empty()).then_some(open_run),
            hostname,
        })
    }

    pub async fn has_tree(&self, digest: &str) -> Result<bool, ClientError> {
        let request = proto::HasTreeRequest {
            digest: digest.to_owned(),
        };
        Ok(self
            .inner
            .clone()
            .has_tree(request)
            .await
            .map_err(|s| self.error(s))?
            .into_inner()
            .present)
    }

    /// Sends a tree as a tar stream unless the agent has it. `digest` names it; what was sent is summed up by itself.
    pub async fn put_tree(
        &self,
        digest: &str,
        mut tar: impl AsyncRead + Send + Unpin + 'static,
    ) -> Result<TreePut, ClientError> {
        if self.has_tree(digest).await? {
            return Ok(TreePut::Present);
        }
        let (parts, stream) = mpsc::channel(4);
        let head = Part::Head(proto::PutTreeHead {
            epoch: self.epoch,
            digest: digest.to_owned(),
        });
        let reading = tokio::spawn(async move {
            let part = |part| proto::PutTreeRequest { part: Some(part) };
            if parts.send(part(head)).await.is_err() {
                return Ok(());
            }
            let mut hash = Sha256::new();
            loop {
                let mut chunk = Vec::with_capacity(CHUNK);
                while chunk.len() < CHUNK {
                    if tar.read_buf(&mut chunk).await? == 0 {
                        break;
                    }
                }
                if chunk.is_empty() {
                    break;
                }
                hash.update(&chunk);
                // The agent may have it by now and hang up: no error of ours.
                if parts.send(part(Part::Chunk(chunk))).await.is_err() {
                    return Ok(());
                }
            }
            let sha256 = hex::encode(hash.finalize());
            let _ = parts
                .send(part(Part::End(proto::PutTreeEnd { sha256 })))
                .await;
            Ok::<(), io::Error>(())
        });
        let reply = self
            .inner
            .clone()
            .put_tree(ReceiverStream::new(stream))
            .await;
        reading
            .await
            .map_err(|e| ClientError::Unreadable(e.to_string()))??;
        let proto::PutTreeReply {
            bytes,
            entries,
            present,
        } = reply.map_err(|s| self.error(s))?.into_inner();
        Ok(if present {
            TreePut::Present
        } else {
            TreePut::Sent { bytes, entries }
        })
    }

    /// Returns once the agent's journal has the run. The request's own epoch is replaced by this client's.
    pub async fn start_run(&self, request: &RunRequest) -> Result<Started, ClientError> {
        let spec = RunRequest {
            epoch: self.epoch,
            ..request.clone()
        };
        let request = proto::StartRunRequest {
            epoch: self.epoch,
            id: spec.id.clone(),
            spec: serde_json::to_vec(&spec).map_err(|e| ClientError::Unreadable(e.to_string()))?,
        };
        let reply = self
            .inner
            .clone()
            .start_run(request)
            .await
            .map_err(|s| self.error(s))?
            .into_inner();
        Ok(if reply.known {
            Started::Known
        } else {
            Started::New
        })
    }

    /// Follows a run, from a line of its log on. The stream ends with the result, or with an error.
    pub async fn watch_run(&self, id: &str, from: u64) -> Result<RunEvents, ClientError> {
        let request = proto::WatchRunRequest {
            id: id.to_owned(),
            from,
        };
        let mut stream = self
            .inner
            .clone()
            .watch_run(request)
            .await
            .map_err(|s| self.error(s))?
            .into_inner();
        let place = self.place.clone();
        let (events, received) = mpsc::channel(64);
        tokio::spawn(async move {
            let mut result = Vec::new();
            loop {
                let event = match stream.message().await {
                    Ok(Some(proto::WatchRunReply { event })) => match event {
                        Some(Event::Progress(json)) => serde_json::from_slice(&json)
                            .map(RunEvent::Progress)
                            .map_err(|e| ClientError::Unreadable(e.to_string())),
                        Some(Event::Log(proto::LogLine {
                            number,
                            stderr,
                            text,
                        })) => Ok(RunEvent::Log(LogLine {
                            number,
                            stderr,
                            text,
                        })),
                        Some(Event::ResultChunk(chunk)) => {
                            if result.len() + chunk.len() > LARGEST_RESULT {
                                Err(ClientError::Unreadable("a result beyond 64 MiB".into()))
                            } else {
                                result.extend_from_slice(&chunk);
                                continue;
                            }
                        }
                        // From a newer agent: nothing that this side needs.
                        None => continue,
                    },
                    Ok(None) => {
                        let end = serde_json::from_slice(&result)
                            .map(|result| RunEvent::Result(Box::new(result)))
                            .map_err(|e| {
                                ClientError::Unreadable(format!("the end of the run: {e}"))
                            });
                        let _ = events.send(end).await;
                        return;
                    }
                    Err(status) => Err(ClientError::of(&place, status)),
                };
                let last = event.is_err();
                if events.send(event).await.is_err() || last {
                    return;
                }
            }
        });
        Ok(Box::pin(ReceiverStream::new(received)))
    }

    /// Waits for the end of a run, passing over its other news.
    pub async fn wait_run(&self, id: &str) -> Result<RunResult, ClientError> {
        let mut events = self.watch_run(id, u64::MAX).await?;
        while let Some(event) = events.next().await {
            if let RunEvent::Result(result) = event? {
                return Ok(*result);
            }
        }
        Err(ClientError::Unreadable(
            "the end of the run is missing".into(),
        ))
    }

    pub async fn cancel_run(&self, id: &str) -> Result<(), ClientError> {
        let request = proto::CancelRunRequest {
            epoch: self.epoch,
            id: id.to_owned(),
        };
        self.inner
            .clone()
            .cancel_run(request)
            .await
            .map_err(|s| self.error(s))?;
        Ok(())
    }

    /// Lets the agent forget a run that has ended and was recorded elsewhere.
    pub async fn forget_run(&self, id: &str) -> Result<(), ClientError> {
        let request = proto::ForgetRunRequest {
            epoch: self.epoch,
            id: id.to_owned(),
        };
        self.inner
            .clone()
            .forget_run(request)
            .await
            .map_err(|s| self.error(s))?;
        Ok(())
    }

    pub async fn list_runs(&self) -> Result<Vec<RunSummary>, ClientError> {
        let reply = self
            .inner
            .clone()
            .list_runs(proto::ListRunsRequest {})
            .await
            .map_err(|s| self.error(s))?;
        let summary = |run: proto::RunSummary| {
            let proto::RunSummary {
                id,
                operation,
                state,
                accepted_at_ms,
            } = run;
            let state = serde_json::from_value(state.into())
                .map_err(|e| ClientError::Unreadable(e.to_string()))?;
            Ok(RunSummary {
                id,
                operation,
                state,
                accepted_at_ms,
            })
        };
        reply.into_inner().runs.into_iter().map(summary).collect()
    }

    /// Asks the agent to end: it interrupts its run and lets it finish.
    pub async fn shutdown(&self) -> Result<(), ClientError> {
        let request = proto::ShutdownRequest { epoch: self.epoch };
        self.inner
            .clone()
            .shutdown(request)
            .await
            .map_err(|s| self.error(s))?;
        Ok(())
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
