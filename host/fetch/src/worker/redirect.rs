//! Following redirects by hand, one hop at a time: each target is checked like an
//! address that a user wrote, and credentials stay with their host.

use super::http;
use crate::address::Address;
use crate::error::FetchError;
use crate::wire::WorkerRequest;

/// Hops until a chain counts as endless.
pub(super) const MAX_HOPS: usize = 5;

/// The address that a `Location` header leads to.
///
/// # Errors
/// `RedirectRefused` when credentials would leave their host or the connection its
/// encryption; what [`Address::parse`] refuses.
pub(super) fn next(
    request: &WorkerRequest,
    from: &Address,
    location: &str,
) -> Result<Address, FetchError> {
    let host = from.host();
    let base = url::Url::parse(from.as_str()).map_err(|err| FetchError::UrlInvalid {
        detail: err.to_string(),
    })?;
    let to = base.join(location).map_err(|err| FetchError::BadAnswer {
        host: host.clone(),
        detail: format!("redirect: {err}"),
    })?;
    let downgraded = base.scheme() == "https" && to.scheme() != "https";
    let same_place = base.host_str() == to.host_str()
        && (base.port_or_known_default() == to.port_or_known_default()
            || (base.scheme() == "http" && to.scheme() == "https"));
    let web = matches!(to.scheme(), "http" | "https");
    if downgraded || !web || (request.credential.is_some() && !same_place) {
        return Err(FetchError::RedirectRefused { host });
    }
    http::address(request, to.as_str())
}

/// Where the server redirects requests for this repository to, if it does.
pub(super) fn of_repository(
    request: &WorkerRequest,
    from: &Address,
) -> Result<Option<Address>, FetchError> {
    const TAIL: &str = "/info/refs?service=git-upload-pack";
    let settings = http::ClientSettings::new(request, from)?;
    let mut get = settings
        .client()?
        .get(format!("{}{TAIL}", from.as_str().trim_end_matches('/')));
    if let Some(credential) = &request.credential {
        let (name, value) = credential.header()?;
        get = get.header(name, value);
    }
    let Ok(response) = get.send() else {
        return Ok(None);
    };
    if !response.status().is_redirection() {
        return Ok(None);
    }
    let location = response
        .headers()
        .get("location")
        .and_then(|value| value.to_str().ok());
    let Some(location) = location else {
        return Ok(None);
    };
    let asked = http::address(request, response.url().as_str())?;
    let to = next(request, &asked, location)?;
    match to.as_str().strip_suffix(TAIL) {
        Some(repository) => http::address(request, repository).map(Some),
        None => Err(FetchError::RedirectRefused { host: from.host() }),
    }
}
