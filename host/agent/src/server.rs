//! The agent's side of the protocol.

use std::io::Read;
use std::pin::Pin;
use std::sync::Arc;

use futures::Stream;
use sha2::{Digest, Sha256};
use tokio::sync::{mpsc, watch};
use tokio_stream::StreamExt;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status, Streaming};
use windlass_api::run::{InterruptCause, RunRequest};

use crate::agent::{Agent, AgentError, Look, Run};
use crate::proto::put_tree_request::Part;
use crate::proto::watch_run_reply::Event;
use crate::proto::{self, agent_server};
use crate::tree::TreeError;

/// Spoken here; the one before is understood.
pub const PROTOCOL: u32 = 1;
const OLDEST_PROTOCOL: u32 = 1;
/// A result goes in pieces of this size.
const CHUNK: usize = 256 << 10;
/// Largest message in either direction.
pub const LARGEST_MESSAGE: usize = 8 << 20;

/// Serves one agent.
pub struct Service {
    pub agent: Arc<Agent>,
    /// Set when the agent is asked to end.
    pub shutdown: watch::Sender<bool>,
    /// Takes no runs, and ends when a tree is shown.
    pub receiving: bool,
}

impl Service {
    pub fn into_server(self) -> agent_server::AgentServer<Service> {
        agent_server::AgentServer::new(self)
            .max_decoding_message_size(LARGEST_MESSAGE)
            .max_encoding_message_size(LARGEST_MESSAGE)
    }
}

impl Service {
    /// Lets the workspace directory show a directory of a tree, if that was asked for.
    // The type is tonic's own.
    #[allow(clippy::result_large_err)]
    fn show(&self, digest: &str, dir: Option<String>) -> Result<(), Status> {
        let Some(dir) = dir else { return Ok(()) };
        crate::visit::show(&self.agent.workspace, digest, &dir)?;
        if self.receiving {
            self.shutdown.send_replace(true);
        }
        Ok(())
    }
}

impl From<crate::visit::ShowError> for Status {
    fn from(error: crate::visit::ShowError) -> Status {
        use crate::visit::ShowError;
        let text = error.to_string();
        match error {
            ShowError::NoDirectory { .. } => Status::invalid_argument(text),
            ShowError::NotOurs(_) => Status::already_exists(text),
            ShowError::Unwritable { .. } => Status::internal(text),
        }
    }
}

impl From<AgentError> for Status {
    fn from(error: AgentError) -> Status {
        let text = error.to_string();
        match error {
            AgentError::StaleEpoch { .. } => Status::failed_precondition(text),
            AgentError::Busy { .. } | AgentError::StillRunning(_) => {
                Status::resource_exhausted(text)
            }
            AgentError::UnknownRun(_) => Status::not_found(text),
            AgentError::BadId(_) => Status::invalid_argument(text),
            AgentError::Stopping => Status::unavailable(text),
            AgentError::StateDirTaken(_)
            | AgentError::StateDirUnusable { .. }
            | AgentError::Journal(_) => Status::internal(text),
        }
    }
}

impl From<TreeError> for Status {
    fn from(error: TreeError) -> Status {
        let text = error.to_string();
        match error {
            TreeError::DigestInvalid(_)
            | TreeError::TreeEscapes(_)
            | TreeError::TreeEntryUnsupported(_) => Status::invalid_argument(text),
            TreeError::TreeTooLarge => Status::out_of_range(text),
            TreeError::TreeTorn(_) => Status::data_loss(text),
            TreeError::TreeUnwritable(_) => Status::internal(text),
        }
    }
}

#[tonic::async_trait]
impl agent_server::Agent for Service {
    async fn hello(
        &self,
        request: Request<proto::HelloRequest>,
    ) -> Result<Response<proto::HelloReply>, Status> {
        let proto::HelloRequest { protocol, epoch } = request.into_inner();
        if protocol < OLDEST_PROTOCOL {
            return Err(Status::unimplemented(format!(
                "protocol {protocol} is too old: this agent speaks {OLDEST_PROTOCOL} to {PROTOCOL}"
            )));
        }
        self.agent.check_epoch(epoch)?;
        let workspace = &self.agent.workspace;
        let env = workspace.env_with(&Default::default());
        let (pulumi_version, pulumi_problem) = match workspace.finder.find(&env).await {
            Ok(cli) => (cli.version, String::new()),
            Err(e) => (String::new(), e.to_string()),
        };
        Ok(Response::new(proto::HelloReply {
            protocol: PROTOCOL.min(protocol),
            boot_id: self.agent.boot_id.clone(),
            pid: std::process::id(),
            agent_version: env!("CARGO_PKG_VERSION").to_owned(),
            pulumi_version,
            pulumi_problem,
            open_run: self.agent.open_run().unwrap_or_default(),
            hostname: rustix::system::uname()
                .nodename()
                .to_string_lossy()
                .into_owned(),
        }))
    }

