//! Where a plugin may lead the host: every URL it passes or returns is checked, and what its name resolves to.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use url::{Host, Url};

use crate::grants::Grants;

/// What no plugin reaches, whatever it is granted, but for what one machine's owner opens.
#[derive(Clone, Debug, Default)]
pub struct Network {
    /// Loopback addresses may be reached: one machine, with servers of its own.
    pub loopback: bool,
    /// Addresses and names of the API server.
    pub api_server: Vec<String>,
    /// Names are not looked up: answers are scripted, and nothing is ever connected to.
    pub scripted: bool,
}

/// A URL that was checked, with the addresses that were: connect to these.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checked {
    pub url: Url,
    /// Empty for `file:`.
    pub addresses: Vec<SocketAddr>,
}

/// Why a URL is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EgressError {
    #[error("not a URL: {0}")]
    Malformed(String),
    #[error("scheme {0:?} is not allowed")]
    Scheme(String),
    #[error("host {host}:{port} is not granted")]
    Host { host: String, port: u16 },
    #[error("file: URLs are not granted")]
    File,
    #[error("{host} resolves to {address}, which is never allowed")]
    Address { host: String, address: IpAddr },
    #[error("the URL holds a password: use a credential")]
    Password,
    #[error("{host} cannot be resolved: {message}")]
    Resolve { host: String, message: String },
}

impl EgressError {
    /// The name did not resolve now; everything else is a denial.
    pub fn is_temporary(&self) -> bool {
        matches!(self, EgressError::Resolve { .. })
    }
}

/// Checks a URL against the grants, resolves its host and checks every address.
///
/// # Errors
/// The first rule that refuses.
pub async fn check(text: &str, grants: &Grants, network: &Network) -> Result<Checked, EgressError> {
    checked(text, grants, network, false).await
}

/// The same for a repository, which `ssh:` may lead to as well.
///
/// # Errors
/// As [`check`].
pub async fn check_repository(
    text: &str,
    grants: &Grants,
    network: &Network,
) -> Result<Checked, EgressError> {
    checked(text, grants, network, true).await
}

async fn checked(
    text: &str,
    grants: &Grants,
    network: &Network,
    ssh: bool,
) -> Result<Checked, EgressError> {
    let url = Url::parse(text).map_err(|error| EgressError::Malformed(error.to_string()))?;
    match url.scheme() {
        "https" | "http" => {}
        "ssh" if ssh => {}
        "file" if grants.file_urls && url.host().is_none() => {
            return Ok(Checked {
                url,
                addresses: Vec::new(),
            });
        }
        "file" => return Err(EgressError::File),
        other => return Err(EgressError::Scheme(other.into())),
    }
    if url.password().is_some() {
        return Err(EgressError::Password);
    }
    let default = if url.scheme() == "ssh" { 22 } else { 443 };
    let port = url.port_or_known_default().unwrap_or(default);
    let host = url
        .host()
        .ok_or_else(|| EgressError::Malformed("no host".into()))?;
    let name = plain(&host);
    // The host of an ssh: URL is taken by the parser as it is written.
    let fine = |byte: u8| byte.is_ascii_alphanumeric() || b".-_[:]".contains(&byte);
    if name.is_empty() || name.starts_with('-') || !name.bytes().all(fine) {
        return Err(EgressError::Malformed("the host is no name".into()));
    }
    if !grants.may_reach(&name, port) || network.api_server.contains(&name) {
        return Err(EgressError::Host { host: name, port });
    }
    if network.scripted {
        return Ok(Checked {
            url,
            addresses: Vec::new(),
        });
    }
    let addresses: Vec<SocketAddr> = match host {
        Host::Ipv4(address) => vec![SocketAddr::new(address.into(), port)],
        Host::Ipv6(address) => vec![SocketAddr::new(address.into(), port)],
        Host::Domain(domain) => tokio::net::lookup_host((domain, port))
            .await
            .map_err(|error| EgressError::Resolve {
                host: name.clone(),
                message: error.to_string(),
            })?
            .collect(),
    };
    // One bad address is enough: which one a client takes is not in our hands.
    for address in &addresses {
        if !allowed(address.ip(), network) {
            return Err(EgressError::Address {
                host: name,
                address: address.ip(),
            });
        }
    }
    if addresses.is_empty() {
        return Err(EgressError::Resolve {
            host: name,
            message: "no address".into(),
        });
    }
    Ok(Checked { url, addresses })
}

/// A host as grants name it: without the dot that may stand at its end, as in `svc.cluster.local.`, and only spares the
/// resolver its search list.
pub(crate) fn plain(host: &Host<&str>) -> String {
    let spelled = host.to_string();
    // That of an ssh: URL is taken by the parser as it is written.
    spelled
        .strip_suffix('.')
        .unwrap_or(&spelled)
        .to_ascii_lowercase()
}

/// Whether an address may be reached at all.
pub(crate) fn allowed(address: IpAddr, network: &Network) -> bool {
    // A v4 address in v6 clothes is a v4 address.
    let address = match address {
        IpAddr::V6(v6) => embedded(v6).unwrap_or(IpAddr::V6(v6)),
        v4 @ IpAddr::V4(_) => v4,
    };
    if network
        .api_server
        .iter()
        .any(|server| server.parse() == Ok(address))
    {
        return false;
    }
    if address.is_loopback() {
        return network.loopback;
    }
    if address.is_unspecified() || address.is_multicast() {
        return false;
    }
    match address {
        // 169.254.169.254, the metadata service, is link-local.
        IpAddr::V4(v4) => !v4.is_link_local() && !v4.is_broadcast() && v4.octets()[0] != 0,
        // fd00:ec2::254 is a metadata service with a private address.
        IpAddr::V6(v6) => {
            !v6.is_unicast_link_local() && v6 != Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254)
        }
    }
}

