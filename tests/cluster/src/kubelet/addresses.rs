//! Addresses of pods: each has one of its own on loopback, so that each can serve the same port.

use std::fs::File;
use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicU16, Ordering};

use crate::error::{At as _, Error, Result};

/// The addresses 127.K.0.0/16 for one K that no other fake kubelet of this machine has.
pub struct Addresses {
    second: u8,
    next: AtomicU16,
    /// Locked while we live; the lock goes with the process.
    _lock: File,
}

impl Addresses {
    /// Takes a block of them.
    ///
    /// # Errors
    /// When all are taken, or the temporary folder cannot be written.
    pub fn take() -> Result<Self> {
        for second in 1..=254 {
            let name = format!("windlass-test-addresses-127.{second}.lock");
            let path = std::env::temp_dir().join(name);
            let lock = File::create(&path).at(&path)?;
            if lock.try_lock().is_ok() {
                return Ok(Self {
                    second,
                    // The first is the node's.
                    next: AtomicU16::new(2),
                    _lock: lock,
                });
            }
        }
        Err(Error::Unable(
            "every block of loopback addresses is in use by some fake kubelet".to_owned(),
        ))
    }

    /// The node's own.
    pub fn node(&self) -> Ipv4Addr {
        Ipv4Addr::new(127, self.second, 0, 1)
    }

    /// One that no pod had before.
    pub fn next(&self) -> Ipv4Addr {
        let [third, fourth] = self.next.fetch_add(1, Ordering::Relaxed).to_be_bytes();
        Ipv4Addr::new(127, self.second, third, fourth)
    }
}
