//! Who may speak to an agent, and who an agent is: TLS 1.3 with a certificate on both sides.
//!
//! The operator's and the workspaces' certificates come from two authorities. Beyond the chain each side looks at the
//! one URI in the other's certificate (`windlass_api::identity`); host names play no part.

mod client;
mod material;
mod server;

use std::path::PathBuf;
use std::sync::Arc;

use rustls::crypto::{CryptoProvider, WebPkiSupportedAlgorithms};
use rustls::pki_types::CertificateDer;

pub use client::ClientTls;
pub(crate) use client::trust_problem;
pub use server::ServerFiles;

/// What makes the own side unusable.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    #[error("{path}: {source}")]
    FileUnreadable {
        path: PathBuf,
        source: std::io::Error,
    },
    #[error("{what} holds no certificate or one that cannot be read: {message}")]
    CertificateUnreadable { what: String, message: String },
    #[error("{what} holds no private key that can be read: {message}")]
    KeyUnreadable { what: String, message: String },
    #[error("the certificate, its key and the authorities do not fit together: {0}")]
    Unusable(#[from] rustls::Error),
    #[error("no client can be believed: {0}")]
    NoClients(#[from] rustls::server::VerifierBuilderError),
}

/// The protocol that is spoken inside.
const ALPN: &[u8] = b"h2";

fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::aws_lc_rs::default_provider())
}

fn algorithms() -> WebPkiSupportedAlgorithms {
    rustls::crypto::aws_lc_rs::default_provider().signature_verification_algorithms
}

/// The certificate's only name must be this URI.
fn check_name(certificate: &CertificateDer<'_>, expected: &str) -> Result<(), rustls::Error> {
    let refuse = |text: String| Err(rustls::Error::General(text));
    let Ok(certificate) = webpki::EndEntityCert::try_from(certificate) else {
        return Err(rustls::CertificateError::BadEncoding.into());
    };
    if certificate.valid_dns_names().next().is_some() {
        return refuse("the certificate has names of hosts".to_owned());
    }
    let mut names = certificate.valid_uri_names();
    match (names.next(), names.next()) {
        (Some(name), None) if name == expected => Ok(()),
        (Some(name), None) => refuse(format!(
            "the certificate is of {:?}, not of {expected:?}",
            name.chars().take(600).collect::<String>()
        )),
        _ => refuse("the certificate does not have exactly one URI as its name".to_owned()),
    }
}
