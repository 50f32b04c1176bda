//! An agent that lies: what its words do to the operator's side.
#![allow(clippy::unwrap_used)]

use std::path::PathBuf;
use std::pin::Pin;

use futures::Stream;
use tempfile::TempDir;
use tokio::net::UnixListener;
use tokio_stream::wrappers::UnixListenerStream;
use tonic::{Request, Response, Status, Streaming};
use windlass_agent::{AgentClient, ClientError, RunEvent};

mod proto {
    #![allow(clippy::all, clippy::unwrap_used, dead_code)]
    tonic::include_proto!("windlass.agent.v1");
}

use proto::watch_run_reply::Event;

type Replies = Pin<Box<dyn Stream<Item = Result<proto::WatchRunReply, Status>> + Send>>;

/// Says whatever a test wants.
struct Evil {
    hello: proto::HelloReply,
    runs: Vec<proto::RunSummary>,
    events: Box<dyn Fn() -> Box<dyn Iterator<Item = Event> + Send> + Send + Sync>,
}

impl Evil {
    fn saying<I>(events: impl Fn() -> I + Send + Sync + 'static) -> Evil
    where
        I: Iterator<Item = Event> + Send + 'static,
    {
        Evil {
            hello: proto::HelloReply {
                protocol: 1,
                boot_id: "b".into(),
                hostname: "h".into(),
                ..Default::default()
            },
            runs: Vec::new(),
            events: Box::new(move || Box::new(events())),
        }
    }
}

fn none<T>() -> Result<Response<T>, Status> {
    Err(Status::unimplemented("no"))
}

#[tonic::async_trait]
impl proto::agent_server::Agent for Evil {
    async fn hello(
        &self,
        _: Request<proto::HelloRequest>,
    ) -> Result<Response<proto::HelloReply>, Status> {
        Ok(Response::new(self.hello.clone()))
    }
    async fn has_tree(
        &self,
        _: Request<proto::HasTreeRequest>,
    ) -> Result<Response<proto::HasTreeReply>, Status> {
        none()
    }
    async fn put_tree(
        &self,
        _: Request<Streaming<proto::PutTreeRequest>>,
    ) -> Result<Response<proto::PutTreeReply>, Status> {
        none()
    }
    async fn start_run(
        &self,
        _: Request<proto::StartRunRequest>,
    ) -> Result<Response<proto::StartRunReply>, Status> {
        // Words as long as a message of HTTP/2 carries them.
        Err(Status::invalid_argument("x".repeat(6000)))
    }
    type WatchRunStream = Replies;
    async fn watch_run(
        &self,
        _: Request<proto::WatchRunRequest>,
    ) -> Result<Response<Replies>, Status> {
        let events = (self.events)().map(|e| Ok(proto::WatchRunReply { event: Some(e) }));
        Ok(Response::new(Box::pin(tokio_stream::iter(events))))
    }
    async fn cancel_run(
        &self,
        _: Request<proto::CancelRunRequest>,
    ) -> Result<Response<proto::CancelRunReply>, Status> {
        none()
    }
    async fn forget_run(
        &self,
        _: Request<proto::ForgetRunRequest>,
    ) -> Result<Response<proto::ForgetRunReply>, Status> {
        none()
    }
    async fn list_runs(
        &self,
        _: Request<proto::ListRunsRequest>,
    ) -> Result<Response<proto::ListRunsReply>, Status> {
        let runs = self.runs.clone();
        Ok(Response::new(proto::ListRunsReply { runs }))
    }
    async fn shutdown(
        &self,
        _: Request<proto::ShutdownRequest>,
    ) -> Result<Response<proto::ShutdownReply>, Status> {
        none()
    }
}

struct Place {
    _dir: TempDir,
    client: AgentClient,
}

async fn agent(evil: Evil) -> Place {
    let dir = TempDir::new().unwrap();
    let socket: PathBuf = dir.path().join("s");
    let listener = UnixListener::bind(&socket).unwrap();
    let server = proto::agent_server::AgentServer::new(evil)
        .max_encoding_message_size(usize::MAX)
        .max_decoding_message_size(usize::MAX);
    tokio::spawn(
        tonic::transport::Server::builder()
            .add_service(server)
            .serve_with_incoming(UnixListenerStream::new(listener)),
    );
    let client = AgentClient::connect(&socket, 1).await.unwrap();
    Place { _dir: dir, client }
}

/// The end of a run `r-1` of an agent that says this.
async fn end_of<I>(
    events: impl Fn() -> I + Send + Sync + 'static,
) -> Result<windlass_api::run::RunResult, ClientError>
where
    I: Iterator<Item = Event> + Send + 'static,
{
    let place = agent(Evil::saying(events)).await;
    place.client.wait_run("r-1").await
}

fn chunks(text: String) -> impl Fn() -> std::vec::IntoIter<Event> {
    move || {
        let chunks: Vec<Event> = text
            .as_bytes()
            .chunks(256 << 10)
            .map(|c| Event::ResultChunk(c.to_vec()))
            .collect();
        chunks.into_iter()
    }
}

fn result(change: impl FnOnce(&mut serde_json::Value)) -> String {
    let mut result = serde_json::json!({
        "id": "r-1", "operation": "up", "state": "failed", "startedAtMs": 1, "endedAtMs": 2,
        "message": "m", "failure": {"reason": "Why", "stderrTail": "s"},
    });
    change(&mut result);
    result.to_string()
}

#[track_caller]
fn assert_unreadable<T: std::fmt::Debug>(said: Result<T, ClientError>, word: &str) {
    match said {
        Err(ClientError::Unreadable(text)) if text.contains(word) && text.len() < 8192 => {}
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn what_is_said_well_is_heard() {
    let said = end_of(chunks(result(|_| {}))).await.unwrap();
    assert_eq!((said.id.as_str(), said.message.as_str()), ("r-1", "m"));
}

#[tokio::test]
async fn a_result_without_end_is_given_up() {
    let endless = || std::iter::repeat_with(|| Event::ResultChunk(vec![b' '; 512 << 10]));
    assert_unreadable(end_of(endless).await, "64 MiB");
}

#[tokio::test]
async fn a_message_beyond_all_measure_is_not_taken_in() {
    let big = || std::iter::once(Event::ResultChunk(vec![b' '; 32 << 20]));
    assert_unreadable(end_of(big).await, "too large");
    // A line of a log that never ends comes as one message.
    let line = || {
        let text = "x".repeat(900 << 10);
        std::iter::once(Event::Log(proto::LogLine {
            number: 0,
            stderr: false,
            text,
        }))
    };
    let place = agent(Evil::saying(line)).await;
    let mut events = place.client.watch_run("r-1", 0).await.unwrap();
    let said = futures::StreamExt::next(&mut events).await.unwrap();
    assert_unreadable(said, "a line of the log with 921600 bytes");
}

#[tokio::test]
async fn lines_that_come_again_end_the_stream() {
    let again = || {
        (0..).map(|n| {
            Event::Log(proto::LogLine {
                number: n % 3,
                stderr: false,
                text: "again".into(),
            })
        })
    };
    let place = agent(Evil::saying(again)).await;
    let mut events = place.client.watch_run("r-1", 0).await.unwrap();
    let mut lines = 0;
    let end = loop {
        match futures::StreamExt::next(&mut events).await.unwrap() {
            Ok(RunEvent::Log(_)) => lines += 1,
            other => break other,
        }
    };
    assert_unreadable(end, "line 0 of the log after line 2");
    assert_eq!(lines, 3);
}

#[tokio::test]
async fn the_result_of_another_run_is_none_of_this() {
    let other = result(|r| r["id"] = "r-2".into());
    assert_unreadable(end_of(chunks(other)).await, "\"r-2\" for \"r-1\"");
    assert_unreadable(
        end_of(chunks("{\"id\": 7".into())).await,
        "the end of the run",
    );
    assert_unreadable(end_of(chunks(String::new())).await, "the end of the run");
    let raw = || std::iter::once(Event::ResultChunk(vec![0xff, 0xfe, b'{']));
    assert_unreadable(end_of(raw).await, "the end of the run");
    let deep = "[".repeat(100_000);
    assert_unreadable(end_of(chunks(deep)).await, "the end of the run");
    let progress = || std::iter::once(Event::Progress(b"\xffnot json".to_vec()));
    let said = end_of(progress).await;
    assert!(matches!(said, Err(ClientError::Unreadable(_))), "{said:?}");
}

#[tokio::test]
async fn texts_are_cut_and_names_are_names() {
    let long = end_of(chunks(result(|r| {
        r["message"] = "ü".repeat(100_000).into();
        r["permalink"] = "javascript:alert(1)".into();
        r["failure"]["stderrTail"] = "x".repeat(1 << 20).into();
        let one = serde_json::json!({"severity": "error", "message": "y".repeat(100_000)});
        r["failure"]["diagnostics"] = vec![one; 500].into();
    })))
    .await
    .unwrap();
    assert_eq!(long.message.chars().count(), 4096);
    assert_eq!(long.permalink, None);
    let failure = long.failure.unwrap();
    assert!(failure.stderr_tail.len() <= 8192);
    assert_eq!(failure.diagnostics.len(), 20);
    assert!(failure.diagnostics.iter().all(|d| d.message.len() <= 16384));

    let reason = result(|r| r["failure"]["reason"] = "Not a reason\n".into());
    assert_unreadable(end_of(chunks(reason)).await, "reason");
    let project = result(|r| {
        r["project"] = serde_json::json!({"name": "p\u{1b}[2J", "runtime": "yaml"});
    });
    assert_unreadable(end_of(chunks(project)).await, "a project");
    let kinds = result(|r| {
        for i in 0..1000 {
            r["changes"][format!("k{i}")] = 1.into();
        }
    });
    assert_unreadable(end_of(chunks(kinds)).await, "kinds of changes");
}

#[tokio::test]
async fn a_greeting_is_measured_too() {
    let mut evil = Evil::saying(std::iter::empty);
    evil.hello.hostname = "h".repeat(10_000);
    assert_unreadable(agent(evil).await.client.hello().await, "a host's name");
    let mut evil = Evil::saying(std::iter::empty);
    evil.hello.boot_id = "two\nlines".into();
    assert_unreadable(agent(evil).await.client.hello().await, "a boot id");
    let mut evil = Evil::saying(std::iter::empty);
    evil.hello.pulumi_problem = "p".repeat(100_000);
    let info = agent(evil).await.client.hello().await.unwrap();
    assert_eq!(info.pulumi.unwrap_err().len(), 4096);
    let mut evil = Evil::saying(std::iter::empty);
    evil.runs = vec![
        proto::RunSummary {
            id: "r".into(),
            operation: "up".into(),
            state: "succeeded".into(),
            accepted_at_ms: 1,
        };
        5000
    ];
    assert_unreadable(agent(evil).await.client.list_runs().await, "5000 runs");
}

#[tokio::test]
async fn a_refusal_is_as_long_as_a_person_reads() {
    let place = agent(Evil::saying(std::iter::empty)).await;
    let request = serde_json::json!({
        "id": "r-1", "epoch": 1, "operation": "up", "stack": "s", "create": false,
        "program": {"type": "workspacePath", "dir": "p"},
    });
    let request = serde_json::from_value(request).unwrap();
    match place.client.start_run(&request).await {
        Err(ClientError::Refused(text)) => assert_eq!(text.len(), 4096),
        other => panic!("{other:?}"),
    }
}