    async fn has_tree(
        &self,
        request: Request<proto::HasTreeRequest>,
    ) -> Result<Response<proto::HasTreeReply>, Status> {
        let present = self
            .agent
            .workspace
            .trees
            .path(&request.into_inner().digest)
            .is_some();
        Ok(Response::new(proto::HasTreeReply { present }))
    }

    async fn put_tree(
        &self,
        request: Request<Streaming<proto::PutTreeRequest>>,
    ) -> Result<Response<proto::PutTreeReply>, Status> {
        let mut parts = request.into_inner();
        let Some(Part::Head(proto::PutTreeHead {
            epoch,
            digest,
            show,
        })) = parts.message().await?.and_then(|m| m.part)
        else {
            return Err(Status::invalid_argument("a tree begins with its head"));
        };
        self.agent.check_epoch(epoch)?;
        if self.agent.workspace.trees.path(&digest).is_some() {
            self.show(&digest, show)?;
            return Ok(Response::new(proto::PutTreeReply {
                bytes: 0,
                entries: 0,
                present: true,
            }));
        }
        let (chunks, arriving) = mpsc::channel(4);
        let (agent, name) = (self.agent.clone(), digest.clone());
        let unpacking = tokio::task::spawn_blocking(move || {
            let mut incoming = Incoming {
                arriving,
                chunk: Vec::new(),
                at: 0,
                hash: Sha256::new(),
                end: None,
            };
            let by_ref = &mut incoming;
            // Read twice: once by the archive, to its end; then what follows it, for the sum over everything.
            let cell = std::cell::RefCell::new(by_ref);
            agent
                .workspace
                .trees
                .put(&name, Shared(&cell), || cell.borrow_mut().verify())
        });
        while let Some(message) = parts.message().await? {
            let piece = match message.part {
                Some(Part::Chunk(bytes)) => Piece::Bytes(bytes),
                Some(Part::End(proto::PutTreeEnd { sha256 })) => Piece::End(sha256),
                Some(Part::Head(_)) | None => {
                    return Err(Status::invalid_argument("only chunks follow the head"));
                }
            };
            if chunks.send(piece).await.is_err() {
                break;
            }
        }
        drop(chunks);
        let unpacked = unpacking
            .await
            .map_err(|e| Status::internal(e.to_string()))??;
        self.show(&digest, show)?;
        Ok(Response::new(proto::PutTreeReply {
            bytes: unpacked.bytes,
            entries: unpacked.entries,
            present: false,
        }))
    }

    async fn start_run(
        &self,
        request: Request<proto::StartRunRequest>,
    ) -> Result<Response<proto::StartRunReply>, Status> {
        let proto::StartRunRequest { epoch, id, spec } = request.into_inner();
        if self.receiving {
            return Err(Status::unavailable(
                "this agent only receives the program: another one runs it later",
            ));
        }
        let spec: RunRequest = serde_json::from_slice(&spec).map_err(|e| {
            Status::invalid_argument(format!("the request of the run cannot be read: {e}"))
        })?;
        if spec.id != id || spec.epoch != epoch {
            return Err(Status::invalid_argument(
                "id or epoch differ between the message and its spec",
            ));
        }
        Ok(Response::new(proto::StartRunReply {
            known: !self.agent.start(spec)?,
        }))
    }

    type WatchRunStream = Pin<Box<dyn Stream<Item = Result<proto::WatchRunReply, Status>> + Send>>;

    async fn watch_run(
        &self,
        request: Request<proto::WatchRunRequest>,
    ) -> Result<Response<Self::WatchRunStream>, Status> {
        let proto::WatchRunRequest { id, from } = request.into_inner();
        let run = self.agent.run(&id)?;
        let (events, stream) = mpsc::channel(16);
        tokio::spawn(watch_run(self.agent.clone(), run, from, events));
        let stream = ReceiverStream::new(stream)
            .map(|event| Ok(proto::WatchRunReply { event: Some(event) }));
        Ok(Response::new(Box::pin(stream)))
    }

    async fn cancel_run(
        &self,
        request: Request<proto::CancelRunRequest>,
    ) -> Result<Response<proto::CancelRunReply>, Status> {
        let proto::CancelRunRequest { epoch, id } = request.into_inner();
        self.agent.cancel(epoch, &id, InterruptCause::Cancelled)?;
        Ok(Response::new(proto::CancelRunReply {}))
    }

