//! A bucket and a registry, as small as their protocols allow, on threads of their own.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, Response, StatusCode};
use hmac::{Hmac, Mac};
use serde_json::json;
use sha2::{Digest, Sha256};

/// A server on a free port of this machine, until the test's process ends.
fn serve<S: Clone + Send + Sync + 'static>(
    state: S,
    handle: fn(&S, &Request) -> Response<Body>,
) -> SocketAddr {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let address = listener.local_addr().unwrap();
    let router = Router::new()
        .fallback(move |State(state): State<S>, request: Request| async move {
            handle(&state, &request)
        })
        .with_state(state);
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(async {
            let listener = tokio::net::TcpListener::from_std(listener).unwrap();
            axum::serve(listener, router).await.unwrap();
        });
    });
    address
}

fn answer(status: u16, body: impl Into<Body>) -> Response<Body> {
    Response::builder()
        .status(status)
        .body(body.into())
        .unwrap()
}

fn header<'a>(headers: &'a HeaderMap, name: &str) -> &'a str {
    headers
        .get(name)
        .and_then(|value| value.to_str().ok())
        .unwrap_or_default()
}

fn digest(bytes: &[u8]) -> String {
    format!("sha256:{}", hex::encode(Sha256::digest(bytes)))
}

/// Objects behind Signature Version 4, each signature computed again from the request that came.
#[derive(Clone)]
pub struct Bucket {
    address: Option<SocketAddr>,
    key_id: String,
    key: String,
    objects: Arc<Mutex<HashMap<String, Vec<u8>>>>,
    refused: Arc<AtomicU32>,
}

impl Bucket {
    pub fn start(key_id: &str, key: &str) -> Self {
        let mut bucket = Bucket {
            address: None,
            key_id: key_id.into(),
            key: key.into(),
            objects: Arc::default(),
            refused: Arc::default(),
        };
        bucket.address = Some(serve(bucket.clone(), Bucket::handle));
        bucket
    }

    pub fn url(&self) -> String {
        format!("http://{}", self.address.unwrap())
    }

    pub fn put(&self, path: &str, content: Vec<u8>) {
        self.objects.lock().unwrap().insert(path.into(), content);
    }

    pub fn refused(&self) -> u32 {
        self.refused.load(Ordering::SeqCst)
    }

    fn handle(&self, request: &Request) -> Response<Body> {
        if !self.is_signed(request) {
            self.refused.fetch_add(1, Ordering::SeqCst);
            return answer(403, "<Error><Code>SignatureDoesNotMatch</Code></Error>");
        }
        let path = request.uri().path().replace("%20", " ");
        match self.objects.lock().unwrap().get(&path) {
            Some(content) => answer(200, content.clone()),
            None => answer(404, "<Error><Code>NoSuchKey</Code></Error>"),
        }
    }

    /// The steps of the specification, over the headers that the request names as signed.
    fn is_signed(&self, request: &Request) -> bool {
        let headers = request.headers();
        let authorization = header(headers, "authorization");
        let part = |name: &str| {
            let (_, rest) = authorization
                .split_once(&format!("{name}="))
                .unwrap_or_default();
            rest.split(',').next().unwrap_or_default().to_owned()
        };
        let (credential, signed) = (part("Credential"), part("SignedHeaders"));
        let Some((key_id, scope)) = credential.split_once('/') else {
            return false;
        };
        let scope_parts: Vec<&str> = scope.split('/').collect();
        let [date, region, "s3", "aws4_request"] = scope_parts[..] else {
            return false;
        };
        let stamp = header(headers, "x-amz-date");
        if key_id != self.key_id || !stamp.starts_with(date) || !signed.contains("host") {
            return false;
        }
        let lines: String = signed
            .split(';')
            .map(|name| format!("{name}:{}\n", header(headers, name).trim()))
            .collect();
        let canonical = format!(
            "{}\n{}\n{}\n{lines}\n{signed}\n{}",
            request.method(),
            request.uri().path(),
            request.uri().query().unwrap_or_default(),
            header(headers, "x-amz-content-sha256")
        );
        let to_sign = format!(
            "AWS4-HMAC-SHA256\n{stamp}\n{scope}\n{}",
            hex::encode(Sha256::digest(canonical))
        );
        let hmac = |key: &[u8], text: &str| {
            let mut mac = Hmac::<Sha256>::new_from_slice(key).unwrap();
            mac.update(text.as_bytes());
            mac.finalize().into_bytes().to_vec()
        };
        let mut key = format!("AWS4{}", self.key).into_bytes();
        for step in [date, region, "s3", "aws4_request"] {
            key = hmac(&key, step);
        }
        part("Signature") == hex::encode(hmac(&key, &to_sign))
    }
}

