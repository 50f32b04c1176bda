//! Speaks to an agent in the words of `windlass_api::run`. Nobody else sees the messages.

mod connect;
mod tame;
mod words;

use std::io;

use sha2::{Digest, Sha256};
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::sync::mpsc;
use tokio_stream::StreamExt;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Status;
use tonic::transport::Channel;
use windlass_api::run::{RunRequest, RunResult};

use crate::proto::put_tree_request::Part;
use crate::proto::watch_run_reply::Event;
use crate::proto::{self, agent_client};
use crate::server::{LARGEST_MESSAGE, PROTOCOL};

pub use crate::agent::LogLine;
pub use words::{AgentInfo, ClientError, RunEvent, RunEvents, RunSummary, Started, TreePut};

/// An agent is trusted for its own workspace only: a result beyond this is refused.
const LARGEST_RESULT: usize = 64 << 20;
/// Largest message of an agent. Results come in pieces, and lines of a log are cut by agents that mean well.
const LARGEST_REPLY: usize = 1 << 20;
const CHUNK: usize = 256 << 10;

/// A connection to one agent. Cheap to clone; clones share the connection.
#[derive(Clone, Debug)]
pub struct AgentClient {
    inner: agent_client::AgentClient<Channel>,
    place: String,
    epoch: u64,
    distrust: connect::Distrust,
}

impl AgentClient {
    fn over(channel: Channel, place: String, epoch: u64) -> AgentClient {
        let inner = agent_client::AgentClient::new(channel)
            .max_decoding_message_size(LARGEST_REPLY)
            .max_encoding_message_size(LARGEST_MESSAGE);
        AgentClient {
            inner,
            place,
            epoch,
            distrust: connect::Distrust::default(),
        }
    }

    fn error(&self, status: Status) -> ClientError {
        ClientError::of(&self.place, status, self.distrust.said())
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
        tame::info(AgentInfo {
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
        tar: impl AsyncRead + Send + Unpin + 'static,
    ) -> Result<TreePut, ClientError> {
        if self.has_tree(digest).await? {
            return Ok(TreePut::Present);
        }
        self.send_tree(digest, None, tar).await
    }

    /// As [`AgentClient::put_tree`], and the workspace directory shows a directory of the tree from then on. That is
    /// what an agent waits for that only receives.
    pub async fn show_tree(
        &self,
        digest: &str,
        dir: &str,
        tar: impl AsyncRead + Send + Unpin + 'static,
    ) -> Result<TreePut, ClientError> {
        self.send_tree(digest, Some(dir.to_owned()), tar).await
    }

    async fn send_tree(
        &self,
        digest: &str,
        show: Option<String>,
        mut tar: impl AsyncRead + Send + Unpin + 'static,
    ) -> Result<TreePut, ClientError> {
        let (parts, stream) = mpsc::channel(4);
        let head = Part::Head(proto::PutTreeHead {
            epoch: self.epoch,
            digest: digest.to_owned(),
            show,
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
        let (client, id) = (self.clone(), id.to_owned());
        let (events, received) = mpsc::channel(16);
        tokio::spawn(async move {
            let mut result = Vec::new();
            // Who wants no lines asks from the end of all numbers.
            let mut next = from;
            loop {
                let event = match stream.message().await {
                    Ok(Some(proto::WatchRunReply { event })) => match event {
                        Some(Event::Progress(json)) => serde_json::from_slice(&json)
                            .map(|p| RunEvent::Progress(tame::progress(p)))
                            .map_err(|e| ClientError::Unreadable(e.to_string())),
                        Some(Event::Log(proto::LogLine {
                            number,
                            stderr,
                            text,
                        })) => {
                            let line = LogLine {
                                number,
                                stderr,
                                text,
                            };
                            tame::line(line, next).map(|line| {
                                next = line.number.saturating_add(1);
                                RunEvent::Log(line)
                            })
                        }
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
                            .map_err(|e| {
                                ClientError::Unreadable(format!("the end of the run: {e}"))
                            })
                            .and_then(|result| tame::result(&id, result))
                            .map(|result| RunEvent::Result(Box::new(result)));
                        let _ = events.send(end).await;
                        return;
                    }
                    Err(status) => Err(client.error(status)),
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
        let runs: Result<_, ClientError> =
            reply.into_inner().runs.into_iter().map(summary).collect();
        tame::summaries(runs?)
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