/// The v4 address inside a mapped, compatible, NAT64 or 6to4 address.
fn embedded(address: Ipv6Addr) -> Option<IpAddr> {
    if let Some(v4) = address.to_ipv4_mapped() {
        return Some(v4.into());
    }
    let [a, b, c, d, e, f, high, low] = address.segments();
    let v4 = |high: u16, low: u16| {
        let ([p, q], [r, s]) = (high.to_be_bytes(), low.to_be_bytes());
        IpAddr::from([p, q, r, s])
    };
    match (a, b, c, d, e, f) {
        (0x64, 0xff9b, 0, 0, 0, 0) => Some(v4(high, low)),
        (0x2002, _, _, _, _, _) => Some(v4(b, c)),
        // ::1 and :: are not v4 addresses.
        (0, 0, 0, 0, 0, 0) if high != 0 => Some(v4(high, low)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grants() -> Grants {
        Grants {
            any_host: true,
            ..Grants::default()
        }
    }

    #[tokio::test]
    async fn addresses_that_are_never_reached() {
        for host in [
            "127.0.0.1",
            "127.1",
            "0x7f.1",
            "2130706433",
            "localhost",
            "[::1]",
            "[::ffff:127.0.0.1]",
            "0.0.0.0",
            "169.254.169.254",
            "[fe80::1]",
            "[fd00:ec2::254]",
            "[64:ff9b::7f00:1]",
            "[2002:7f00:1::]",
            "[::7f00:1]",
            "10.96.0.1",
            "255.255.255.255",
        ] {
            let network = Network {
                loopback: false,
                api_server: vec!["10.96.0.1".into()],
                scripted: false,
            };
            let refused = check(&format!("https://{host}/x"), &grants(), &network).await;
            assert!(
                matches!(
                    refused,
                    Err(EgressError::Address { .. } | EgressError::Host { .. })
                ),
                "{host}: {refused:?}"
            );
        }
        let here = Network {
            loopback: true,
            ..Network::default()
        };
        assert!(
            check("http://127.0.0.1:8080/x", &grants(), &here)
                .await
                .is_ok()
        );
        assert!(
            check("https://10.0.0.7/x", &grants(), &Network::default())
                .await
                .is_ok()
        );
    }

    #[tokio::test]
    async fn a_dot_at_the_end_changes_no_answer() {
        let network = Network {
            loopback: true,
            api_server: vec!["localhost".into()],
            scripted: false,
        };
        let named = Grants {
            hosts: vec!["localhost:8080".into()],
            ..Grants::default()
        };
        let open = Network {
            loopback: true,
            ..Network::default()
        };
        for host in ["localhost", "localhost."] {
            let url = format!("http://{host}:8080/x");
            assert!(
                matches!(
                    check(&url, &grants(), &network).await,
                    Err(EgressError::Host { .. })
                ),
                "{host}"
            );
            // Whether such a name resolves is the machine's business; the grant is ours.
            assert!(
                !matches!(
                    check(&url, &named, &open).await,
                    Err(EgressError::Host { .. })
                ),
                "{host}"
            );
        }
    }

    #[tokio::test]
    async fn schemes_and_hosts() {
        let network = Network::default();
        let named = Grants {
            hosts: vec!["*.test".into(), "10.0.0.7:8443".into()],
            ..Grants::default()
        };
        assert_eq!(
            check("file:///etc", &named, &network).await,
            Err(EgressError::File)
        );
        assert!(
            check(
                "file:///srv",
                &Grants {
                    file_urls: true,
                    ..grants()
                },
                &network
            )
            .await
            .is_ok()
        );
        assert!(matches!(
            check("ftp://10.0.0.7/", &grants(), &network).await,
            Err(EgressError::Scheme(_))
        ));
        assert!(
            check("https://10.0.0.7:8443/", &named, &network)
                .await
                .is_ok()
        );
        assert!(matches!(
            check("ssh://git@10.0.0.7/a", &grants(), &network).await,
            Err(EgressError::Scheme(_))
        ));
        let ssh = check_repository("ssh://git@10.0.0.7/a", &grants(), &network).await;
        assert_eq!(
            ssh.map(|it| it.addresses),
            Ok(vec![([10, 0, 0, 7], 22).into()])
        );
        for bad in [
            "ssh://git@127.0.0.1/a",
            "ssh://git@localhost/a",
            "ssh://git@[::1]/a",
        ] {
            let refused = check_repository(bad, &grants(), &network).await;
            assert!(matches!(refused, Err(EgressError::Address { .. })), "{bad}");
        }
        for bad in [
            "ssh://-oProxyCommand=x/a",
            "ssh://a%20b/a",
            "ssh://git:pw@10.0.0.7/a",
        ] {
            let refused = check_repository(bad, &grants(), &network).await;
            assert!(
                matches!(
                    refused,
                    Err(EgressError::Malformed(_) | EgressError::Password)
                ),
                "{bad}"
            );
        }
        assert!(matches!(
            check_repository("ssh://git@10.0.0.7/a", &named, &network).await,
            Err(EgressError::Host { .. })
        ));
        assert!(matches!(
            check("https://10.0.0.7/", &named, &network).await,
            Err(EgressError::Host { .. })
        ));
        assert_eq!(
            check("https://u:p@10.0.0.7/", &grants(), &network).await,
            Err(EgressError::Password)
        );
    }
}
