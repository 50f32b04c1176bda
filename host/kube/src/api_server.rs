//! Where the API server is: neither plugins nor sources may lead there, under whatever name.

use std::collections::BTreeSet;
use std::net::IpAddr;

use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::discovery::v1::EndpointSlice;

use crate::api::Cluster;

/// Names that every cluster gives its API server.
const NAMES: [&str; 4] = [
    "kubernetes",
    "kubernetes.default",
    "kubernetes.default.svc",
    "kubernetes.default.svc.cluster.local",
];

/// Names and addresses of the API server.
#[derive(Clone, Debug, Default)]
pub struct ApiServer {
    pub names: BTreeSet<String>,
    pub addresses: BTreeSet<IpAddr>,
}

impl ApiServer {
    /// Asks everybody who knows: the client's configuration, the environment, the service and its endpoints. What the
    /// operator may not read is left out: the name, and the address that pods know it by, are known without it. So are the
    /// last two where the operator looks after some namespaces only, and has no business in others.
    pub async fn find(cluster: &Cluster, url: &http::Uri, everywhere: bool) -> ApiServer {
        let mut found = ApiServer {
            names: NAMES.into_iter().map(str::to_owned).collect(),
            addresses: BTreeSet::new(),
        };
        if let Some(host) = url.host() {
            found.add(host);
            let host = host.trim_start_matches('[').trim_end_matches(']');
            match tokio::net::lookup_host((host, 443)).await {
                Ok(all) => found.addresses.extend(all.map(|address| address.ip())),
                Err(error) => tracing::warn!(%host, %error, "the API server's name"),
            }
        }
        if let Ok(host) = std::env::var("KUBERNETES_SERVICE_HOST") {
            found.add(&host);
        }
        if everywhere {
            found.ask(cluster).await;
        }
        found
    }

    async fn ask(&mut self, cluster: &Cluster) {
        match cluster.get::<Service>("default", "kubernetes").await {
            Ok(service) => {
                let spec = service.and_then(|service| service.spec);
                for address in spec.and_then(|spec| spec.cluster_ips).unwrap_or_default() {
                    self.add(&address);
                }
            }
            Err(error) => tracing::debug!(%error, "the service of the API server"),
        }
        // The API server makes it itself, under the service's own name.
        match cluster.get::<EndpointSlice>("default", "kubernetes").await {
            Ok(slice) => {
                let endpoints = slice.and_then(|slice| slice.endpoints);
                for endpoint in endpoints.into_iter().flatten() {
                    endpoint.addresses.iter().for_each(|one| self.add(one));
                }
            }
            Err(error) => tracing::debug!(%error, "the endpoints of the API server"),
        }
    }

    fn add(&mut self, text: &str) {
        let bare = text.trim_start_matches('[').trim_end_matches(']');
        match bare.parse() {
            Ok(address) => _ = self.addresses.insert(address),
            Err(_) => _ = self.names.insert(bare.to_ascii_lowercase()),
        }
    }

    /// Without this machine's own addresses: where they are open, as in tests, other servers share them with it.
    pub fn without_loopback(mut self) -> ApiServer {
        self.addresses.retain(|address| !address.is_loopback());
        self
    }

    /// Both in one list, as texts.
    pub fn texts(&self) -> Vec<String> {
        let addresses = self.addresses.iter().map(ToString::to_string);
        self.names.iter().cloned().chain(addresses).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_addresses_are_told_apart() {
        let mut found = ApiServer::default();
        for text in ["API.example.com", "[fd00::1]", "10.96.0.1", "127.0.0.1"] {
            found.add(text);
        }
        let texts = found.clone().texts();
        assert_eq!(
            texts,
            ["api.example.com", "10.96.0.1", "127.0.0.1", "fd00::1"]
        );
        let left = found.without_loopback().texts();
        assert_eq!(left, ["api.example.com", "10.96.0.1", "fd00::1"]);
    }
}
