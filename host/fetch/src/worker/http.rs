//! HTTP clients for foreign servers: trust, time limits, and addresses that must
//! not be contacted.

use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::Arc;
use std::time::Duration;

use reqwest::blocking::ClientBuilder;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};

use crate::address::{Address, AddressRules};
use crate::config::Proxy;
use crate::error::FetchError;
use crate::reach::Reach;
use crate::wire::WorkerRequest;

/// Text by which a refused address is recognised in an error of the HTTP client.
const REFUSED: &str = "address refused: ";

/// Checks an address again here: it decides what the sandbox opens.
pub(super) fn address(request: &WorkerRequest, url: &str) -> Result<Address, FetchError> {
    let rules = AddressRules {
        allow_file: request.allow_file,
        reach: &request.reach,
    };
    Address::parse(url, rules, request.credential.is_some())
}

/// What a client for one address is built with.
#[derive(Clone)]
pub(super) struct ClientSettings {
    /// Whether the connection is encrypted, so that the system's authorities matter:
    /// they need not exist for plain http.
    tls: bool,
    certificates: Vec<reqwest::Certificate>,
    proxy: Option<reqwest::Proxy>,
    reach: Reach,
    wall: Duration,
}

impl ClientSettings {
    pub fn new(request: &WorkerRequest, address: &Address) -> Result<Self, FetchError> {
        let invalid = |detail: String| FetchError::CaInvalid { detail };
        let certificates = match &request.extra_ca_pem {
            None => Vec::new(),
            Some(pem) => {
                let found = reqwest::Certificate::from_pem_bundle(pem.as_bytes())
                    .map_err(|err| invalid(err.to_string()))?;
                if found.is_empty() {
                    return Err(invalid("there is no certificate in it".to_owned()));
                }
                found
            }
        };
        Ok(ClientSettings {
            tls: address.as_str().starts_with("https:"),
            certificates,
            proxy: proxy(request)?,
            reach: request.reach.clone(),
            wall: request.limits.wall,
        })
    }

    /// Applies the settings. Redirects are never followed by the client.
    pub fn apply(&self, builder: ClientBuilder) -> ClientBuilder {
        let certificates = self.certificates.iter().cloned();
        let builder = if self.tls {
            builder.tls_certs_merge(certificates)
        } else {
            builder.tls_certs_only(certificates)
        };
        // Never one that the environment names.
        let builder = match &self.proxy {
            Some(proxy) => builder.no_proxy().proxy(proxy.clone()),
            None => builder.no_proxy(),
        };
        builder
            .redirect(reqwest::redirect::Policy::none())
            .connect_timeout(self.wall.min(Duration::from_secs(10)))
            .timeout(self.wall)
            .user_agent("windlass")
            .dns_resolver(Arc::new(CheckedResolver {
                reach: self.reach.clone(),
            }))
    }

    pub fn client(&self) -> Result<reqwest::blocking::Client, FetchError> {
        self.apply(reqwest::blocking::Client::builder())
            .build()
            .map_err(|err| FetchError::WorkerFailed {
                detail: format!("no HTTP client: {}", chain(&err)),
            })
    }
}

fn proxy(request: &WorkerRequest) -> Result<Option<reqwest::Proxy>, FetchError> {
    let Some(Proxy { url, except }) = &request.proxy else {
        return Ok(None);
    };
    // The error would quote the address, which may hold a password.
    let proxy = reqwest::Proxy::all(url).map_err(|_| FetchError::ProxyInvalid)?;
    let except = except.as_deref().and_then(reqwest::NoProxy::from_string);
    Ok(Some(proxy.no_proxy(except)))
}

/// The system's resolver, without the addresses that are refused: a public name
/// may resolve to an address inside.
struct CheckedResolver {
    reach: Reach,
}

impl Resolve for CheckedResolver {
    fn resolve(&self, name: Name) -> Resolving {
        let reach = self.reach.clone();
        Box::pin(async move {
            let host = name.as_str().to_owned();
            let lookup = tokio::task::spawn_blocking(move || {
                (host.as_str(), 0)
                    .to_socket_addrs()
                    .map(Iterator::collect::<Vec<SocketAddr>>)
            });
            let found = lookup.await.map_err(io::Error::other)??;
            let mut refused = None;
            let mut allowed = Vec::new();
            for addr in found {
                match reach.check(addr.ip()) {
                    Ok(()) => allowed.push(addr),
                    Err(detail) => refused = Some(detail),
                }
            }
            match refused {
                Some(detail) if allowed.is_empty() => {
                    Err(io::Error::other(format!("{REFUSED}{detail}")).into())
                }
                _ => Ok(Box::new(allowed.into_iter()) as Addrs),
            }
        })
    }
}

/// An error of the transport, told from others by its text where the type is private.
pub(super) fn transport_error(host: &str, text: &str, seconds: u64, timeout: bool) -> FetchError {
    if let Some((_, detail)) = text.split_once(REFUSED) {
        return FetchError::AddressDenied {
            host: host.to_owned(),
            detail: detail.to_owned(),
        };
    }
    if timeout {
        return FetchError::TimedOut {
            host: host.to_owned(),
            seconds,
        };
    }
    FetchError::Unreachable {
        host: host.to_owned(),
        detail: text.to_owned(),
    }
}

/// The error for an HTTP status that is no success.
pub(super) fn status_error(
    status: u16,
    host: &str,
    with_credential: bool,
    not_found: FetchError,
) -> FetchError {
    let host = host.to_owned();
    match status {
        401 | 403 if with_credential => FetchError::CredentialsRefused { host },
        401 | 403 => FetchError::CredentialsRequired { host },
        404 | 410 => not_found,
        status => FetchError::ServerError { host, status },
    }
}

/// An error and its causes in one line, without repetitions and addresses.
pub(super) fn chain(err: &(dyn std::error::Error + 'static)) -> String {
    let mut text = String::new();
    let mut next = Some(err);
    while let Some(err) = next {
        let one = err.to_string();
        if !text.contains(&one) {
            if !text.is_empty() {
                text.push_str(": ");
            }
            text.push_str(&one);
        }
        next = err.source();
    }
    text.chars().filter(|c| !c.is_control()).take(600).collect()
}
