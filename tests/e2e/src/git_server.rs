//! A real Git server: `git http-backend` behind axum, with authentication, TLS,
//! counted requests, and ways to misbehave.

use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use axum::body::{Body, Bytes};
use axum::extract::{Request, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use base64::Engine as _;
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpListener;

use crate::git_repo::{TestRepo, git};

/// Who may read a repository or file.
#[derive(Debug, Clone)]
pub enum Access {
    Public,
    Basic { user: String, pass: String },
    Bearer { token: String },
    Header { name: String, value: String },
}

/// How requests for a repository or file are answered.
#[derive(Debug, Clone)]
pub enum Behaviour {
    Serve,
    /// Sends the headers of a good answer, then nothing, for ever.
    HangAfterHeaders,
    /// This status and nothing else.
    Fail(u16),
    /// To the same path with this in front instead of the server's own address.
    RedirectTo(String),
}

/// One request as it came.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seen {
    pub method: String,
    pub path: String,
    pub query: String,
    pub authorized: bool,
}

/// What requests say they are for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// The first request of any conversation.
    Handshake,
    /// Listing refs, or fetching: the second request and those after it.
    Exchange,
    /// Any other path.
    File,
}

impl Seen {
    /// What the request is for.
    pub fn purpose(&self) -> Purpose {
        if self.path.ends_with("/info/refs") {
            Purpose::Handshake
        } else if self.path.ends_with("/git-upload-pack") {
            Purpose::Exchange
        } else {
            Purpose::File
        }
    }
}

#[derive(Default)]
struct Places {
    access: HashMap<String, Access>,
    behaviour: HashMap<String, Behaviour>,
    files: HashMap<String, Bytes>,
    seen: Vec<Seen>,
}

struct Shared {
    root: PathBuf,
    places: Mutex<Places>,
}

/// A running server; it ends when dropped.
pub struct GitServer {
    shared: Arc<Shared>,
    address: SocketAddr,
    ca_pem: Option<String>,
    task: tokio::task::JoinHandle<()>,
    _root: tempfile::TempDir,
}

impl Drop for GitServer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl GitServer {
    /// Serves over plain http on a free port of this machine.
    pub async fn start() -> io::Result<Self> {
        Self::start_with(None).await
    }

    /// Serves over https with a certificate of an authority of its own.
    pub async fn start_tls() -> io::Result<Self> {
        Self::start_with(Some(tls()?)).await
    }

    async fn start_with(tls: Option<Tls>) -> io::Result<Self> {
        let root = tempfile::tempdir()?;
        let shared = Arc::new(Shared {
            root: root.path().to_owned(),
            places: Mutex::default(),
        });
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let app = axum::Router::new()
            .fallback(handle)
            .with_state(Arc::clone(&shared));
        let (acceptor, ca_pem) = tls.map(|tls| (tls.acceptor, tls.ca_pem)).unzip();
        let task = tokio::spawn(serve(listener, acceptor, app));
        Ok(GitServer {
            shared,
            address,
            ca_pem,
            task,
            _root: root,
        })
    }

    /// Makes an empty repository.
    pub fn repo(&self, name: &str) -> io::Result<TestRepo> {
        TestRepo::create(&self.shared.root.join(name))
    }

    /// Offers bytes under a path without leading slash.
    pub fn put_file(&self, path: &str, content: impl Into<Bytes>) {
        self.places().files.insert(path.to_owned(), content.into());
    }

    /// The address of a repository or file.
    pub fn url(&self, name: &str) -> String {
        let (scheme, host) = match self.ca_pem {
            Some(_) => ("https", "localhost"),
            None => ("http", "127.0.0.1"),
        };
        format!("{scheme}://{host}:{}/{name}", self.address.port())
    }

    /// The authority's certificate, of a server with TLS.
    pub fn ca_pem(&self) -> Option<&str> {
        self.ca_pem.as_deref()
    }

    /// Who may read what begins with this name from now on.
    pub fn set_access(&self, name: &str, access: Access) {
        self.places().access.insert(name.to_owned(), access);
    }

    /// How what begins with this name behaves from now on.
    pub fn set_behaviour(&self, name: &str, behaviour: Behaviour) {
        self.places().behaviour.insert(name.to_owned(), behaviour);
    }

