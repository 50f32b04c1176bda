//! HTTP for plugins: connects to the checked addresses only, follows redirects itself and checks each of them.

use std::time::Duration;

use futures::StreamExt;
use reqwest::header::{AUTHORIZATION, HeaderMap, HeaderName, HeaderValue, LOCATION};
use reqwest::{Client, Method, StatusCode, redirect};
use windlass_sdk::{ErrorClass, Fault, HttpRequest, HttpResponse};

use super::Credential;
use crate::egress::{Checked, EgressError, Network, check};
use crate::grants::Grants;

const CONNECT: Duration = Duration::from_secs(5);
const TOTAL: Duration = Duration::from_secs(30);
const REDIRECTS: usize = 5;
const REQUEST_BYTES: usize = 1 << 20;

/// Headers that are the host's to set.
const RESERVED: [&str; 6] = [
    "host",
    "content-length",
    "transfer-encoding",
    "connection",
    "authorization",
    "cookie",
];

/// Sends requests within a network's rules.
#[derive(Clone, Debug)]
pub struct HttpClient {
    network: Network,
}

impl HttpClient {
    pub fn new(network: Network) -> Self {
        HttpClient { network }
    }

    /// Sends a request and whatever it is redirected to. A credential goes to the first host only.
    ///
    /// # Errors
    /// `denied` for a redirect outside the grants, `unavailable` for everything that goes wrong on the way, `invalid`
    /// for a request that cannot be sent.
    pub async fn send(
        &self,
        request: &HttpRequest,
        url: &Checked,
        credential: Option<&Credential>,
        grants: &Grants,
        longest: usize,
    ) -> Result<HttpResponse, Fault> {
        let mut method = Method::from_bytes(request.method.as_bytes()).map_err(|_| {
            fault(
                ErrorClass::Invalid,
                "RequestInvalid",
                "no such method".into(),
            )
        })?;
        let mut body = request.body.clone();
        if body.as_ref().is_some_and(|body| body.len() > REQUEST_BYTES) {
            return Err(fault(
                ErrorClass::Invalid,
                "RequestTooLarge",
                format!("more than {REQUEST_BYTES} bytes"),
            ));
        }
        let headers = headers(request)?;
        let mut url = url.clone();
        let first = url.url.origin();
        for _ in 0..=REDIRECTS {
            let mut sent = headers.clone();
            if let Some(credential) = credential
                && url.url.origin() == first
            {
                authorize(&mut sent, credential)?;
            }
            let response = self.once(&method, &url, sent, body.clone()).await?;
            let Some(next) = redirected(&response) else {
                return read(response, longest).await;
            };
            if matches!(
                response.status(),
                StatusCode::MOVED_PERMANENTLY | StatusCode::FOUND | StatusCode::SEE_OTHER
            ) && method != Method::HEAD
            {
                method = Method::GET;
                body = None;
            }
            let target = url.url.join(&next).map_err(|error| {
                fault(
                    ErrorClass::Unavailable,
                    "RedirectInvalid",
                    error.to_string(),
                )
            })?;
            url = check(target.as_str(), grants, &self.network)
                .await
                .map_err(|error| denied(&error))?;
        }
        Err(fault(
            ErrorClass::Unavailable,
            "TooManyRedirects",
            format!("more than {REDIRECTS} redirects"),
        ))
    }

    async fn once(
        &self,
        method: &Method,
        url: &Checked,
        headers: HeaderMap,
        body: Option<Vec<u8>>,
    ) -> Result<reqwest::Response, Fault> {
        let host = url.url.host_str().unwrap_or_default();
        // A client per request: addresses are pinned per client, and plugins ask rarely.
        let client = Client::builder()
            .redirect(redirect::Policy::none())
            .resolve_to_addrs(host, &url.addresses)
            .connect_timeout(CONNECT)
            .timeout(TOTAL)
            .no_proxy()
            .build()
            .map_err(|error| fault(ErrorClass::Internal, "HttpClient", error.to_string()))?;
        let mut request = client
            .request(method.clone(), url.url.clone())
            .headers(headers);
        if let Some(body) = body {
            request = request.body(body);
        }
        request.send().await.map_err(|error| {
            // Without the URL: a query may hold what nobody should read.
            fault(
                ErrorClass::Unavailable,
                "HttpFailed",
                format!("{host}: {}", root(&error.without_url())),
            )
        })
    }
}

