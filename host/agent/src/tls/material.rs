//! Certificates and keys from PEM text.

use rustls::RootCertStore;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

use super::TlsError;

/// A chain, the own certificate first. `what` names it in errors.
pub fn chain(what: &str, pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let unreadable = |message: String| TlsError::CertificateUnreadable {
        what: what.to_owned(),
        message,
    };
    let chain = CertificateDer::pem_slice_iter(pem)
        .collect::<Result<Vec<_>, _>>()
        .map_err(|e| unreadable(e.to_string()))?;
    if chain.is_empty() {
        return Err(unreadable("there is none".to_owned()));
    }
    Ok(chain)
}

pub fn key(what: &str, pem: &[u8]) -> Result<PrivateKeyDer<'static>, TlsError> {
    PrivateKeyDer::from_pem_slice(pem).map_err(|e| TlsError::KeyUnreadable {
        what: what.to_owned(),
        message: e.to_string(),
    })
}

/// Authorities to believe, one or several.
pub fn roots(what: &str, pem: &[u8]) -> Result<RootCertStore, TlsError> {
    let mut roots = RootCertStore::empty();
    for certificate in chain(what, pem)? {
        roots
            .add(certificate)
            .map_err(|e| TlsError::CertificateUnreadable {
                what: what.to_owned(),
                message: e.to_string(),
            })?;
    }
    Ok(roots)
}
