//! Ports that nobody uses.

use std::net::{Ipv4Addr, TcpListener};
use std::sync::atomic::{AtomicU16, Ordering};

use crate::error::{Error, Result};

/// The ports of one control plane, all on 127.0.0.1.
#[derive(Debug, Clone, Copy)]
pub struct Ports {
    pub etcd_clients: u16,
    pub etcd_peers: u16,
    pub apiserver: u16,
}

/// Below what Linux gives to outgoing connections (32768 and up): while a component restarts, no
/// other process's connection may take its port.
const FIRST: u16 = 20_000;
const COUNT: u16 = 10_000;

impl Ports {
    /// Looks for three free ones, from a place that differs between processes.
    pub fn find() -> Result<Self> {
        static NEXT: AtomicU16 = AtomicU16::new(0);
        let process = u16::try_from(std::process::id() % u32::from(COUNT)).unwrap_or_default();
        let start = process.wrapping_mul(37) % COUNT;
        let mut free = (0..COUNT).filter_map(|_| {
            let step = NEXT.fetch_add(1, Ordering::Relaxed) % COUNT;
            let port = FIRST + (start + step) % COUNT;
            let bound = TcpListener::bind((Ipv4Addr::LOCALHOST, port));
            bound.is_ok().then_some(port)
        });
        let mut next = || {
            free.next()
                .ok_or_else(|| Error::Unable("no port is free on 127.0.0.1".to_owned()))
        };
        Ok(Self {
            etcd_clients: next()?,
            etcd_peers: next()?,
            apiserver: next()?,
        })
    }

    /// The API server's URL.
    pub fn server(self) -> String {
        format!("https://127.0.0.1:{}", self.apiserver)
    }
}