/// A refused URL as an answer to the plugin.
pub fn denied(error: &EgressError) -> Fault {
    let class = if error.is_temporary() {
        ErrorClass::Unavailable
    } else {
        ErrorClass::Denied
    };
    let reason = if error.is_temporary() {
        "HostUnresolved"
    } else {
        "UrlDenied"
    };
    fault(class, reason, error.to_string())
}

fn headers(request: &HttpRequest) -> Result<HeaderMap, Fault> {
    let mut headers = HeaderMap::new();
    for (name, value) in &request.headers {
        let bad = |_| {
            fault(
                ErrorClass::Invalid,
                "RequestInvalid",
                format!("bad header {name:?}"),
            )
        };
        if RESERVED.contains(&name.to_ascii_lowercase().as_str()) {
            return Err(fault(
                ErrorClass::Denied,
                "HeaderDenied",
                format!("header {name:?} is the host's to set"),
            ));
        }
        let name_parsed = HeaderName::from_bytes(name.as_bytes()).map_err(|_| bad(()))?;
        headers.append(
            name_parsed,
            HeaderValue::from_str(value).map_err(|_| bad(()))?,
        );
    }
    Ok(headers)
}

fn authorize(headers: &mut HeaderMap, credential: &Credential) -> Result<(), Fault> {
    use base64::Engine;
    let bad = || {
        fault(
            ErrorClass::Invalid,
            "CredentialInvalid",
            "the credential cannot stand in a header".into(),
        )
    };
    let (name, value) = match credential {
        Credential::Basic { username, password } => {
            let pair = zeroize::Zeroizing::new(format!("{}:{}", **username, **password));
            let encoded = base64::engine::general_purpose::STANDARD.encode(pair.as_bytes());
            (AUTHORIZATION, format!("Basic {encoded}"))
        }
        Credential::Bearer { token } => (AUTHORIZATION, format!("Bearer {}", **token)),
        Credential::Header { name, value } => (
            HeaderName::from_bytes(name.as_bytes()).map_err(|_| bad())?,
            value.to_string(),
        ),
        Credential::SshKey { .. } => return Err(bad()),
    };
    let mut value = HeaderValue::from_str(&value).map_err(|_| bad())?;
    value.set_sensitive(true);
    headers.insert(name, value);
    Ok(())
}

fn redirected(response: &reqwest::Response) -> Option<String> {
    if !response.status().is_redirection() {
        return None;
    }
    response
        .headers()
        .get(LOCATION)?
        .to_str()
        .ok()
        .map(str::to_owned)
}

async fn read(response: reqwest::Response, longest: usize) -> Result<HttpResponse, Fault> {
    let status = response.status().as_u16();
    let headers = response
        .headers()
        .iter()
        .filter_map(|(name, value)| {
            Some((name.as_str().to_owned(), value.to_str().ok()?.to_owned()))
        })
        .collect();
    let mut body = Vec::new();
    let mut chunks = response.bytes_stream();
    while let Some(chunk) = chunks.next().await {
        let chunk = chunk.map_err(|error| {
            fault(
                ErrorClass::Unavailable,
                "HttpFailed",
                root(&error.without_url()),
            )
        })?;
        if body.len() + chunk.len() > longest {
            return Err(fault(
                ErrorClass::Unavailable,
                "ResponseTooLarge",
                format!("more than {longest} bytes"),
            ));
        }
        body.extend_from_slice(&chunk);
    }
    Ok(HttpResponse {
        status,
        headers,
        body,
    })
}

fn root(error: &dyn std::error::Error) -> String {
    let mut cause = error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    cause.to_string()
}

fn fault(class: ErrorClass, reason: &str, message: String) -> Fault {
    Fault {
        class,
        reason: reason.into(),
        message,
        retry_after_ms: None,
    }
}
