//! One POST over HTTPS. A client of its own kind would double the agent's size.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Bytes;
use hyper::{Request, Uri, header};
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, RootCertStore};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use zeroize::Zeroizing;

use super::LoginError;
use crate::environment::Env;

const PATIENCE: Duration = Duration::from_secs(30);
const LARGEST_ANSWER: usize = 1 << 20;

pub struct Answer {
    pub status: u16,
    pub body: Zeroizing<Vec<u8>>,
}

/// Sends a form. Redirections are not followed: the form holds a token for this very host.
pub async fn post(url: &str, form: &str, env: &Env) -> Result<Answer, LoginError> {
    let invalid = |message: &str| LoginError::LoginInvalid {
        url: url.chars().take(500).collect(),
        message: message.to_owned(),
    };
    let uri: Uri = url.parse().map_err(|_| invalid("it is no URL"))?;
    if uri.scheme_str() != Some("https") {
        return Err(invalid("it does not begin with https://"));
    }
    let host = uri.host().ok_or_else(|| invalid("it names no host"))?;
    let host = host
        .trim_start_matches('[')
        .trim_end_matches(']')
        .to_owned();
    let authority = uri.authority().map(ToString::to_string).unwrap_or_default();
    if authority.contains('@') {
        return Err(invalid("it has a user in it"));
    }
    let name = ServerName::try_from(host.clone()).map_err(|_| invalid("its host is no name"))?;
    let port = uri.port_u16().unwrap_or(443);
    let failed = |message: String| LoginError::LoginUnavailable {
        url: url.to_owned(),
        message,
    };
    let config = config(env).map_err(failed)?;
    let request = Request::post(uri.path_and_query().map_or("/", |p| p.as_str()))
        .header(header::HOST, authority)
        .header(header::CONTENT_TYPE, "application/x-www-form-urlencoded")
        .header(header::ACCEPT, "application/json")
        .header(
            header::USER_AGENT,
            concat!("windlass-agent/", env!("CARGO_PKG_VERSION")),
        )
        .body(Full::new(Bytes::copy_from_slice(form.as_bytes())))
        .map_err(|e| invalid(&e.to_string()))?;
    let exchange = async {
        let stream = TcpStream::connect((host.as_str(), port))
            .await
            .map_err(|e| e.to_string())?;
        let stream = TlsConnector::from(config)
            .connect(name, stream)
            .await
            .map_err(|e| e.to_string())?;
        let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream))
            .await
            .map_err(|e| e.to_string())?;
        let connection = tokio::spawn(connection);
        let answer = async {
            let response = sender
                .send_request(request)
                .await
                .map_err(|e| e.to_string())?;
            let status = response.status().as_u16();
            let body = Limited::new(response.into_body(), LARGEST_ANSWER)
                .collect()
                .await
                .map_err(|e| format!("its answer could not be read: {e}"))?;
            Ok(Answer {
                status,
                body: Zeroizing::new(body.to_bytes().to_vec()),
            })
        }
        .await;
        connection.abort();
        answer
    };
    match tokio::time::timeout(PATIENCE, exchange).await {
        Ok(answer) => answer.map_err(failed),
        Err(_) => Err(failed("it did not answer within 30 s".to_owned())),
    }
}

/// Believes whom the CLI believes: the image's authorities, or those that `SSL_CERT_FILE` and `SSL_CERT_DIR` name.
fn config(env: &Env) -> Result<Arc<ClientConfig>, String> {
    let place = |name| env.get(name).filter(|v| !v.is_empty()).map(Path::new);
    let loaded = match (place("SSL_CERT_FILE"), place("SSL_CERT_DIR")) {
        (None, None) => rustls_native_certs::load_native_certs(),
        (file, dir) => rustls_native_certs::load_certs_from_paths(file, dir),
    };
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(loaded.certs);
    if roots.is_empty() {
        let why = loaded.errors.first().map(ToString::to_string);
        return Err(format!(
            "the workspace's image has no certificate authorities ({}): add its ca-certificates, or name a file in SSL_CERT_FILE",
            why.unwrap_or_else(|| "none found".to_owned())
        ));
    }
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|e| e.to_string())?
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}
