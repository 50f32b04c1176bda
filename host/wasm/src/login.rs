//! Where a session may have a workspace take its service account's token: a token for the right audience, to the
//! backend that the Stack names or a granted host, and never one that the API server accepts.

use url::{Host, Url};
use windlass_sdk::Login;

use crate::egress::{self, Network};
use crate::error::PluginError;
use crate::grants::Grants;

/// What the API server's own audiences begin with, scheme left away.
const API_SERVER: &str = "kubernetes.default";

/// Checks the login of a session. Names are not resolved: the workspace does that, in its own network.
///
/// # Errors
/// `LoginDenied` with the rule that refuses.
pub fn check(
    login: &Login,
    backend: &str,
    grants: &Grants,
    network: &Network,
) -> Result<(), PluginError> {
    let Login::Exchange {
        audience,
        url,
        form: _,
    } = login
    else {
        return Ok(());
    };
    let denied = |message: String| Err(PluginError::LoginDenied { message });
    let bare = audience
        .strip_prefix("https://")
        .unwrap_or(audience)
        .trim_end_matches('/');
    let names_api_server = network.api_server.iter().any(|name| {
        bare.strip_prefix(name.as_str())
            .is_some_and(|rest| rest.is_empty() || rest.starts_with([':', '/', '.']))
    });
    if bare.starts_with(API_SERVER) || names_api_server {
        return denied(format!(
            "audience {audience:?} is the API server's, which is never allowed"
        ));
    }
    if !grants.may_speak_to(audience) {
        return denied(format!("audience {audience:?} is not granted"));
    }
    let Ok(target) = Url::parse(url) else {
        return denied(format!("{url:?} is not a URL"));
    };
    if target.scheme() != "https" || target.password().is_some() {
        return denied("a token goes over https only, and to a URL without a password".into());
    }
    let (Some(host), Some(port)) = (target.host(), target.port_or_known_default()) else {
        return denied(format!("{url:?} names no host"));
    };
    let address = match host {
        Host::Ipv4(address) => Some(address.into()),
        Host::Ipv6(address) => Some(address.into()),
        Host::Domain(_) => None,
    };
    if address.is_some_and(|address| !egress::allowed(address, network)) {
        return denied(format!("{host} is an address that is never allowed"));
    }
    let name = egress::plain(&host);
    if network.api_server.contains(&name) || name.starts_with(API_SERVER) {
        return denied(format!("{name} is the API server, which is never allowed"));
    }
    let of_backend = Url::parse(backend).is_ok_and(|backend| backend.origin() == target.origin());
    if of_backend || grants.may_reach(&name, port) {
        return Ok(());
    }
    denied(format!(
        "{name}:{port} is neither the backend's host nor granted"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    const BACKEND: &str = "https://api.pulumi.com";

    fn verdict(audience: &str, url: &str) -> Result<(), PluginError> {
        let login = Login::Exchange {
            audience: audience.into(),
            url: url.into(),
            form: [].into(),
        };
        let grants = Grants {
            audiences: vec![
                "urn:pulumi:org:*".into(),
                "https://*".into(),
                "exact".into(),
            ],
            hosts: vec!["sts.test".into()],
            ..Grants::default()
        };
        let network = Network {
            loopback: false,
            api_server: vec!["10.96.0.1".into(), "api.cluster.test".into()],
            scripted: false,
        };
        check(&login, BACKEND, &grants, &network)
    }

    #[test]
    fn a_token_goes_to_the_backend_or_a_granted_host() {
        for (audience, url) in [
            (
                "urn:pulumi:org:acme",
                "https://api.pulumi.com/api/oauth/token",
            ),
            ("exact", "https://api.pulumi.com:443/"),
            ("https://sts.test", "https://sts.test/x"),
        ] {
            assert_eq!(verdict(audience, url), Ok(()), "{audience} {url}");
        }
        let nothing = check(
            &Login::None,
            BACKEND,
            &Grants::default(),
            &Network::default(),
        );
        assert_eq!(nothing, Ok(()));
    }

    #[test]
    fn what_a_token_is_never_for() {
        let good = "https://api.pulumi.com/";
        for (audience, url, words) in [
            ("https://kubernetes.default.svc", good, "API server"),
            (
                "https://kubernetes.default.svc.cluster.local/",
                good,
                "API server",
            ),
            ("kubernetes.default.svc", good, "API server"),
            ("https://api.cluster.test:6443", good, "API server"),
            ("https://10.96.0.1/", good, "API server"),
            ("", good, "not granted"),
            ("exactly", good, "not granted"),
            ("api", good, "not granted"),
            ("exact", "http://api.pulumi.com/", "https only"),
            ("exact", "https://u:p@api.pulumi.com/", "password"),
            ("exact", "https://api.pulumi.com:8443/", "neither"),
            ("exact", "https://evil.test/", "neither"),
            ("exact", "https://169.254.169.254/", "never allowed"),
            ("exact", "https://127.0.0.1/", "never allowed"),
            ("exact", "https://api.cluster.test./", "API server"),
            ("exact", "https://kubernetes.default.svc/", "API server"),
            ("exact", "nonsense", "not a URL"),
        ] {
            let text =
                verdict(audience, url).map_or_else(|error| error.to_string(), |()| "good".into());
            assert!(text.contains(words), "{audience} {url}: {text}");
        }
    }
}
