//! Ports that nobody uses.

use std::fs::File;
use std::net::{Ipv4Addr, TcpListener};
use std::sync::Mutex;
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

/// A port of 127.0.0.1 for a program that listens later: no other test is given it as long as this process lives, and no
/// connection takes it.
///
/// # Errors
/// When there is none.
pub fn free_port() -> Result<u16> {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    // From a place that differs between processes.
    let process = u16::try_from(std::process::id() % u32::from(COUNT)).unwrap_or_default();
    let start = process.wrapping_mul(37) % COUNT;
    let mut ports = (0..COUNT).map(|_| {
        let step = NEXT.fetch_add(1, Ordering::Relaxed) % COUNT;
        FIRST + (start + step) % COUNT
    });
    let ours =
        |port: &u16| reserved(*port) && TcpListener::bind((Ipv4Addr::LOCALHOST, *port)).is_ok();
    ports
        .find(ours)
        .ok_or_else(|| Error::Unable("no port is free on 127.0.0.1".to_owned()))
}

/// Takes a port's lock, which goes with the process; false if somebody has it.
fn reserved(port: u16) -> bool {
    static LOCKS: Mutex<Vec<File>> = Mutex::new(Vec::new());
    let path = std::env::temp_dir().join(format!("windlass-test-port-{port}.lock"));
    let Ok(lock) = File::create(path) else {
        return false;
    };
    let free = lock.try_lock().is_ok();
    if free && let Ok(mut locks) = LOCKS.lock() {
        locks.push(lock);
    }
    free
}

impl Ports {
    /// Looks for three free ones.
    pub fn find() -> Result<Self> {
        Ok(Self {
            etcd_clients: free_port()?,
            etcd_peers: free_port()?,
            apiserver: free_port()?,
        })
    }

    /// The API server's URL.
    pub fn server(self) -> String {
        format!("https://127.0.0.1:{}", self.apiserver)
    }
}