    /// All requests so far whose path begins with `/name`.
    pub fn seen(&self, name: &str) -> Vec<Seen> {
        let prefix = format!("/{name}");
        self.places()
            .seen
            .iter()
            .filter(|one| one.path.starts_with(&prefix))
            .cloned()
            .collect()
    }

    /// Conversations so far: every listing of refs is one, every fetch is one.
    pub fn conversations(&self, name: &str) -> usize {
        self.seen(name)
            .iter()
            .filter(|one| one.authorized && one.purpose() == Purpose::Handshake)
            .count()
    }

    fn places(&self) -> MutexGuard<'_, Places> {
        self.shared.places()
    }
}

impl Shared {
    fn places(&self) -> MutexGuard<'_, Places> {
        self.places.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The value whose key is the longest beginning of a path.
fn of_path<'a, T>(map: &'a HashMap<String, T>, path: &str) -> Option<&'a T> {
    let fits = map
        .iter()
        .filter(|(name, _)| path.trim_start_matches('/').starts_with(name.as_str()));
    fits.max_by_key(|(name, _)| name.len())
        .map(|(_, value)| value)
}

fn authorized(access: Option<&Access>, headers: &HeaderMap) -> bool {
    let given = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    match access {
        None | Some(Access::Public) => true,
        Some(Access::Basic { user, pass }) => {
            let wanted = base64::engine::general_purpose::STANDARD.encode(format!("{user}:{pass}"));
            given("authorization") == Some(&format!("Basic {wanted}"))
        }
        Some(Access::Bearer { token }) => {
            given("authorization") == Some(&format!("Bearer {token}"))
        }
        Some(Access::Header { name, value }) => given(name) == Some(value),
    }
}

async fn handle(State(shared): State<Arc<Shared>>, request: Request) -> Response {
    let path = request.uri().path().to_owned();
    let query = request.uri().query().unwrap_or_default().to_owned();
    let (allowed, behaviour, file) = {
        let mut places = shared.places();
        let allowed = authorized(of_path(&places.access, &path), request.headers());
        let method = request.method().to_string();
        places.seen.push(Seen {
            method,
            path: path.clone(),
            query: query.clone(),
            authorized: allowed,
        });
        let behaviour = of_path(&places.behaviour, &path)
            .cloned()
            .unwrap_or(Behaviour::Serve);
        (
            allowed,
            behaviour,
            places.files.get(path.trim_start_matches('/')).cloned(),
        )
    };
    if !allowed {
        return (
            StatusCode::UNAUTHORIZED,
            [(header::WWW_AUTHENTICATE, "Basic realm=\"test\"")],
        )
            .into_response();
    }
    match behaviour {
        Behaviour::Serve => {}
        Behaviour::HangAfterHeaders => {
            let kind = "application/x-git-upload-pack-advertisement";
            let body = Body::from_stream(Silence);
            return ([(header::CONTENT_TYPE, kind)], body).into_response();
        }
        Behaviour::Fail(status) => {
            return StatusCode::from_u16(status)
                .unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
                .into_response();
        }
        Behaviour::RedirectTo(base) => {
            let to = if query.is_empty() {
                format!("{base}{path}")
            } else {
                format!("{base}{path}?{query}")
            };
            return (StatusCode::FOUND, [(header::LOCATION, to)]).into_response();
        }
    }
    if let Some(file) = file {
        return file.into_response();
    }
    match backend(&shared, request, &path, &query).await {
        Ok(response) => response,
        Err(err) => (StatusCode::INTERNAL_SERVER_ERROR, err.to_string()).into_response(),
    }
}

/// A body of which nothing ever comes.
struct Silence;

impl futures::Stream for Silence {
    type Item = io::Result<Bytes>;

