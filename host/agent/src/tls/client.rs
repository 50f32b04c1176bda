//! The operator's side: its certificate, and agents that are who they should be.

use std::fmt;
use std::sync::Arc;

use rustls::client::Resumption;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::verify_server_cert_signed_by_trust_anchor;
use rustls::crypto::{verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::{ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};
use windlass_api::identity::WorkspaceIdentity;

use super::{ALPN, TlsError, algorithms, check_name, material, provider};

/// The operator's certificate and key, and the authorities of workspaces that it believes. Cheap to clone.
#[derive(Clone)]
pub struct ClientTls {
    own: Arc<SingleCertAndKey>,
    roots: Arc<RootCertStore>,
}

impl fmt::Debug for ClientTls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ClientTls({} authorities)", self.roots.len())
    }
}

impl ClientTls {
    /// From PEM texts.
    pub fn new(certificate: &[u8], key: &[u8], authorities: &[u8]) -> Result<ClientTls, TlsError> {
        let own = CertifiedKey::from_der(
            material::chain("the operator's certificate", certificate)?,
            material::key("the operator's key", key)?,
            &provider(),
        )?;
        Ok(ClientTls {
            own: Arc::new(SingleCertAndKey::from(own)),
            roots: Arc::new(material::roots("the workspaces' authorities", authorities)?),
        })
    }

    /// For connections to exactly this incarnation of a workspace.
    pub(crate) fn config_for(
        &self,
        expected: &WorkspaceIdentity,
    ) -> Result<Arc<ClientConfig>, TlsError> {
        let verifier = WorkspaceVerifier {
            roots: self.roots.clone(),
            expected: expected.to_string(),
        };
        let mut config = ClientConfig::builder_with_provider(provider())
            .with_protocol_versions(&[&rustls::version::TLS13])?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(verifier))
            .with_client_cert_resolver(self.own.clone());
        config.alpn_protocols = vec![ALPN.to_vec()];
        config.resumption = Resumption::disabled();
        config.enable_sni = false;
        Ok(Arc::new(config))
    }
}

/// What one side has against the other, if that is why there is no connection.
pub(crate) fn trust_problem(error: &(dyn std::error::Error + 'static)) -> Option<String> {
    let mut next = Some(error);
    while let Some(error) = next {
        let inside = error
            .downcast_ref::<std::io::Error>()
            .and_then(std::io::Error::get_ref)
            .and_then(|e| e.downcast_ref::<rustls::Error>());
        if let Some(tls) = inside.or_else(|| error.downcast_ref::<rustls::Error>()) {
            return Some(match tls {
                rustls::Error::AlertReceived(alert) => {
                    format!("the agent refused the operator's certificate ({alert:?})")
                }
                rustls::Error::General(text) => text.clone(),
                other => other.to_string(),
            });
        }
        next = error.source();
    }
    None
}

/// Believes one incarnation of one workspace.
#[derive(Debug)]
struct WorkspaceVerifier {
    roots: Arc<RootCertStore>,
    expected: String,
}

impl ServerCertVerifier for WorkspaceVerifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let parsed = ParsedCertificate::try_from(end_entity)?;
        verify_server_cert_signed_by_trust_anchor(
            &parsed,
            &self.roots,
            intermediates,
            now,
            algorithms().all,
        )?;
        check_name(end_entity, &self.expected)?;
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, cert, dss, &algorithms())
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, cert, dss, &algorithms())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        algorithms().supported_schemes()
    }
}
