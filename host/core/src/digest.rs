//! Digests over serialisable values, for causes, pinned inputs and jitter.

use serde::Serialize;
use sha2::{Digest, Sha256};

/// The first 20 hex digits of SHA-256 over the value's JSON. Maps must be ordered ones.
pub fn digest(value: &impl Serialize) -> String {
    // Every type that is handed in here serialises: maps have string keys and nothing fails by hand.
    let json = serde_json::to_vec(value).unwrap_or_default();
    hex::encode(&Sha256::digest(&json)[..10])
}

/// A number in `0.0..1.0` that depends on the value alone: jitter without randomness.
pub fn fraction(value: &impl Serialize) -> f64 {
    let json = serde_json::to_vec(value).unwrap_or_default();
    let hash = Sha256::digest(&json);
    let mut first = [0u8; 4];
    first.copy_from_slice(&hash[..4]);
    f64::from(u32::from_be_bytes(first)) / (f64::from(u32::MAX) + 1.0)
}
