//! The certificate under which metrics are served: signed by nobody, new with every start. It keeps the scraper's token
//! from whoever listens; who answers is not proven, as with every metrics endpoint of this kind.

use std::sync::Arc;

use rustls::ServerConfig;
use rustls::crypto::aws_lc_rs::default_provider;
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use tokio_rustls::TlsAcceptor;

use crate::serve::ServeError;

/// A certificate of its own for this process.
///
/// # Errors
/// None can be made.
pub fn self_signed(name: &str, http2: bool) -> Result<TlsAcceptor, ServeError> {
    let mut names = vec!["localhost".to_owned()];
    // A name that no certificate can have is not worth failing for.
    let good = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '.';
    if !name.is_empty() && name.chars().all(good) {
        names.push(name.to_owned());
    }
    let made = rcgen::generate_simple_self_signed(names)
        .map_err(|error| ServeError::Certificate(error.to_string()))?;
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(made.signing_key.serialize_der()));
    let failed = |error: rustls::Error| ServeError::Certificate(error.to_string());
    let mut config = ServerConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(failed)?
        .with_no_client_auth()
        .with_single_cert(vec![made.cert.der().clone()], key)
        .map_err(failed)?;
    if http2 {
        config.alpn_protocols.push(b"h2".to_vec());
    }
    config.alpn_protocols.push(b"http/1.1".to_vec());
    Ok(TlsAcceptor::from(Arc::new(config)))
}