    fn poll_next(
        self: std::pin::Pin<&mut Self>,
        _: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<Self::Item>> {
        std::task::Poll::Pending
    }
}

/// Has `git http-backend` answer, by the rules of CGI.
async fn backend(
    shared: &Shared,
    request: Request,
    path: &str,
    query: &str,
) -> io::Result<Response> {
    let (head, body) = request.into_parts();
    let text = |name: &str| {
        head.headers
            .get(name)
            .and_then(|value| value.to_str().ok())
            .unwrap_or_default()
    };
    let mut command = tokio::process::Command::from(git());
    command
        .arg("http-backend")
        .env("GIT_PROJECT_ROOT", &shared.root)
        .env("GIT_HTTP_EXPORT_ALL", "1")
        .env("PATH_INFO", path)
        .env("QUERY_STRING", query)
        .env("REQUEST_METHOD", head.method.as_str())
        .env("CONTENT_TYPE", text("content-type"))
        .env("HTTP_CONTENT_ENCODING", text("content-encoding"))
        .env("GIT_PROTOCOL", text("git-protocol"))
        .env("REMOTE_ADDR", "127.0.0.1")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .kill_on_drop(true);
    let body = axum::body::to_bytes(body, 64 << 20)
        .await
        .map_err(io::Error::other)?;
    let mut child = command.spawn()?;
    if let Some(mut stdin) = child.stdin.take() {
        tokio::spawn(async move { stdin.write_all(&body).await.ok() });
    }
    let output = child.wait_with_output().await?.stdout;
    let end = output.windows(4).position(|four| four == b"\r\n\r\n");
    let Some(end) = end else {
        return Err(io::Error::other("git http-backend gave no headers"));
    };
    let mut response = Response::builder();
    for line in String::from_utf8_lossy(&output[..end]).lines() {
        let Some((name, value)) = line.split_once(':') else {
            continue;
        };
        if name.eq_ignore_ascii_case("status") {
            let code = value
                .trim()
                .get(..3)
                .and_then(|code| code.parse::<u16>().ok())
                .unwrap_or(500);
            response = response.status(code);
        } else {
            response = response.header(name, value.trim());
        }
    }
    response
        .body(Body::from(output[end + 4..].to_vec()))
        .map_err(io::Error::other)
}

struct Tls {
    acceptor: tokio_rustls::TlsAcceptor,
    ca_pem: String,
}

/// An authority and a certificate by it for `localhost`.
fn tls() -> io::Result<Tls> {
    let made = || -> Result<_, rcgen::Error> {
        let mut authority = rcgen::CertificateParams::new(Vec::new())?;
        authority.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        authority
            .distinguished_name
            .push(rcgen::DnType::CommonName, "Test authority");
        let authority_key = rcgen::KeyPair::generate()?;
        let ca_pem = authority.self_signed(&authority_key)?.pem();
        let issuer = rcgen::Issuer::new(authority, authority_key);
        let key = rcgen::KeyPair::generate()?;
        let names = vec!["localhost".to_owned(), "127.0.0.1".to_owned()];
        let cert = rcgen::CertificateParams::new(names)?.signed_by(&key, &issuer)?;
        Ok((ca_pem, cert.der().clone(), key.serialize_der()))
    };
    let (ca_pem, cert, key) = made().map_err(io::Error::other)?;
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .and_then(|builder| {
            let key = rustls::pki_types::PrivatePkcs8KeyDer::from(key).into();
            builder
                .with_no_client_auth()
                .with_single_cert(vec![cert], key)
        })
        .map_err(io::Error::other)?;
    Ok(Tls {
        acceptor: tokio_rustls::TlsAcceptor::from(Arc::new(config)),
        ca_pem,
    })
}

async fn serve(
    listener: TcpListener,
    acceptor: Option<tokio_rustls::TlsAcceptor>,
    app: axum::Router,
) {
    let Some(acceptor) = acceptor else {
        axum::serve(listener, app).await.ok();
        return;
    };
    let mut connections = tokio::task::JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        let (acceptor, app) = (acceptor.clone(), app.clone());
        connections.spawn(async move {
            let Ok(stream) = acceptor.accept(stream).await else {
                return;
            };
            let io = hyper_util::rt::TokioIo::new(stream);
            let service = hyper_util::service::TowerToHyperService::new(app);
            let server =
                hyper_util::server::conn::auto::Builder::new(hyper_util::rt::TokioExecutor::new());
            server.serve_connection(io, service).await.ok();
        });
    }
}
