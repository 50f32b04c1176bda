//! The options of `windlass run` that say what is served where.

use std::net::{SocketAddr, ToSocketAddrs};

use clap::Args;
use windlass_kube::ServeConfig;

use crate::run_args::boolean;

#[derive(Debug, Args)]
#[command(next_help_heading = "Endpoints")]
pub struct Endpoints {
    /// Where /healthz and /readyz are served; 0 for nowhere.
    #[arg(long, default_value = ":8081", value_name = "ADDRESS", value_parser = address)]
    health_probe_bind_address: Served,
    /// Where /metrics is served, as in :8443; 0 for nowhere.
    #[arg(long, default_value = "0", value_name = "ADDRESS", value_parser = address)]
    metrics_bind_address: Served,
    /// Serve /metrics over TLS, and only to bearers of a token that may get the non-resource URL /metrics: the cluster is
    /// asked (TokenReview, SubjectAccessReview). With =false it is served to anybody, in the clear.
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "true", default_value = "true", value_name = "BOOL", value_parser = boolean, action = clap::ArgAction::Set)]
    metrics_secure: bool,
    /// Speak HTTP/2 too where there is TLS.
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "true", default_value = "false", value_name = "BOOL", value_parser = boolean, action = clap::ArgAction::Set)]
    enable_http2: bool,
    /// Where the archives of Programs are served; 0 for nowhere, and no Program names one.
    #[arg(long, visible_alias = "program-fs-bind-addr", env = "PROGRAM_FS_ADDR", default_value = ":9090", value_name = "ADDRESS", value_parser = address)]
    program_fs_addr: Served,
    /// Where others reach the archives of Programs: HOST:PORT or a URL, which stands in the status of each. Without it
    /// the address that they are served on, with this host's name where that is every address.
    #[arg(long, env = "PROGRAM_FS_ADV_ADDR", value_name = "ADDRESS")]
    program_fs_adv_addr: Option<String>,
}

/// Where something is served; nowhere if there is no address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Served(Option<SocketAddr>);

impl Endpoints {
    /// What the operator serves.
    pub fn config(&self) -> ServeConfig {
        let Endpoints {
            health_probe_bind_address,
            metrics_bind_address,
            metrics_secure,
            enable_http2,
            program_fs_addr,
            program_fs_adv_addr: _,
        } = self;
        ServeConfig {
            health: health_probe_bind_address.0,
            metrics: metrics_bind_address.0,
            metrics_secure: *metrics_secure,
            programs: program_fs_addr.0,
            http2: *enable_http2,
        }
    }

    /// Where the archives of Programs are reached, if they are served. `host` is this machine's name.
    pub fn program_address(&self, host: Option<&str>) -> Option<String> {
        let address = self.program_fs_addr.0?;
        if let Some(advertised) = self.program_fs_adv_addr.as_deref()
            && !advertised.is_empty()
        {
            return Some(advertised.to_owned());
        }
        if !address.ip().is_unspecified() {
            return Some(address.to_string());
        }
        let host = host.filter(|host| !host.is_empty()).unwrap_or("localhost");
        Some(format!("{host}:{}", address.port()))
    }
}

/// As Go reads it: `:8081` is every address of the machine, `localhost:8081` is looked up, `0` is none.
fn address(text: &str) -> Result<Served, String> {
    if text == "0" {
        return Ok(Served(None));
    }
    let full = match text.strip_prefix(':') {
        Some(port) => format!("[::]:{port}"),
        None => text.to_owned(),
    };
    full.to_socket_addrs()
        .ok()
        .and_then(|mut found| found.next())
        .map(|found| Served(Some(found)))
        .ok_or_else(|| {
            format!("{text:?} is no address; write :PORT or ADDRESS:PORT, or 0 for none")
        })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn addresses_are_read_as_go_reads_them() {
        let port = |text: &str| address(text).unwrap().0.map(|address| address.port());
        assert_eq!(port("0"), None);
        assert_eq!(port(":8443"), Some(8443));
        assert_eq!(port("127.0.0.1:80"), Some(80));
        assert_eq!(port("[::1]:81"), Some(81));
        assert!(address(":8443").unwrap().0.unwrap().ip().is_unspecified());
        assert!(address("8443").unwrap_err().contains("write :PORT"));
    }

    fn endpoints(bind: &str, advertised: Option<&str>) -> Endpoints {
        Endpoints {
            health_probe_bind_address: Served(None),
            metrics_bind_address: Served(None),
            metrics_secure: true,
            enable_http2: false,
            program_fs_addr: address(bind).unwrap(),
            program_fs_adv_addr: advertised.map(ToOwned::to_owned),
        }
    }

    #[test]
    fn the_advertised_address_is_the_one_given_or_one_that_can_be_reached() {
        let advertised = |bind, given, host| endpoints(bind, given).program_address(host);
        let given = advertised(":9090", Some("op.ns:80"), Some("pod"));
        assert_eq!(given.as_deref(), Some("op.ns:80"));
        assert_eq!(
            advertised(":9090", None, Some("pod")).as_deref(),
            Some("pod:9090")
        );
        assert_eq!(
            advertised(":9090", None, None).as_deref(),
            Some("localhost:9090")
        );
        let bound = advertised("127.0.0.1:7", None, Some("pod"));
        assert_eq!(bound.as_deref(), Some("127.0.0.1:7"));
        assert_eq!(advertised("0", Some("op.ns:80"), None), None);
    }
}