    async fn forget_run(
        &self,
        request: Request<proto::ForgetRunRequest>,
    ) -> Result<Response<proto::ForgetRunReply>, Status> {
        let proto::ForgetRunRequest { epoch, id } = request.into_inner();
        self.agent.forget(epoch, &id)?;
        Ok(Response::new(proto::ForgetRunReply {}))
    }

    async fn list_runs(
        &self,
        _: Request<proto::ListRunsRequest>,
    ) -> Result<Response<proto::ListRunsReply>, Status> {
        let summary = |run: Arc<Run>| proto::RunSummary {
            id: run.request.id.clone(),
            operation: run.request.operation.as_str().to_owned(),
            state: serde_json::to_value(run.state())
                .ok()
                .and_then(|v| Some(v.as_str()?.to_owned()))
                .unwrap_or_default(),
            accepted_at_ms: run.accepted_at_ms,
        };
        Ok(Response::new(proto::ListRunsReply {
            runs: self.agent.runs().into_iter().map(summary).collect(),
        }))
    }

    async fn shutdown(
        &self,
        request: Request<proto::ShutdownRequest>,
    ) -> Result<Response<proto::ShutdownReply>, Status> {
        self.agent.check_epoch(request.into_inner().epoch)?;
        self.shutdown.send_replace(true);
        Ok(Response::new(proto::ShutdownReply {}))
    }
}

/// Tells one watcher everything up to the result. Ends when the watcher is gone.
async fn watch_run(agent: Arc<Agent>, run: Arc<Run>, mut from: u64, events: mpsc::Sender<Event>) {
    let mut changes = run.changes();
    let mut told = None;
    loop {
        changes.mark_unchanged();
        let Look {
            progress,
            lines,
            more,
            result,
        } = run.look(from);
        if told.as_ref() != Some(&progress) {
            let json = serde_json::to_vec(&progress).unwrap_or_default();
            if events.send(Event::Progress(json)).await.is_err() {
                return;
            }
            told = Some(progress);
        }
        for line in lines {
            from = line.number + 1;
            let line = proto::LogLine {
                number: line.number,
                stderr: line.stderr,
                text: line.text,
            };
            if events.send(Event::Log(line)).await.is_err() {
                return;
            }
        }
        if more {
            continue;
        }
        if result.is_some() {
            agent.unmask(&run).await;
            let Look {
                result: Some(result),
                ..
            } = run.look(u64::MAX)
            else {
                return;
            };
            let json = serde_json::to_vec(&result).unwrap_or_default();
            for chunk in json.chunks(CHUNK) {
                if events
                    .send(Event::ResultChunk(chunk.to_vec()))
                    .await
                    .is_err()
                {
                    return;
                }
            }
            return;
        }
        tokio::select! {
            changed = changes.changed() => if changed.is_err() { return },
            () = events.closed() => return,
        }
    }
}

enum Piece {
    Bytes(Vec<u8>),
    End(String),
}

/// The arriving tree, as something to read; sums up what it gives.
struct Incoming {
    arriving: mpsc::Receiver<Piece>,
    chunk: Vec<u8>,
    at: usize,
    hash: Sha256,
    end: Option<String>,
}

impl Read for Incoming {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        while self.at == self.chunk.len() {
            if self.end.is_some() {
                return Ok(0);
            }
            match self.arriving.blocking_recv() {
                Some(Piece::Bytes(bytes)) => {
                    self.hash.update(&bytes);
                    self.chunk = bytes;
                    self.at = 0;
                }
                Some(Piece::End(sha256)) => self.end = Some(sha256),
                None => {
                    return Err(std::io::Error::new(
                        std::io::ErrorKind::UnexpectedEof,
                        "the sender is gone",
                    ));
                }
            }
        }
        let n = buffer.len().min(self.chunk.len() - self.at);
        buffer[..n].copy_from_slice(&self.chunk[self.at..self.at + n]);
        self.at += n;
        Ok(n)
    }
}

impl Incoming {
    /// After the archive: the rest must be padding, and the sum must be the sender's.
    fn verify(&mut self) -> Result<(), TreeError> {
        std::io::copy(self, &mut std::io::sink())
            .map_err(|e| TreeError::TreeTorn(e.to_string()))?;
        let sum = hex::encode(self.hash.clone().finalize());
        match &self.end {
            Some(end) if *end == sum => Ok(()),
            _ => Err(TreeError::TreeTorn(
                "its sum differs from the sender's".into(),
            )),
        }
    }
}

struct Shared<'a, 'b>(&'a std::cell::RefCell<&'b mut Incoming>);

impl Read for Shared<'_, '_> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        self.0.borrow_mut().read(buffer)
    }
}