/// The pull half of the distribution protocol, with a token server.
#[derive(Clone)]
pub struct Registry {
    address: Option<SocketAddr>,
    /// `user:password`, in base64.
    login: String,
    /// Manifests by `NAME/TAG` and blobs by digest.
    content: Arc<Mutex<HashMap<String, Vec<u8>>>>,
}

impl Registry {
    pub fn start(user: &str, password: &str) -> Self {
        let mut registry = Registry {
            address: None,
            login: base64(format!("{user}:{password}").as_bytes()),
            content: Arc::default(),
        };
        registry.address = Some(serve(registry.clone(), Registry::handle));
        registry
    }

    pub fn address(&self) -> String {
        self.address.unwrap().to_string()
    }

    pub fn token(&self) -> &'static str {
        "t0ken-that-nobody-sees"
    }

    pub fn push(&self, name: &str, tag: &str, layer: Vec<u8>) {
        let digest = digest(&layer);
        let manifest = json!({
            "schemaVersion": 2,
            "mediaType": "application/vnd.oci.image.manifest.v1+json",
            "config": {"mediaType": "application/vnd.oci.empty.v1+json", "digest": "sha256:44", "size": 2},
            "layers": [{"mediaType": "application/vnd.oci.image.layer.v1.tar+gzip", "digest": digest, "size": layer.len()}],
        });
        let mut content = self.content.lock().unwrap();
        content.insert(
            format!("/v2/{name}/manifests/{tag}"),
            manifest.to_string().into_bytes(),
        );
        content.insert(format!("/v2/{name}/blobs/{digest}"), layer);
    }

    fn handle(&self, request: &Request) -> Response<Body> {
        let authorization = header(request.headers(), "authorization");
        let path = request.uri().path();
        if path == "/token" {
            let query = request.uri().query().unwrap_or_default();
            if authorization != format!("Basic {}", self.login)
                || !query.contains("scope=repository%3Ateam%2Fshop%3Apull")
            {
                return answer(401, "{}");
            }
            return answer(
                200,
                json!({"token": self.token(), "expires_in": 300}).to_string(),
            );
        }
        if authorization != format!("Bearer {}", self.token()) {
            // The name is between /v2/ and /manifests or /blobs.
            let name = path
                .trim_start_matches("/v2/")
                .rsplitn(3, '/')
                .nth(2)
                .unwrap_or_default();
            let server = header(request.headers(), "host");
            let challenge = format!(
                "Bearer realm=\"http://{server}/token\",service=\"{server}\",scope=\"repository:{name}:pull\""
            );
            return Response::builder()
                .status(StatusCode::UNAUTHORIZED)
                .header("www-authenticate", challenge)
                .body(Body::empty())
                .unwrap();
        }
        match self.content.lock().unwrap().get(path) {
            Some(content) => answer(200, content.clone()),
            None => answer(404, "{}"),
        }
    }
}

fn base64(bytes: &[u8]) -> String {
    use base64::Engine;
    base64::engine::general_purpose::STANDARD.encode(bytes)
}
