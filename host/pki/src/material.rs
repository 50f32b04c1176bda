//! One certificate and its private key, as text.

use std::fmt;

use jiff::Timestamp;
use rcgen::{CertificateParams, KeyPair};
use time::OffsetDateTime;
use x509_parser::pem::parse_x509_pem;
use zeroize::Zeroizing;

use crate::PkiError;

/// A certificate with its key. The dates are those in the certificate.
#[derive(Clone, PartialEq, Eq)]
pub struct Material {
    pub certificate: String,
    pub key: Zeroizing<String>,
    pub not_before: Timestamp,
    pub not_after: Timestamp,
}

impl fmt::Debug for Material {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Material({} to {})", self.not_before, self.not_after)
    }
}

/// What a certificate says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Said {
    pub not_before: Timestamp,
    pub not_after: Timestamp,
    pub common_name: String,
    pub is_authority: bool,
    public_key: Vec<u8>,
}

/// Reads one certificate.
pub fn read(key: &'static str, pem: &str) -> Result<Said, PkiError> {
    let unreadable = |e: &dyn fmt::Display| PkiError::Unreadable {
        key,
        message: e.to_string(),
    };
    let (_, block) = parse_x509_pem(pem.as_bytes()).map_err(|e| unreadable(&e))?;
    let certificate = block.parse_x509().map_err(|e| unreadable(&e))?;
    let at = |t: x509_parser::time::ASN1Time| {
        Timestamp::from_second(t.timestamp()).map_err(|e| unreadable(&e))
    };
    let common_name = certificate
        .subject()
        .iter_common_name()
        .filter_map(|n| n.as_str().ok())
        .collect();
    Ok(Said {
        not_before: at(certificate.validity().not_before)?,
        not_after: at(certificate.validity().not_after)?,
        common_name,
        is_authority: certificate.is_ca(),
        public_key: certificate.public_key().raw.to_vec(),
    })
}

/// The certificates of a bundle, one text each.
pub fn split(bundle: &str) -> Vec<String> {
    const END: &str = "-----END CERTIFICATE-----";
    bundle
        .split_inclusive(END)
        .filter(|p| p.contains(END))
        .map(|p| format!("{}\n", p.trim()))
        .collect()
}

pub fn key_pair(key: &'static str, pem: &str) -> Result<KeyPair, PkiError> {
    KeyPair::from_pem(pem).map_err(|e| PkiError::Unreadable {
        key,
        message: e.to_string(),
    })
}

impl Material {
    /// Puts together what was stored, and checks that it belongs together.
    pub fn join(
        name: &'static str,
        certificate: String,
        key: Zeroizing<String>,
    ) -> Result<(Material, Said), PkiError> {
        let said = read(name, &certificate)?;
        let pair = key_pair(name, &key)?;
        if rcgen::PublicKeyData::subject_public_key_info(&pair) != said.public_key {
            return Err(PkiError::KeyMismatch { key: name });
        }
        let material = Material {
            certificate,
            key,
            not_before: said.not_before,
            not_after: said.not_after,
        };
        Ok((material, said))
    }
}

fn stated(at: Timestamp) -> Result<OffsetDateTime, PkiError> {
    OffsetDateTime::from_unix_timestamp(at.as_second()).map_err(|_| PkiError::TimeOutOfRange(at))
}

/// Whole seconds: certificates state no more.
pub fn whole(at: Timestamp) -> Result<Timestamp, PkiError> {
    Timestamp::from_second(at.as_second()).map_err(|_| PkiError::TimeOutOfRange(at))
}

/// Sets the dates of a certificate to be.
pub fn dated(
    mut params: CertificateParams,
    not_before: Timestamp,
    not_after: Timestamp,
) -> Result<CertificateParams, PkiError> {
    params.not_before = stated(not_before)?;
    params.not_after = stated(not_after)?;
    Ok(params)
}
