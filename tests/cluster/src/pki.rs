//! The cluster's one authority and what it signs: the API server's certificate, and those by which
//! users prove who they are.

use std::net::{IpAddr, Ipv4Addr};

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DistinguishedName, DnType,
    ExtendedKeyUsagePurpose, IsCa, KeyPair, KeyUsagePurpose, SanType,
};

use crate::error::Result;

/// A certificate and its key, both PEM.
pub struct Signed {
    /// The certificate.
    pub certificate: String,
    /// Its private key.
    pub key: String,
}

/// A certificate authority that lives as long as its cluster.
pub struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
}

impl Authority {
    /// Makes one.
    ///
    /// # Errors
    /// When no key can be generated.
    pub fn new() -> Result<Self> {
        let mut params = CertificateParams::default();
        params.distinguished_name = name("windlass-test-ca", None);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate()?)?;
        Ok(Self { issuer })
    }

    /// The authority's certificate, PEM.
    pub fn certificate(&self) -> String {
        self.issuer.pem()
    }

    /// For the API server on loopback.
    ///
    /// # Errors
    /// When no key can be generated.
    pub fn server(&self, service_address: Ipv4Addr) -> Result<Signed> {
        let mut params = CertificateParams::new(vec![
            "localhost".to_owned(),
            "kubernetes".to_owned(),
            "kubernetes.default".to_owned(),
            "kubernetes.default.svc".to_owned(),
        ])?;
        for address in [Ipv4Addr::LOCALHOST, service_address] {
            let address = IpAddr::V4(address);
            params.subject_alt_names.push(SanType::IpAddress(address));
        }
        params.distinguished_name = name("kube-apiserver", None);
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        self.sign(&params)
    }

    /// For a user, who may be in a group. (Kubernetes takes several groups from several
    /// organizations; a name of this library holds one.)
    ///
    /// # Errors
    /// When no key can be generated.
    pub fn client(&self, user: &str, group: Option<&str>) -> Result<Signed> {
        let mut params = CertificateParams::default();
        params.distinguished_name = name(user, group);
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        self.sign(&params)
    }

    fn sign(&self, params: &CertificateParams) -> Result<Signed> {
        let key = KeyPair::generate()?;
        let certificate = params.signed_by(&key, &self.issuer)?;
        Ok(Signed {
            certificate: certificate.pem(),
            key: key.serialize_pem(),
        })
    }
}

/// The key that signs service accounts' tokens and the one that verifies them, both PEM.
///
/// # Errors
/// When no key can be generated.
pub fn token_keys() -> Result<(String, String)> {
    let key = KeyPair::generate()?;
    Ok((key.serialize_pem(), key.public_key_pem()))
}

fn name(common: &str, organization: Option<&str>) -> DistinguishedName {
    let mut name = DistinguishedName::new();
    name.push(DnType::CommonName, common);
    if let Some(organization) = organization {
        name.push(DnType::OrganizationName, organization);
    }
    name
}
